//! Waits for the disk: an actor's requests, and the time when it goes on.

use std::collections::BTreeMap;

use pageblock_frame::Pfn;

use super::disk::{Request, Sector, Transfer};
use super::schedule::ActorId;
use super::{Machine, Time};

/// An actor and the disk.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `outstanding` | requests of its own that are not done | the actor; the disk |
/// | `waits` | true if its step ended with a wait for all of them | the schedule; the disk |
/// | `not_before` | it goes on no earlier: a writer over the limit | the actor |
#[derive(Clone, Copy, Debug, Default)]
struct Wait {
    outstanding: u32,
    waits: bool,
    not_before: Time,
}

/// All of them.
#[derive(Debug, Default)]
pub(super) struct Waits(BTreeMap<ActorId, Wait>);

impl Machine {
    /// Asks the disk for neighbouring pages; a reader waits for the end. The answer is for
    /// [`Next::Sleep`](super::Next): the actor sleeps until all is done that it asked for.
    pub(super) fn ask_disk(&self, what: Transfer, (at, pages): (Sector, u64), frames: Vec<Pfn>) -> Time {
        let owner = self.schedule.current().filter(|_| what == Transfer::Read || self.is_flusher());
        if let Some(id) = owner {
            self.one_more(id);
        }
        self.disk.borrow_mut().submit(Request { what, at, pages, owner, frames, loads: None });
        self.drive_disk();
        Time::DISK
    }

    /// The running actor goes on no earlier, even if the disk is done.
    pub(super) fn hold_back(&self, until: Time) {
        if let Some(id) = self.schedule.current() {
            self.waits.borrow_mut().0.entry(id).or_default().not_before = until;
        }
    }

    pub(super) fn drive_disk(&self) {
        let busy = self.disk.borrow_mut().decide(self.now());
        if let Some(busy) = busy {
            self.schedule.at(busy.until, move |machine| machine.disk_is_done(busy.number));
        }
    }

    fn disk_is_done(&self, number: u64) {
        let done = self.disk.borrow_mut().finish(number);
        if let Some(request) = done {
            if request.what == Transfer::Write {
                self.finish_writing(&request.frames);
            }
            match (request.loads, request.owner) {
                (Some(run), _) => self.has_loaded(run),
                (None, Some(id)) => self.one_less(id),
                (None, None) => {}
            }
        }
        self.drive_disk();
    }

    /// An actor has one more request to wait for.
    pub(super) fn one_more(&self, id: ActorId) {
        self.waits.borrow_mut().0.entry(id).or_default().outstanding += 1;
    }

    /// A request that an actor waits for is done.
    pub(super) fn one_less(&self, id: ActorId) {
        let mut waits = self.waits.borrow_mut();
        let wait = waits.0.entry(id).or_default();
        wait.outstanding = wait.outstanding.saturating_sub(1);
        if wait.outstanding == 0 && wait.waits {
            wait.waits = false;
            let at = wait.not_before.max(self.now());
            drop(waits);
            self.schedule.resume_at(id, at);
        }
    }

    /// An actor's step ended with a wait for the disk. If that is done already, when it goes on.
    pub(super) fn awaits_disk(&self, id: ActorId) -> Option<Time> {
        let mut waits = self.waits.borrow_mut();
        let wait = waits.0.entry(id).or_default();
        wait.waits = wait.outstanding > 0;
        (!wait.waits).then_some(wait.not_before)
    }

    /// An actor's step begins.
    pub(super) fn stops_waiting(&self, id: ActorId) {
        if let Some(wait) = self.waits.borrow_mut().0.get_mut(&id) {
            wait.waits = false;
        }
    }
}
