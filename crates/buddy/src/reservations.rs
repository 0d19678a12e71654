//! Reservations: each CPU's refills take from a pageblock of their own.
//!
//! Two CPUs that take from one pageblock write the same cache lines: those of its free map under a lock and, worse,
//! those of its frames' state bytes at every allocation and free. So a refill reserves the most fragmented pageblock
//! that still serves, anywhere in the zone. A reserved pageblock leaves the [`FreeArea`](crate::free_area::FreeArea):
//! no search finds it, and taking from it changes no set. The reservation ends when nothing is free in the pageblock
//! any more, when all of it is, when its type changes, or when a request finds nothing else (revocation).
//!
//! A zone's memory of a CPU is a hint. The pageblock itself says, under its region's lock, for which CPU it is
//! reserved.

use pageblock_frame::sync::{AtomicU32, Ordering};
use pageblock_frame::{Carver, CpuId, MigrateType, NO_BLOCK, Pageblock, Platform, StateByte};

use crate::bulk::Effort;
use crate::free_area::FreeAreaId;
use crate::ones::Ones;
use crate::refill::{Batch, Refill};
use crate::region::{BLOCK_SHIFT, Region};
use crate::zone::{Place, Zone};

/// CPUs that are told apart at most. CPUs with numbers that differ by a multiple of this share a pageblock.
const MOST_SLOTS: usize = 64;

/// For each ordinary type and each CPU the pageblock that was reserved last, by its number in the zone, or `NO_BLOCK`.
#[derive(Debug)]
pub(crate) struct CpuReservations<'m> {
    /// The types' one after the other.
    slots: &'m [AtomicU32],
    cpus: u32,
}

impl<'m> CpuReservations<'m> {
    /// CPUs that are told apart in a zone of so many pageblocks, of which few CPUs must not reserve all: a power of
    /// two.
    const fn cpus(blocks: usize) -> usize {
        let cpus = if blocks / 4 > MOST_SLOTS { MOST_SLOTS } else { blocks / 4 + 1 };
        if cpus.is_power_of_two() { cpus } else { cpus.next_power_of_two() / 2 }
    }

    /// Bytes that [`carve`](Self::carve) takes at most.
    pub(crate) const fn bytes(blocks: usize) -> usize {
        (Self::cpus(blocks) * MigrateType::PCP_COUNT + 1) * size_of::<AtomicU32>()
    }

    pub(crate) fn carve(blocks: usize, carver: &mut Carver<'m>) -> Option<Self> {
        let cpus = Self::cpus(blocks);
        let slots = carver.take_with(cpus * MigrateType::PCP_COUNT, |_| Some(AtomicU32::new(NO_BLOCK)))?;
        Some(Self { slots, cpus: cpus as u32 })
    }

    /// How a pageblock says that it is reserved for a CPU.
    const fn owner(&self, cpu: CpuId) -> u16 {
        (cpu.index() & (self.cpus as usize - 1)) as u16 + 1
    }

    #[inline]
    fn of(&self, refill: &Refill) -> Option<&AtomicU32> {
        if !refill.migrate_type.is_ordinary() {
            return None;
        }
        let cpu = refill.cpu.index() & (self.cpus as usize - 1);
        self.slots.get(refill.migrate_type.index() * self.cpus as usize + cpu)
    }
}

impl<'m> Zone<'m> {
    /// Takes blocks for a per-CPU list under a bound on the call's work: fewer than asked for, but at least one if
    /// there is any. Each is marked as listed; `out` gets zone-relative indices. `out` may have room for more, so that
    /// whole words of 64 frames come. There are none of an order above the zone's largest, and none of isolated
    /// pageblocks.
    #[inline]
    pub fn refill<P: Platform>(&self, refill: Refill, out: &mut [u32]) -> usize {
        if refill.order > self.max_order() || refill.migrate_type == MigrateType::Isolate {
            return 0;
        }
        let mark = StateByte::listed(refill.order, refill.migrate_type);
        if refill.order.as_u8() >= 6 {
            let Some(slot) = out.first_mut() else { return 0 };
            let Some(index) = self.take::<P>(u32::from(refill.order.as_u8()), refill.migrate_type, mark) else {
                return 0;
            };
            *slot = index;
            return 1;
        }
        let least = (refill.least as usize).min(out.len());
        let mut effort = Effort::of_one_refill();
        let mut got = 0;
        while got < least && (got == 0 || effort.is_left()) {
            let Some(Place { mut region, index }) = self.reserved_block::<P>(&refill) else { break };
            let block = index >> BLOCK_SHIFT;
            let batch = Batch { order: u32::from(refill.order.as_u8()), mark, least: least - got };
            let rest = out.get_mut(got..).unwrap_or_default();
            let taken = region.refill_from(block, batch, rest, &mut effort);
            if region.blocks.get(block).is_none_or(|b| b.top() == Pageblock::NO_TOP) {
                region.unreserve(block);
            }
            self.publish(&mut region);
            got += taken;
            if taken == 0 {
                break;
            }
        }
        got
    }

    /// A pageblock that serves a refill, in its locked region: the one that is reserved for its CPU, if that serves.
    #[inline]
    fn reserved_block<P: Platform>(&self, refill: &Refill) -> Option<Place<'_, 'm, P>> {
        // Relaxed: a hint.
        let hint = self.reservations.of(refill)?.load(Ordering::Relaxed);
        if hint == NO_BLOCK {
            return self.another_block::<P>(refill, Own::None);
        }
        let Place { region, index } = self.lock_at::<P>(hint << BLOCK_SHIFT)?;
        let own = region.reservation_for(refill, self.reservations.owner(refill.cpu), index >> BLOCK_SHIFT);
        if own == Own::Serves && !self.has_better(refill, &region, index >> BLOCK_SHIFT) {
            return Some(Place { region, index });
        }
        self.move_on::<P>(refill, own, Place { region, index })
    }

    /// True if a reservation is to be given up: few pageblocks are wholly free, and a pageblock that is not reserved
    /// serves and is more fragmented. Elsewhere it is kept, since a pageblock that is refilled from again and again
    /// gives whole words.
    #[inline]
    fn has_better(&self, refill: &Refill, region: &Region<'_>, block: u32) -> bool {
        if !self.is_short_of_whole() {
            return false;
        }
        let best = self.summary.most_fragmented(refill.migrate_type, u32::from(refill.order.as_u8()));
        best.is_some_and(|best| region.blocks.get(block).is_some_and(|own| best.top < u32::from(own.top())))
    }

    /// Leaves the pageblock that a CPU refilled from last, and looks for another.
    #[cold]
    #[inline(never)]
    fn move_on<'z, P: Platform>(
        &'z self,
        refill: &Refill,
        own: Own,
        place: Place<'z, 'm, P>,
    ) -> Option<Place<'z, 'm, P>> {
        let Place { mut region, index } = place;
        let own = if own == Own::Serves {
            region.unreserve(index >> BLOCK_SHIFT);
            self.publish(&mut region);
            Own::None
        } else {
            own
        };
        drop(region);
        self.another_block::<P>(refill, own)
    }

    /// The most fragmented pageblock that serves and is not reserved, or a whole one. It is reserved for the CPU,
    /// unless the CPU has a reservation with blocks of smaller orders, to which it returns.
    #[cold]
    #[inline(never)]
    fn another_block<P: Platform>(&self, refill: &Refill, own: Own) -> Option<Place<'_, 'm, P>> {
        let (order, migrate_type) = (u32::from(refill.order.as_u8()), refill.migrate_type);
        loop {
            let moves = self.summary.moves();
            let partial = self.summary.most_fragmented(migrate_type, order).map(|found| found.region);
            let whole = self.summary.regions(FreeAreaId::whole(migrate_type));
            let reserved = self.summary.regions(FreeAreaId::reserved(migrate_type));
            let number = match partial {
                Some(region) => region,
                // One more is opened, if there are many; else the reservations of other CPUs are shared.
                None if whole != 0 && (reserved == 0 || self.has_many_whole()) => whole.trailing_zeros(),
                None if reserved != 0 && self.revoke::<P>(migrate_type, order) => continue,
                None if whole != 0 => whole.trailing_zeros(),
                None if self.summary.moves() != moves => continue,
                None => return None,
            };
            let mut region = self.lock::<P>(number)?;
            let found = region.partial(migrate_type, order);
            let opened = if found.is_none() && partial.is_none() { region.open_whole(migrate_type) } else { None };
            if let Some(block) = found.or(opened) {
                if own == Own::None {
                    region.reserve(block, self.reservations.owner(refill.cpu));
                    let number = (region.offset >> BLOCK_SHIFT) + block;
                    self.reservations.of(refill)?.store(number, Ordering::Relaxed);
                }
                return Some(Place { region, index: block << BLOCK_SHIFT });
            }
            // The summary was out of date: publishing mends it, and the search begins anew.
            self.publish(&mut region);
        }
    }

    /// Ends the reservations of a type in the regions that have some, until one with a pageblock that serves the
    /// order has ended. True if so.
    #[cold]
    #[inline(never)]
    pub(crate) fn revoke<P: Platform>(&self, migrate_type: MigrateType, order: u32) -> bool {
        if !migrate_type.is_ordinary() {
            return false;
        }
        for number in Ones(self.summary.regions(FreeAreaId::reserved(migrate_type))) {
            let Some(mut region) = self.lock::<P>(number) else { continue };
            while let Some(block) = region.free_area.lowest(FreeAreaId::reserved(migrate_type)) {
                region.unreserve(block);
            }
            let serves = region.partial(migrate_type, order).is_some();
            self.publish(&mut region);
            if serves {
                return true;
            }
        }
        false
    }
}

/// Value of a CPU's own reservation to a refill.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Own {
    /// There is none any more.
    None,
    /// It has blocks of smaller orders only.
    TooSmall,
    Serves,
}

impl Region<'_> {
    /// Whether a pageblock is reserved for this owner and the refill's type, and serves its order.
    #[inline]
    fn reservation_for(&self, refill: &Refill, owner: u16, block: u32) -> Own {
        let Some(b) = self.blocks.get(block) else { return Own::None };
        if b.reserved_by() != owner || b.migrate_type() as u8 != refill.migrate_type as u8 {
            return Own::None;
        }
        // `NO_TOP` is one below order 0, also as a signed number.
        if b.top() as i8 >= refill.order.as_u8() as i8 { Own::Serves } else { Own::TooSmall }
    }
}
