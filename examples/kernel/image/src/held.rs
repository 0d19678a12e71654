//! A held block in one word, so that it can pass between CPUs and interrupts without a lock.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::AtomicU64;
use pageblock_frame::{Gfp, Order, Pfn};

use crate::arch::cpu;
use crate::{mm, stamp};

/// A block of frames with a pattern written into it.
///
/// As a word: frame number in bits 0 to 35, order in 36 to 39, serial number in 40 to 62, bit 63 set.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    pfn: Pfn,
    order: Order,
    serial: u32,
}

const SERIAL_BITS: u32 = 23;

impl Held {
    /// Allocates a block and writes a pattern into it.
    pub fn take(order: Order, gfp: Gfp, serial: u64) -> Option<Self> {
        Some(Self::adopt(counted(|| mm::alloc(order, gfp))?, order, serial))
    }

    /// Writes a pattern into a block that the caller has allocated and gives up to this.
    pub fn adopt(pfn: Pfn, order: Order, serial: u64) -> Self {
        let serial = serial as u32 & ((1 << SERIAL_BITS) - 1);
        // SAFETY: just allocated.
        unsafe { stamp::write(pfn, order, serial) };
        Self { pfn, order, serial }
    }

    /// Finds the pattern again and frees the block.
    ///
    /// # Panics
    /// The pattern is damaged, or the allocator refuses the block.
    pub fn give(self) {
        // SAFETY: held since it was allocated; the word has no other owner.
        unsafe { stamp::verify(self.pfn, self.order, self.serial) };
        if let Err(error) = counted(|| mm::free(self.pfn, self.order)) {
            panic!("free of {self:?} refused: {error}");
        }
    }

    fn to_word(self) -> u64 {
        1 << 63 | u64::from(self.serial) << 40 | u64::from(self.order.as_u8()) << 36 | self.pfn.as_u64()
    }

    fn from_word(word: u64) -> Option<Self> {
        let order = Order::new((word >> 36 & 0xf) as u8)?;
        let serial = (word >> 40) as u32 & ((1 << SERIAL_BITS) - 1);
        (word >> 63 != 0).then(|| Self { pfn: Pfn::new(word & 0xf_ffff_ffff), order, serial })
    }
}

/// Calls the allocator, and lets interrupts see that they interrupt it.
fn counted<R>(call: impl FnOnce() -> R) -> R {
    let flag = &cpu::this().in_allocator;
    // Relaxed: read on the same CPU.
    let outer = flag.load(Ordering::Relaxed);
    flag.store(true, Ordering::Relaxed);
    let result = call();
    flag.store(outer, Ordering::Relaxed);
    result
}

/// A place for one held block, for any CPU to put into or take out of.
#[derive(Debug)]
pub struct Place(AtomicU64);

impl Place {
    /// An empty place.
    pub const fn new() -> Self {
        Self(AtomicU64::new(0))
    }

    /// Puts `block` in and takes out the former one.
    pub fn swap(&self, block: Option<Held>) -> Option<Held> {
        let word = block.map_or(0, Held::to_word);
        // AcqRel: a CPU that takes a block out sees the pattern that was written before it was put in.
        Held::from_word(self.0.swap(word, Ordering::AcqRel))
    }
}
