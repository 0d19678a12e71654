//! The owner map: which block each frame belongs to, and whether compaction has borrowed it. Every change is made in
//! one go, between two points of the schedule.

use std::cell::RefCell;

use pageblock::{
    Interrupt, Migrate, MigrateMode, MoveError, Order, Pfn, PfnRange, PutBack, Reclaim, Refusal, Shrink, Shrunk,
};
use pageblock_testkit::schedule::{point, random};

/// What a frame belongs to that no block has.
const NOBODY: u32 = u32::MAX;
/// What a frame belongs to that is not the allocator's yet.
const NO_MEMORY: u32 = u32::MAX - 1;

/// What a block is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    Kernel,
    Movable,
    /// Movable, and given up by reclaim.
    Cache,
}

/// A block that was allocated and has not been freed.
#[derive(Clone, Copy, Debug)]
struct Block {
    pfn: Pfn,
    order: Order,
    used: Use,
    /// Compaction has it: it may be given up, and is freed by compaction then.
    lent: bool,
    given_up: bool,
}

/// A block to be freed: it is in the map no longer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Taken {
    pub(crate) pfn: Pfn,
    pub(crate) order: Order,
}

#[derive(Default)]
pub(crate) struct World {
    owner: Vec<u32>,
    /// Blocks, where none was removed.
    blocks: Vec<Block>,
    pub(crate) held: u64,
    pub(crate) moved: u64,
    pub(crate) reclaimed: u64,
    pub(crate) bad_frees: u64,
}

/// Frees a block.
type WayBack = Box<dyn Fn(Taken)>;

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
    static FREE: RefCell<Option<WayBack>> = const { RefCell::new(None) };
}

/// Looks at the map, or changes it.
pub(crate) fn world<R>(action: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with_borrow_mut(action)
}

/// A map without memory, and the way back to the allocator for reclaim.
pub(crate) fn begin(frames: usize, free: impl Fn(Taken) + 'static) {
    WORLD.set(World { owner: vec![NO_MEMORY; frames], ..World::default() });
    FREE.set(Some(Box::new(free)));
}

/// Forgets the allocator.
pub(crate) fn end() {
    FREE.set(None);
}

impl World {
    /// Frames that are the allocator's from now on.
    pub(crate) fn manage(&mut self, frames: std::ops::Range<usize>) {
        self.owner[frames].iter_mut().for_each(|owner| {
            assert_eq!(*owner, NO_MEMORY, "added twice");
            *owner = NOBODY;
        });
    }

    /// Notes a block that the allocator has handed out.
    pub(crate) fn take(&mut self, pfn: Pfn, order: Order, used: Use) {
        self.held += order.frames();
        self.put(Block { pfn, order, used, lent: false, given_up: false });
    }

    /// Notes frames in the hands of a task, which alone gives them back.
    pub(crate) fn take_in_hand(&mut self, range: PfnRange) {
        for pfn in range.start.as_u64()..range.end.as_u64() {
            self.held += 1;
            let (pfn, order) = (Pfn::new(pfn), Order::ZERO);
            self.put(Block { pfn, order, used: Use::Kernel, lent: true, given_up: false });
        }
    }

    /// Forgets such frames.
    pub(crate) fn drop_from_hand(&mut self, range: PfnRange) {
        for pfn in range.start.as_u64()..range.end.as_u64() {
            let at = self.at(Pfn::new(pfn), Order::ZERO).expect("a frame in hand stays");
            self.remove(at);
            self.held -= 1;
        }
    }

    fn put(&mut self, block: Block) {
        let first = block.pfn.as_u64() as usize;
        assert_eq!(first as u64 % block.order.frames(), 0, "{block:?} is not aligned");
        for frame in first..first + block.order.frames() as usize {
            let owner = core::mem::replace(&mut self.owner[frame], self.blocks.len() as u32);
            assert_ne!(owner, NO_MEMORY, "{block:?} is not memory of the allocator");
            let other = self.blocks.get(owner as usize);
            assert!(owner == NOBODY, "frame {frame} of {block:?} was handed out twice; the other is {other:?}");
        }
        self.blocks.push(block);
    }

    fn remove(&mut self, at: usize) -> Block {
        let block = self.blocks.swap_remove(at);
        let span = |block: Block| block.pfn.as_u64() as usize..(block.pfn.as_u64() + block.order.frames()) as usize;
        self.owner[span(block)].fill(NOBODY);
        if let Some(&other) = self.blocks.get(at) {
            self.owner[span(other)].fill(at as u32);
        }
        block
    }

    /// Gives a block up. None if there is none, or compaction has it and will free it.
    pub(crate) fn give_up(&mut self, at: usize) -> Option<Taken> {
        let at = at % self.blocks.len().max(1);
        let block = self.blocks.get_mut(at)?;
        if block.lent {
            block.given_up = true;
            return None;
        }
        let Block { pfn, order, .. } = self.remove(at);
        self.held -= order.frames();
        Some(Taken { pfn, order })
    }

    /// Borrows a block's memory: nothing moves it or frees it until it is taken again.
    pub(crate) fn lend_out(&mut self, at: usize) -> Option<(Taken, Use)> {
        let at = at % self.blocks.len().max(1);
        let block = *self.blocks.get(at).filter(|block| !block.lent)?;
        self.give_up(at).map(|taken| (taken, block.used))
    }

    pub(crate) fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// The next block from there on that reclaim may give up.
    fn cached(&self, from: usize) -> Option<usize> {
        let blocks = self.blocks.len();
        (0..blocks).map(|i| (from + i) % blocks).find(|&at| self.blocks[at].used == Use::Cache && !self.blocks[at].lent)
    }

    /// Every block that is held.
    pub(crate) fn each(&self) -> impl Iterator<Item = Taken> + '_ {
        self.blocks.iter().map(|block| Taken { pfn: block.pfn, order: block.order })
    }

    fn at(&self, pfn: Pfn, order: Order) -> Option<usize> {
        let at = *self.owner.get(pfn.as_u64() as usize)? as usize;
        self.blocks.get(at).filter(|block| block.pfn == pfn && block.order == order).map(|_| at)
    }

    fn end_loan(&mut self, at: usize) -> PutBack {
        let block = &mut self.blocks[at];
        assert!(block.lent, "{block:?} was not lent");
        block.lent = false;
        if !block.given_up {
            return PutBack::Kept;
        }
        let block = self.remove(at);
        self.held -= block.order.frames();
        PutBack::Released
    }
}

/// The owner of all movable blocks, which keeps its word, and refuses at times.
#[derive(Debug)]
pub(crate) struct Owner;

/// Others go on, and the owner may use the allocator, in the middle of its calls.
fn in_the_middle() {
    point();
    if random(40) == 0
        && let Some(taken) = world(|world| world.give_up(random(1 << 20)))
    {
        free(taken);
    }
}

fn free(taken: Taken) {
    FREE.with_borrow(|free| free.as_ref().expect("a run is under way")(taken));
}

// SAFETY: a block is freed by compaction only after it is out of the map; nothing is behind the frames.
unsafe impl Migrate for Owner {
    fn isolate(&self, pfn: Pfn, order: Order, _: MigrateMode) -> Result<(), Refusal> {
        in_the_middle();
        if random(16) == 0 {
            return Err(Refusal::Busy);
        }
        world(|world| {
            let at = world.at(pfn, order).ok_or(Refusal::Unknown)?;
            let block = &mut world.blocks[at];
            match block.used {
                Use::Kernel => Err(Refusal::Pinned),
                _ if block.lent => Err(Refusal::Busy),
                _ => {
                    block.lent = true;
                    Ok(())
                }
            }
        })
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, _: MigrateMode) -> Result<(), MoveError> {
        in_the_middle();
        match random(24) {
            0 => return Err(MoveError::Failed),
            1 => return Err(MoveError::Again),
            _ => {}
        }
        world(|world| {
            let at = world.at(from, order).expect("what was lent stays");
            let block = world.blocks[at];
            assert!(block.lent, "{block:?} was not lent");
            world.remove(at);
            if block.given_up {
                world.held -= order.frames();
                return Err(MoveError::Released);
            }
            world.put(Block { pfn: to, lent: false, ..block });
            world.moved += 1;
            Ok(())
        })
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        in_the_middle();
        world(|world| world.at(pfn, order).map_or(PutBack::Kept, |at| world.end_loan(at)))
    }

    fn interrupt(&self) -> Interrupt {
        point();
        match random(64) {
            0 => Interrupt::Fatal,
            1 => Interrupt::Reschedule,
            _ => Interrupt::None,
        }
    }
}

impl Reclaim for Owner {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        let mut shrunk = Shrunk::default();
        while shrunk.scanned < round.frames.min(64) {
            point();
            shrunk.scanned += 1;
            let from = random(1 << 20);
            let Some(at) = world(|world| world.cached(from)) else { break };
            if let Some(taken) = world(|world| world.give_up(at)) {
                free(taken);
                shrunk.freed += taken.order.frames();
            }
        }
        world(|world| world.reclaimed += shrunk.freed);
        shrunk
    }

    fn reclaimable(&self, _: pageblock::NodeId, _: pageblock::ZoneKind) -> u64 {
        world(|world| world.blocks.iter().filter(|block| block.used == Use::Cache).count() as u64)
    }
}
