//! Runs of wholly free pageblocks: blocks of order 9 and above.
//!
//! The wholly free pageblocks of a type are a set of bits, 64 pageblocks a word; a run of `2^(o-9)` of them is a block
//! of order `o`, up to the zone's largest. The rules of frames in a word hold for pageblocks in one: the
//! decomposition into maximal runs is unique, and merging follows from the bits.

use pageblock_frame::runs::{self, Run};
use pageblock_frame::{Fill, MigrateType, Pageblock, Unopened};

use crate::free_area::FreeAreaId;
use crate::region::{BLOCK_SHIFT, Region};

/// Bits at which a run of `2^level` may start, and the arithmetic on them, capped at a largest level.
fn maximal_runs(word: u64, most: u32, mut visit: impl FnMut(u32, u64)) {
    let mut runs = word;
    for level in 0..most {
        let above = runs::coarser(runs, level);
        visit(level, runs & !(above | above << (1u32 << level)));
        runs = above;
        if runs == 0 {
            return;
        }
    }
    visit(most, runs);
}

/// The smallest maximal run of at least `2^wanted` in a word, where runs are at most `2^most` long: its
/// first bit and its level.
#[inline]
fn smallest_run(word: u64, wanted: u32, most: u32) -> Option<Run> {
    let mut runs = runs::runs(word, wanted);
    for level in wanted..most {
        let above = runs::coarser(runs, level);
        let exact = runs & !(above | above << (1u32 << level));
        if exact != 0 {
            return Some(Run { first: exact.trailing_zeros(), order: level });
        }
        runs = above;
    }
    (runs != 0).then(|| Run { first: runs.trailing_zeros(), order: most })
}

impl Region<'_> {
    const WHOLE: u32 = BLOCK_SHIFT;

    /// The smallest maximal run of at least `order` in the lowest word that has one: first pageblock and order.
    #[inline]
    pub(crate) fn find_run(&mut self, migrate_type: MigrateType, order: u32) -> Option<Run> {
        let set = FreeAreaId::whole(migrate_type);
        let wanted = order - BLOCK_SHIFT;
        let mut word = self.free_area.lowest(set)? / 64;
        loop {
            if let Some(run) = smallest_run(self.free_area.word(set, word), wanted, self.levels) {
                return Some(Run { first: word * 64 + run.first, order: BLOCK_SHIFT + run.order });
            }
            word = self.free_area.first_from(set, (word + 1) * 64)? / 64;
        }
    }

    /// The largest order of which this type has a run of wholly free pageblocks.
    pub(crate) fn largest_run(&mut self, migrate_type: MigrateType) -> Option<u32> {
        (BLOCK_SHIFT..=self.max_order).rev().find(|&order| self.find_run(migrate_type, order).is_some())
    }

    /// Takes the first `2^(order-9)` pageblocks of a maximal run of order `run` out of the set of wholly free ones and
    /// out of the counts. Their maps are left as they are.
    #[inline]
    pub(crate) fn cut_run(&mut self, migrate_type: MigrateType, run: Run, order: u32) {
        for member in run.first..run.first + (1 << (order - BLOCK_SHIFT)) {
            self.free_area.remove(migrate_type, Self::WHOLE, member);
        }
        self.uncount(run.order, 1);
        for half in order..run.order {
            self.count(half, 1);
        }
    }

    /// Gives back one whole pageblock.
    #[inline(never)]
    pub(crate) fn give_whole(&mut self, index: u32) {
        let block = index >> BLOCK_SHIFT;
        let Some(b) = self.blocks.known_mut(block) else { return };
        b.fill(Fill::Free);
        let migrate_type = b.migrate_type();
        self.add_free(migrate_type, 1 << BLOCK_SHIFT);
        self.join_whole(block, migrate_type);
    }

    /// Puts a wholly free pageblock into its type's set, merging it with its neighbours, which may be of other ordinary
    /// types. Its map is full already.
    #[inline(never)]
    pub(crate) fn join_whole(&mut self, block: u32, migrate_type: MigrateType) {
        self.join_run::<true>(block, migrate_type);
    }

    /// The same for a pageblock that was free before and changed its type: it merges with neighbours of that type only,
    /// so that no other pageblock's type changes with it.
    #[inline(never)]
    pub(crate) fn join_own_type(&mut self, block: u32, migrate_type: MigrateType) {
        self.join_run::<false>(block, migrate_type);
    }

    #[inline]
    fn join_run<const ADOPT: bool>(&mut self, block: u32, migrate_type: MigrateType) {
        let set = FreeAreaId::whole(migrate_type);
        self.free_area.insert(migrate_type, Self::WHOLE, block);
        let mut word = self.free_area.word(set, block / 64);
        let mut at = block % 64;
        let mut level = 0;
        let most = self.levels;
        while level < most {
            let half = runs::ones(level);
            let buddy = at ^ (1 << level);
            if (word >> buddy) & half != half {
                let other = self.blocks.get(block / 64 * 64 + buddy);
                if !ADOPT
                    || other.is_none_or(|b| b.top() != Pageblock::WHOLE)
                    || !self.adopt(block / 64 * 64 + buddy, level, migrate_type)
                {
                    break;
                }
                word = self.free_area.word(set, block / 64);
            }
            self.uncount(BLOCK_SHIFT + level, 1);
            at &= !(1 << level);
            level += 1;
        }
        self.count(BLOCK_SHIFT + level, 1);
    }

    /// Gives a maximal run of wholly free pageblocks of another ordinary type to this one, so that the two can merge
    /// (as Linux does since 6.10). False, with nothing changed, if there is no such run.
    #[inline(never)]
    fn adopt(&mut self, first: u32, level: u32, migrate_type: MigrateType) -> bool {
        if !migrate_type.is_ordinary() {
            return false;
        }
        let members = first..first + (1 << level);
        let Some(old) = self.blocks.get(first).map(|b| b.migrate_type()) else { return false };
        // Several maximal runs, of several types, are left as they are.
        let is_like = |block| self.blocks.get(block).is_some_and(|b| b.is_wholly_free() && b.migrate_type() == old);
        if !old.is_ordinary() || !members.clone().all(is_like) {
            return false;
        }
        for member in members {
            if !self.blocks.set_unopened(member, Unopened::Free(migrate_type)) {
                let Some(b) = self.blocks.known_mut(member) else { return false };
                b.set_migrate_type(migrate_type);
            }
            self.free_area.remove(old, Self::WHOLE, member);
            self.free_area.insert(migrate_type, Self::WHOLE, member);
        }
        true
    }

    /// Takes one wholly free pageblock out of its set, wherever in a run it is. The rest of the run is recounted.
    pub(crate) fn leave_whole(&mut self, block: u32, migrate_type: MigrateType) {
        let set = FreeAreaId::whole(migrate_type);
        self.count_runs_of(set, block / 64, u64::MAX);
        self.free_area.remove(migrate_type, Self::WHOLE, block);
        self.count_runs_of(set, block / 64, 1);
    }

    /// Accounts for pageblocks that have not been opened and are free now, as movable ones. They merge with neighbours
    /// of that type only.
    pub(crate) fn release_unopened(&mut self, first: u32, blocks: u32) {
        let set = FreeAreaId::whole(MigrateType::Movable);
        let end = first + blocks;
        let mut at = first;
        while at < end {
            let next = ((at / 64 + 1) * 64).min(end);
            self.count_runs_of(set, at / 64, u64::MAX);
            self.free_area.insert_some(set, at / 64, (u64::MAX >> (64 - (next - at))) << (at % 64));
            self.count_runs_of(set, at / 64, 1);
            at = next;
        }
        self.add_free(MigrateType::Movable, u64::from(blocks) << BLOCK_SHIFT);
    }

    /// Adds the maximal runs of one word of a set to the counts, `by` times.
    fn count_runs_of(&mut self, set: FreeAreaId, word: u32, by: u64) {
        let bits = self.free_area.word(set, word);
        let most = self.levels;
        maximal_runs(bits, most, |level, runs| {
            self.count(BLOCK_SHIFT + level, u64::from(runs.count_ones()).wrapping_mul(by));
        });
    }

    /// The maximal runs of wholly free pageblocks of a type: order and how many.
    pub(crate) fn for_each_whole_run(&self, migrate_type: MigrateType, mut visit: impl FnMut(u32, u64)) {
        for word in 0..(self.blocks.len() as u32).div_ceil(64) {
            self.whole_runs_in(migrate_type, word, &mut visit);
        }
    }

    /// Those of 64 pageblocks from `64 * word` on.
    pub(crate) fn whole_runs_in(&self, migrate_type: MigrateType, word: u32, mut visit: impl FnMut(u32, u64)) {
        maximal_runs(self.free_area.word(FreeAreaId::whole(migrate_type), word), self.levels, |level, runs| {
            visit(BLOCK_SHIFT + level, u64::from(runs.count_ones()));
        });
    }
}
