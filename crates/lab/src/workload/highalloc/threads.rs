//! The background threads of the experiment's one CPU: they run when the task that woke them has its page, or waits.

use std::cell::Cell;

use pageblock::Next;
use pageblock_frame::reclaim::{Actor, Reclaim, Shrink};
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{AllocFlags, Gfp, NodeId, Order, ZoneKind};

use crate::machine::owner::{Hooks, Memory};

const NODE: NodeId = NodeId::new(0);

/// Who has been woken, and how often compaction ran.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    kswapd: Cell<Option<Order>>,
    kcompactd: Cell<bool>,
    runs: Cell<u64>,
}

impl Hooks for Threads {
    fn wake_kcompactd(&self, _node: NodeId) {
        self.kcompactd.set(true);
    }

    fn trace(&self, event: &Event) {
        match event {
            Event::WakeKswapd { order, .. } => {
                self.kswapd.set(self.kswapd.get().max(Some(*order)));
            }
            Event::Compaction(CompactEvent::End { .. }) => self.runs.set(self.runs.get() + 1),
            _ => {}
        }
    }
}

impl Threads {
    /// Runs of compaction so far, by anybody.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.get()
    }

    /// Lets the threads run that have been woken, until they sleep.
    pub(crate) fn run(&self, memory: &Memory) {
        if let Some(order) = self.kswapd.take() {
            balance(memory, order);
            if order > Order::ZERO {
                memory.allocator().wake_kcompactd(NODE, order);
            }
        }
        if self.kcompactd.take() {
            while memory.allocator().kcompactd_step(NODE) == Next::Again {}
        }
    }
}

/// The reclaim thread, until there is as much as it wants or nothing more to be had.
fn balance(memory: &Memory, order: Order) {
    let mut goal = order;
    for priority in (1..=12).rev() {
        let mut freed = 0;
        for _ in 0..1 << 10 {
            let balanced = memory.allocator().zones().iter().any(|zone| {
                let high = zone.watermarks().high + zone.boost();
                zone.watermark_ok(goal, high, ZoneKind::Movable, AllocFlags::empty())
            });
            if balanced {
                break;
            }
            let round =
                Shrink { actor: Actor::Kswapd, priority, ..Shrink::direct(NODE, ZoneKind::Movable, Gfp::KERNEL) };
            let some = memory.shrink(&round).freed;
            freed += some;
            if freed >= 2 * order.frames() {
                goal = Order::ZERO;
            }
            if some == 0 {
                break;
            }
        }
    }
    for zone in memory.allocator().zones() {
        zone.set_boost(0);
    }
}
