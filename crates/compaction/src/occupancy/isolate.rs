//! Reading the states of a pageblock and isolating its movable blocks, 64 frames at a time.
//!
//! That a page is pinned does not show in the state bytes: only its migrator knows. Asked word by word, it says so at
//! that page, and the words behind it are not read.

use core::ops::Range;

use pageblock_buddy::Held;
use pageblock_frame::migration::Migrate;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, Platform, StateByte};

use super::run::{Emptied, Run};
use crate::choice::{Word, appraise_word, words_of};
use crate::cluster::{BLOCK, Cluster, keep};
use crate::migration::{Migration, Sources};

/// The blocks of one pageblock that a run has isolated. Dropped, they are put back.
pub(super) struct IsolatedIn<'a, 'z, 'm, P: Platform, M: Migrate> {
    migration: Migration<'a, 'z, 'm, P, M>,
    block: u32,
    /// One bit for each head.
    heads: [u64; BLOCK_WORDS],
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> IsolatedIn<'a, 'z, 'm, P, M> {
    pub(super) fn new(migration: Migration<'a, 'z, 'm, P, M>, block: u32) -> Self {
        Self { migration, block, heads: [0; BLOCK_WORDS] }
    }

    fn insert(&mut self, held: Held) {
        if let Some(word) = self.heads.get_mut(held.index as usize / 64 % BLOCK_WORDS) {
            *word |= 1 << (held.index % 64);
        }
    }

    /// Takes up to a cluster of blocks of one order out.
    pub(super) fn take_cluster(&mut self, order: Order) -> Sources<'a, 'z, 'm, P, M> {
        let states = self.migration.scan.zone().states();
        let mut sources = Sources::new(self.migration);
        for (word, heads) in (0u32..).zip(&mut self.heads) {
            let mut left = *heads;
            while left != 0 && !sources.is_full() {
                let bit = left & left.wrapping_neg();
                left ^= bit;
                let index = self.block * BLOCK + word * 64 + bit.trailing_zeros();
                if states.get(index).order() == order {
                    *heads ^= bit;
                    sources.push(Held { index, state: StateByte::allocated(order, MigrateType::Movable) });
                }
            }
        }
        sources
    }

    /// Takes the lowest block out.
    fn pop(&mut self) -> Option<Held> {
        let (word, heads) = (0u32..).zip(&mut self.heads).find(|(_, heads)| **heads != 0)?;
        let index = self.block * BLOCK + word * 64 + heads.trailing_zeros();
        *heads &= *heads - 1;
        let order = self.migration.scan.zone().states().get(index).order();
        Some(Held { index, state: StateByte::allocated(order, MigrateType::Movable) })
    }

    /// Puts all of them back. Should the migrator unwind, the drop goes on with the others.
    pub(super) fn put_back(&mut self) {
        while let Some(held) = self.pop() {
            self.migration.put_back(held);
        }
    }
}

impl<P: Platform, M: Migrate> Drop for IsolatedIn<'_, '_, '_, P, M> {
    fn drop(&mut self) {
        self.put_back();
    }
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Run<'a, 'z, 'm, P, M> {
    /// Isolates every movable block of a range, if no other frame is in use there. The blocks that were isolated are
    /// in `isolated`, also if the answer is not [`Emptied::Yes`].
    pub(super) fn isolate_all(&mut self, frames: &Range<u32>, isolated: &mut IsolatedIn<'a, 'z, 'm, P, M>) -> Emptied {
        let scan = self.migration.scan;
        let map = scan.map(frames.start / BLOCK);
        for at in words_of(frames) {
            let word = Word::new(at, frames);
            if self.reads_late() {
                self.counts.migrate_scanned += u64::from(word.mask.count_ones());
            }
            let heads = match appraise_word(scan.zone().states(), &map, word, self.config()) {
                Ok(part) => part.heads,
                Err(blocker) => {
                    self.misread += 1;
                    self.blocker = blocker;
                    return Emptied::No;
                }
            };
            let result = self.isolate_word(at, heads, isolated);
            if result != Emptied::Yes {
                return result;
            }
        }
        Emptied::Yes
    }

    /// Isolates the movable blocks with these heads, of the 64 frames from `word` on.
    fn isolate_word(&mut self, word: u32, mut heads: u64, isolated: &mut IsolatedIn<'a, 'z, 'm, P, M>) -> Emptied {
        let states = self.migration.scan.zone().states();
        while heads != 0 {
            let mut wanted = Cluster::new();
            while heads != 0 && !wanted.is_full() {
                let frame = word + heads.trailing_zeros();
                keep(&mut wanted, Held { index: frame, state: states.get(frame) });
                heads &= heads - 1;
            }
            let mut sources = Sources::new(self.migration);
            let answers = self.migration.isolate(&wanted, &mut sources);
            sources.give_to(|held| {
                self.counts.isolated += held.order().frames();
                isolated.insert(held);
            });
            if answers.refused > 0 {
                self.blocker = answers.first;
                return if answers.busy { Emptied::NotNow } else { Emptied::No };
            }
        }
        Emptied::Yes
    }
}
