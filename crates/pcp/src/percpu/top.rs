//! The top of a stack, and the number of blocks that have been popped off it.

use pageblock_frame::sync::Ordering;

/// Both in one word: the top in the low 16 bits, the number above. Popping adds one to the number and takes one from
/// the top in one addition, so that counting costs nothing. The number begins anew after 2^48.
#[cfg(target_pointer_width = "64")]
#[derive(Debug)]
pub(super) struct Top(pageblock_frame::sync::AtomicU64);

/// Bits of a slot number.
#[cfg(target_pointer_width = "64")]
const TOP_BITS: u32 = 16;
/// Addend of a pop: one block more, one slot less.
#[cfg(target_pointer_width = "64")]
const POPPED: u64 = (1 << TOP_BITS) - 1;

#[cfg(target_pointer_width = "64")]
impl Top {
    pub(super) const fn new(top: u16) -> Self {
        Self(pageblock_frame::sync::AtomicU64::new(top as u64))
    }

    /// The top, for the code that may work in the area: the two bytes alone, which index a slot as they are.
    ///
    /// # Safety
    /// No other CPU works in the area.
    #[inline(always)]
    pub(super) unsafe fn own(&self) -> u16 {
        const LOW: usize = if cfg!(target_endian = "little") { 0 } else { 3 };
        // SAFETY: two aligned bytes of the eight; no other CPU writes them, by the caller's promise.
        unsafe { *(&raw const self.0).cast::<u16>().add(LOW) }
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u16 {
        self.0.load(Ordering::Relaxed) as u16
    }

    pub(super) fn popped(&self) -> u64 {
        self.0.load(Ordering::Relaxed) >> TOP_BITS
    }

    #[inline(always)]
    pub(super) fn pop(&self) {
        // A load and a store, which the compiler makes one instruction of: only the area's own code writes.
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(POPPED), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn add(&self, slots: u16) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(slots.into()), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn sub(&self, slots: u16) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(slots.into()), Ordering::Relaxed);
    }
}

/// On machines with words too short for both, two words.
#[cfg(not(target_pointer_width = "64"))]
#[derive(Debug)]
pub(super) struct Top {
    top: pageblock_frame::sync::AtomicU16,
    popped: pageblock_frame::sync::AtomicU32,
}

#[cfg(not(target_pointer_width = "64"))]
impl Top {
    pub(super) const fn new(top: u16) -> Self {
        Self { top: pageblock_frame::sync::AtomicU16::new(top), popped: pageblock_frame::sync::AtomicU32::new(0) }
    }

    /// The top, for the code that may work in the area.
    ///
    /// # Safety
    /// No other CPU works in the area.
    #[inline(always)]
    pub(super) unsafe fn own(&self) -> u16 {
        self.get()
    }

    #[inline(always)]
    pub(super) fn get(&self) -> u16 {
        self.top.load(Ordering::Relaxed)
    }

    /// Modulo 2^32.
    pub(super) fn popped(&self) -> u64 {
        self.popped.load(Ordering::Relaxed).into()
    }

    #[inline(always)]
    pub(super) fn pop(&self) {
        self.sub(1);
        self.popped.store(self.popped.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn add(&self, slots: u16) {
        self.top.store(self.get().wrapping_add(slots), Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn sub(&self, slots: u16) {
        self.top.store(self.get().wrapping_sub(slots), Ordering::Relaxed);
    }
}
