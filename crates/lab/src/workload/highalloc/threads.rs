//! The background threads of the experiment's one CPU: they run when the task that woke them has its page, or waits.

use std::cell::Cell;

use pageblock::Next;
use pageblock_frame::NodeId;
use pageblock_frame::trace::{CompactEvent, Event};

use crate::machine::owner::{Hooks, Memory, Sim};

const NODE: NodeId = NodeId::new(0);

/// Who has been woken, and how often compaction ran.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    kswapd: Cell<bool>,
    kcompactd: Cell<bool>,
    /// Simulated time, and when kcompactd wants to look at the zones unasked.
    now: Cell<u64>,
    look_at: Cell<Option<u64>>,
    runs: Cell<u64>,
}

impl Hooks for Threads {
    fn wake_kswapd(&self, _node: NodeId) {
        self.kswapd.set(true);
    }

    fn wake_kcompactd(&self, _node: NodeId) {
        self.kcompactd.set(true);
    }

    fn trace(&self, event: &Event) {
        if let Event::Compaction(CompactEvent::End { .. }) = event {
            self.runs.set(self.runs.get() + 1);
        }
    }
}

/// When kcompactd first looks at the zones unasked, in nanoseconds.
const FIRST_LOOK: u64 = 500_000_000;

impl Threads {
    /// Asleep, at time 0.
    pub(crate) fn new() -> Self {
        let threads = Self::default();
        threads.look_at.set(Some(FIRST_LOOK));
        threads
    }

    /// Runs of compaction so far, by anybody.
    pub(crate) fn runs(&self) -> u64 {
        self.runs.get()
    }

    /// Lets so many nanoseconds pass, and then the threads run that have been woken or whose time has come, until they sleep.
    pub(crate) fn pass(&self, memory: &Memory, nanoseconds: u64) {
        self.now.set(self.now.get() + nanoseconds);
        Sim::set_now(self.now.get());
        if self.look_at.get().is_some_and(|time| time <= self.now.get()) {
            self.kcompactd.set(true);
        }
        while self.kswapd.get() || self.kcompactd.get() {
            if self.kswapd.take() {
                while memory.allocator().kswapd_step(NODE) == Next::Again {}
            }
            if self.kcompactd.take() {
                let until = loop {
                    if let Next::Sleep { until } = memory.allocator().kcompactd_step(NODE) {
                        break until;
                    }
                };
                self.look_at.set(until);
            }
        }
    }
}
