//! Each CPU's refills take from a pageblock of their own.
//!
//! What two CPUs take from one pageblock costs both: they write the same cache lines, those of its free map under the zone lock
//! and, worse, those of its frames' state bytes at every allocation and free. So the zone remembers from which pageblock
//! each CPU took last, and a refill takes the lowest pageblock that can serve and is not another CPU's. With one CPU that is the
//! lowest of all. Where only another CPU's can serve, a wholly free one is opened if there are many, or else it is shared.

use core::num::NonZeroU64;

use pageblock_frame::{CpuId, MigrateType, NO_BLOCK, Order};

use crate::core::{BLOCK_SHIFT, ZoneCore};

/// CPUs that are told apart. Those whose numbers are the same but for a multiple of this share a pageblock.
const SLOTS: usize = 16;

/// Pageblocks of a zone for each that is wholly free, at most, for another to be opened rather than shared.
const MANY: u64 = 8;

/// For each ordinary type and each CPU the pageblock from which it took last, or `NO_BLOCK`. No pageblock is two CPUs'.
#[derive(Debug)]
pub(crate) struct Takers([[u32; SLOTS]; MigrateType::PCP_COUNT]);

impl Takers {
    pub(crate) const fn new() -> Self {
        Self([[NO_BLOCK; SLOTS]; MigrateType::PCP_COUNT])
    }
}

impl ZoneCore<'_> {
    /// The pageblock from which a CPU's list of this type takes blocks of `order < 6`; it is that CPU's from now on.
    pub(crate) fn block_for(&mut self, cpu: CpuId, migrate_type: MigrateType, order: u32) -> Option<u32> {
        let lowest = self.partial(migrate_type, order);
        let Some(takers) = self.takers.0.get_mut(migrate_type as usize) else {
            return lowest.or_else(|| self.open_whole(migrate_type));
        };
        let own = takers[cpu.index() % SLOTS];
        let block = match lowest {
            Some(lowest) if lowest == own => return lowest.into(),
            Some(lowest) if !takers.contains(&lowest) => lowest,
            lowest => self.block_apart(cpu, migrate_type, (order, lowest))?,
        };
        let takers = self.takers.0.get_mut(migrate_type as usize)?;
        for taker in takers.iter_mut().filter(|taker| **taker == block) {
            *taker = NO_BLOCK;
        }
        takers[cpu.index() % SLOTS] = block;
        Some(block)
    }

    /// The lowest pageblock that can serve is another CPU's, or there is none.
    #[cold]
    #[inline(never)]
    fn block_apart(
        &mut self,
        cpu: CpuId,
        migrate_type: MigrateType,
        (order, lowest): (u32, Option<u32>),
    ) -> Option<u32> {
        let Some(lowest) = lowest else { return self.open_whole(migrate_type) };
        let row = lowest / 64;
        let mut free = self.candidates.row_of(lowest)?.serving(migrate_type, order);
        for (slot, &block) in self.takers.0.get(migrate_type as usize)?.iter().enumerate() {
            if slot != cpu.index() % SLOTS && block / 64 == row {
                free &= !(1 << (block % 64));
            }
        }
        if let Some(free) = NonZeroU64::new(free) {
            return Some(row * 64 + free.trailing_zeros());
        }
        if self.wholly_free() * MANY >= self.blocks.len() as u64
            && let Some(block) = self.open_whole(migrate_type)
        {
            return Some(block);
        }
        Some(lowest)
    }

    /// Wholly free pageblocks.
    fn wholly_free(&self) -> u64 {
        let orders = BLOCK_SHIFT..Order::COUNT as u32;
        orders.zip(self.nr_free.iter().skip(BLOCK_SHIFT as usize)).map(|(order, &n)| n << (order - BLOCK_SHIFT)).sum()
    }
}
