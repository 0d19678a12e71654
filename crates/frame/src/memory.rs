//! Touching the memory behind frames: for metadata carved out of the map, and for zeroing. Nothing else reads or writes
//! it.

use core::mem::MaybeUninit;

use crate::{PAGE_SIZE, PfnRange, Platform};

/// The bytes of these frames, for metadata that lives as long as the program.
///
/// # Safety
/// 1. The frames are memory that nothing else uses, now or later.
/// 2. They are neighbours in the [`Platform`]'s mapping, which is its promise 3.
///
/// ```
/// use core::ptr::NonNull;
/// use pageblock_frame::{Pfn, PfnRange, Platform, claim_frames};
/// struct Machine;
/// // SAFETY: one CPU, no interrupts; the only frame that is asked for is 0, and it is behind this address for ever.
/// unsafe impl Platform for Machine {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(_pa: u64) -> NonNull<u8> { NonNull::from(Box::leak(Box::new([7u8; 4096]))).cast() }
/// }
/// // SAFETY: the box is leaked and has no other user.
/// let bytes = unsafe { claim_frames::<Machine>(PfnRange::new(Pfn::new(0), Pfn::new(1))) };
/// assert_eq!(bytes.len(), 4096);
/// ```
#[must_use]
pub unsafe fn claim_frames<P: Platform>(frames: PfnRange) -> &'static mut [MaybeUninit<u8>] {
    let start = P::phys_to_virt(frames.start.phys()).cast::<MaybeUninit<u8>>();
    let len = (frames.len() * PAGE_SIZE) as usize;
    // SAFETY: 1. the platform promises that each frame can be read and written through this pointer for ever,
    // neighbours at the same distance; 2. the caller promises that they have no other user; 3. `MaybeUninit<u8>`
    // needs no alignment and no initialisation.
    unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), len) }
}

/// Fills these frames with zeroes through [`Platform::phys_to_virt`], as [`Platform::zero_frames`] does where the
/// platform does not say otherwise.
///
/// # Safety
/// The caller owns the frames: no other code reads or writes them meanwhile.
pub unsafe fn zero_through_mapping<P: Platform>(frames: PfnRange) {
    let start = P::phys_to_virt(frames.start.phys());
    // SAFETY: the platform promises that the frames can be written through this pointer, neighbours at the same
    // distance; the caller promises that they are its own.
    unsafe { core::ptr::write_bytes(start.as_ptr(), 0, (frames.len() * PAGE_SIZE) as usize) };
}

/// Value of each word of poisoned memory.
const POISON: u64 = 0xaaaa_5a5a_aaaa_5a5a;

/// Fills these frames with a pattern that [`poison_damage`] knows.
///
/// # Safety
/// The caller owns the frames: nothing else reads or writes them meanwhile.
pub unsafe fn poison<P: Platform>(frames: PfnRange) {
    let start = P::phys_to_virt(frames.start.phys()).cast::<u64>();
    for word in 0..(frames.len() * PAGE_SIZE / 8) as usize {
        // SAFETY: the platform promises that the frames can be written through this pointer, which a frame's start
        // aligns; the caller promises that they are its own.
        unsafe { start.add(word).write(POISON) };
    }
}

/// The byte, counted from the first frame, where frames that were [poisoned](poison) have been written to since. A
/// frame without any word of the pattern counts as one that never was.
///
/// # Safety
/// As for [`poison`].
#[must_use]
pub unsafe fn poison_damage<P: Platform>(frames: PfnRange) -> Option<u64> {
    const WORDS: usize = (PAGE_SIZE / 8) as usize;
    (0..frames.len() as usize).find_map(|frame| {
        let start = P::phys_to_virt(frames.start.phys() + frame as u64 * PAGE_SIZE).cast::<u64>();
        // SAFETY: as above. Volatile: the memory may hold anything, and the compiler is to assume nothing about it.
        let poisoned = |word: usize| unsafe { start.add(word).read_volatile() } == POISON;
        let damaged = (0..WORDS).find(|word| !poisoned(*word))?;
        let is_poison = (0..WORDS).any(poisoned);
        is_poison.then_some(frame as u64 * PAGE_SIZE + damaged as u64 * 8)
    })
}
