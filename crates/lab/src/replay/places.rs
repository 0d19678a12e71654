//! Places of held blocks in one of our machines, and their holders.

use pageblock_frame::{Order, PAGEBLOCK_FRAMES, Pfn};

use super::plan::NONE;

/// In `holders`: the rest is the first place of a frame. Frames from 8 TiB on cannot be told apart and do not move.
const ORIGIN: u32 = 1 << 31;

/// Places of blocks and of the frames held since the start.
#[derive(Debug)]
pub(crate) struct Places {
    /// For each frame the last block placed there: 0 for frames held since the start that never moved; the number of a
    /// block plus 1; with [`ORIGIN`], the first place of a frame held since the start. Believed only where the holder
    /// agrees.
    holders: Vec<u32>,
    /// For each frame held since the start its present place, [`NONE`] if that is the first one.
    places: Vec<u32>,
    /// For each block of the trace where it is.
    blocks: Vec<Placed>,
    any_moved: bool,
    /// Free frames.
    pub(crate) occupancy: Occupancy,
}

/// A block of the trace in our machine.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// First frame, or [`NONE`].
    first: u32,
    order: Order,
}

#[derive(Clone, Copy, Debug)]
enum Holder {
    /// A block of the trace.
    Block(u32),
    /// Held since the start, by its first place.
    Start(u32),
}

impl Places {
    /// All frames below `frames` that are held are held since the start.
    pub(crate) fn new(frames: u64, occupancy: Occupancy) -> Self {
        let frames = frames as usize;
        let (holders, places) = (vec![0; frames], vec![NONE; frames]);
        Self { holders, places, blocks: Vec::new(), any_moved: false, occupancy }
    }

    /// True if frames held since the start may be elsewhere.
    #[inline]
    pub(crate) const fn any_moved(&self) -> bool {
        self.any_moved
    }

    /// Where a frame held since the start is now.
    pub(crate) fn place(&self, pfn: u32) -> Pfn {
        let place = self.places.get(pfn as usize).copied().filter(|&place| place != NONE);
        Pfn::new(u64::from(place.unwrap_or(pfn)))
    }

    /// It is not held any more.
    pub(crate) fn forget(&mut self, pfn: u32) {
        self.places[pfn as usize] = NONE;
    }

    /// Frames held since the start that are not in their first place, by that.
    pub(crate) fn moved_start(&self) -> Vec<u32> {
        (0..self.places.len() as u32).filter(|&pfn| self.places[pfn as usize] != NONE).collect()
    }

    /// A block has been placed there.
    #[inline]
    pub(crate) fn placed(&mut self, block: u32, order: Order, pfn: Pfn) {
        self.note(block, Placed { first: pfn.as_u64() as u32, order });
        if let Some(holder) = self.holders.get_mut(pfn.as_u64() as usize) {
            *holder = block + 1;
        }
        self.occupancy.take(pfn.as_u64(), order.frames());
    }

    /// A block has no place: the request was refused.
    pub(crate) fn refused(&mut self, block: u32) {
        self.note(block, Placed { first: NONE, order: Order::ZERO });
    }

    fn note(&mut self, block: u32, placed: Placed) {
        let block = block as usize;
        if block >= self.blocks.len() {
            self.blocks.resize(block + 1, Placed { first: NONE, order: Order::ZERO });
        }
        self.blocks[block] = placed;
    }

    /// Where a block is; [`NONE`] if it has no place.
    #[inline]
    pub(crate) fn of_block(&self, block: u32) -> u32 {
        self.blocks.get(block as usize).map_or(NONE, |placed| placed.first)
    }

    /// A block is freed as a whole: where it was.
    #[inline]
    pub(crate) fn take_block(&mut self, block: u32) -> u32 {
        self.blocks.get_mut(block as usize).map_or(NONE, |placed| std::mem::replace(&mut placed.first, NONE))
    }

    /// True if a known block begins at this frame.
    pub(crate) fn is_known(&self, pfn: Pfn, order: Order) -> bool {
        self.holder(pfn, order).is_some()
    }

    fn holder(&self, pfn: Pfn, order: Order) -> Option<Holder> {
        let pfn = pfn.as_u64() as u32;
        let holder = self.holders.get(pfn as usize).copied()?;
        if holder == 0 || holder & ORIGIN != 0 {
            let origin = if holder == 0 { pfn } else { holder & !ORIGIN };
            let here = order == Order::ZERO && pfn < ORIGIN && self.place(origin).as_u64() == u64::from(pfn);
            return here.then_some(Holder::Start(origin));
        }
        let number = holder - 1;
        // A block that was freed in part is not in one place any more.
        let block = self.blocks.get(number as usize)?;
        (block.first == pfn && block.order == order).then_some(Holder::Block(number))
    }

    /// Compaction moves a page; false if its holder is unknown.
    pub(crate) fn relocate(&mut self, from: Pfn, to: Pfn, order: Order) -> bool {
        let Some(holder) = self.holder(from, order) else { return false };
        let place = to.as_u64() as u32;
        match holder {
            Holder::Block(number) => {
                self.blocks[number as usize].first = place;
                self.holders[place as usize] = number + 1;
            }
            Holder::Start(origin) => {
                self.any_moved = true;
                self.places[origin as usize] = place;
                self.holders[place as usize] = ORIGIN | origin;
            }
        }
        self.occupancy.give(from.as_u64(), order.frames());
        self.occupancy.take(to.as_u64(), order.frames());
        true
    }
}

/// Frames not held, by pageblock: free in the zone or on a list. The recorded machine's free frames are counted in the
/// same way.
#[derive(Clone, Debug, Default)]
pub(crate) struct Occupancy {
    free_in_block: Vec<u16>,
    free: u64,
    whole: u64,
}

impl Occupancy {
    /// Of so many frames, none of them free.
    pub(crate) fn new(frames: u64) -> Self {
        Self { free_in_block: vec![0; frames.div_ceil(PAGEBLOCK_FRAMES) as usize], free: 0, whole: 0 }
    }

    /// Free frames.
    pub(crate) const fn free(&self) -> u64 {
        self.free
    }

    /// Pageblocks with every frame free.
    pub(crate) const fn whole(&self) -> u64 {
        self.whole
    }

    /// Free frames of the pageblock with this number.
    pub(crate) fn free_in(&self, block: u64) -> u64 {
        self.free_in_block.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Frames become free.
    #[inline]
    pub(crate) fn give(&mut self, first: u64, frames: u64) {
        self.each_part(first, frames, |all, block, part| {
            all.free_in_block[block] += part;
            all.whole += u64::from(u64::from(all.free_in_block[block]) == PAGEBLOCK_FRAMES);
        });
        self.free += frames;
    }

    /// Free frames are held.
    #[inline]
    pub(crate) fn take(&mut self, first: u64, frames: u64) {
        self.each_part(first, frames, |all, block, part| {
            all.whole -= u64::from(u64::from(all.free_in_block[block]) == PAGEBLOCK_FRAMES);
            all.free_in_block[block] -= part;
        });
        self.free -= frames;
    }

    #[inline]
    fn each_part(&mut self, first: u64, frames: u64, mut each: impl FnMut(&mut Self, usize, u16)) {
        let (mut at, end) = (first, first + frames);
        while at < end {
            let stop = ((at / PAGEBLOCK_FRAMES + 1) * PAGEBLOCK_FRAMES).min(end);
            each(self, (at / PAGEBLOCK_FRAMES) as usize, (stop - at) as u16);
            at = stop;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_pageblocks_are_those_with_every_frame_free() {
        let mut free = Occupancy::new(3 * PAGEBLOCK_FRAMES);
        free.give(100, 2 * PAGEBLOCK_FRAMES);
        assert_eq!((free.whole(), free.free(), free.free_in(0), free.free_in(2)), (1, 1024, 412, 100));
        free.give(0, 100);
        assert_eq!(free.whole(), 2);
        free.take(511, 2);
        assert_eq!((free.whole(), free.free_in(0), free.free_in(1)), (0, 511, 511));
    }

    #[test]
    fn a_page_is_found_where_it_was_moved_to() {
        let mut occupancy = Occupancy::new(PAGEBLOCK_FRAMES);
        occupancy.give(8, 100);
        let mut places = Places::new(PAGEBLOCK_FRAMES, occupancy);
        let order = Order::saturating(1);
        places.placed(5, order, Pfn::new(10));
        assert!(places.is_known(Pfn::new(10), order) && !places.is_known(Pfn::new(10), Order::ZERO));
        assert!(places.relocate(Pfn::new(10), Pfn::new(20), order));
        assert!(!places.relocate(Pfn::new(10), Pfn::new(30), order));
        assert_eq!((places.take_block(5), places.of_block(5), places.occupancy.free()), (20, NONE, 98));
        // Frames held since the start move one by one.
        assert!(places.relocate(Pfn::new(3), Pfn::new(40), Order::ZERO) && places.any_moved());
        assert_eq!((places.place(3), places.moved_start()), (Pfn::new(40), vec![3]));
    }
}
