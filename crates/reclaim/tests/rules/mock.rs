//! Zones that are numbers, an owner that follows a script, a platform that notes what it is told.

use std::cell::{Cell, RefCell};
use std::ptr::NonNull;

use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::trace::{CompactResult, Event};
use pageblock_frame::{Hooks, NodeId, Order, Platform, ZoneKind};
use pageblock_reclaim::{Kswapd, KswapdNext, MarkTest, Marks, ReclaimZone};

pub(crate) const NODE: NodeId = NodeId::new(0);
pub(crate) const NINE: Order = Order::saturating(9);

/// What the platform was told, on this thread.
#[derive(Default)]
pub(crate) struct Told {
    pub(crate) wakes: Cell<u32>,
    pub(crate) waiters: Cell<u32>,
    pub(crate) waits: Cell<u32>,
    pub(crate) inside: Cell<bool>,
    pub(crate) now: Cell<u64>,
    pub(crate) events: RefCell<Vec<String>>,
}

thread_local! {
    static TOLD: Told = Told::default();
}

pub(crate) fn told<R>(read: impl FnOnce(&Told) -> R) -> R {
    TOLD.with(read)
}

pub(crate) struct Host;

// SAFETY: one CPU a thread, nothing is mapped.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Host {
    fn now(&self) -> u64 {
        told(|t| t.now.get())
    }

    fn wake_kswapd(&self, _: NodeId) {
        told(|t| t.wakes.set(t.wakes.get() + 1));
    }

    fn wake_waiters(&self, _: NodeId) {
        told(|t| t.waiters.set(t.waiters.get() + 1));
    }

    fn wait_until(&self, _: NodeId, deadline: u64) {
        told(|t| {
            t.waits.set(t.waits.get() + 1);
            t.now.set(deadline);
        });
    }

    fn enter_reclaim(&self) -> bool {
        told(|t| !t.inside.replace(true))
    }

    fn leave_reclaim(&self) {
        told(|t| t.inside.set(false));
    }

    fn trace(&self, event: &Event) {
        if let Event::Reclaim(event) = event {
            told(|t| t.events.borrow_mut().push(event.to_string()));
        }
    }
}

/// A zone: numbers.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    pub(crate) node: NodeId,
    pub(crate) kind: ZoneKind,
    pub(crate) managed: u64,
    pub(crate) free: Cell<u64>,
    pub(crate) marks: Marks,
    pub(crate) reserve: [u64; ZoneKind::COUNT],
    pub(crate) boost: Cell<u64>,
    pub(crate) suits: Cell<Option<CompactResult>>,
    /// Largest order of a free block.
    pub(crate) largest: Cell<Order>,
}

impl ReclaimZone for Zone {
    fn node(&self) -> NodeId {
        self.node
    }

    fn kind(&self) -> ZoneKind {
        self.kind
    }

    fn managed(&self) -> u64 {
        self.managed
    }

    fn present(&self) -> u64 {
        self.managed
    }

    fn free(&self) -> u64 {
        self.free.get()
    }

    fn marks(&self) -> Marks {
        self.marks
    }

    fn boost(&self) -> u64 {
        self.boost.get()
    }

    fn subtract_boost(&self, frames: u64) {
        self.boost.set(self.boost.get().saturating_sub(frames));
    }

    fn watermark_ok(&self, test: &MarkTest) -> bool {
        let free = self.free.get().saturating_add(test.extra).saturating_sub(test.order.frames() - 1);
        free > test.mark.saturating_add(self.reserve[test.limit.index()]) && test.order <= self.largest.get()
    }

    fn compaction_suitable(&self, _: Order, _: ZoneKind) -> Option<CompactResult> {
        self.suits.get()
    }
}

pub(crate) fn zone(kind: ZoneKind, managed: u64, marks: [u64; 3], reserve: [u64; 4]) -> Zone {
    let [min, low, high] = marks;
    Zone {
        node: NODE,
        kind,
        managed,
        free: Cell::new(high + 1),
        marks: Marks { min, low, high },
        reserve,
        boost: Cell::new(0),
        suits: Cell::new(None),
        largest: Cell::new(Order::MAX),
    }
}

/// The zones of a machine of 8 GiB under Linux 3.16 (worked vectors of the published behaviour).
pub(crate) fn eight_gib() -> [Zone; 3] {
    [
        zone(ZoneKind::Dma, 3_840, [5, 6, 7], [0, 2_988, 7_949, 7_949]),
        zone(ZoneKind::Dma32, 765_000, [1_071, 1_338, 1_606], [0, 0, 4_960, 4_960]),
        zone(ZoneKind::Normal, 1_270_000, [1_778, 2_222, 2_667], [0; 4]),
    ]
}

/// An owner: what a round answers, and what it does, is a function's.
pub(crate) struct Owner<'a> {
    pub(crate) answer: Box<dyn Fn(&Shrink) -> Shrunk + 'a>,
    pub(crate) reclaimable: u64,
    pub(crate) dying: Cell<bool>,
    pub(crate) rounds: RefCell<Vec<Shrink>>,
}

impl<'a> Owner<'a> {
    pub(crate) fn new(answer: impl Fn(&Shrink) -> Shrunk + 'a) -> Self {
        Self {
            answer: Box::new(answer),
            reclaimable: 100_000,
            dying: Cell::new(false),
            rounds: RefCell::new(Vec::new()),
        }
    }

    /// Frees what is asked for, from the zones that a round names: the highest first.
    pub(crate) fn faithful(zones: &'a [Zone]) -> Self {
        Self::new(move |round| {
            let fits = |zone: &&Zone| round.zone.map_or(zone.kind <= round.limit, |kind| kind == zone.kind);
            let zone = zones.iter().rev().find(fits).expect("a zone");
            zone.free.set(zone.free.get() + round.frames);
            Shrunk { scanned: round.frames, freed: round.frames }
        })
    }

    pub(crate) fn count(&self) -> usize {
        self.rounds.borrow().len()
    }
}

impl Reclaim for Owner<'_> {
    fn shrink(&self, round: &Shrink) -> Shrunk {
        self.rounds.borrow_mut().push(*round);
        (self.answer)(round)
    }

    fn reclaimable(&self, _: NodeId, _: ZoneKind) -> u64 {
        self.reclaimable
    }

    fn is_dying(&self) -> bool {
        self.dying.get()
    }
}

/// Steps until the thread sleeps; everything that it answered. Naps are slept through.
pub(crate) fn drive(thread: &Kswapd, zones: &[Zone], owner: &dyn Reclaim) -> Vec<KswapdNext> {
    let mut answers = Vec::new();
    let mut now = told(|t| t.now.get()).max(1);
    for _ in 0..100_000 {
        let next = thread.step::<Host, _>(zones, owner, now);
        answers.push(next);
        match next {
            KswapdNext::Sleep { until: None } => return answers,
            KswapdNext::Sleep { until: Some(until) } => now = until,
            _ => {}
        }
    }
    panic!("the thread never sleeps");
}
