//! Reservations: each CPU's refills take from a pageblock of their own.
//!
//! Two CPUs that take from one pageblock write the same cache lines: those of its free map under the zone lock and, worse,
//! those of its frames' state bytes at every allocation and free. So a refill takes the most fragmented pageblock that still
//! serves and that no other CPU has reserved, anywhere in the zone. Where there is none, a whole pageblock is opened if
//! there are many; otherwise two CPUs share one.

use pageblock_frame::{CpuId, MigrateType, NO_BLOCK, Order};

use crate::core::{BLOCK_SHIFT, ZoneCore};

/// CPUs that are told apart. Those whose numbers are the same but for a multiple of this share a pageblock.
const SLOTS: usize = 64;

/// Pageblocks of a zone for each that is wholly free, at most, for another to be opened rather than shared.
const MANY: u64 = 8;

/// For each ordinary type and each CPU the pageblock from which it took last, or `NO_BLOCK`. No pageblock is two CPUs'.
#[derive(Debug)]
pub(crate) struct CpuReservations([[u32; SLOTS]; MigrateType::PCP_COUNT]);

impl CpuReservations {
    pub(crate) const fn new() -> Self {
        Self([[NO_BLOCK; SLOTS]; MigrateType::PCP_COUNT])
    }
}

impl ZoneCore<'_> {
    /// The pageblock from which a CPU's list of this type takes blocks of `order < 6`; it is reserved for that CPU from now on.
    pub(crate) fn reserved_block(&mut self, cpu: CpuId, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let found = self.free_area.most_fragmented(migrate_type, order);
        let slot = cpu.index() % SLOTS;
        let Some(reserved) = self.reservations.0.get(migrate_type as usize) else {
            return found.or_else(|| self.open_whole(migrate_type));
        };
        let block = match found {
            Some(found) if found == reserved[slot] => return found.into(),
            Some(found) if !reserved.contains(&found) => found,
            found => self.reserve_another(slot, migrate_type, (order, found))?,
        };
        let reserved = self.reservations.0.get_mut(migrate_type as usize)?;
        for other in reserved.iter_mut().filter(|other| **other == block) {
            *other = NO_BLOCK;
        }
        reserved[slot] = block;
        Some(block)
    }

    /// The pageblock that the rule found first is another CPU's, or there is none.
    #[cold]
    #[inline(never)]
    fn reserve_another(
        &mut self,
        slot: usize,
        migrate_type: MigrateType,
        (order, found): (u32, Option<u32>),
    ) -> Option<u32> {
        let reserved = self.reservations.0.get(migrate_type as usize)?;
        let is_free = |block| !reserved.iter().enumerate().any(|(other, &b)| b == block && other != slot);
        if let Some(block) = found.and_then(|_| self.free_area.most_fragmented_where(migrate_type, order, is_free)) {
            return Some(block);
        }
        if found.is_none() || self.wholly_free() * MANY >= self.blocks.len() as u64 {
            return self.open_whole(migrate_type).or(found);
        }
        found
    }

    /// Wholly free pageblocks.
    fn wholly_free(&self) -> u64 {
        let orders = BLOCK_SHIFT..Order::COUNT as u32;
        orders.zip(self.nr_free.iter().skip(BLOCK_SHIFT as usize)).map(|(order, &n)| n << (order - BLOCK_SHIFT)).sum()
    }
}
