//! Recomputing everything that is kept beside the bits, and naming the first thing that does not agree.

use pageblock_frame::{BLOCK_WORDS, MigrateType, NO_BLOCK, Order, Pageblock, StateByte};

use crate::bits;
use crate::core::{BLOCK_SHIFT, COVERED, LISTS, ZoneCore, list_index};
use crate::edit::for_each_run;

/// The first thing in a zone that contradicts its free maps or state bytes. Block numbers count from the zone's base.
///
/// ```
/// use pageblock_buddy::Violation;
/// let found = Violation::FreeCount { block: 3, kept: 5, found: 6 };
/// assert_eq!(found.to_string(), "block 3: 5 frames counted free, 6 are");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// A pageblock's number of free frames.
    #[error("block {block}: {kept} frames counted free, {found} are")]
    FreeCount {
        /// The pageblock.
        block: u32,
        /// What is kept.
        kept: u16,
        /// What the bits say.
        found: u16,
    },
    /// A word's orders: one that is there is missing, or the highest is not there.
    #[error("block {block}, word {word}: orders {kept:#b} kept, {found:#b} found")]
    Presence {
        /// The pageblock.
        block: u32,
        /// The word in it.
        word: usize,
        /// What is kept.
        kept: u8,
        /// What the bits say.
        found: u8,
    },
    /// A pageblock is on the wrong list, or on none, or on one it should not be on.
    #[error("block {block}: on list {kept}, belongs on {wanted}")]
    List {
        /// The pageblock.
        block: u32,
        /// The list that it names.
        kept: u8,
        /// The list where it belongs.
        wanted: u8,
    },
    /// A list's links or its emptiness flag are wrong.
    #[error("list {list}: broken at block {block}")]
    Links {
        /// The list.
        list: usize,
        /// Where it breaks.
        block: u32,
    },
    /// The number of free blocks of an order.
    #[error("order {order}: {kept} free blocks counted, {found} found")]
    OrderCount {
        /// The order.
        order: u8,
        /// What is kept.
        kept: u64,
        /// What the bits say.
        found: u64,
    },
    /// A total of the zone.
    #[error("{what}: {kept} kept, {found} found")]
    Total {
        /// Which total.
        what: &'static str,
        /// What is kept.
        kept: u64,
        /// What was found.
        found: u64,
    },
    /// A frame is free in the map, and its state byte says otherwise, or it lies inside a held block.
    #[error("frame {index}: free and held ({state:#04x})")]
    FreeAndHeld {
        /// Zone-relative index.
        index: u32,
        /// Its state byte.
        state: u8,
    },
    /// A block's frames are neither free nor held, or more are than belong to the allocator.
    #[error("block {block}: {found} frames free or held, {managed} are managed")]
    Lost {
        /// The pageblock.
        block: u32,
        /// Free and held frames.
        found: u32,
        /// Frames that belong to the allocator.
        managed: u16,
    },
    /// Two free runs of pageblocks that should be one.
    #[error("block {block}: an unmerged run of order {order}")]
    Unmerged {
        /// First pageblock.
        block: u32,
        /// Order of the run.
        order: u32,
    },
}

impl ZoneCore<'_> {
    /// Recomputes every derived figure from the bits and the state bytes.
    ///
    /// # Errors
    /// The first disagreement.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        let mut orders = [0u64; Order::COUNT];
        let mut types = [0u64; MigrateType::COUNT];
        let (mut managed, mut isolated, mut reserve) = (0, 0, 0);
        let mut held_until = 0;
        for block in 0..self.blocks.len() as u32 {
            let b = &self.blocks[block as usize];
            self.check_words(block, b)?;
            held_until = self.check_frames(block, b, held_until)?;
            self.count_block(block, b, &mut orders)?;
            types[b.migrate_type.index()] += u64::from(b.free);
            managed += u64::from(b.managed);
            isolated += u64::from(b.migrate_type == MigrateType::Isolate);
            reserve += u64::from(b.migrate_type == MigrateType::HighAtomic) << BLOCK_SHIFT;
        }
        for (order, (&kept, &found)) in self.nr_free.iter().zip(&orders).enumerate() {
            if kept != found {
                return Err(Violation::OrderCount { order: order as u8, kept, found });
            }
        }
        let free: u64 = types.iter().sum::<u64>() - types[MigrateType::Isolate.index()];
        total("free frames", self.free, free)?;
        total("free CMA frames", self.free_cma, types[MigrateType::Cma.index()])?;
        total("managed frames", self.managed, managed)?;
        total("isolated pageblocks", self.isolated_blocks, isolated)?;
        total("high-order atomic reserve", self.highatomic, reserve)?;
        self.check_lists()
    }

    fn check_words(&self, block: u32, b: &Pageblock) -> Result<(), Violation> {
        let found: u16 = b.map.iter().map(|word| word.count_ones() as u16).sum();
        if found != b.free {
            return Err(Violation::FreeCount { block, kept: b.free, found });
        }
        for word in 0..BLOCK_WORDS {
            let (kept, found) = (b.presence[word], bits::presence(b.map[word]));
            if kept & found != found || kept.leading_zeros() != found.leading_zeros() {
                return Err(Violation::Presence { block, word, kept, found });
            }
        }
        Ok(())
    }

    /// Frames of the block against their state bytes. `held_until` is the end of a held block that began below.
    fn check_frames(&self, block: u32, b: &Pageblock, mut held_until: u32) -> Result<u32, Violation> {
        let first = block << BLOCK_SHIFT;
        let mut accounted = 0;
        for index in first..first + (1 << BLOCK_SHIFT) {
            let state = self.states.get(index);
            let free = b.map[(index >> 6) as usize % BLOCK_WORDS] >> (index % 64) & 1 == 1;
            let inside = index < held_until;
            if free && (state != StateByte::INSIDE || inside) || state.is_head() && inside {
                return Err(Violation::FreeAndHeld { index, state: state.raw() });
            }
            if state.is_head() {
                held_until = index + state.order().frames() as u32;
            }
            accounted += u32::from(free || index < held_until);
        }
        if accounted != u32::from(b.managed) {
            return Err(Violation::Lost { block, found: accounted, managed: b.managed });
        }
        Ok(held_until)
    }

    /// The block's part of the counts, and whether it is on the right list.
    fn count_block(&self, block: u32, b: &Pageblock, orders: &mut [u64; Order::COUNT]) -> Result<(), Violation> {
        let wrong = |wanted| Err(Violation::List { block, kept: b.linked, wanted });
        if b.is_wholly_free() {
            let Some((head, order)) = self.run_of(block) else { return wrong(COVERED) };
            let run = head..head + Self::run_blocks(order);
            if !run.contains(&block) {
                return wrong(COVERED);
            }
            if head != block {
                let same = self.blocks[head as usize].migrate_type == b.migrate_type;
                return if b.linked == COVERED && same { Ok(()) } else { wrong(COVERED) };
            }
            if !run.clone().all(|member| self.blocks.get(member as usize).is_some_and(Pageblock::is_wholly_free)) {
                return Err(Violation::Unmerged { block, order });
            }
            orders[order as usize % LISTS] += 1;
            let wanted = list_index(b.migrate_type, order) as u8;
            return if b.linked == wanted { Ok(()) } else { wrong(wanted) };
        }
        for_each_run(&b.map, |order, runs| orders[order as usize % LISTS] += u64::from(runs));
        let wanted = bits::top_order(u64::from_le_bytes(b.presence))
            .map_or(Pageblock::UNLINKED, |order| list_index(b.migrate_type, order) as u8);
        if b.linked == wanted { Ok(()) } else { wrong(wanted) }
    }

    fn check_lists(&self) -> Result<(), Violation> {
        let mut linked = 0;
        for (list, &head) in self.heads.iter().enumerate() {
            let flag = self.nonempty[list / LISTS] >> (list % LISTS) & 1 == 1;
            if flag != (head != NO_BLOCK) {
                return Err(Violation::Links { list, block: head });
            }
            let (mut block, mut prev) = (head, NO_BLOCK);
            while block != NO_BLOCK {
                let Some(b) = self.blocks.get(block as usize) else { return Err(Violation::Links { list, block }) };
                if b.prev != prev || b.linked as usize != list || linked > self.blocks.len() {
                    return Err(Violation::Links { list, block });
                }
                linked += 1;
                (prev, block) = (block, b.next);
            }
        }
        let claimed = self.blocks.iter().filter(|b| Self::linked_order(b).is_some()).count();
        total("listed pageblocks", linked as u64, claimed as u64)
    }
}

fn total(what: &'static str, kept: u64, found: u64) -> Result<(), Violation> {
    if kept == found { Ok(()) } else { Err(Violation::Total { what, kept, found }) }
}
