//! netperf UDP_STREAM over the loopback: one CPU sends, another receives.
//!
//! A message is two objects: the buffer's head of 256 bytes, and its data with 362 bytes of headers and bookkeeping. Up
//! to 8 KiB the data is a slab object; above, a block of its own. Both are allocated by the sender and freed by the
//! receiver.

use pageblock::MigrateType;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

use super::frames::{Block, Frames};
use super::slab::{Object, Slab};

/// Bytes of a message, as MMTests has them.
pub(super) const SIZES: [u32; 9] = [64, 128, 256, 1024, 2048, 3312, 4096, 8192, 16384];
/// Bytes that the receiver's socket holds, each message with its bookkeeping.
const RECEIVE_BUFFER: u32 = 212_992;
/// Bytes that a message has beside its own.
const OVERHEAD: u32 = 362;
/// Largest slab object.
const LARGEST: u32 = 8192;
/// Most messages before the other CPU gets on.
const QUANTUM: usize = 128;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Netperf {
    pub(super) size: u32,
    pub(super) messages: u64,
    pub(super) cpus: u32,
    pub(super) seed: u64,
}

#[derive(Debug)]
enum Data {
    Object(Object),
    Block(Block),
}

impl Netperf {
    /// Does it. Returns how many frames are still held: none.
    pub(super) fn run<F: Frames>(self, frames: &mut F) -> u64 {
        let (sender, receiver) = (0, 1 % self.cpus);
        let size = (self.size + OVERHEAD).next_power_of_two();
        let room = (RECEIVE_BUFFER / (size + 256)).max(1) as usize;
        let slab = |size| Slab::new(size, self.cpus, MigrateType::Unmovable);
        let (mut heads, mut data) = (slab(256), slab(size.min(LARGEST)));
        let mut random = Xoshiro256PlusPlus::seed_from_u64(self.seed);
        let mut queue = VecDeque::with_capacity(room);
        let mut left = self.messages;
        while left > 0 || !queue.is_empty() {
            let burst = random.random_range(1..=QUANTUM).min(room - queue.len()).min(left as usize);
            for _ in 0..burst {
                let content = if size > LARGEST {
                    let order = (size / 4096).ilog2() as u8;
                    Data::Block(frames.take(sender, order, MigrateType::Unmovable))
                } else {
                    Data::Object(data.alloc(frames, sender))
                };
                queue.push_back((heads.alloc(frames, sender), content));
            }
            left -= burst as u64;
            let burst = random.random_range(1..=QUANTUM).min(queue.len());
            for (head, content) in queue.drain(..burst) {
                match content {
                    Data::Object(object) => data.free(frames, receiver, object),
                    Data::Block(block) => frames.give(receiver, block),
                }
                heads.free(frames, receiver, head);
            }
        }
        heads.shrink(frames, receiver) + data.shrink(frames, receiver)
    }
}
