//! The bits of a word, one after the other.

use core::num::NonZeroU64;

/// The numbers of the bits that are set in a word, in ascending order.
pub(crate) struct Ones(pub(crate) u64);

impl Iterator for Ones {
    type Item = u32;

    #[inline]
    fn next(&mut self) -> Option<u32> {
        let lowest = NonZeroU64::new(self.0)?.trailing_zeros();
        self.0 &= self.0 - 1;
        Some(lowest)
    }
}
