//! Messages of errors, without a procedural macro: a kernel that depends on the family compiles no parser of Rust.

/// Errors with a message for each variant, which implement [`Error`](core::error::Error) and
/// [`Display`](core::fmt::Display). The message is a format string over the variant's fields; `{0}` is the field of a
/// tuple variant. `transparent` displays the field itself, and `#[from]` makes the variant of it.
///
/// ```
/// pageblock_frame::errors! {
///     /// Why there is no frame.
///     #[derive(Debug)]
///     pub enum Reason {
///         /// Too large.
///         #[error("{given} frames of {}", 1 << 20)]
///         Large {
///             /// Frames.
///             given: u64,
///         },
///         /// No number.
///         #[error(transparent)]
///         Number(#[from] core::num::ParseIntError),
///     }
/// }
/// assert_eq!(Reason::Large { given: 5 }.to_string(), "5 frames of 1048576");
/// assert_eq!(Reason::from("x".parse::<u8>().unwrap_err()).to_string(), "invalid digit found in string");
/// ```
#[macro_export]
#[doc(hidden)]
macro_rules! errors {
    ($(#[$attribute:meta])* $visible:vis enum $name:ident { $(
        $(#[doc = $doc:literal])*
        $(#[cfg($condition:meta)])?
        #[error($($message:tt)+)]
        $variant:ident
        $({ $($(#[doc = $about:literal])* $field:ident: $of:ty),+ $(,)? })?
        $(($(#[$from:ident])? $inner:ty))?
    ),+ $(,)? }) => {
        $(#[$attribute])*
        $visible enum $name { $(
            $(#[doc = $doc])*
            $(#[cfg($condition)])?
            $variant $({ $($(#[doc = $about])* $field: $of),+ })? $(($inner))?
        ),+ }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self { $(
                    $(#[cfg($condition)])?
                    Self::$variant $({ $($field),+ })? $(($crate::errors!(@name inner $inner)))? => {
                        $(let _ = ($($field),+);)?
                        $crate::errors!(@write f inner [$($inner)?] $($message)+)
                    }
                )+ }
            }
        }

        impl core::error::Error for $name {}

        $($($($crate::errors!(@$from $name $variant $inner);)?)?)+
    };
    (@name $inner:ident $of:ty) => { $inner };
    (@write $f:ident $inner:ident [$of:ty] transparent) => { core::fmt::Display::fmt($inner, $f) };
    (@write $f:ident $inner:ident [$of:ty] $($message:tt)+) => { write!($f, $($message)+, $inner) };
    (@write $f:ident $inner:ident [] $($message:tt)+) => { write!($f, $($message)+) };
    (@from $name:ident $variant:ident $inner:ty) => {
        impl From<$inner> for $name {
            fn from(inner: $inner) -> Self {
                Self::$variant(inner)
            }
        }
    };
}
