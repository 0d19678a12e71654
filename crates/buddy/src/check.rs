//! Recomputing everything that is kept beside the bits, and naming the first thing that does not agree.

use pageblock_frame::runs::for_each_run;
use pageblock_frame::{MigrateType, Order, Pageblock, StateByte};

use crate::free_area::{FreeAreaId, ROW};
use crate::region::{BLOCK_SHIFT, Region};
use crate::zone::Zone;

pageblock_frame::errors! {
    /// The first thing in a zone that contradicts its free maps or state bytes. Block numbers count from the zone's
    /// base.
    ///
    /// ```
    /// use pageblock_buddy::Violation;
    /// let found = Violation::FreeCount { block: 3, kept: 5, found: 6 };
    /// assert_eq!(found.to_string(), "block 3: 5 frames counted free, 6 are");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Violation {
        /// A pageblock's number of free frames.
        #[error("block {block}: {kept} frames counted free, {found} are")]
        FreeCount {
            /// The pageblock.
            block: u32,
            /// The kept value.
            kept: u16,
            /// The value by the bits.
            found: u16,
        },
        /// Which orders a pageblock's words have.
        #[error("block {block}: orders of words {kept:#018x} kept, {found:#018x} found")]
        Presence {
            /// The pageblock.
            block: u32,
            /// The kept value.
            kept: u64,
            /// The value by the bits.
            found: u64,
        },
        /// A pageblock's largest order.
        #[error("block {block}: largest order {kept} kept, {found} found")]
        Top {
            /// The pageblock.
            block: u32,
            /// The kept value.
            kept: u8,
            /// The value by the bits.
            found: u8,
        },
        /// A pageblock is not in a set in which it belongs.
        #[error("block {block}: not in the set of its type and order {order}")]
        NotInSet {
            /// The pageblock.
            block: u32,
            /// The order.
            order: u8,
        },
        /// A set's tree or lowest member is wrong, or it has more members than belong in it.
        #[error("free area set {number}: inconsistent")]
        Set {
            /// Which: ten times the type's number plus the largest order; from 60 on the reserved pageblocks of a type.
            number: u8,
        },
        /// The number of free blocks of an order.
        #[error("order {order}: {kept} free blocks counted, {found} found")]
        OrderCount {
            /// The order.
            order: u8,
            /// The kept value.
            kept: u64,
            /// The value by the bits.
            found: u64,
        },
        /// A total of the zone.
        #[error("{what}: {kept} kept, {found} found")]
        Total {
            /// Which total.
            what: &'static str,
            /// The kept value.
            kept: u64,
            /// The value found.
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
        /// Pageblocks that are not there were to be changed.
        #[error("{times} changes of pageblocks that are not there")]
        Missed {
            /// How often.
            times: u32,
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
    }
}

impl Zone<'_> {
    /// Recomputes everything that is kept beside the free maps and the state bytes, region by region. For tests: it
    /// holds each lock for long. The zone's totals are compared where no other CPU changes them meanwhile.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn check(&self) -> Result<(), Violation> {
        let before = self.free_frames();
        let (mut found, mut free, mut number) = (Ok(()), 0u64, 0);
        self.each_region(|region| {
            let known = |set| self.summary.regions(set) >> number & 1 == 1;
            found = found.and_then(|()| region.check()).and_then(|()| region.check_published(known));
            free = free.wrapping_add(region.totals.free);
            number += 1;
        });
        found?;
        if before == self.free_frames() { total("free frames of the zone", before, free) } else { Ok(()) }
    }
}

/// In a presence, the bits of full words, which are known even while frames are loose.
const ALL_FULL: u64 = 0xff << 48;

impl Region<'_> {
    /// Sums that the region's holders have told the zone.
    fn check_published(&self, known: impl Fn(FreeAreaId) -> bool) -> Result<(), Violation> {
        total("published free frames", self.published.free, self.totals.free)?;
        total("published CMA frames", self.published.free_cma, self.totals.free_cma)?;
        total("published reserve", self.published.highatomic, self.totals.highatomic)?;
        total("published whole pageblocks", self.published_whole.into(), self.free_area.whole().into())?;
        for set in FreeAreaId::all() {
            total("published set", u64::from(known(set)), u64::from(self.free_area.members().has(set)))?;
        }
        Ok(())
    }

    /// Recomputes every derived figure from the bits and the state bytes.
    ///
    /// # Errors
    /// The first disagreement.
    pub(crate) fn check(&self) -> Result<(), Violation> {
        if self.blocks.missed() > 0 {
            return Err(Violation::Missed { times: self.blocks.missed() });
        }
        let mut orders = [0u64; Order::COUNT];
        let mut types = [0u64; MigrateType::COUNT];
        let mut members = [0u64; ROW];
        let (mut managed, mut isolated, mut reserve) = (0, 0, 0);
        let mut held_until = 0;
        for block in 0..self.blocks.len() as u32 {
            let Some(b) = self.blocks.get(block) else { continue };
            self.check_words(block, b)?;
            held_until = self.check_frames(block, b, held_until)?;
            let set = self.check_sets(block, b)?;
            set.into_iter().for_each(|set| members[set.index()] += 1);
            if !b.is_wholly_free() {
                for_each_run(b.map(), |order, runs| orders[order as usize % Order::COUNT] += u64::from(runs));
            }
            types[b.migrate_type().index()] += u64::from(b.free());
            managed += u64::from(b.managed());
            isolated += u64::from(b.migrate_type() == MigrateType::Isolate);
            reserve += u64::from(b.migrate_type() == MigrateType::HighAtomic) << BLOCK_SHIFT;
        }
        for t in MigrateType::ALL {
            self.for_each_whole_run(t, |order, runs| orders[order as usize % Order::COUNT] += runs);
        }
        for (order, (&kept, &found)) in self.nr_free.iter().zip(&orders).enumerate() {
            if kept != found {
                return Err(Violation::OrderCount { order: order as u8, kept, found });
            }
        }
        let free: u64 = types.iter().sum::<u64>() - types[MigrateType::Isolate.index()];
        total("free frames", self.totals.free, free)?;
        total("free CMA frames", self.totals.free_cma, types[MigrateType::Cma.index()])?;
        total("managed frames", self.managed, managed)?;
        total("isolated pageblocks", self.isolated_blocks, isolated)?;
        total("high-order atomic reserve", self.totals.highatomic, reserve)?;
        self.check_members(&members)
    }

    fn check_words(&self, block: u32, b: &Pageblock) -> Result<(), Violation> {
        let found = b.recomputed();
        if found.free() != b.free() {
            return Err(Violation::FreeCount { block, kept: b.free(), found: found.free() });
        }
        let known = if b.loose() != 0 { ALL_FULL } else { u64::MAX };
        let (kept, found) = (b.presence() & known, found.presence() & known);
        if kept == found { Ok(()) } else { Err(Violation::Presence { block, kept, found }) }
    }

    /// Frames of the block against their state bytes. `held_until` is the end of a held block that began below.
    fn check_frames(&self, block: u32, b: &Pageblock, mut held_until: u32) -> Result<u32, Violation> {
        let first = block << BLOCK_SHIFT;
        let mut accounted = 0;
        for index in first..first + (1 << BLOCK_SHIFT) {
            let state = self.states.get(index);
            let free = b.word((index >> 6) as usize) >> (index % 64) & 1 == 1;
            let inside = index < held_until;
            if free && (state != StateByte::INSIDE || inside) || state.is_head() && inside {
                return Err(Violation::FreeAndHeld { index, state: state.raw() });
            }
            if state.is_head() {
                held_until = index + state.order().frames() as u32;
            }
            accounted += u32::from(free || index < held_until);
        }
        if accounted != u32::from(b.managed()) {
            return Err(Violation::Lost { block, found: accounted, managed: b.managed() });
        }
        Ok(held_until)
    }

    /// The pageblock's largest order, and the set that it belongs in, if any.
    fn check_sets(&self, block: u32, b: &Pageblock) -> Result<Option<FreeAreaId>, Violation> {
        let found = b.recomputed().top();
        if b.top() != found {
            return Err(Violation::Top { block, kept: b.top(), found });
        }
        let set = match found {
            _ if b.reserved_by() != 0 => Some(FreeAreaId::reserved(b.migrate_type())),
            Pageblock::NO_TOP => None,
            top => Some(FreeAreaId::new(b.migrate_type(), u32::from(top))),
        };
        match set {
            Some(set) if !self.free_area.contains(set, block) || (b.reserved_by() != 0 && b.is_wholly_free()) => {
                Err(Violation::NotInSet { block, order: found })
            }
            set => Ok(set),
        }
    }

    /// The sets themselves, and that they have no member beyond those that belong.
    fn check_members(&self, members: &[u64; ROW]) -> Result<(), Violation> {
        for (set, &belong) in FreeAreaId::all().zip(members) {
            if self.free_area.recount(set) != Some(belong) {
                return Err(Violation::Set { number: set.index() as u8 });
            }
        }
        let whole = MigrateType::ALL.into_iter().map(|t| members[FreeAreaId::whole(t).index()]).sum();
        total("wholly free pageblocks", self.free_area.whole().into(), whole)
    }
}

fn total(what: &'static str, kept: u64, found: u64) -> Result<(), Violation> {
    if kept == found { Ok(()) } else { Err(Violation::Total { what, kept, found }) }
}
