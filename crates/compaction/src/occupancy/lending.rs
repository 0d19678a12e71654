//! Reading what a pageblock holds and borrowing it from its owner, 64 frames at a time.
//!
//! That a page is pinned does not show in the state bytes: only its owner knows. Asked word by word, it says so at that page, and the
//! words behind it are not read.

use pageblock_buddy::Held;
use pageblock_frame::migration::Migrate;
use pageblock_frame::{BLOCK_WORDS, MigrateType, Order, Platform, StateByte};

use super::{BLOCK, Emptied, Run};
use crate::choice::{appraise_word, word_mask};
use crate::moving::{Cluster, keep};

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    /// Borrows every movable block of a range, if that is all that is in use there. What was lent is in `ours`, also if the answer is not
    /// [`Emptied::Yes`].
    pub(super) fn borrow_all(&mut self, (index, frames): (u32, u32), ours: &mut [u64; BLOCK_WORDS]) -> Emptied {
        let scan = self.mover.scan;
        let map = scan.map(index / BLOCK);
        let mut at = index & !63;
        while at < index + frames {
            let mask = word_mask(at, (index, frames));
            if self.reads_late() {
                self.counts.migrate_scanned += u64::from(mask.count_ones());
            }
            let heads = match appraise_word(scan.zone().states(), &map, (at, mask), self.config()) {
                Ok(part) => part.heads,
                Err(obstacle) => {
                    self.misread += 1;
                    self.obstacle = obstacle;
                    return Emptied::No;
                }
            };
            let result = self.borrow_word(at, heads, ours);
            if result != Emptied::Yes {
                return result;
            }
            at += 64;
        }
        Emptied::Yes
    }

    /// Borrows the movable blocks with these heads, of the 64 frames from `word` on.
    fn borrow_word(&mut self, word: u32, mut heads: u64, ours: &mut [u64; BLOCK_WORDS]) -> Emptied {
        let states = self.mover.scan.zone().states();
        while heads != 0 {
            let mut wanted = Cluster::new();
            while heads != 0 && !wanted.is_full() {
                let frame = word + heads.trailing_zeros();
                keep(&mut wanted, Held { index: frame, state: states.get(frame) });
                heads &= heads - 1;
            }
            let mut lent = Cluster::new();
            let answers = self.mover.borrow(&wanted, &mut lent);
            for held in &lent {
                set(ours, held.index);
                self.counts.isolated += held.order().frames();
            }
            if answers.refused > 0 {
                self.obstacle = answers.first;
                return if answers.busy { Emptied::NotNow } else { Emptied::No };
            }
        }
        Emptied::Yes
    }

    /// Up to a cluster of what we borrowed in a pageblock, of one order.
    pub(super) fn lent(&self, block: u32, order: Order, ours: &[u64; BLOCK_WORDS]) -> Cluster {
        let states = self.mover.scan.zone().states();
        let mut lent = Cluster::new();
        for (word, &bits) in (0u32..).zip(ours) {
            let mut left = bits;
            while left != 0 && !lent.is_full() {
                let index = block * BLOCK + word * 64 + left.trailing_zeros();
                left &= left - 1;
                if states.get(index).order() == order {
                    keep(&mut lent, Held { index, state: StateByte::allocated(order, MigrateType::Movable) });
                }
            }
        }
        lent
    }

    pub(super) fn put_back(&self, block: u32, ours: &[u64; BLOCK_WORDS]) {
        let states = self.mover.scan.zone().states();
        for (word, &bits) in (0u32..).zip(ours) {
            let mut left = bits;
            while left != 0 {
                let index = block * BLOCK + word * 64 + left.trailing_zeros();
                left &= left - 1;
                let order = states.get(index).order();
                self.mover.put_back([Held { index, state: StateByte::allocated(order, MigrateType::Movable) }]);
            }
        }
    }
}

fn set(map: &mut [u64; BLOCK_WORDS], index: u32) {
    if let Some(word) = map.get_mut(index as usize / 64 % BLOCK_WORDS) {
        *word |= 1 << (index % 64);
    }
}

pub(super) fn unset(map: &mut [u64; BLOCK_WORDS], index: u32) {
    if let Some(word) = map.get_mut(index as usize / 64 % BLOCK_WORDS) {
        *word &= !(1 << (index % 64));
    }
}
