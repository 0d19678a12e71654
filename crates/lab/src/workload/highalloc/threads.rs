//! The experiment's one CPU: its task and the background threads, kswapd and kcompactd, share it.
//!
//! A thread that has been woken runs as long as the task does, since the scheduler is fair: kswapd and kcompactd cannot
//! clear up behind a task that fills memory as fast as it can, only beside it. Their progress meanwhile decides
//! where kernel pages come to lie.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

use pageblock::Next;
use pageblock_frame::reclaim::{Reclaim, Shrink, Shrunk};
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{NodeId, Pfn};
use pageblock_reclaim::{ShrinkConfig, Shrinker};

use super::pages::Pages;
use crate::machine::costs;
use crate::machine::owner::{Hooks, Memory, Name, Sim};

const NODE: NodeId = NodeId::new(0);
/// The measured machine ran in an emulator, at about 300 million instructions a second rather than 3 billion.
const EMULATED: u64 = 10;
/// One page moved on a machine with one CPU, where no other's TLB is flushed: unmapped and mapped for about as much as
/// a fault, and copied.
const MIGRATE: u64 = costs::FAULT + costs::COPY_PAGE;
/// The task's time to free a page.
const FREE_TIME: u64 = 5_000;
/// When kcompactd first looks at the zones unasked, in nanoseconds.
const FIRST_LOOK: u64 = 500_000_000;

/// A page to be freed: where a named one is may change until then.
#[derive(Clone, Copy, Debug)]
pub(super) enum Freed {
    Page(Name),
    Kernel(Pfn),
}

/// A background thread.
#[derive(Debug, Default)]
struct Thread {
    woken: Cell<bool>,
    /// Until when it has used its share of the CPU.
    clock: Cell<u64>,
}

impl Thread {
    fn wake(&self, now: u64) {
        if !self.woken.replace(true) {
            self.clock.set(self.clock.get().max(now));
        }
    }

    fn is_due(&self, now: u64) -> bool {
        self.woken.get() && self.clock.get() < now
    }
}

/// Threads that have been woken, costs, and runs of compaction.
pub(crate) struct Threads {
    shrinker: Shrinker<'static, 'static, Pages, Sim>,
    kswapd: Thread,
    kcompactd: Thread,
    /// Simulated time, and when kcompactd wants to look at the zones unasked.
    now: Cell<u64>,
    look_at: Cell<Option<u64>>,
    /// Blocks that the task is about to free.
    frees: RefCell<VecDeque<Freed>>,
    /// When the step of the thread that runs began.
    began: Cell<Option<u64>>,
    memory: Weak<Memory>,
    /// Nanoseconds of work that the running thread has done, and not been charged for.
    work: Cell<u64>,
    runs: Cell<u64>,
}

impl std::fmt::Debug for Threads {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Threads")
            .field("kswapd", &self.kswapd)
            .field("kcompactd", &self.kcompactd)
            .finish_non_exhaustive()
    }
}

impl Hooks for Threads {
    fn wake_kswapd(&self, _node: NodeId) {
        self.kswapd.wake(self.now.get());
    }

    fn wake_kcompactd(&self, _node: NodeId) {
        self.kcompactd.wake(self.now.get());
    }

    fn trace(&self, event: &Event) {
        match *event {
            Event::Compaction(CompactEvent::IsolateMigrate { scanned, .. }) => {
                self.charge(scanned * costs::SCAN_SOURCE)
            }
            Event::Compaction(CompactEvent::IsolateFree { scanned, .. }) => self.charge(scanned * costs::SCAN_TARGET),
            Event::Compaction(CompactEvent::Migrate { migrated, .. }) => self.charge(migrated * MIGRATE),
            Event::Compaction(CompactEvent::End { .. }) => self.runs.set(self.runs.get() + 1),
            _ => {}
        }
    }

    /// Between two batches of a compaction the task goes on, as far as its share of the CPU allows.
    fn is_crowded(&self) -> bool {
        if let (Some(began), Some(memory)) = (self.began.get(), self.memory.upgrade()) {
            while self.now.get() < began + self.work.get() && self.free_next(&memory) {}
        }
        false
    }

    fn shrink(&self, round: &Shrink) -> Option<Shrunk> {
        let shrunk = self.shrinker.shrink(round);
        self.charge(shrunk.scanned * costs::RECLAIM_SCAN + shrunk.freed * costs::FREE);
        Some(shrunk)
    }
}

impl Threads {
    /// Asleep, at time 0.
    pub(crate) fn new(memory: &Rc<Memory>) -> Self {
        Self {
            shrinker: Shrinker::new(memory.areas(), Pages::new(memory), ShrinkConfig::default()),
            kswapd: Thread::default(),
            kcompactd: Thread::default(),
            now: Cell::default(),
            look_at: Cell::new(Some(FIRST_LOOK)),
            frees: RefCell::default(),
            began: Cell::default(),
            memory: Rc::downgrade(memory),
            work: Cell::default(),
            runs: Cell::default(),
        }
    }

    /// Runs of compaction so far, by any thread.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.get()
    }

    fn charge(&self, nanoseconds: u64) {
        self.work.set(self.work.get() + nanoseconds * EMULATED);
    }

    /// The task has worked for so many nanoseconds, and its requests took more besides: so long, threads that have
    /// been woken or are due run too, each at a time of its own.
    pub(crate) fn pass(&self, memory: &Memory, nanoseconds: u64) {
        self.now.set(self.now.get() + nanoseconds + self.work.take());
        loop {
            let now = self.now.get();
            if let Some(time) = self.look_at.get().filter(|time| *time <= now) {
                self.look_at.set(None);
                self.kcompactd.wake(time);
            }
            if self.kswapd.is_due(now) {
                self.step(&self.kswapd, || memory.allocator().reclaim().step(NODE));
            } else if self.kcompactd.is_due(now) {
                if let Next::Sleep { until } = self.step(&self.kcompactd, || memory.allocator().compaction().step(NODE))
                {
                    self.look_at.set(until);
                }
            } else {
                return Sim::set_now(now);
            }
        }
    }

    /// The task frees these pages, one after the other.
    pub(super) fn free_all(&self, memory: &Memory, pages: VecDeque<Freed>) {
        self.frees.replace(pages);
        while self.free_next(memory) {
            self.pass(memory, 0);
        }
    }

    fn free_next(&self, memory: &Memory) -> bool {
        let next = self.frees.borrow_mut().pop_front();
        let place = match next {
            Some(Freed::Page(name)) => memory.find(name),
            Some(Freed::Kernel(pfn)) => Some(pfn),
            None => return false,
        };
        place.map(|pfn| memory.free(pfn));
        self.now.set(self.now.get() + FREE_TIME);
        true
    }

    /// One step of a thread. If it was woken meanwhile it goes on.
    fn step(&self, thread: &Thread, step: impl FnOnce() -> Next) -> Next {
        thread.woken.set(false);
        Sim::set_now(thread.clock.get());
        self.began.set(Some(thread.clock.get()));
        let next = step();
        self.began.set(None);
        thread.woken.set(thread.woken.get() || next == Next::Again);
        thread.clock.set(thread.clock.get() + self.work.take());
        next
    }
}
