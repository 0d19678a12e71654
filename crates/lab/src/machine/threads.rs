//! The kernel's threads: kswapd and kcompactd of each node, and the one that writes back.

use std::cell::RefCell;

use pageblock::Next as Turn;
use pageblock_frame::NodeId;

use super::writeback::Flusher;
use super::{Actor, ActorId, Machine, Next, Time};

/// Their numbers; empty until they are started.
#[derive(Debug, Default)]
pub(super) struct Threads {
    kswapd: RefCell<Vec<ActorId>>,
    kcompactd: RefCell<Vec<ActorId>>,
    flusher: RefCell<Option<ActorId>>,
}

impl Machine {
    /// Starts a thread of each kind for each node.
    pub(super) fn start_threads(&self) {
        let nodes = self.memory.allocator().zones().map(|zone| zone.node().index() + 1).max().unwrap_or(0);
        for node in (0..nodes).map(|node| NodeId::new(node as u8)) {
            let (kswapd, kcompactd) = (self.spawn(Reclaiming { node }), self.spawn(Compacting { node }));
            self.threads.kswapd.borrow_mut().push(kswapd);
            self.threads.kcompactd.borrow_mut().push(kcompactd);
        }
        let flusher = self.spawn(Flusher);
        *self.threads.flusher.borrow_mut() = Some(flusher);
    }

    /// Nodes, at least one.
    pub(super) fn nodes(&self) -> u64 {
        (self.threads.kswapd.borrow().len() as u64).max(1)
    }

    pub(super) fn wake_kswapd(&self, node: NodeId) {
        self.wake(self.threads.kswapd.borrow().get(node.index()).copied());
    }

    pub(super) fn wake_kcompactd(&self, node: NodeId) {
        self.wake(self.threads.kcompactd.borrow().get(node.index()).copied());
    }

    pub(super) fn wake_flusher(&self) {
        self.wake(*self.threads.flusher.borrow());
    }

    /// True for the write-back thread, which waits for its own writes.
    pub(super) fn is_flusher(&self) -> bool {
        let current = self.schedule.current();
        current.is_some() && current == *self.threads.flusher.borrow()
    }

    fn wake(&self, thread: Option<ActorId>) {
        if let Some(id) = thread {
            self.schedule.wake(id);
        }
    }
}

/// kswapd of a node.
#[derive(Debug)]
struct Reclaiming {
    node: NodeId,
}

impl Actor for Reclaiming {
    fn step(&mut self, machine: &Machine) -> Next {
        rest(machine.memory.allocator().reclaim().step(self.node))
    }
}

/// kcompactd of a node.
#[derive(Debug)]
struct Compacting {
    node: NodeId,
}

impl Actor for Compacting {
    fn step(&mut self, machine: &Machine) -> Next {
        rest(machine.memory.allocator().compaction().step(self.node))
    }
}

/// State of a thread between two steps. One that is woken during a step goes on after it.
fn rest(turn: Turn) -> Next {
    match turn {
        Turn::Again => Next::Run,
        Turn::Sleep { until } => until.map_or(Next::Wait, |time| Next::Sleep(Time::new(time))),
    }
}
