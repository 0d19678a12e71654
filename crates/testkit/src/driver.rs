//! Applies operations to an allocator under test and to the oracle, and compares.

use pageblock_frame::{AllocFlags, MigrateType, Order, PAGEBLOCK_FRAMES, Pfn, PfnRange};

use crate::{Breach, Counts, FreeFault, Holder, Live, Op, Oracle, decompose};

/// An allocator under test: an adapter writes the operations it has. The others stay at their default and are skipped.
pub trait Subject {
    /// Allocates a block.
    fn alloc(&mut self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn>;

    /// Frees a block.
    ///
    /// # Errors
    /// The allocator's complaint.
    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), FreeFault>;

    /// Frames free now, withheld ones not counted.
    fn free_frames(&self) -> u64;

    /// Free blocks of each order, those of withheld pageblocks too.
    fn counts(&self) -> Counts;

    /// Type of the frame's pageblock.
    fn block_type(&self, pfn: Pfn) -> MigrateType;

    /// Largest order, inclusive.
    fn max_order(&self) -> Order;

    /// The allocator's own checker.
    ///
    /// # Errors
    /// The first violation, in words.
    fn check(&self) -> Result<(), String>;

    /// Allocates the block at `pfn`; true if that worked. `None` if the allocator has no such call.
    fn alloc_at(&mut self, _pfn: Pfn, _order: Order) -> Option<bool> {
        None
    }

    /// Allocates `frames` contiguous frames. The outer `None`: no such call.
    fn alloc_exact(&mut self, _frames: u64, _migrate_type: MigrateType) -> Option<Option<PfnRange>> {
        None
    }

    /// Makes blocks of order `to` of a live block; true if that worked. `None` if there is no such call.
    fn split(&mut self, _pfn: Pfn, _order: Order, _to: Order) -> Option<bool> {
        None
    }

    /// Frees a run of frames, in whatever blocks they are held. `None` if there is no such call.
    fn free_run(&mut self, _range: PfnRange) -> Option<Result<(), FreeFault>> {
        None
    }

    /// Allocates up to `count` blocks with one call, for a per-CPU list. `None` if there is no such call.
    fn alloc_bulk(&mut self, _order: Order, _count: usize, _migrate_type: MigrateType) -> Option<Vec<Pfn>> {
        None
    }

    /// Frees listed blocks of one order with one call; returns how many were refused.
    fn free_bulk(&mut self, pfns: &[Pfn], _order: Order) -> usize {
        pfns.len()
    }

    /// Withholds the frame's pageblock; true if it was not withheld and is now.
    fn isolate(&mut self, _pfn: Pfn) -> bool {
        false
    }

    /// Ends the isolation of the frame's pageblock; true if it was withheld.
    fn unisolate(&mut self, _pfn: Pfn) -> bool {
        false
    }

    /// Gives the frame's pageblock to a type. Withheld ones keep their type.
    fn retype(&mut self, _pfn: Pfn, _migrate_type: MigrateType) {}

    /// Puts the frame's pageblock into the high-order atomic reserve, if the rules allow.
    fn reserve(&mut self, _pfn: Pfn) {}

    /// Takes a pageblock out of the high-order atomic reserve.
    fn unreserve(&mut self, _migrate_type: MigrateType) {}

    /// Gives the allocator more frames; true if that worked.
    fn add_memory(&mut self, _range: PfnRange) -> bool {
        false
    }

    /// Two free pageblocks of these types, side by side, are one block of a higher order.
    fn merges(&self, a: MigrateType, b: MigrateType) -> bool {
        a == b
    }
}

/// An allocator under test beside the truth.
#[derive(Debug)]
pub struct Driver<S> {
    /// The allocator.
    pub subject: S,
    /// The truth.
    pub oracle: Oracle,
    /// Runs of frames held back for [`Op::AddMemory`].
    pending: Vec<PfnRange>,
}

impl<S: Subject> Driver<S> {
    /// `subject` manages the oracle's frames; `pending` can be added later.
    pub fn new(subject: S, oracle: Oracle, pending: Vec<PfnRange>) -> Self {
        Self { subject, oracle, pending }
    }

    /// Does one operation on both sides and compares the answers, but not yet the states: see [`Driver::verify`].
    ///
    /// # Errors
    /// The first difference.
    pub fn apply(&mut self, op: &Op) -> Result<(), Breach> {
        match *op {
            Op::Alloc { order, migrate_type, flags } => self.alloc(order, migrate_type, flags),
            Op::Free { victim } => self.on_live(victim, |this, live| this.free(live.pfn, live.order)),
            Op::FreeWrongOrder { victim, order } => self.on_live(victim, |this, live| this.free(live.pfn, order)),
            Op::DoubleFree { victim } => match self.oracle.freed(victim) {
                Some(block) => self.free(block.pfn, block.order),
                None => Ok(()),
            },
            Op::FreeForeign { frame, order } => self.free(self.frame(frame), order),
            Op::FreeOutOfRange { distance, order } => self.free_outside(distance, order),
            Op::FreeTail { victim, offset } => self.on_live(victim, |this, live| {
                let offset = u64::from(offset) % live.order.frames();
                this.free(live.pfn.add(offset), live.order)
            }),
            Op::AllocAt { frame, order } => self.alloc_at(frame, order),
            Op::AllocExact { frames, migrate_type } => self.alloc_exact(frames.into(), migrate_type),
            Op::Split { victim, order } => self.on_live(victim, |this, live| this.split(live, order)),
            Op::FreePart { victim, offset, frames } => {
                self.on_live(victim, |this, live| this.free_part(live, offset, frames))
            }
            Op::BulkAlloc { order, count, migrate_type } => self.bulk_alloc(order, count, migrate_type),
            Op::BulkFree { victim, count } => self.bulk_free(victim, count),
            Op::Isolate { block } => self.isolate(block),
            Op::Unisolate { block } => self.unisolate(block),
            Op::AddMemory { piece } => self.add_memory(piece),
            _ => {
                self.change_types(op);
                Ok(())
            }
        }
    }

    /// Operations that only change the types of pageblocks.
    fn change_types(&mut self, op: &Op) {
        match *op {
            Op::Retype { block, migrate_type } => self.subject.retype(self.pageblock(block), migrate_type),
            Op::Reserve { block } => self.subject.reserve(self.pageblock(block)),
            Op::Unreserve { migrate_type } => self.subject.unreserve(migrate_type),
            _ => {}
        }
    }

    /// Compares the states: the allocator's own check, its free frames, and its blocks with the decomposition of the
    /// oracle's free frames.
    ///
    /// # Errors
    /// The first difference.
    pub fn verify(&self) -> Result<(), Breach> {
        self.subject.check().map_err(Breach::Check)?;
        let (expected, found) = (self.oracle.free_frames(), self.subject.free_frames());
        if expected != found {
            return Err(count("free frames", expected, found));
        }
        let (expected, found) = (self.decomposition(), self.subject.counts());
        if expected != found {
            return Err(count("free blocks by order", format!("{expected:?}"), format!("{found:?}")));
        }
        Ok(())
    }

    /// Ends all isolation and frees everything that is live.
    ///
    /// # Errors
    /// The first difference.
    pub fn settle(&mut self) -> Result<(), Breach> {
        while !self.oracle.isolated().is_empty() {
            self.unisolate(0)?;
        }
        while let Some(block) = self.oracle.victim(0) {
            match block.holder {
                Holder::Caller => self.free(block.pfn, block.order)?,
                Holder::List => self.free_listed(&[block.pfn], block.order)?,
            }
        }
        self.verify()
    }

    /// Free blocks by order as the oracle's free frames and the pageblocks' types make them.
    #[must_use]
    pub fn decomposition(&self) -> Counts {
        let merges = |a: MigrateType, b: &MigrateType| self.subject.merges(a, *b);
        self.decompose_free(|a| MigrateType::ALL.iter().position(|b| merges(a, b)).map(|class| class as u8))
    }

    /// The blocks of the oracle's free frames, with each pageblock's type turned into a class, or into none at all.
    fn decompose_free(&self, class_of: impl Fn(MigrateType) -> Option<u8>) -> Counts {
        let span = self.oracle.span();
        let first = span.start.as_u64() / PAGEBLOCK_FRAMES;
        let blocks = first..span.end.as_u64().div_ceil(PAGEBLOCK_FRAMES);
        let classes: Vec<Option<u8>> = blocks
            .map(|block| class_of(self.subject.block_type(Pfn::new(block * PAGEBLOCK_FRAMES).max(span.start))))
            .collect();
        decompose(span, self.subject.max_order(), |pfn| {
            let class = classes[(pfn.as_u64() / PAGEBLOCK_FRAMES - first) as usize];
            class.filter(|_| self.oracle.is_free(pfn))
        })
    }

    fn frame(&self, number: u32) -> Pfn {
        let span = self.oracle.span();
        span.start.add(u64::from(number).checked_rem(span.len()).unwrap_or(0))
    }

    fn on_live(
        &mut self,
        victim: u32,
        action: impl FnOnce(&mut Self, Live) -> Result<(), Breach>,
    ) -> Result<(), Breach> {
        match self.oracle.victim(victim) {
            Some(live) => action(self, live),
            None => Ok(()),
        }
    }

    fn alloc(&mut self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Result<(), Breach> {
        match self.subject.alloc(order, migrate_type, flags) {
            Some(_) if order > self.subject.max_order() => {
                Err(Breach::Granted { what: format!("a block of order {order}") })
            }
            Some(pfn) => self.oracle.take(pfn, order),
            None if flags.contains(AllocFlags::NOFRAGMENT) => Ok(()),
            None => self.may_refuse(order),
        }
    }

    /// A request may be refused only if no pageblock of an ordinary type has a large enough free block.
    fn may_refuse(&self, order: Order) -> Result<(), Breach> {
        self.may_refuse_if(order, MigrateType::is_ordinary)
    }

    /// A request may be refused only if no pageblock of a type that may serve has a large enough free block.
    fn may_refuse_if(&self, order: Order, serves: impl Fn(MigrateType) -> bool) -> Result<(), Breach> {
        let counts = self.decompose_free(|block_type| serves(block_type).then_some(block_type as u8));
        if order <= self.subject.max_order() && counts[order.index()..].iter().any(|&blocks| blocks > 0) {
            return Err(Breach::Refused { what: format!("a block of order {order} (free blocks {counts:?})") });
        }
        Ok(())
    }

    fn free(&mut self, pfn: Pfn, order: Order) -> Result<(), Breach> {
        let expected = self.oracle.expect_free(pfn, order);
        let got = self.subject.free(pfn, order);
        if expected != got {
            return Err(Breach::Free { pfn, order, expected, got });
        }
        if got.is_ok() {
            self.oracle.give_back(pfn);
        }
        Ok(())
    }

    fn free_outside(&mut self, distance: u32, order: Order) -> Result<(), Breach> {
        let span = self.oracle.span();
        let below = span.start.as_u64().checked_sub(1 + u64::from(distance)).map(Pfn::new);
        self.free(below.unwrap_or(span.end.add(distance.into())), order)?;
        self.free(span.end.add(distance.into()), order)
    }

    fn alloc_at(&mut self, frame: u32, order: Order) -> Result<(), Breach> {
        let pfn = Pfn::new(self.frame(frame).as_u64() & !(order.frames() - 1));
        let range = PfnRange::from_len(pfn, order.frames());
        let possible = (range.start.as_u64()..range.end.as_u64()).map(Pfn::new).all(|pfn| self.oracle.is_free(pfn));
        match self.subject.alloc_at(pfn, order) {
            Some(true) => self.oracle.take_at(pfn, order),
            Some(false) if possible && order <= self.subject.max_order() => {
                Err(Breach::Refused { what: format!("the free block of order {order} at {pfn}") })
            }
            _ => Ok(()),
        }
    }

    fn alloc_exact(&mut self, frames: u64, migrate_type: MigrateType) -> Result<(), Breach> {
        match self.subject.alloc_exact(frames, migrate_type) {
            Some(Some(range)) if range.len() != frames || frames == 0 => {
                Err(Breach::Granted { what: format!("{range} for {frames} frames") })
            }
            Some(Some(range)) => self.oracle.take_run(range),
            Some(None) => Order::fitting(frames).map_or(Ok(()), |order| self.may_refuse(order)),
            None => Ok(()),
        }
    }

    fn split(&mut self, live: Live, order: Order) -> Result<(), Breach> {
        let possible = order < live.order && live.holder == Holder::Caller;
        match self.subject.split(live.pfn, live.order, order) {
            Some(true) if possible => {
                self.oracle.split(live.pfn, order);
                Ok(())
            }
            Some(true) => Err(Breach::Granted { what: format!("a split of {live:?} to order {order}") }),
            Some(false) if possible => Err(Breach::Refused { what: format!("a split of {live:?} to order {order}") }),
            _ => Ok(()),
        }
    }

    fn free_part(&mut self, live: Live, offset: u32, frames: u32) -> Result<(), Breach> {
        let offset = u64::from(offset) % live.order.frames();
        let frames = 1 + u64::from(frames) % (live.order.frames() + 8);
        let range = PfnRange::from_len(live.pfn.add(offset), frames);
        let expected = self.oracle.expect_free_run(range);
        let Some(got) = self.subject.free_run(range) else { return Ok(()) };
        if expected != got {
            return Err(Breach::FreeRun { range, expected, got });
        }
        if got.is_ok() {
            self.oracle.give_back_run(range);
        }
        Ok(())
    }

    fn bulk_alloc(&mut self, order: Order, count: u8, migrate_type: MigrateType) -> Result<(), Breach> {
        let Some(pfns) = self.subject.alloc_bulk(order, count.into(), migrate_type) else { return Ok(()) };
        if pfns.len() > count.into() {
            return Err(Breach::Granted { what: format!("{} blocks where {count} were asked for", pfns.len()) });
        }
        pfns.iter().try_for_each(|&pfn| self.oracle.take_for(Holder::List, pfn, order))?;
        if pfns.len() < count.into() { self.may_refuse_if(order, |serves| serves == migrate_type) } else { Ok(()) }
    }

    fn bulk_free(&mut self, victim: u32, limit: u8) -> Result<(), Breach> {
        let listed = || self.oracle.live().iter().filter(|block| block.holder == Holder::List);
        let Some(first) = (victim as usize).checked_rem(listed().count()).and_then(|i| listed().nth(i)) else {
            return Ok(());
        };
        let (order, start) = (first.order, first.pfn);
        let same = listed().filter(|block| block.order == order && block.pfn >= start);
        let pfns: Vec<Pfn> = same.map(|block| block.pfn).take(limit.into()).collect();
        self.free_listed(&pfns, order)
    }

    /// Frees listed blocks, and the first of them a second time in the same call.
    fn free_listed(&mut self, pfns: &[Pfn], order: Order) -> Result<(), Breach> {
        let again: Vec<Pfn> = pfns.iter().chain(pfns.first()).copied().collect();
        let (refused, expected) = (self.subject.free_bulk(&again, order), again.len() - pfns.len());
        if refused != expected {
            return Err(count("blocks refused by a bulk free", expected, refused));
        }
        for &pfn in pfns {
            self.oracle.give_back(pfn);
        }
        Ok(())
    }

    /// A frame in a pageblock chosen by any number.
    fn pageblock(&self, number: u32) -> Pfn {
        let span = self.oracle.span();
        let first = span.start.as_u64() & !(PAGEBLOCK_FRAMES - 1);
        let blocks = (span.end.as_u64() - first).div_ceil(PAGEBLOCK_FRAMES);
        let block = u64::from(number).checked_rem(blocks).unwrap_or(0);
        Pfn::new(first + block * PAGEBLOCK_FRAMES).max(span.start)
    }

    fn isolate(&mut self, block: u32) -> Result<(), Breach> {
        let pfn = self.pageblock(block);
        let before = self.oracle.is_isolated(pfn);
        match self.subject.isolate(pfn) {
            true if before => Err(Breach::Granted { what: format!("a second isolation of the pageblock of {pfn}") }),
            true => {
                self.oracle.isolate(pfn);
                Ok(())
            }
            false => Ok(()),
        }
    }

    fn unisolate(&mut self, block: u32) -> Result<(), Breach> {
        let isolated = self.oracle.isolated();
        let Some(&start) = (block as usize).checked_rem(isolated.len()).and_then(|i| isolated.get(i)) else {
            return Ok(());
        };
        let pfn = start.max(self.oracle.span().start);
        if !self.subject.unisolate(pfn) {
            return Err(Breach::Refused { what: format!("the end of the isolation of the pageblock of {pfn}") });
        }
        self.oracle.unisolate(pfn);
        Ok(())
    }

    fn add_memory(&mut self, piece: u8) -> Result<(), Breach> {
        let Some(place) = usize::from(piece).checked_rem(self.pending.len()) else { return Ok(()) };
        let range = self.pending[place];
        if self.subject.add_memory(range) {
            self.pending.swap_remove(place);
            self.oracle.manage(range);
        }
        Ok(())
    }
}

fn count(what: &'static str, expected: impl ToString, found: impl ToString) -> Breach {
    Breach::Count { what, expected: expected.to_string(), found: found.to_string() }
}
