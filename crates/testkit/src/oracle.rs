//! Required truths of an allocator: a set of owned frames, and the blocks that own them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use bitvec::vec::BitVec;
use pageblock_frame::{Order, PAGEBLOCK_FRAMES, Pfn, PfnRange};

/// How many freed blocks the oracle remembers, for frees that come twice.
const REMEMBERED: usize = 64;

pageblock_frame::errors! {
    /// A difference between the allocator and the truth.
    ///
    /// ```
    /// use pageblock_frame::{Order, Pfn, PfnRange};
    /// use pageblock_testkit::{Breach, Oracle};
    /// let mut oracle = Oracle::new(PfnRange::new(Pfn::new(0), Pfn::new(16)));
    /// oracle.manage(PfnRange::new(Pfn::new(0), Pfn::new(16)));
    /// let order = Order::new(2).unwrap();
    /// oracle.take(Pfn::new(4), order).unwrap();
    /// assert_eq!(oracle.take(Pfn::new(7), Order::ZERO), Err(Breach::OwnedTwice { pfn: Pfn::new(7) }));
    /// assert_eq!(oracle.take(Pfn::new(9), order), Err(Breach::Unaligned { pfn: Pfn::new(9), order }));
    /// ```
    #[derive(Clone, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Breach {
        /// A frame was handed out that has an owner already.
        #[error("frame {pfn} was handed out twice")]
        OwnedTwice {
            /// The first such frame.
            pfn: Pfn,
        },
        /// A frame was handed out that is not the allocator's.
        #[error("frame {pfn} was handed out but is not managed")]
        NotManaged {
            /// The first such frame.
            pfn: Pfn,
        },
        /// A frame was handed out while its pageblock was withheld.
        #[error("frame {pfn} was handed out of an isolated pageblock")]
        Isolated {
            /// The first such frame.
            pfn: Pfn,
        },
        /// A block does not start at a multiple of its size.
        #[error("a block of order {order} at {pfn} is not aligned")]
        Unaligned {
            /// Where the block starts.
            pfn: Pfn,
            /// Its order.
            order: Order,
        },
        /// A free was answered otherwise than it should have been.
        #[error("free of {pfn}, order {order}: expected {expected:?}, got {got:?}")]
        Free {
            /// The frame.
            pfn: Pfn,
            /// The order that was claimed.
            order: Order,
            /// The oracle's answer.
            expected: Result<(), FreeFault>,
            /// The allocator's answer.
            got: Result<(), FreeFault>,
        },
        /// A free of a run of frames was answered otherwise than it should have been.
        #[error("free of the frames {range}: expected {expected:?}, got {got:?}")]
        FreeRun {
            /// The frames.
            range: PfnRange,
            /// The oracle's answer.
            expected: Result<(), FreeFault>,
            /// The allocator's answer.
            got: Result<(), FreeFault>,
        },
        /// A request was refused although a sufficient block is free.
        #[error("{what} was refused although there is a free block for it")]
        Refused {
            /// The request.
            what: String,
        },
        /// A request was granted that should have been refused.
        #[error("{what} was granted")]
        Granted {
            /// The request.
            what: String,
        },
        /// A figure is wrong.
        #[error("{what}: expected {expected}, found {found}")]
        Count {
            /// Which figure.
            what: &'static str,
            /// The right value.
            expected: String,
            /// The allocator's value.
            found: String,
        },
        /// The allocator's own checker found a fault.
        #[error("the allocator's check failed: {0}")]
        Check(String),
    }
}

/// Why a free is wrong, in the oracle's words.
///
/// ```
/// use pageblock_testkit::FreeFault;
/// assert_ne!(FreeFault::NotAllocated, FreeFault::OutOfRange);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum FreeFault {
    /// The frame is outside the allocator's span.
    OutOfRange,
    /// The frame, or the whole block that was claimed, is free already.
    NotAllocated,
    /// The frame was never the allocator's: a hole, or reserved.
    NotManaged,
    /// The frame is inside a live block.
    NotHead {
        /// Where that block starts.
        head: Pfn,
    },
    /// The block is live but has another order.
    OrderMismatch {
        /// The order that it has.
        allocated: Order,
    },
    /// The frame is in a block on a per-CPU list.
    OnList,
    /// Any other refusal.
    Other,
}

/// Holder of a live block.
///
/// ```
/// assert_ne!(pageblock_testkit::Holder::Caller, pageblock_testkit::Holder::List);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Holder {
    /// The caller that allocated it.
    Caller,
    /// A per-CPU list: it came from a bulk allocation and goes back with a bulk free.
    List,
}

/// A live block.
///
/// ```
/// use pageblock_frame::{Order, Pfn};
/// use pageblock_testkit::{Holder, Live};
/// let block = Live { pfn: Pfn::new(8), order: Order::new(3).unwrap(), holder: Holder::Caller };
/// assert_eq!(block.range().len(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Live {
    /// First frame.
    pub pfn: Pfn,
    /// Order.
    pub order: Order,
    /// Its holder.
    pub holder: Holder,
}

impl Live {
    /// The frames of the block.
    #[must_use]
    pub fn range(self) -> PfnRange {
        PfnRange::from_len(self.pfn, self.order.frames())
    }
}

/// The truth: which frames are managed, which are owned, and by which blocks.
///
/// ```
/// use pageblock_frame::{Order, Pfn, PfnRange};
/// use pageblock_testkit::{FreeFault, Oracle};
/// let mut oracle = Oracle::new(PfnRange::new(Pfn::new(0), Pfn::new(64)));
/// oracle.manage(PfnRange::new(Pfn::new(8), Pfn::new(64)));
/// oracle.take(Pfn::new(16), Order::new(1).unwrap()).unwrap();
/// assert_eq!(oracle.free_frames(), 54);
/// assert_eq!(oracle.expect_free(Pfn::new(17), Order::ZERO), Err(FreeFault::NotHead { head: Pfn::new(16) }));
/// assert_eq!(oracle.expect_free(Pfn::new(3), Order::ZERO), Err(FreeFault::NotManaged));
/// oracle.give_back(Pfn::new(16));
/// assert_eq!(oracle.expect_free(Pfn::new(16), Order::ZERO), Err(FreeFault::NotAllocated));
/// ```
#[derive(Clone, Debug)]
pub struct Oracle {
    span: PfnRange,
    managed: BitVec,
    owned: BitVec,
    live: Vec<Live>,
    /// From a block's first frame to its place in `live`.
    places: BTreeMap<Pfn, usize>,
    isolated: BTreeSet<u64>,
    freed: VecDeque<Live>,
}

impl Oracle {
    /// Nothing is managed yet; everything will happen inside `span`.
    #[must_use]
    pub fn new(span: PfnRange) -> Self {
        let frames = usize::try_from(span.len()).unwrap_or(usize::MAX);
        Self {
            span,
            managed: BitVec::repeat(false, frames),
            owned: BitVec::repeat(false, frames),
            live: Vec::new(),
            places: BTreeMap::new(),
            isolated: BTreeSet::new(),
            freed: VecDeque::new(),
        }
    }

    fn index(&self, pfn: Pfn) -> usize {
        (pfn.as_u64() - self.span.start.as_u64()) as usize
    }

    fn pageblock(pfn: Pfn) -> u64 {
        pfn.as_u64() / PAGEBLOCK_FRAMES
    }

    fn frames(range: PfnRange) -> impl Iterator<Item = Pfn> {
        (range.start.as_u64()..range.end.as_u64()).map(Pfn::new)
    }

    /// The span.
    #[must_use]
    pub fn span(&self) -> PfnRange {
        self.span
    }

    /// The allocator was given these frames, as far as they are in the span.
    pub fn manage(&mut self, range: PfnRange) {
        let range = range.intersect(self.span);
        let (start, end) = (self.index(range.start), self.index(range.start) + range.len() as usize);
        self.managed[start..end].fill(true);
    }

    /// The frame is the allocator's.
    #[must_use]
    pub fn is_managed(&self, pfn: Pfn) -> bool {
        self.span.contains(pfn) && self.managed[self.index(pfn)]
    }

    /// The frame is managed and has no owner.
    #[must_use]
    pub fn is_free(&self, pfn: Pfn) -> bool {
        self.is_managed(pfn) && !self.owned[self.index(pfn)]
    }

    /// The frame's pageblock is withheld.
    #[must_use]
    pub fn is_isolated(&self, pfn: Pfn) -> bool {
        self.isolated.contains(&Self::pageblock(pfn))
    }

    /// The allocator handed out a block.
    ///
    /// # Errors
    /// [`Breach`] if it must not have.
    pub fn take(&mut self, pfn: Pfn, order: Order) -> Result<(), Breach> {
        self.take_for(Holder::Caller, pfn, order)
    }

    /// The allocator handed out a block to a holder.
    ///
    /// # Errors
    /// [`Breach`] if it must not have.
    pub fn take_for(&mut self, holder: Holder, pfn: Pfn, order: Order) -> Result<(), Breach> {
        let range = PfnRange::from_len(pfn, order.frames());
        if let Some(pfn) = Self::frames(range).find(|&pfn| self.is_isolated(pfn)) {
            return Err(Breach::Isolated { pfn });
        }
        self.insert_block(Live { pfn, order, holder })
    }

    /// The allocator handed out the block that was asked for by its place, which may be withheld from all other
    /// requests.
    ///
    /// # Errors
    /// [`Breach`] if it must not have.
    pub fn take_at(&mut self, pfn: Pfn, order: Order) -> Result<(), Breach> {
        self.insert_block(Live { pfn, order, holder: Holder::Caller })
    }

    fn insert_block(&mut self, block: Live) -> Result<(), Breach> {
        if !block.pfn.is_aligned(block.order) {
            return Err(Breach::Unaligned { pfn: block.pfn, order: block.order });
        }
        self.own(block.range())?;
        self.insert(block);
        Ok(())
    }

    /// The allocator handed out a run of frames, as the largest aligned blocks that it makes.
    ///
    /// # Errors
    /// [`Breach`] if it must not have.
    pub fn take_run(&mut self, range: PfnRange) -> Result<(), Breach> {
        if let Some(pfn) = Self::frames(range).find(|&pfn| self.is_isolated(pfn)) {
            return Err(Breach::Isolated { pfn });
        }
        self.own(range)?;
        self.insert_run(range);
        Ok(())
    }

    /// The largest aligned blocks of a run, from its start on.
    fn insert_run(&mut self, range: PfnRange) {
        let mut pfn = range.start;
        while pfn < range.end {
            let fits = |order: &Order| pfn.is_aligned(*order) && pfn.add(order.frames()) <= range.end;
            let order = Order::LIMIT.up_to().rev().find(fits).unwrap_or(Order::ZERO);
            self.insert(Live { pfn, order, holder: Holder::Caller });
            pfn = pfn.add(order.frames());
        }
    }

    fn own(&mut self, range: PfnRange) -> Result<(), Breach> {
        for pfn in Self::frames(range) {
            if !self.is_managed(pfn) {
                return Err(Breach::NotManaged { pfn });
            }
            if self.owned[self.index(pfn)] {
                return Err(Breach::OwnedTwice { pfn });
            }
        }
        for pfn in Self::frames(range) {
            let index = self.index(pfn);
            self.owned.set(index, true);
        }
        Ok(())
    }

    fn insert(&mut self, block: Live) {
        self.places.insert(block.pfn, self.live.len());
        self.live.push(block);
    }

    fn remove(&mut self, head: Pfn) -> Option<Live> {
        let place = self.places.remove(&head)?;
        let block = self.live.swap_remove(place);
        if let Some(moved) = self.live.get(place) {
            self.places.insert(moved.pfn, place);
        }
        Some(block)
    }

    /// The live block at `head` came back. `None` if there is no such block.
    pub fn give_back(&mut self, head: Pfn) -> Option<Live> {
        let block = self.remove(head)?;
        for pfn in Self::frames(block.range()) {
            let index = self.index(pfn);
            self.owned.set(index, false);
        }
        if self.freed.len() == REMEMBERED {
            self.freed.pop_front();
        }
        self.freed.push_back(block);
        Some(block)
    }

    /// The live block at `head` became blocks of `order`, which is not larger. `None` if there is no such block.
    pub fn split(&mut self, head: Pfn, order: Order) -> Option<()> {
        let block = self.remove(head)?;
        let pieces = block.order.frames() / order.frames();
        (0..pieces).for_each(|i| self.insert(Live { pfn: block.pfn.add(i * order.frames()), order, ..block }));
        Some(())
    }

    /// A run of held frames came back; the rests of the blocks at its ends stay, as the largest aligned blocks.
    pub fn give_back_run(&mut self, range: PfnRange) {
        for pfn in Self::frames(range) {
            let Some(block) = self.block_of(pfn) else { continue };
            let Some(block) = self.remove(block.pfn) else { continue };
            let freed = block.range().intersect(range);
            for pfn in Self::frames(freed) {
                let index = self.index(pfn);
                self.owned.set(index, false);
            }
            self.insert_run(PfnRange::new(block.pfn, freed.start));
            self.insert_run(PfnRange::new(freed.end, block.range().end));
        }
    }

    /// Required answer to a free.
    ///
    /// # Errors
    /// The fault, if the free is wrong.
    pub fn expect_free(&self, pfn: Pfn, order: Order) -> Result<(), FreeFault> {
        if !self.span.contains(pfn) {
            return Err(FreeFault::OutOfRange);
        }
        if !self.is_managed(pfn) {
            return Err(FreeFault::NotManaged);
        }
        match self.block_of(pfn) {
            None => Err(FreeFault::NotAllocated),
            Some(block) if block.holder == Holder::List => Err(FreeFault::OnList),
            Some(block) if block.pfn != pfn => Err(FreeFault::NotHead { head: block.pfn }),
            Some(block) if block.order != order => Err(FreeFault::OrderMismatch { allocated: block.order }),
            Some(_) => Ok(()),
        }
    }

    /// Required answer to the free of a run: the fault of the first frame that no caller holds.
    ///
    /// # Errors
    /// The fault, if the free is wrong.
    pub fn expect_free_run(&self, range: PfnRange) -> Result<(), FreeFault> {
        if range.intersect(self.span) != range {
            return Err(FreeFault::OutOfRange);
        }
        Self::frames(range).try_for_each(|pfn| match self.block_of(pfn) {
            Some(block) if block.holder == Holder::Caller => Ok(()),
            _ => self.expect_free(pfn, Order::ZERO),
        })
    }

    /// The live block that the frame is in.
    #[must_use]
    pub fn block_of(&self, pfn: Pfn) -> Option<Live> {
        let (_, &place) = self.places.range(..=pfn).next_back()?;
        self.live.get(place).copied().filter(|block| block.range().contains(pfn))
    }

    /// The live blocks, in no particular order.
    #[must_use]
    pub fn live(&self) -> &[Live] {
        &self.live
    }

    /// One of the live blocks, chosen by any number. `None` if there are none.
    #[must_use]
    pub fn victim(&self, number: u32) -> Option<Live> {
        self.live.get((number as usize).checked_rem(self.live.len())?).copied()
    }

    /// One of the blocks that were freed last, chosen by any number. `None` if there are none.
    #[must_use]
    pub fn freed(&self, number: u32) -> Option<Live> {
        self.freed.get((number as usize).checked_rem(self.freed.len())?).copied()
    }

    /// The pageblock of this frame is withheld from now on.
    pub fn isolate(&mut self, pfn: Pfn) {
        self.isolated.insert(Self::pageblock(pfn));
    }

    /// The pageblock of this frame is withheld no longer.
    pub fn unisolate(&mut self, pfn: Pfn) {
        self.isolated.remove(&Self::pageblock(pfn));
    }

    /// The first frames of the withheld pageblocks (which may lie before the span), ascending.
    #[must_use]
    pub fn isolated(&self) -> Vec<Pfn> {
        self.isolated.iter().map(|block| Pfn::new(block * PAGEBLOCK_FRAMES)).collect()
    }

    /// Frames that are the allocator's.
    #[must_use]
    pub fn managed_frames(&self) -> u64 {
        self.managed.count_ones() as u64
    }

    /// Frames that could be handed out: managed, not owned, not withheld.
    #[must_use]
    pub fn free_frames(&self) -> u64 {
        let free = self.managed_frames() - self.owned.count_ones() as u64;
        if self.isolated.is_empty() {
            return free;
        }
        free - Self::frames(self.span).filter(|&pfn| self.withheld(pfn)).count() as u64
    }

    fn withheld(&self, pfn: Pfn) -> bool {
        self.is_isolated(pfn) && self.is_free(pfn)
    }
}
