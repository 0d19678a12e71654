//! Changes of a pageblock's free frames: all writers of its map, and of the values derived from it.
//!
//! Each reports the effects of the change: which free block was cut or came to be, and how the largest order
//! changed. A block that is cut leaves one free block of each order between; one that comes back takes one of each.

use core::mem::offset_of;
use core::num::NonZeroU64;

use super::presence::{self, ALL_FULL, EVERY_WORD};
use super::{BLOCK_WORDS, Pageblock};
use crate::PAGEBLOCK_FRAMES;
use crate::runs::{self, Run, WORD_FRAMES, WORD_ORDER};

/// A pageblock's largest free order before and after a change; -1 while it has nothing free.
///
/// ```
/// use pageblock_frame::{Pageblock, TopChange};
/// assert_eq!(TopChange::of(Pageblock::NO_TOP, 3), TopChange { from: -1, to: 3 });
/// assert!(!TopChange::of(4, 4).is_any());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TopChange {
    /// Before.
    pub from: i32,
    /// After.
    pub to: i32,
}

impl TopChange {
    /// From the values of [`Pageblock::top`], where "nothing" is -1 as a signed byte.
    #[must_use]
    #[inline]
    pub const fn of(from: u8, to: u8) -> Self {
        Self { from: from as i8 as i32, to: to as i8 as i32 }
    }

    /// True if there was a change.
    #[must_use]
    #[inline]
    pub const fn is_any(self) -> bool {
        self.from != self.to
    }
}

/// A block that has been taken. The rest of the free block that it was part of is free: one block of each order from
/// its own to one below that of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Its first frame, counted from the pageblock's.
    pub place: u32,
    /// Order of the maximal free block that it was part of.
    pub from: u32,
    /// How that changed the largest order.
    pub top: TopChange,
}

/// A block that has come back. It merged with one free block of each order from its own to one below that of the whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Given {
    /// Order of the maximal free block that it is part of: 9 if all of the pageblock is free, which is then to
    /// [become whole](Pageblock::become_whole).
    pub to: u32,
    /// How that changed the largest order; not at all if all is free.
    pub top: TopChange,
}

/// Blocks of one word that have come back together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WordGiven {
    /// The word of the map before.
    pub before: u64,
    /// And after.
    pub after: u64,
    /// Effect of a word that has become full, as a block of 64 frames; of another, the largest order only.
    pub given: Given,
}

impl Pageblock {
    /// Computes the presence from the map, if blocks have come back since: before anything is taken.
    #[inline]
    pub fn freshen(&mut self) {
        if self.loose != 0 {
            self.recompute_presence();
        }
    }

    #[cold]
    #[inline(never)]
    fn recompute_presence(&mut self) {
        self.presence = presence::block_presence(&self.map);
        self.loose = 0;
    }

    /// Sets the largest order.
    #[inline]
    fn set_top(&mut self, top: u8) -> TopChange {
        TopChange::of(core::mem::replace(&mut self.top, top), top)
    }

    /// Computes the largest order from the presence.
    #[inline]
    fn refresh_top(&mut self) -> TopChange {
        self.set_top(presence::top_order(self.presence).map_or(Self::NO_TOP, |order| order as u8))
    }

    /// The largest order is this one at least: loose frames have made such a block.
    #[inline]
    pub fn raise(&mut self, order: u32) -> TopChange {
        // `NO_TOP` is one below order 0, also as a signed number.
        let top = if (self.top as i8) < order as i8 { order as u8 } else { self.top };
        self.set_top(top)
    }

    /// Takes a block of `order < 9` from the smallest free block that can serve it. `None` if none can, or if it is
    /// wholly free and not [opened](Self::open_whole).
    #[inline]
    pub fn take(&mut self, order: u32) -> Option<Taken> {
        self.freshen();
        if order >= WORD_ORDER {
            return self.take_words(order);
        }
        let presence = self.presence;
        let found = NonZeroU64::new(presence >> (order * BLOCK_WORDS as u32))?.trailing_zeros();
        let (from, word) = (order + found / BLOCK_WORDS as u32, found % BLOCK_WORDS as u32);
        if from >= WORD_ORDER {
            return self.split_word(order);
        }
        let slot = &mut self.map[word as usize];
        // No run from `order` on is smaller, so those that could start one of `from` do.
        let exact = runs::exact(runs::runs(*slot, order) & runs::starts(from), from);
        let at = exact.trailing_zeros();
        *slot &= !(runs::ones(order) << at);
        self.free = self.free.wrapping_sub(1 << order);
        let last = exact & exact.wrapping_sub(1) == 0;
        let presence = presence & !(u64::from(last) << (from * BLOCK_WORDS as u32 + word));
        // The rest of the run: one block of each order from `order` to `from - 1`.
        let parts = presence::below(from) & !presence::below(order);
        self.presence = presence | parts << word;
        // Its last block of the largest order may have gone.
        let lost = presence >> (from * BLOCK_WORDS as u32) == 0;
        let top = if lost { self.refresh_top() } else { TopChange::of(self.top, self.top) };
        Some(Taken { place: word << WORD_ORDER | at, from, top })
    }

    /// Takes a block smaller than a word from a full word, the one in the smallest run of full words.
    fn split_word(&mut self, order: u32) -> Option<Taken> {
        let Run { first: word, order: from } = runs::smallest_word_run(self.full_words(), WORD_ORDER)?;
        let at = word as usize % BLOCK_WORDS;
        self.map[at] = !runs::ones(order);
        self.presence ^= presence::spread((2u8 << WORD_ORDER) - (1u8 << order), at);
        self.free = self.free.wrapping_sub(1 << order);
        Some(Taken { place: word << WORD_ORDER, from, top: self.refresh_top() })
    }

    /// Takes a block of one, two or four words.
    fn take_words(&mut self, order: u32) -> Option<Taken> {
        let Run { first: word, order: from } = runs::smallest_word_run(self.full_words(), order)?;
        for at in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            self.map[at % BLOCK_WORDS] = 0;
            self.presence &= !presence::present(WORD_ORDER, at % BLOCK_WORDS);
        }
        self.free = self.free.wrapping_sub(1 << order);
        Some(Taken { place: word << WORD_ORDER, from, top: self.refresh_top() })
    }

    /// Takes free frames of one word, for which `frames` has a bit each. Free frames and the largest order are
    /// settled [afterwards](Self::settle_taken), once for several words.
    #[inline]
    pub fn take_from_word(&mut self, word: usize, frames: u64) {
        let word = word % BLOCK_WORDS;
        let left = self.map[word] & !frames;
        self.map[word] = left;
        self.presence = self.presence & !(EVERY_WORD << word) | presence::spread(runs::orders(left), word);
    }

    /// The same of all frames of a full word.
    #[inline]
    pub fn take_full_word(&mut self, word: usize) {
        // A full word has no runs of orders below 6, and an empty one none at all.
        self.map[word % BLOCK_WORDS] = 0;
        self.presence &= !(EVERY_WORD << (word % BLOCK_WORDS));
    }

    /// So many frames have been taken word by word.
    #[inline]
    pub fn settle_taken(&mut self, frames: u32) -> TopChange {
        self.free = self.free.wrapping_sub(frames as u16);
        self.refresh_top()
    }

    /// Gives a block of `order < 6` back beside a buddy that is not free, so that nothing merges. `None`, with nothing
    /// changed, if it is.
    #[inline]
    pub fn give_alone(&mut self, place: u32, order: u32) -> Option<TopChange> {
        let (word, at) = ((place >> WORD_ORDER) as usize % BLOCK_WORDS, place % WORD_FRAMES);
        let old = self.map[word];
        if !old >> (at ^ 1 << order) & runs::ones(order) == 0 {
            return None;
        }
        self.map[word] = old | runs::ones(order) << at;
        self.presence |= presence::present(order, word);
        self.free = self.free.wrapping_add(1 << order);
        Some(self.raise(order))
    }

    /// Gives a block of `order < 9` back, without a free frame.
    #[inline]
    pub fn give(&mut self, place: u32, order: u32) -> Given {
        if order >= WORD_ORDER { self.give_words(place, order) } else { self.give_bits(place, order) }
    }

    #[inline]
    fn give_bits(&mut self, place: u32, order: u32) -> Given {
        let (word, mut at) = ((place >> WORD_ORDER) as usize % BLOCK_WORDS, place % WORD_FRAMES);
        let new = self.map[word] | runs::ones(order) << at;
        self.map[word] = new;
        self.free = self.free.wrapping_add(1 << order);
        let mut runs = runs::runs(new, order);
        let mut merged = order;
        while merged < WORD_ORDER {
            let above = runs::coarser(runs, merged);
            at &= !(1 << merged);
            if above >> at & 1 == 0 {
                break;
            }
            if runs & !(above | above << (1u32 << merged)) == 0 {
                self.presence &= !presence::present(merged, word);
            }
            runs = above;
            merged += 1;
        }
        if merged == WORD_ORDER {
            return self.merge_words(word as u32, WORD_ORDER);
        }
        self.presence |= presence::present(merged, word);
        Given { to: merged, top: self.raise(merged) }
    }

    fn give_words(&mut self, place: u32, order: u32) -> Given {
        let word = (place >> WORD_ORDER) % BLOCK_WORDS as u32;
        for at in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            self.map[at % BLOCK_WORDS] = u64::MAX;
        }
        self.free = self.free.wrapping_add(1 << order);
        self.merge_words(word, order)
    }

    /// Gives a word back, without a free frame: [`give`](Self::give) of 64 frames.
    #[inline]
    pub fn give_full_word(&mut self, word: usize) -> Given {
        self.map[word % BLOCK_WORDS] = u64::MAX;
        self.free = self.free.wrapping_add(WORD_FRAMES as u16);
        self.merge_words((word % BLOCK_WORDS) as u32, WORD_ORDER)
    }

    /// Merges full words from `word` on, which make a block of `order`, with the full words beside them.
    #[inline]
    fn merge_words(&mut self, word: u32, order: u32) -> Given {
        let full = self.full_words();
        let (mut word, mut merged) = (word, order);
        for at in word as usize..word as usize + (1 << (order - WORD_ORDER)) {
            self.presence |= presence::present(WORD_ORDER, at % BLOCK_WORDS);
        }
        while merged < u32::from(Self::WHOLE) {
            let words = 1 << (merged - WORD_ORDER);
            let half = ((1u32 << words) - 1) << (word ^ words);
            if full & half != half {
                break;
            }
            word &= !words;
            merged += 1;
        }
        if merged == u32::from(Self::WHOLE) {
            return Given { to: merged, top: TopChange::of(self.top, self.top) };
        }
        Given { to: merged, top: self.raise(merged) }
    }

    /// Gives frames of one word back, for which `frames` has a bit each and none of which is free.
    #[inline]
    pub fn give_to_word(&mut self, word: usize, frames: u64) -> WordGiven {
        let word = word % BLOCK_WORDS;
        let before = self.map[word];
        let after = before | frames;
        self.map[word] = after;
        self.free = self.free.wrapping_add(frames.count_ones() as u16);
        self.presence &= !(EVERY_WORD << word);
        let given = if after == u64::MAX {
            self.merge_words(word as u32, WORD_ORDER)
        } else {
            let orders = runs::orders(after);
            self.presence |= presence::spread(orders, word);
            let to = 7 - orders.leading_zeros();
            Given { to, top: self.raise(to) }
        };
        WordGiven { before, after, given }
    }

    /// Counts frames with bits that have been [set](super::Visited::set), of which the presence does not know.
    #[inline]
    pub fn count_loose(&mut self, frames: u16) {
        // One addition for both numbers, neither of which is ever above 512.
        // SAFETY: the two are neighbours (below), aligned for a word, and any value of either is one.
        unsafe {
            let both = (&raw mut *self).byte_add(offset_of!(Self, free)).cast::<u32>();
            *both = (*both).wrapping_add(u32::from(frames) * 0x1_0001);
        }
    }

    /// Of the aligned 16, 32 and 64 frames around a frame, counted from anywhere that is a multiple of 512: how many of
    /// the three are all free.
    #[must_use]
    #[inline]
    pub fn free_around(&self, index: u32) -> u8 {
        let byte = (index / 8) as usize % (8 * BLOCK_WORDS);
        let map = (&raw const self.map).cast::<u8>();
        // SAFETY: as many aligned bytes around one of the map are the map's, which is of 64 and aligned for them; any
        // value is one. In which direction they count does not matter to neighbours.
        unsafe {
            let byte = if cfg!(target_endian = "little") { byte } else { byte ^ 7 };
            u8::from(*map.add(byte & !1).cast::<u16>() == u16::MAX)
                + u8::from(*map.add(byte & !3).cast::<u32>() == u32::MAX)
                + u8::from(*map.add(byte & !7).cast::<u64>() == u64::MAX)
        }
    }

    /// Loose frames have filled this word.
    #[inline]
    pub fn fill_loose_word(&mut self, word: u32) {
        self.presence |= presence::present(WORD_ORDER, word as usize % BLOCK_WORDS);
    }

    /// All frames are free: it serves as a whole from now on. Says how the largest order of its parts changed.
    pub fn become_whole(&mut self) -> TopChange {
        self.presence = ALL_FULL;
        self.loose = 0;
        let old = core::mem::replace(&mut self.top, Self::WHOLE);
        TopChange::of(old, Self::NO_TOP)
    }

    /// It is wholly free, and is to be used in parts from now on; the caller takes one before it lets go of the lock.
    pub const fn open_whole(&mut self) {
        self.top = Self::NO_TOP;
    }

    /// Sets all frames free, none of which was, or takes all, which were.
    pub const fn fill(&mut self, fill: Fill) {
        let (word, presence, frames, top) = match fill {
            Fill::Free => (u64::MAX, ALL_FULL, PAGEBLOCK_FRAMES as u16, Self::WHOLE),
            Fill::Taken => (0, 0, 0, Self::NO_TOP),
        };
        self.map = [word; BLOCK_WORDS];
        self.presence = presence;
        self.free = frames;
        self.top = top;
    }

    /// Changes any frames: those of `map` are free afterwards, and all that is derived is computed anew.
    pub fn replace_map(&mut self, map: &[u64; BLOCK_WORDS]) {
        self.map = *map;
        let found = self.recomputed();
        self.presence = found.presence;
        self.free = found.free;
        self.loose = 0;
        self.top = found.top;
    }
}

/// State that [`Pageblock::fill`] gives to all frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// They are free.
    Free,
    /// They are not.
    Taken,
}
