//! Orders: a block of order `o` is `2^o` frames, naturally aligned.

use core::alloc::Layout;
use core::fmt;

use crate::PAGE_SIZE;

/// log2 of the frames in a pageblock: 512 frames, 2 MiB.
pub const PAGEBLOCK_ORDER: Order = Order(9);
/// Frames in a pageblock.
pub const PAGEBLOCK_FRAMES: u64 = PAGEBLOCK_ORDER.frames();
/// Orders above this are "costly" (`PAGE_ALLOC_COSTLY_ORDER`): reclaim does not insist on them.
pub const COSTLY_ORDER: Order = Order(3);

/// The order of a block: log2 of its number of frames.
///
/// [`Order::MAX`] is **inclusive** and 10 (4 MiB), as in Linux since 6.4, where `MAX_ORDER` used to be exclusive and
/// 11. A zone may be configured for larger blocks, up to [`Order::LIMIT`].
///
/// ```
/// use pageblock_frame::Order;
/// assert_eq!(Order::new(9).unwrap().frames(), 512);
/// assert!(Order::new(16).is_none());
/// assert_eq!(Order::fitting(5), Order::new(3)); // eight frames hold five
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct Order(u8);

impl Order {
    /// A single frame.
    pub const ZERO: Self = Self(0);
    /// Largest order of a zone that is not configured otherwise, inclusive (`MAX_PAGE_ORDER`).
    pub const MAX: Self = Self(10);
    /// A pageblock: 512 frames, 2 MiB.
    pub const PAGEBLOCK: Self = PAGEBLOCK_ORDER;
    /// A huge page of most machines: 2 MiB, a pageblock.
    pub const HUGE: Self = PAGEBLOCK_ORDER;
    /// The largest order on which reclaim insists (`PAGE_ALLOC_COSTLY_ORDER`).
    pub const COSTLY: Self = COSTLY_ORDER;
    /// Largest order that a zone can be configured for, inclusive: 32,768 frames, 128 MiB.
    pub const LIMIT: Self = Self(15);
    /// Number of different orders: the length of an array with one element an order.
    pub const COUNT: usize = Self::LIMIT.0 as usize + 1;

    /// The order `log2`, or `None` above [`Order::LIMIT`].
    #[must_use]
    pub const fn new(log2: u8) -> Option<Self> {
        if log2 <= Self::LIMIT.0 { Some(Self(log2)) } else { None }
    }

    /// The order `log2`, lowered to [`Order::LIMIT`] if it is larger.
    #[must_use]
    pub const fn saturating(log2: u8) -> Self {
        if log2 <= Self::LIMIT.0 { Self(log2) } else { Self::LIMIT }
    }

    /// The smallest order with a block that holds `frames` frames, or `None` if there is none or `frames` is 0.
    #[must_use]
    pub const fn fitting(frames: u64) -> Option<Self> {
        if frames == 0 || frames > Self::LIMIT.frames() {
            return None;
        }
        Some(Self((u64::BITS - (frames - 1).leading_zeros()) as u8))
    }

    /// The smallest order with a block that holds a value of this layout, alignment included; `None` if there is none.
    ///
    /// ```
    /// use core::alloc::Layout;
    /// use pageblock_frame::Order;
    /// assert_eq!(Order::for_layout(Layout::new::<[u8; 4097]>()), Order::new(1));
    /// assert_eq!(Order::for_layout(Layout::from_size_align(64, 16384).unwrap()), Order::new(2));
    /// ```
    #[must_use]
    pub const fn for_layout(layout: Layout) -> Option<Self> {
        let bytes = if layout.size() > layout.align() { layout.size() } else { layout.align() };
        Self::fitting((bytes as u64).div_ceil(PAGE_SIZE))
    }

    /// Frames in a block of this order.
    #[must_use]
    pub const fn frames(self) -> u64 {
        1 << self.0
    }

    /// log2 of the frames.
    #[must_use]
    pub const fn as_u8(self) -> u8 {
        self.0
    }

    /// log2 of the frames, as an array index below [`Order::COUNT`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        // The mask states the type's invariant, so that the compiler drops bounds checks.
        (self.0 & Self::LIMIT.0) as usize
    }

    /// All orders up to and including this one, ascending.
    pub fn up_to(self) -> impl DoubleEndedIterator<Item = Self> + ExactSizeIterator {
        (0..self.0 + 1).map(Self)
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "o{}", self.0)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
