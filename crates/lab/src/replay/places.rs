//! Where what is held lies in our machine, and whose it is: the owner of all pages, as compaction sees it.

use std::cell::RefCell;

use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{Order, Pfn};

use super::plan::{Block, NONE, Op};

/// In `holders`: the rest is the first place of a frame. Frames from 8 TiB on cannot be told apart and do not move.
const ORIGIN: u32 = 1 << 31;

/// Places of blocks and of the frames held since the start.
#[derive(Debug)]
pub(crate) struct Places {
    /// For each frame who was placed there last: 0 for frames held since the start that never moved; the number of a block
    /// plus 1; with [`ORIGIN`], the first place of a frame held since the start. Believed only where the holder agrees.
    holders: Vec<u32>,
    /// For each frame held since the start its present place, [`NONE`] if that is the first one.
    places: Vec<u32>,
    any_moved: bool,
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
    pub(crate) fn new(frames: u64) -> Self {
        Self { holders: vec![0; frames as usize], places: vec![NONE; frames as usize], any_moved: false }
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

    /// Notes where executed requests were placed.
    pub(crate) fn learn(&mut self, ops: &[Op], blocks: &[Block]) {
        for op in ops {
            if let &Op::Alloc { block, .. } = op {
                let place = Pfn::new(u64::from(blocks[block as usize].ours));
                self.placed(place, block);
            }
        }
    }

    /// A block has been placed there.
    pub(crate) fn placed(&mut self, pfn: Pfn, block: u32) {
        if let Some(holder) = self.holders.get_mut(pfn.as_u64() as usize) {
            *holder = block + 1;
        }
    }

    /// The owner of all that is held.
    pub(crate) const fn owner<'a>(&'a mut self, blocks: &'a mut [Block]) -> Owner<'a> {
        Owner { state: RefCell::new((self, blocks)) }
    }

    fn holder(&self, pfn: Pfn, order: Order, blocks: &[Block]) -> Option<Holder> {
        let pfn = pfn.as_u64() as u32;
        let holder = self.holders.get(pfn as usize).copied()?;
        if holder == 0 || holder & ORIGIN != 0 {
            let origin = if holder == 0 { pfn } else { holder & !ORIGIN };
            let here = order == Order::ZERO && pfn < ORIGIN && self.place(origin).as_u64() == u64::from(pfn);
            return here.then_some(Holder::Start(origin));
        }
        let number = holder - 1;
        // A block that was freed in part is not in one place any more.
        let block = blocks.get(number as usize)?;
        (block.ours == pfn && block.order == order).then_some(Holder::Block(number))
    }

    fn relocate(&mut self, holder: Holder, place: Pfn, blocks: &mut [Block]) {
        let place = place.as_u64() as u32;
        match holder {
            Holder::Block(number) => {
                blocks[number as usize].ours = place;
                self.holders[place as usize] = number + 1;
            }
            Holder::Start(origin) => {
                self.any_moved = true;
                self.places[origin as usize] = place;
                self.holders[place as usize] = ORIGIN | origin;
            }
        }
    }
}

/// Lends and moves every page of which it is known whose it is. Nothing else runs meanwhile, so that no page is ever busy.
#[derive(Debug)]
pub(crate) struct Owner<'a> {
    state: RefCell<(&'a mut Places, &'a mut [Block])>,
}

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: the table says which block begins at a frame, and it is changed in the call that answers `Ok`; nothing is behind the frames.
unsafe impl Migrate for Owner<'_> {
    fn isolate(&self, pfn: Pfn, order: Order, _mode: MigrateMode) -> Result<(), Refusal> {
        let (places, blocks) = &*self.state.borrow();
        places.holder(pfn, order, blocks).map(drop).ok_or(Refusal::Unknown)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, _mode: MigrateMode) -> Result<(), MoveError> {
        let (places, blocks) = &mut *self.state.borrow_mut();
        let holder = places.holder(from, order, blocks).ok_or(MoveError::Failed)?;
        places.relocate(holder, to, blocks);
        Ok(())
    }

    fn put_back(&self, _pfn: Pfn, _order: Order) -> PutBack {
        PutBack::Kept
    }
}
