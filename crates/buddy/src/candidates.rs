//! Which pageblocks can serve a request: bitmaps over the pageblocks, some for each migrate type.
//!
//! A pageblock of type `t` that is not wholly free is, by the order of its largest free block,
//! * in the set of each order 0 to 3 that it can serve: these are asked for most, and one word answers;
//! * from order 4 on in the set of exactly that order: so it enters and leaves few sets, and who can serve an order is the union of
//!   those from there on, at most five words.
//!
//! The sets of order 9 hold the wholly free pageblocks; runs of them are found in the words of the set by the same arithmetic as
//! blocks in a free map.
//!
//! An allocation takes the **lowest** pageblock that can serve it. Measured against lists ordered by use, filling from
//! one end leaves the other end to drain, and more pageblocks come out whole.
//!
//! Each set is a tree of words, 64 to one, at least two levels: a word's bit is set if the word below it is not 0. The words of all sets for the
//! same 64 pageblocks lie side by side, those of one type's orders in ascending order, because they are looked at together.

use core::num::NonZeroU64;

use pageblock_frame::MigrateType;

/// Orders that have a set: 0 to 9.
pub(crate) const SETS: usize = 10;
/// The order of the sets of wholly free pageblocks.
const WHOLE: usize = SETS - 1;
/// Words for the same 64 entries, one a set and a few unused: a power of two.
pub(crate) const ROW: usize = 64;
/// The orders below this one have sets of all pageblocks that can serve them; each is part of the one before.
const NESTED: i32 = 4;
/// Levels of the tree that suffice for `2^32` frames.
const MOST_LEVELS: usize = 4;

/// The words of all sets for 64 pageblocks, or for 64 rows of the level below.
pub(crate) type Row = [u64; ROW];

/// The sets of a zone.
#[derive(Debug)]
pub(crate) struct Candidates<'m> {
    /// The lowest level: one bit a pageblock.
    rows: &'m mut [Row],
    above: Above<'m>,
}

/// What is above the lowest level.
#[derive(Debug)]
struct Above<'m> {
    /// The levels 1 to `top` one after the other. The last has one row.
    rows: &'m mut [Row],
    /// Where each level's rows start, from level 1 on.
    start: [u32; MOST_LEVELS],
    top: u32,
    /// For each set the lowest row of level 0 with a member, or `u32::MAX`.
    lowest: [u32; ROW],
}

/// The words of all sets for 64 pageblocks, and what is above them.
#[derive(Debug)]
pub(crate) struct Entry<'a, 'm> {
    pub(crate) row: u32,
    pub(crate) words: &'a mut Row,
    above: &'a mut Above<'m>,
}

impl Entry<'_, '_> {
    /// Those of the row's pageblocks that can serve an order below 9 and are not wholly free.
    #[inline(always)]
    pub(crate) fn serving(&self, migrate_type: MigrateType, order: u32) -> u64 {
        serving(self.words, migrate_type, order)
    }

    /// A pageblock's largest order rises; `from` is -1 if it had nothing free.
    #[inline(always)]
    pub(crate) fn raise(&mut self, migrate_type: MigrateType, block: u32, (from, to): (i32, i32)) {
        let mut order = from + 1;
        while order <= to && order < NESTED {
            let set = Set::new(migrate_type, order as u32);
            let old = self.words[set.index()];
            self.words[set.index()] = old | 1u64.wrapping_shl(block);
            if old == 0 {
                self.above.appeared(set, self.row);
            }
            order += 1;
        }
        if to >= NESTED {
            self.change_top(migrate_type, block, (from, to));
        }
    }

    /// A pageblock's largest order falls; `to` is -1 if nothing is left.
    #[inline(always)]
    pub(crate) fn lower(&mut self, migrate_type: MigrateType, block: u32, (from, to): (i32, i32)) {
        if from >= NESTED {
            self.change_top(migrate_type, block, (from, to));
        }
        let mut order = to + 1;
        while order <= from && order < NESTED {
            let set = Set::new(migrate_type, order as u32);
            let left = self.words[set.index()] & !1u64.wrapping_shl(block);
            self.words[set.index()] = left;
            if left == 0 {
                self.above.vanished(set, self.row);
            }
            order += 1;
        }
    }

    /// The lowest pageblock of the row that can serve a nested order falls to the order below, or to nothing from order 0.
    #[inline(always)]
    pub(crate) fn lower_lowest(&mut self, set: Set) {
        let word = &mut self.words[set.index()];
        *word &= word.wrapping_sub(1);
        if *word == 0 {
            self.above.vanished(set, self.row);
        }
    }

    /// Moves a pageblock between the sets of exactly one order.
    #[inline(never)]
    fn change_top(&mut self, migrate_type: MigrateType, block: u32, (from, to): (i32, i32)) {
        if to >= NESTED {
            let set = Set::new(migrate_type, to as u32);
            let word = &mut self.words[set.index()];
            let old = core::mem::replace(word, *word | 1u64.wrapping_shl(block));
            if old == 0 {
                self.above.appeared(set, self.row);
            }
        }
        if from >= NESTED {
            let set = Set::new(migrate_type, from as u32);
            let word = &mut self.words[set.index()];
            *word &= !1u64.wrapping_shl(block);
            if *word == 0 {
                self.above.vanished(set, self.row);
            }
        }
    }
}

/// Those of a row's pageblocks that can serve an order below 9 and are not wholly free.
#[inline(always)]
fn serving(words: &Row, migrate_type: MigrateType, order: u32) -> u64 {
    if (order as i32) < NESTED {
        return words[Set::new(migrate_type, order).index()];
    }
    (order..WHOLE as u32).fold(0, |found, order| found | words[Set::new(migrate_type, order).index()])
}

/// One set: a migrate type and an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Set(u32);

impl Set {
    /// The set of a type and an order below 9: the pageblocks that can serve it, or from order 4 on those with this largest order.
    /// None of them is wholly free.
    #[inline(always)]
    pub(crate) const fn new(migrate_type: MigrateType, order: u32) -> Self {
        Self(migrate_type as u32 * WHOLE as u32 + order)
    }

    /// The set of a type's wholly free pageblocks: after all others, so that its number needs no multiplication.
    #[inline(always)]
    pub(crate) const fn whole(migrate_type: MigrateType) -> Self {
        Self((WHOLE * MigrateType::COUNT) as u32 + migrate_type as u32)
    }

    /// The set of a type and any order up to 9.
    pub(crate) const fn of(migrate_type: MigrateType, order: u32) -> Self {
        if order == WHOLE as u32 { Self::whole(migrate_type) } else { Self::new(migrate_type, order) }
    }

    #[inline(always)]
    pub(crate) const fn index(self) -> usize {
        self.0 as usize % ROW
    }
}

/// Rows for so many pageblocks, over all levels. There is at least one level above the lowest.
pub(crate) const fn rows_needed(blocks: usize) -> usize {
    let mut entries = blocks.div_ceil(64);
    let mut rows = entries;
    loop {
        entries = entries.div_ceil(64);
        rows += entries;
        if entries <= 1 {
            return rows;
        }
    }
}

impl<'m> Candidates<'m> {
    /// Empty sets over zeroed rows, of which there are [`rows_needed`].
    pub(crate) fn new(rows: &'m mut [Row], blocks: usize) -> Self {
        let (rows, above) = rows.split_at_mut(blocks.div_ceil(64).min(rows.len()));
        let mut start = [0; MOST_LEVELS];
        let (mut top, mut at, mut entries) = (0, 0, rows.len());
        for (number, start) in start.iter_mut().enumerate().skip(1) {
            *start = at;
            top = number as u32;
            entries = entries.div_ceil(64);
            at += entries as u32;
            if entries <= 1 {
                break;
            }
        }
        Self { rows, above: Above { rows: above, start, top, lowest: [u32::MAX; ROW] } }
    }

    /// The lowest pageblock of a set.
    #[inline(always)]
    pub(crate) fn lowest(&self, set: Set) -> Option<u32> {
        let row = self.above.lowest[set.index()];
        let word = NonZeroU64::new(self.rows.get(row as usize)?[set.index()])?;
        Some(row * 64 + word.trailing_zeros())
    }

    /// The lowest pageblock of a type that can serve an order below 9 and is not wholly free.
    #[inline(always)]
    pub(crate) fn lowest_serving(&self, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let row = self.above.first_serving(migrate_type, order);
        let word = NonZeroU64::new(serving(self.rows.get(row as usize)?, migrate_type, order))?;
        Some(row * 64 + word.trailing_zeros())
    }

    /// The lowest pageblock of a type with exactly this largest order below 9.
    pub(crate) fn lowest_with_top(&self, migrate_type: MigrateType, top: u32) -> Option<u32> {
        let set = Set::new(migrate_type, top);
        let mut from = self.lowest(set)?;
        loop {
            let row = self.rows.get((from / 64) as usize)?;
            let larger = if (top as i32) < NESTED { serving(row, migrate_type, top + 1) } else { 0 };
            if let Some(only) = NonZeroU64::new(row[set.index()] & !larger) {
                return Some(from / 64 * 64 + only.trailing_zeros());
            }
            from = self.first_from(set, (from / 64 + 1) * 64)?;
        }
    }

    /// True if the pageblock is in the set.
    pub(crate) fn contains(&self, set: Set, block: u32) -> bool {
        self.word(set, block / 64) >> (block % 64) & 1 == 1
    }

    /// A set's word on a level.
    fn word_at(&self, level: u32, at: u32, set: Set) -> Option<u64> {
        let (rows, first) = match level {
            0 => (&*self.rows, 0),
            _ => (&*self.above.rows, self.above.start[level as usize % MOST_LEVELS]),
        };
        rows.get((first + at) as usize).map(|row| row[set.index()])
    }

    /// The 64 bits of a set from pageblock `64 * at` on; 0 past the end.
    #[inline(always)]
    pub(crate) fn word(&self, set: Set, at: u32) -> u64 {
        self.rows.get(at as usize).map_or(0, |row| row[set.index()])
    }

    /// Adds a wholly free pageblock to its type's set.
    pub(crate) fn insert_whole(&mut self, migrate_type: MigrateType, block: u32) {
        let set = Set::whole(migrate_type);
        let Some(word) = self.word_mut(set, block) else { return };
        let old = *word;
        *word = old | 1 << (block % 64);
        if old == 0 {
            self.above.appeared(set, block / 64);
        }
    }

    /// Takes a wholly free pageblock out of its type's set.
    pub(crate) fn remove_whole(&mut self, migrate_type: MigrateType, block: u32) {
        let set = Set::whole(migrate_type);
        let Some(word) = self.word_mut(set, block) else { return };
        *word &= !(1 << (block % 64));
        if *word == 0 {
            self.above.vanished(set, block / 64);
        }
    }

    /// The row of a pageblock.
    #[inline(always)]
    pub(crate) fn row_of(&mut self, block: u32) -> Option<Entry<'_, 'm>> {
        let row = block / 64;
        let words = self.rows.get_mut(row as usize)?;
        Some(Entry { row, words, above: &mut self.above })
    }

    /// The row with the lowest pageblock of a type that can serve an order below 9 and is not wholly free.
    #[inline(always)]
    pub(crate) fn serving_row(&mut self, migrate_type: MigrateType, order: u32) -> Option<Entry<'_, 'm>> {
        let row = self.above.first_serving(migrate_type, order);
        let words = self.rows.get_mut(row as usize)?;
        Some(Entry { row, words, above: &mut self.above })
    }

    /// The row with the lowest pageblock of a set.
    #[inline(always)]
    pub(crate) fn lowest_row(&mut self, set: Set) -> Option<Entry<'_, 'm>> {
        let row = self.above.lowest[set.index()];
        let words = self.rows.get_mut(row as usize)?;
        Some(Entry { row, words, above: &mut self.above })
    }

    /// The set's word that a pageblock is in.
    #[inline(always)]
    pub(crate) fn word_mut(&mut self, set: Set, block: u32) -> Option<&mut u64> {
        self.rows.get_mut((block / 64) as usize).map(|row| &mut row[set.index()])
    }

    /// Rows of a level.
    fn len(&self, level: u32) -> u32 {
        let Above { rows, start, top, .. } = &self.above;
        let start_of = |level: u32| start[level as usize % MOST_LEVELS];
        match level {
            0 => self.rows.len() as u32,
            _ if level < *top => start_of(level + 1) - start_of(level),
            _ => rows.len() as u32 - start_of(level),
        }
    }

    /// The lowest member at or above `block`.
    pub(crate) fn first_from(&self, set: Set, block: u32) -> Option<u32> {
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

    /// Recomputes a set's tree and its lowest row from its lowest level: how many members it has, or `None` if they disagree.
    pub(crate) fn recount(&self, set: Set) -> Option<u64> {
        let word = |level, at| self.word_at(level, at, set).unwrap_or(0);
        for level in 1..=self.above.top {
            for at in 0..self.len(level - 1) {
                if (word(level, at / 64) >> (at % 64) & 1 == 1) != (word(level - 1, at) != 0) {
                    return None;
                }
            }
        }
        let lowest = (0..self.len(0)).find(|&at| word(0, at) != 0).unwrap_or(u32::MAX);
        (self.above.lowest[set.index()] == lowest)
            .then(|| (0..self.len(0)).map(|at| u64::from(word(0, at).count_ones())).sum())
    }

    /// The highest member below `block`.
    #[cfg(test)]
    pub(crate) fn last_below(&self, set: Set, block: u32) -> Option<u32> {
        let mut word = block.div_ceil(64).min(self.len(0));
        while word > 0 {
            word -= 1;
            let below = block - word * 64;
            let bits = self.word(set, word) & if below < 64 { (1 << below) - 1 } else { u64::MAX };
            if bits != 0 {
                return Some(word * 64 + 63 - bits.leading_zeros());
            }
        }
        None
    }
}

impl Above<'_> {
    /// The lowest row with a pageblock of the type that can serve an order below 9, or `u32::MAX`.
    #[inline(always)]
    fn first_serving(&self, migrate_type: MigrateType, order: u32) -> u32 {
        let lowest = |order| self.lowest[Set::new(migrate_type, order).index()];
        if (order as i32) < NESTED {
            return lowest(order);
        }
        (order..WHOLE as u32).fold(u32::MAX, |found, order| found.min(lowest(order)))
    }

    /// A word of the lowest level is no longer 0.
    #[cold]
    #[inline(never)]
    fn appeared(&mut self, set: Set, row: u32) {
        let lowest = &mut self.lowest[set.index()];
        *lowest = (*lowest).min(row);
        let Some(words) = self.rows.get_mut((row / 64) as usize) else { return };
        let old = words[set.index()];
        words[set.index()] = old | 1 << (row % 64);
        if old == 0 {
            self.appeared_above(set, row / 64);
        }
    }

    #[cold]
    fn appeared_above(&mut self, set: Set, mut at: u32) {
        for level in 2..=self.top {
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
    fn vanished(&mut self, set: Set, row: u32) {
        let Some(words) = self.rows.get_mut((row / 64) as usize) else { return };
        let left = words[set.index()] & !(1 << (row % 64));
        words[set.index()] = left;
        match NonZeroU64::new(left) {
            Some(left) if self.lowest[set.index()] == row => {
                self.lowest[set.index()] = row / 64 * 64 + left.trailing_zeros();
            }
            Some(_) => {}
            None => self.vanished_above(set, row),
        }
    }

    #[cold]
    fn vanished_above(&mut self, set: Set, row: u32) {
        if self.top == 1 {
            self.lowest[set.index()] = u32::MAX;
            return;
        }
        let mut at = row / 64;
        for level in 2..=self.top {
            let Some(word) = self.word_mut(level, at, set) else { break };
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        if self.lowest[set.index()] == row {
            self.lowest[set.index()] = self.search(set).unwrap_or(u32::MAX);
        }
    }

    /// The lowest row of level 0 with a member, from the top down.
    fn search(&mut self, set: Set) -> Option<u32> {
        let mut at = 0;
        for level in (1..=self.top).rev() {
            let word = *self.word_mut(level, at * 64, set)?;
            at = at * 64 + NonZeroU64::new(word)?.trailing_zeros();
        }
        Some(at)
    }

    /// The word of a level that has the bit of entry `at` of the level below.
    fn word_mut(&mut self, level: u32, at: u32, set: Set) -> Option<&mut u64> {
        let row = self.start[level as usize % MOST_LEVELS] + at / 64;
        self.rows.get_mut(row as usize).map(|row| &mut row[set.index()])
    }
}

#[cfg(test)]
mod tests;
