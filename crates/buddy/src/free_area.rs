//! `FreeArea`: the pageblocks of a zone by migrate type and exact largest free order.
//!
//! Each pageblock with something free is in one set: that of its type and of the order of its largest free block;
//! wholly free ones are in the sets of order 9. Runs of wholly free pageblocks are found in the words of those sets by
//! the same arithmetic as blocks in a free map.
//!
//! A request takes **the most fragmented pageblock that still serves**: of the smallest sufficient largest order, the
//! lowest address. So large blocks stay whole while smaller ones serve, and the far end of the zone is left to drain.
//!
//! | level | one bit is | set while |
//! |---|---|---|
//! | 0 | a pageblock | it is a member |
//! | 1 and up | a word of the level below | that word is not 0 |
//! | [`Members`] | a set | it has a member |
//!
//! A pageblock that is reserved for a CPU's refills is in the set of reserved ones of its type instead, so that no
//! search finds it, and taking from it changes no set.
//!
//! The words of all sets for the same 64 entries lie side by side, those of one type in ascending order, because a
//! search looks at them together.

use core::num::NonZeroU64;

use pageblock_frame::{MigrateType, TopChange};

use crate::ones::Ones;

/// Largest orders that have a set: 0 to 9.
pub(crate) const TOPS: usize = 10;
/// The sets of wholly free pageblocks.
const WHOLE: usize = TOPS - 1;
/// The first set of reserved pageblocks, one for each type that per-CPU lists have.
const RESERVED: usize = TOPS * MigrateType::COUNT;
/// Words for the same 64 entries, one a set and a few unused: a power of two.
pub(crate) const ROW: usize = 64;
/// Levels of the tree that suffice for `2^32` frames.
const MOST_LEVELS: usize = 4;

const _: () = assert!(RESERVED + MigrateType::PCP_COUNT <= ROW);

/// The words of all sets for 64 pageblocks, or for 64 rows of the level below.
pub(crate) type Row = [u64; ROW];

/// One set: a migrate type and a largest order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FreeAreaId(u32);

impl FreeAreaId {
    /// The largest order of wholly free pageblocks.
    pub(crate) const WHOLE: u32 = WHOLE as u32;

    /// The pageblocks of a type with a largest free block of exactly this order, 0 to 9.
    #[inline]
    pub(crate) const fn new(migrate_type: MigrateType, top: u32) -> Self {
        Self(migrate_type as u32 * TOPS as u32 + top)
    }

    /// Every set, and the numbers that are none.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        (0..ROW as u32).map(Self)
    }

    /// The wholly free pageblocks of a type.
    #[inline]
    pub(crate) const fn whole(migrate_type: MigrateType) -> Self {
        Self::new(migrate_type, WHOLE as u32)
    }

    /// The pageblocks that are reserved for CPUs' refills of an ordinary type.
    #[inline]
    pub(crate) const fn reserved(migrate_type: MigrateType) -> Self {
        Self(RESERVED as u32 + migrate_type as u32)
    }

    #[inline]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize % ROW
    }
}

/// The sets that have a member: one bit each.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Members(u64);

impl Members {
    pub(crate) const NONE: Self = Self(0);

    #[inline]
    pub(crate) const fn has(self, set: FreeAreaId) -> bool {
        self.0 >> set.index() & 1 == 1
    }

    /// For a type, the largest orders 0 to 8 with a set that has a member, from `order` on: bit 0 for `order`.
    #[inline]
    const fn tops(self, migrate_type: MigrateType, order: u32) -> u64 {
        let of_type = self.0 >> FreeAreaId::new(migrate_type, 0).index();
        (of_type & ((1 << WHOLE) - 1)) >> order
    }

    #[inline]
    const fn set(&mut self, set: FreeAreaId, has_member: bool) {
        self.0 = self.0 & !(1 << set.index()) | (has_member as u64) << set.index();
    }

    /// The sets that have a member here and had none before.
    pub(crate) fn appeared_since(self, before: Self) -> impl Iterator<Item = FreeAreaId> {
        Ones(self.0 & !before.0).map(FreeAreaId)
    }
}

/// Whether a pageblock is reserved for the refills of one CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reserved {
    Yes,
    No,
}

/// Rows for so many pageblocks, over all levels. There is one level if that has one row.
pub(crate) const fn rows_needed(blocks: usize) -> usize {
    let mut entries = blocks.div_ceil(64);
    let mut rows = entries;
    while entries > 1 {
        entries = entries.div_ceil(64);
        rows += entries;
    }
    rows
}

/// The sets of a region.
#[derive(Debug)]
pub(crate) struct FreeArea<'m> {
    /// The lowest level: one bit a pageblock.
    rows: &'m mut [Row],
    above: Summary<'m>,
}

/// The levels above the lowest.
#[derive(Debug)]
struct Summary<'m> {
    /// The levels 1 to `top` one after the other, of which the last has one row. None if the lowest has one.
    rows: &'m mut [Row],
    /// Where each level's rows start, from level 1 on.
    start: [u32; MOST_LEVELS],
    top: u32,
    members: Members,
    /// Wholly free pageblocks of all types.
    whole: u32,
}

impl<'m> FreeArea<'m> {
    /// No sets at all.
    pub(crate) const fn empty() -> Self {
        let above = Summary { rows: &mut [], start: [0; MOST_LEVELS], top: 0, members: Members::NONE, whole: 0 };
        Self { rows: &mut [], above }
    }

    /// Empty sets over zeroed rows, of which there are [`rows_needed`].
    pub(crate) fn new(rows: &'m mut [Row], blocks: usize) -> Self {
        let (rows, above) = rows.split_at_mut(blocks.div_ceil(64).min(rows.len()));
        let mut start = [0; MOST_LEVELS];
        let (mut top, mut at, mut entries) = (0, 0, rows.len());
        for (number, start) in start.iter_mut().enumerate().skip(1) {
            if entries <= 1 {
                break;
            }
            *start = at;
            top = number as u32;
            entries = entries.div_ceil(64);
            at += entries as u32;
        }
        Self { rows, above: Summary { rows: above, start, top, members: Members(0), whole: 0 } }
    }

    /// Moves a pageblock of a type from the set of one largest order to that of another.
    #[inline]
    pub(crate) fn change(&mut self, migrate_type: MigrateType, block: u32, change: TopChange) {
        let Some(row) = self.rows.get_mut((block / 64) as usize) else { return };
        let bit = 1u64.wrapping_shl(block);
        // The new set first: a pageblock that can serve is never in none.
        if change.to >= 0 {
            let set = FreeAreaId::new(migrate_type, change.to as u32);
            self.above.whole += u32::from(change.to == WHOLE as i32);
            let old = row[set.index()];
            row[set.index()] = old | bit;
            if old == 0 {
                self.above.became_nonempty(set, block / 64);
            }
        }
        if change.from >= 0 {
            let set = FreeAreaId::new(migrate_type, change.from as u32);
            self.above.whole = self.above.whole.wrapping_sub(u32::from(change.from == WHOLE as i32));
            let left = row[set.index()] & !bit;
            row[set.index()] = left;
            if left == 0 {
                self.above.became_empty(set, block / 64);
            }
        }
    }

    /// Adds wholly free pageblocks to a set: those of a word for which there is a bit, none of which is a member.
    pub(crate) fn insert_some(&mut self, set: FreeAreaId, at: u32, some: u64) {
        let Some(row) = self.rows.get_mut(at as usize) else { return };
        let old = row[set.index()];
        row[set.index()] = old | some;
        self.above.whole += some.count_ones();
        if old == 0 {
            self.above.became_nonempty(set, at);
        }
    }

    /// Adds a pageblock to a set.
    #[inline]
    pub(crate) fn insert(&mut self, migrate_type: MigrateType, top: u32, block: u32) {
        self.change(migrate_type, block, TopChange { from: -1, to: top as i32 });
    }

    /// Takes a pageblock out of a set.
    #[inline]
    pub(crate) fn remove(&mut self, migrate_type: MigrateType, top: u32, block: u32) {
        self.change(migrate_type, block, TopChange { from: top as i32, to: -1 });
    }

    /// Adds a pageblock to the reserved ones of its type, or takes it out of them.
    pub(crate) fn set_reserved(&mut self, migrate_type: MigrateType, block: u32, reserved: Reserved) {
        let Some(row) = self.rows.get_mut((block / 64) as usize) else { return };
        let set = FreeAreaId::reserved(migrate_type);
        let (bit, old) = (1u64.wrapping_shl(block), row[set.index()]);
        match reserved {
            Reserved::Yes => {
                row[set.index()] = old | bit;
                if old == 0 {
                    self.above.became_nonempty(set, block / 64);
                }
            }
            Reserved::No => {
                row[set.index()] = old & !bit;
                if old & !bit == 0 {
                    self.above.became_empty(set, block / 64);
                }
            }
        }
    }

    /// The sets that have a member.
    #[inline]
    pub(crate) const fn members(&self) -> Members {
        self.above.members
    }

    /// Wholly free pageblocks of all types.
    #[inline]
    pub(crate) const fn whole(&self) -> u32 {
        self.above.whole
    }

    /// The smallest largest order from `order` to 8 of which the type has a pageblock.
    #[inline]
    pub(crate) fn smallest_top(&self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let sufficient = NonZeroU64::new(self.above.members.tops(migrate_type, order))?;
        Some(order + sufficient.trailing_zeros())
    }

    /// The most fragmented pageblock of a type that serves an order below 9 and is not wholly free.
    #[inline]
    pub(crate) fn most_fragmented(&self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let top = self.smallest_top(migrate_type, order)?;
        self.lowest(FreeAreaId::new(migrate_type, top))
    }

    /// The lowest pageblock of a set.
    #[inline]
    pub(crate) fn lowest(&self, set: FreeAreaId) -> Option<u32> {
        let mut at = 0;
        for level in (1..=self.above.top).rev() {
            at = at * 64 + NonZeroU64::new(self.word_at(level, at, set)?)?.trailing_zeros();
        }
        Some(at * 64 + NonZeroU64::new(self.word(set, at))?.trailing_zeros())
    }

    /// True if the pageblock is in the set.
    pub(crate) fn contains(&self, set: FreeAreaId, block: u32) -> bool {
        self.word(set, block / 64) >> (block % 64) & 1 == 1
    }

    /// A set's word on a level.
    #[inline]
    fn word_at(&self, level: u32, at: u32, set: FreeAreaId) -> Option<u64> {
        if level == 0 {
            return self.rows.get(at as usize).map(|row| row[set.index()]);
        }
        let first = self.above.start[level as usize % MOST_LEVELS];
        self.above.rows.get((first + at) as usize).map(|row| row[set.index()])
    }

    /// The 64 bits of a set from pageblock `64 * at` on; 0 past the end.
    #[inline]
    pub(crate) fn word(&self, set: FreeAreaId, at: u32) -> u64 {
        self.rows.get(at as usize).map_or(0, |row| row[set.index()])
    }

    /// Entries of a level: pageblocks' words, or words of the level below.
    fn len(&self, level: u32) -> u32 {
        let Summary { rows, start, top, .. } = &self.above;
        let start_of = |level: u32| start[level as usize % MOST_LEVELS];
        match level {
            0 => self.rows.len() as u32,
            _ if level < *top => start_of(level + 1) - start_of(level),
            _ => rows.len() as u32 - start_of(level),
        }
    }

    /// The lowest member at or above `block`.
    pub(crate) fn first_from(&self, set: FreeAreaId, block: u32) -> Option<u32> {
        let (mut at, mut level) = (block, 0);
        // Up, until a word has a member at or after the place.
        loop {
            if level > self.above.top || at / 64 >= self.len(level) {
                return None;
            }
            let word = self.word_at(level, at / 64, set)? >> (at % 64);
            if word != 0 {
                at += word.trailing_zeros();
                break;
            }
            at = at / 64 + 1;
            level += 1;
        }
        // Down, along the lowest members.
        while level > 0 {
            level -= 1;
            at = at * 64 + self.word_at(level, at, set)?.trailing_zeros();
        }
        Some(at)
    }

    /// Recomputes a set's tree from its lowest level: how many members it has, or `None` if the levels disagree.
    pub(crate) fn recount(&self, set: FreeAreaId) -> Option<u64> {
        let word = |level, at| self.word_at(level, at, set).unwrap_or(0);
        for level in 1..=self.above.top {
            for at in 0..self.len(level - 1) {
                if (word(level, at / 64) >> (at % 64) & 1 == 1) != (word(level - 1, at) != 0) {
                    return None;
                }
            }
        }
        let members = (0..self.len(0)).map(|at| u64::from(word(0, at).count_ones())).sum();
        (self.above.members.has(set) == (members > 0)).then_some(members)
    }

    /// The highest member below `block`.
    #[cfg(test)]
    pub(crate) fn last_below(&self, set: FreeAreaId, block: u32) -> Option<u32> {
        (0..block).rev().find(|&block| self.contains(set, block))
    }
}

impl Summary<'_> {
    /// A word of the lowest level is no longer 0.
    #[cold]
    #[inline(never)]
    fn became_nonempty(&mut self, set: FreeAreaId, mut at: u32) {
        self.members.set(set, true);
        for level in 1..=self.top {
            let Some(word) = self.word_mut(level, at, set) else { return };
            let old = core::mem::replace(word, *word | 1 << (at % 64));
            if old != 0 {
                return;
            }
            at /= 64;
        }
    }

    /// A word of the lowest level has become 0.
    #[cold]
    #[inline(never)]
    fn became_empty(&mut self, set: FreeAreaId, mut at: u32) {
        for level in 1..=self.top {
            let Some(word) = self.word_mut(level, at, set) else { return };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                return;
            }
            at /= 64;
        }
        self.members.set(set, false);
    }

    /// The word of a level that has the bit of entry `at` of the level below.
    fn word_mut(&mut self, level: u32, at: u32, set: FreeAreaId) -> Option<&mut u64> {
        let row = self.start[level as usize % MOST_LEVELS] + at / 64;
        self.rows.get_mut(row as usize).map(|row| &mut row[set.index()])
    }
}

#[cfg(test)]
mod tests;
