//! The dearest single call: histories after which one allocation or one free has as much to do as we know how to make it.
//!
//! A history is a number. Its length is twice that, or one more: then the call that is asked about comes at the end, so that the
//! difference is that call alone. `benches/worst` runs them all.

use crate::Frames;
use crate::machine::Machine;

/// Pageblocks that are taken in full first.
const BLOCKS: u32 = 320;
/// Frames in one.
const PAGEBLOCK: u32 = 512;
/// What the first limit of a list of single frames is: three batches.
const LIMIT: u32 = 192;

/// Where the blocks of a history lie.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// One in each pageblock.
    Pageblock,
    /// One in each word.
    Word,
    /// Two side by side in each word, not buddies; then as they come.
    Pairs,
    /// Four in each word, no two of them buddies.
    Fours,
}

const PLACES: [Place; 4] = [Place::Pageblock, Place::Word, Place::Pairs, Place::Fours];
/// Orders up to which a history merges what it frees: from nothing but the block itself to the whole pageblock.
const MERGED: u64 = 10;
/// How often a list has run dry before the refill.
const DRY: u64 = 8;

/// What happened before, and which call follows.
#[derive(Clone, Copy, Debug)]
pub enum History {
    /// A list at its limit is full of blocks of this order, each of which completes a block of order `merged`. One more is freed.
    Drain {
        /// Of the blocks.
        order: u8,
        /// What they lack to be free.
        merged: u8,
        /// Where they are.
        place: Place,
    },
    /// All free blocks of the lowest pageblocks are of this order; the list has run dry for the so-manieth time. One is allocated.
    Refill {
        /// Of the blocks.
        order: u8,
        /// Refills before.
        dry: u8,
        /// Where they are.
        place: Place,
    },
}

/// Number of histories.
pub const HISTORIES: u64 = 4 * 4 * (MERGED + DRY);

impl History {
    /// The history with a number.
    #[must_use]
    pub fn new(number: u64) -> Self {
        let order = (number % 4) as u8;
        let place = PLACES[(number / 4 % 4) as usize];
        match number / 16 {
            merged @ 0..MERGED => Self::Drain { order, merged: (merged as u8).max(order), place },
            rest => Self::Refill { order, dry: (rest - MERGED) as u8, place },
        }
    }
}

/// The first frames of blocks of an order, as many to a pageblock or word as it says, from the lowest on.
fn blocks_at(place: Place, order: u8) -> impl Iterator<Item = u32> {
    // Every second block in a word, so that no two are buddies.
    let (step, each) = match place {
        Place::Pageblock => (PAGEBLOCK, 1),
        Place::Word => (64, 1),
        Place::Pairs => (64, 2),
        Place::Fours => (64, 4),
    };
    (0..BLOCKS * PAGEBLOCK)
        .step_by(step as usize)
        .flat_map(move |first| (0..each).map(move |i| first + (i << (order + 1))))
}

/// The call that is asked about. `benches/worst` counts what is done between its beginning and its end, by its name.
#[inline(never)]
fn the_call(call: impl FnOnce()) {
    call();
    // Keeps this call from becoming the caller's jump.
    std::hint::black_box(());
}

/// Runs the history with number `length / 2`, and for odd lengths the call that follows.
pub fn worst(length: u64) {
    let machine = Machine::<false>::new(u64::from(2 * BLOCKS * PAGEBLOCK));
    let history = History::new(length / 2);
    let (History::Drain { order, place, .. } | History::Refill { order, place, .. }) = history;
    // One more, so that whatever the last refill left on the list is above.
    for _ in 0..((BLOCKS + 1) * PAGEBLOCK) >> order {
        std::hint::black_box(machine.take(order));
    }
    let blocks: Vec<u32> = blocks_at(place, order).collect();
    machine.allocator().drain();
    match history {
        History::Drain { merged, .. } => drain(&machine, &blocks, (order, merged), length % 2 == 1),
        History::Refill { dry, .. } => refill(&machine, &blocks, (order, dry), length % 2 == 1),
    }
}

fn drain(machine: &Machine, blocks: &[u32], (order, merged): (u8, u8), call: bool) {
    let some = blocks.get(..(LIMIT >> order) as usize + 1).unwrap_or(blocks);
    let mut before: Vec<u32> = Vec::new();
    for block in some {
        let first = block >> merged << merged;
        before.extend((first..first + (1 << merged)).step_by(1 << order).filter(|part| !some.contains(part)));
    }
    before.sort_unstable();
    before.dedup();
    for part in before {
        machine.give(part.into(), order);
    }
    machine.allocator().drain();
    let Some((last, listed)) = some.split_last() else { return };
    for block in listed {
        machine.give(u64::from(*block), order);
    }
    if call {
        the_call(|| machine.give(u64::from(*last), order));
    }
}

fn refill(machine: &Machine, blocks: &[u32], (order, dry): (u8, u8), call: bool) {
    for block in blocks {
        machine.give(u64::from(*block), order);
    }
    machine.allocator().drain();
    let listed = || machine.allocator().stats().listed;
    for _ in 0..dry {
        std::hint::black_box(machine.take(order));
        while listed() > 0 {
            std::hint::black_box(machine.take(order));
        }
    }
    if call {
        the_call(|| {
            std::hint::black_box(machine.take(order));
        });
    }
}
