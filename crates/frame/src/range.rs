//! Ranges of numbers: of frames here, of virtual pages where address spaces are.

/// Declares a range of numbers, `start..end` without the end, for a newtype that has the method `as_u64` and is
/// ordered.
///
/// ```
/// use pageblock_frame::number_range;
/// #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
/// pub struct Seat(u64);
/// impl Seat {
///     const fn as_u64(self) -> u64 { self.0 }
/// }
/// number_range! {
///     /// Seats beside one another.
///     pub struct Row of Seat, "seat"
/// }
/// let row = Row::new(Seat(3), Seat(7));
/// assert_eq!((row.len(), row.contains(Seat(7))), (4, false));
/// assert!(row.intersect(Row::new(Seat(7), Seat(9))).is_empty());
/// ```
#[macro_export]
macro_rules! number_range {
    ($(#[$meta:meta])* $vis:vis struct $range:ident of $number:ident, $one:literal) => {
        $(#[$meta])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
        $vis struct $range {
            #[doc = concat!("First ", $one, ".")]
            pub start: $number,
            #[doc = concat!("First ", $one, " after the range.")]
            pub end: $number,
        }

        impl $range {
            #[doc = concat!("The ", $one, "s from `start` up to but without `end`; empty if `end <= start`.")]
            #[must_use]
            pub const fn new(start: $number, end: $number) -> Self {
                Self { start, end }
            }

            #[doc = concat!("Number of ", $one, "s.")]
            #[must_use]
            pub const fn len(self) -> u64 {
                self.end.as_u64().saturating_sub(self.start.as_u64())
            }

            #[doc = concat!("True if there is no ", $one, " in it.")]
            #[must_use]
            pub const fn is_empty(self) -> bool {
                self.end.as_u64() <= self.start.as_u64()
            }

            #[doc = concat!("True if the ", $one, " is one of them.")]
            #[must_use]
            pub const fn contains(self, one: $number) -> bool {
                self.start.as_u64() <= one.as_u64() && one.as_u64() < self.end.as_u64()
            }

            #[doc = concat!("The ", $one, "s that are in both ranges; empty if there are none.")]
            #[must_use]
            pub fn intersect(self, other: Self) -> Self {
                let start = ::core::cmp::max(self.start, other.start);
                Self { start, end: ::core::cmp::max(::core::cmp::min(self.end, other.end), start) }
            }
        }
    };
}
