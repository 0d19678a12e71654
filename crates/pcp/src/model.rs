//! Details that models look at, and the rest of the crate hides. Under the model checker only.

use pageblock_frame::{CpuId, MigrateType, Order, Platform};

use crate::depot::{Capacity, Spare};
use crate::list::List;
use crate::lists::PcpLists;
use crate::percpu::Signals;

/// Blocks of order 0 in a batch of a model.
pub const BATCH: usize = crate::depot::BATCH;

impl<P: Platform> PcpLists<'_, P> {
    /// Blocks that this CPU's list of single frames may hold.
    pub fn own_limit(&self) -> Option<u32> {
        let list = List::place(Order::ZERO, MigrateType::Movable)?;
        Some(self.areas.enter()?.lists().limit(list))
    }

    /// True if a CPU has yet to answer a change of sizes.
    pub fn awaits_resize(&self, cpu: CpuId) -> bool {
        self.areas.signals(cpu).is_some_and(|signals| signals.has(Signals::RESIZE))
    }

    /// Blocks on an offline CPU's list of single frames, seen from inside, with nothing changed.
    pub fn look_offline(&self, cpu: CpuId) -> Option<u32> {
        let list = List::place(Order::ZERO, MigrateType::Movable)?;
        Some(self.areas.take_over(cpu)?.lists_mut().len(list))
    }

    /// Blocks of single frames in the depot.
    pub fn in_depot(&self) -> u32 {
        List::place(Order::ZERO, MigrateType::Movable).map_or(0, |list| self.depot.blocks(list))
    }
}

/// A depot of its own, with one list.
#[derive(Debug)]
pub struct Depot {
    depot: crate::depot::Depot<'static>,
    list: List,
}

/// A CPU's own data in a model.
#[derive(Debug)]
pub struct Hand(Spare);

impl Default for Hand {
    fn default() -> Self {
        Self(Spare::NONE)
    }
}

impl Depot {
    /// With so many batches.
    pub fn new(batches: u16) -> Option<Self> {
        let list = List::place(Order::ZERO, MigrateType::Movable)?;
        let frames = u32::from(batches) * BATCH as u32;
        Some(Self { depot: crate::depot::Depot::model(Capacity::model(batches, frames)), list })
    }

    /// Hands a batch over that consists of these numbers.
    pub fn push(&self, hand: &mut Hand, first: u32) -> bool {
        self.depot.push(self.list, &mut hand.0, &core::array::from_fn::<u32, BATCH, _>(|i| first + i as u32))
    }

    /// Takes a batch over, and says where it begins if it is whole.
    pub fn pop(&self, hand: &mut Hand) -> Option<u32> {
        let mut first = None;
        self.depot.pop(self.list, &mut hand.0, |blocks| {
            let whole = blocks.windows(2).all(|pair| pair[0] + 1 == pair[1]);
            first = blocks.first().copied().filter(|_| whole);
            assert!(first.is_some(), "{blocks:?}");
        });
        first
    }

    /// Batches without blocks that can be had.
    pub fn empties(&self, hands: [Hand; 2]) -> usize {
        self.depot.empties() + hands.iter().filter(|hand| hand.0 != Spare::NONE).count()
    }
}
