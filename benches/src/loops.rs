//! Loops of single calls; those whose steps are decided before are in [`loads`](crate::loads).

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Frames;
use crate::allocators::refused;
use crate::machine::become_cpu;

/// `pairs` times: allocate a block, free it. The order is known when the program is compiled, as it mostly is.
#[inline(never)]
pub fn pairs<A: Frames, const ORDER: u8>(allocator: &mut A, pairs: u64) {
    for _ in 0..pairs {
        let Some(block) = allocator.alloc(ORDER) else { refused(ORDER) };
        allocator.free(block, ORDER);
    }
}

/// Allocates a frame for every element, named as the allocator names it.
#[inline(never)]
pub fn fill<A: Frames>(allocator: &mut A, frames: &mut [u64]) {
    for frame in frames {
        let Some(block) = allocator.alloc(0) else { refused(0) };
        *frame = block;
    }
}

/// Frees all of them, in this order.
#[inline(never)]
pub fn empty<A: Frames>(allocator: &mut A, frames: &[u64]) {
    for &frame in frames {
        allocator.free(frame, 0);
    }
}

/// Blocks that a CPU allocates before another frees them.
pub const BATCH: usize = 256;

/// `batches` times: CPU 0 allocates [`BATCH`] frames, CPU 1 frees them.
#[inline(never)]
pub fn produce_and_consume<A: Frames>(allocator: &mut A, batches: u64) {
    let mut frames = [0; BATCH];
    for _ in 0..batches {
        become_cpu(0);
        fill(allocator, &mut frames);
        become_cpu(1);
        empty(allocator, &frames);
    }
    become_cpu(0);
}

/// Brings the frames into random order.
pub fn shuffle<T>(frames: &mut [T]) {
    use rand::seq::SliceRandom;
    frames.shuffle(&mut Xoshiro256PlusPlus::seed_from_u64(7));
}

/// Room for `frames` frames in an allocator's units, touched.
#[must_use]
pub fn frame_numbers(frames: u64) -> Vec<u64> {
    vec![u64::MAX; frames as usize]
}
