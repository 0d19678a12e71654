//! The kernel's threads: kswapd and kcompactd of each node, and the one that writes back.

use std::cell::RefCell;

use pageblock_frame::NodeId;

use super::writeback::Flusher;
use super::{Actor, ActorId, Machine, Next, Time};

/// Who they are; empty until they are started.
#[derive(Debug, Default)]
pub(super) struct Threads {
    kswapd: RefCell<Vec<ActorId>>,
    kcompactd: RefCell<Vec<ActorId>>,
    flusher: RefCell<Option<ActorId>>,
}

impl Machine {
    /// Starts a thread of each kind for each node.
    pub(super) fn start_threads(&self) {
        let nodes = self.memory.allocator().zones().iter().map(|zone| zone.node().index() + 1).max().unwrap_or(0);
        for node in (0..nodes).map(|node| NodeId::new(node as u8)) {
            let kcompactd = self.spawn(Compacting { node });
            self.threads.kcompactd.borrow_mut().push(kcompactd);
        }
        let flusher = self.spawn(Flusher);
        *self.threads.flusher.borrow_mut() = Some(flusher);
    }

    pub(super) fn wake_kswapd(&self, node: NodeId) {
        let id = self.threads.kswapd.borrow().get(node.index()).copied();
        id.map(|id| self.schedule.wake(id));
    }

    pub(super) fn wake_kcompactd(&self, node: NodeId) {
        let id = self.threads.kcompactd.borrow().get(node.index()).copied();
        id.map(|id| self.schedule.wake(id));
    }

    pub(super) fn wake_flusher(&self) {
        let id = *self.threads.flusher.borrow();
        id.map(|id| self.schedule.wake(id));
    }
}

/// kcompactd of a node.
#[derive(Debug)]
struct Compacting {
    node: NodeId,
}

impl Actor for Compacting {
    fn step(&mut self, machine: &Machine) -> Next {
        let _ = self.node;
        let _ = machine;
        Next::Wait
    }
}

#[expect(dead_code)]
fn sleep(until: Option<u64>) -> Next {
    until.map_or(Next::Wait, |time| Next::Sleep(Time::new(time)))
}
