//! Counters with the names of `/proc/vmstat`, in the form that every crate gives them.

/// Declares counters twice: as they are kept, open to additions from any CPU, and as they are read: numbers at one
/// moment, which display as lines of `/proc/vmstat`. Relaxed: each is exact, together they are not one moment.
///
/// ```
/// use pageblock_frame::sync::Ordering;
/// pageblock_frame::vmstat! {
///     /// A zone's counters.
///     struct Counters;
///     /// A zone's counters at one moment.
///     pub struct Scans {
///         /// Frames looked at.
///         scanned = "pgscan",
///         /// Frames freed.
///         stolen = "pgsteal",
///     }
/// }
/// let counters = Counters::new();
/// counters.scanned.fetch_add(32, Ordering::Relaxed);
/// let mut sum = Scans { stolen: 2, ..Scans::default() };
/// sum.add(&counters.read());
/// assert_eq!(sum.to_string(), "pgscan 32\npgsteal 2\n");
/// ```
#[macro_export]
macro_rules! vmstat {
    (
        $(#[$live_meta:meta])* $live_vis:vis struct $live:ident;
        $(#[$read_meta:meta])* pub struct $read:ident {
            $($(#[$meta:meta])* $field:ident = $name:literal,)*
        }
    ) => {
        $(#[$live_meta])*
        #[derive(Debug)]
        $live_vis struct $live {
            $($live_vis $field: $crate::sync::AtomicU64,)*
        }

        impl $live {
            $crate::const_unless_model! {
                $live_vis const fn new() -> Self {
                    Self { $($field: $crate::sync::AtomicU64::new(0),)* }
                }
            }

            $live_vis fn read(&self) -> $read {
                $read { $($field: self.$field.load($crate::sync::Ordering::Relaxed),)* }
            }
        }

        $(#[$read_meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        #[non_exhaustive]
        pub struct $read {
            $($(#[$meta])* pub $field: u64,)*
        }

        impl $read {
            /// Adds another's.
            pub const fn add(&mut self, other: &Self) {
                $(self.$field = self.$field.saturating_add(other.$field);)*
            }
        }

        impl ::core::fmt::Display for $read {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                $(::core::writeln!(f, ::core::concat!($name, " {}"), self.$field)?;)*
                Ok(())
            }
        }
    };
}
