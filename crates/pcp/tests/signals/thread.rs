//! The thread that is interrupted: every operation that lists have.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pageblock_frame::{CpuId, Order, Pfn};
use pageblock_pcp::{ReclaimActivity, Sizes};

use crate::handler::visit;
use crate::machine::{Fixture, migrate_type, order};

/// The operations.
pub(crate) const KINDS: [&str; 11] = [
    "allocation",
    "free",
    "wrong free",
    "exchange with the handler",
    "kick",
    "drain",
    "reclaim and sizes",
    "decay",
    "isolation",
    "going offline and back",
    "taking over",
];

/// How often each was interrupted while it had the lists.
pub(crate) static INTERRUPTED: [AtomicU64; KINDS.len()] = [const { AtomicU64::new(0) }; KINDS.len()];
/// What the thread is at.
static KIND: AtomicUsize = AtomicUsize::new(0);

/// The handler found the lists busy.
pub(crate) fn note_interrupted() {
    INTERRUPTED[KIND.load(Ordering::Relaxed)].fetch_add(1, Ordering::Relaxed);
}

#[derive(Debug)]
pub(crate) struct Thread {
    fixture: &'static Fixture,
    random: u64,
    held: Vec<(Pfn, Order)>,
}

impl Thread {
    pub(crate) fn new(fixture: &'static Fixture) -> Self {
        Self { fixture, random: 88_172_645_463_325_252, held: Vec::with_capacity(4096) }
    }

    fn random(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random % below as u64) as usize
    }

    /// One operation: mostly allocations and frees, sometimes anything else that there is.
    pub(crate) fn step(&mut self) {
        let kind = match self.random(1024) {
            0..16 => 2,
            16..32 => 3,
            choice @ 32..64 => 4 + choice % 7,
            choice => choice % 2,
        };
        KIND.store(kind, Ordering::Relaxed);
        match kind {
            0 => self.alloc(),
            1 => self.free(),
            2 => self.free_wrongly(),
            3 => {
                let slot = self.random(64);
                visit(self.fixture, slot, migrate_type(slot));
            }
            _ => self.rare(kind),
        }
    }

    fn alloc(&mut self) {
        let order = order(self.random(64));
        let t = migrate_type(self.random(3));
        if self.held.len() < 2000 {
            self.held.extend(self.fixture.alloc(order, t).map(|pfn| (pfn, order)));
        }
    }

    fn free(&mut self) {
        if !self.held.is_empty() {
            let at = self.random(self.held.len());
            let (pfn, order) = self.held.swap_remove(at);
            self.fixture.free(pfn, order).unwrap();
        }
    }

    /// Of a block that the thread holds, which no interrupt can change: with a wrong order, or a frame inside it.
    fn free_wrongly(&mut self) {
        let Some(&(pfn, order)) = self.held.last() else { return };
        let wrong = Order::saturating((order.as_u8() + 1) % 4);
        assert!(order == wrong || self.fixture.free(pfn, wrong).is_err());
        assert!(order == Order::ZERO || self.fixture.free(pfn.add(1), Order::ZERO).is_err());
    }

    fn rare(&mut self, kind: usize) {
        let lists = &self.fixture.lists;
        match kind {
            4 => lists.handle_kick(),
            5 => drop(lists.drain_cpu(CpuId::new(0))),
            6 => {
                lists.set_reclaim(if self.random(2) == 0 { ReclaimActivity::Active } else { ReclaimActivity::Idle });
                let batch = 1 + self.random(63) as u32;
                lists.set_sizes(Sizes { batch, high: 6 * batch, high_max: 12 * batch }).unwrap();
                lists.handle_kick();
            }
            7 => lists.decay(),
            8 => {
                lists.begin_isolation();
                self.alloc();
                self.free();
                lists.end_isolation();
            }
            9 => {
                lists.go_offline().unwrap();
                self.alloc();
                lists.come_online().unwrap();
            }
            _ => {
                lists.go_offline().unwrap();
                lists.take_over(CpuId::new(0)).unwrap();
                lists.come_online().unwrap();
            }
        }
    }

    pub(crate) fn held_frames(&self) -> u64 {
        self.held.iter().map(|block| block.1.frames()).sum()
    }

    pub(crate) fn free_all(&mut self) {
        for (pfn, order) in self.held.drain(..) {
            self.fixture.free(pfn, order).unwrap();
        }
    }
}
