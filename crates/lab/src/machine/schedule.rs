//! The order of work: actors with a local time each, and events.
//!
//! The actor with the smallest local time takes a step; the charges of the step move its time on. While more actors
//! want to run than there are CPUs, all progress slower by that factor (processor sharing). An actor that waits inside
//! its step, because the allocator waits, runs the others in a nested loop until it is woken or its deadline comes; it
//! is not entered again meanwhile. Several may wait so at once: the inner ones end first, so that an outer one can be
//! late by the longer wait of an inner one.
//!
//! | field | legal values | changed by |
//! |---|---|---|
//! | `queue` | one entry for each actor that neither runs nor waits, and one for each event | the callers that schedule |
//! | `now` | never goes back, but for a step's charges on top of it | the loops below |
//! | `charged` | nanoseconds of CPU that the running step has used | `charge`, the loops |
//! | `runnable` | actors with an entry that says they want the CPU, and those that run | `push`, `pop`, the loops |

use std::cell::{Cell, RefCell};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Machine;
use super::time::Time;

/// An actor's wish after a step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// To go on.
    Run,
    /// To go on at that time; with [`Time::DISK`], when the disk is done.
    Sleep(Time),
    /// To be woken with [`Schedule::wake`].
    Wait,
    /// Nothing more: it is dropped.
    Exit,
}

/// A process, or a kernel thread.
pub(crate) trait Actor {
    /// One operation; its costs are charged to the machine meanwhile.
    fn step(&mut self, machine: &Machine) -> Next;
}

/// Names an actor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct ActorId(u32);

impl ActorId {
    /// Counted from 0 in the order of their beginning.
    pub(crate) const fn number(self) -> u32 {
        self.0
    }

    #[cfg(test)]
    pub(crate) const fn of(number: u32) -> Self {
        Self(number)
    }
}

/// Something that happens at a time of its own.
type Action = Box<dyn FnOnce(&Machine)>;

enum Slot {
    /// Gone, or never there.
    Empty,
    /// In the queue, or to be woken.
    Idle(Box<dyn Actor>),
    /// Stepping, or waiting inside its step; true if it was woken meanwhile.
    Busy(bool),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Entry {
    Event(u32),
    Runs(ActorId),
    Sleeps(ActorId),
}

/// The queue of a machine.
pub(crate) struct Schedule {
    cpus: u64,
    now: Cell<Time>,
    charged: Cell<u64>,
    runnable: Cell<u64>,
    sequence: Cell<u64>,
    current: Cell<Option<ActorId>>,
    /// When the running step began.
    began: Cell<Time>,
    /// By actor: since when its present entry in the queue counts; older entries are void.
    valid: RefCell<Vec<u64>>,
    queue: RefCell<BinaryHeap<Reverse<(Time, u64, Entry)>>>,
    actors: RefCell<Vec<Slot>>,
    actions: RefCell<Vec<Option<Action>>>,
    vacant: RefCell<Vec<u32>>,
    /// Counts the reasons of [`wake_waiters`](Self::wake_waiters).
    signals: Cell<u64>,
    /// Nanoseconds of CPU used so far.
    used: Cell<u64>,
}

impl Schedule {
    /// No actor yet.
    pub(crate) fn new(cpus: u32) -> Self {
        Self {
            cpus: u64::from(cpus.max(1)),
            now: Cell::default(),
            charged: Cell::new(0),
            runnable: Cell::new(0),
            sequence: Cell::new(0),
            current: Cell::new(None),
            began: Cell::default(),
            valid: RefCell::default(),
            queue: RefCell::default(),
            actors: RefCell::default(),
            actions: RefCell::default(),
            vacant: RefCell::default(),
            signals: Cell::new(0),
            used: Cell::new(0),
        }
    }

    /// The time of the running actor.
    pub(crate) fn now(&self) -> Time {
        self.now.get().after(self.charged.get() * self.share() / 16)
    }

    /// Nanoseconds of CPU that all actors have used.
    pub(crate) fn cpu_used(&self) -> u64 {
        self.used.get() + self.charged.get()
    }

    /// The running step used the CPU for so long.
    pub(crate) fn charge(&self, nanoseconds: u64) {
        self.charged.set(self.charged.get() + nanoseconds);
    }

    /// Sixteenths by which progress is slower than alone.
    fn share(&self) -> u64 {
        (self.runnable.get() * 16 / self.cpus).max(16)
    }

    /// A new actor, which begins now.
    pub(crate) fn spawn(&self, actor: Box<dyn Actor>) -> ActorId {
        let mut actors = self.actors.borrow_mut();
        let id = ActorId(actors.len() as u32);
        actors.push(Slot::Idle(actor));
        drop(actors);
        self.valid.borrow_mut().push(0);
        self.push(self.now(), Entry::Runs(id));
        id
    }

    /// The actor of this step.
    pub(crate) fn current(&self) -> Option<ActorId> {
        self.current.get()
    }

    /// Ends the wait or the sleep of an actor. One that is stepping goes on after its step.
    pub(crate) fn wake(&self, id: ActorId) {
        match self.actors.borrow_mut().get_mut(id.0 as usize) {
            Some(Slot::Busy(woken)) => *woken = true,
            Some(Slot::Idle(_)) if !self.is_running(id) => self.push(self.now(), Entry::Runs(id)),
            _ => {}
        }
    }

    /// An actor that waits goes on at a time.
    pub(super) fn resume_at(&self, id: ActorId, time: Time) {
        if matches!(self.actors.borrow().get(id.0 as usize), Some(Slot::Idle(_))) && !self.is_running(id) {
            self.push(time, Entry::Sleeps(id));
        }
    }

    /// True if the actor's entry in the queue says that it wants the CPU already.
    fn is_running(&self, id: ActorId) -> bool {
        let valid = self.valid.borrow();
        valid.get(id.0 as usize).is_some_and(|sequence| sequence & 1 == 1)
    }

    /// Lets something happen later.
    pub(crate) fn at(&self, time: Time, action: impl FnOnce(&Machine) + 'static) {
        let mut actions = self.actions.borrow_mut();
        let place = self.vacant.borrow_mut().pop().unwrap_or_else(|| {
            actions.push(None);
            actions.len() as u32 - 1
        });
        actions[place as usize] = Some(Box::new(action));
        drop(actions);
        self.push(time, Entry::Event(place));
    }

    fn push(&self, time: Time, entry: Entry) {
        // Odd for an actor that wants the CPU: `is_running` reads it.
        let sequence = self.sequence.get() + 2;
        self.sequence.set(sequence);
        let mark = match entry {
            Entry::Event(_) => sequence,
            Entry::Runs(id) => {
                self.runnable.set(self.runnable.get() + 1);
                self.validate(id, sequence + 1);
                sequence + 1
            }
            Entry::Sleeps(id) => {
                self.validate(id, sequence);
                sequence
            }
        };
        self.queue.borrow_mut().push(Reverse((time, mark, entry)));
    }

    fn validate(&self, id: ActorId, mark: u64) {
        if let Some(valid) = self.valid.borrow_mut().get_mut(id.0 as usize) {
            *valid = mark;
        }
    }

    /// The next entry that counts, if its time has come by `limit`.
    fn pop(&self, limit: Time) -> Option<(Time, Entry)> {
        loop {
            let mut queue = self.queue.borrow_mut();
            let &Reverse((time, mark, entry)) = queue.peek()?;
            if time > limit {
                return None;
            }
            queue.pop();
            let id = match entry {
                Entry::Event(_) => return Some((time, entry)),
                Entry::Runs(id) | Entry::Sleeps(id) => id,
            };
            let mut valid = self.valid.borrow_mut();
            let Some(current) = valid.get_mut(id.0 as usize).filter(|current| **current == mark) else { continue };
            *current = 0;
            if matches!(entry, Entry::Sleeps(_)) {
                self.runnable.set(self.runnable.get() + 1);
            }
            return Some((time, entry));
        }
    }

    /// Runs until `limit`, or until `stop` says so, or until no actor has work left.
    pub(crate) fn run(&self, machine: &Machine, limit: Time, stop: &dyn Fn() -> bool) {
        while !stop() {
            let Some((time, entry)) = self.pop(limit) else { break };
            self.now.set(self.now.get().max(time));
            match entry {
                Entry::Event(place) => {
                    let action = self.actions.borrow_mut()[place as usize].take();
                    self.vacant.borrow_mut().push(place);
                    if let Some(action) = action {
                        // Done by an interrupt: it takes no actor's time.
                        let charged = self.charged.replace(0);
                        action(machine);
                        self.used.set(self.used.get() + self.charged.replace(charged));
                    }
                }
                Entry::Runs(id) | Entry::Sleeps(id) => self.step(machine, id, time),
            }
        }
    }

    /// Nothing happens until `time`.
    pub(crate) fn pass(&self, time: Time) {
        self.now.set(self.now.get().max(time));
    }

    /// One step of one actor, after its entry has been taken out.
    fn step(&self, machine: &Machine, id: ActorId, time: Time) {
        let place = id.0 as usize;
        let slot = std::mem::replace(&mut self.actors.borrow_mut()[place], Slot::Busy(false));
        let Slot::Idle(mut actor) = slot else { return };
        let outer = (self.current.replace(Some(id)), self.charged.replace(0), self.now.replace(time));
        let outer_began = self.began.replace(time);
        let reclaiming = machine.enter(id, time);
        machine.stops_waiting(id);
        let next = actor.step(machine);
        let (end, charged) = (self.now(), self.charged.get());
        self.used.set(self.used.get() + charged);
        self.began.set(outer_began);
        self.current.set(outer.0);
        self.charged.set(outer.1);
        self.now.set(outer.2.max(time));
        machine.leave(outer.0, reclaiming);
        self.runnable.set(self.runnable.get() - 1);
        let slot = &mut self.actors.borrow_mut()[place];
        let woken = matches!(slot, Slot::Busy(true));
        let next = match next {
            Next::Wait | Next::Sleep(_) if woken => Next::Run,
            other => other,
        };
        *slot = if next == Next::Exit { Slot::Empty } else { Slot::Idle(actor) };
        match next {
            Next::Run => self.push(end, Entry::Runs(id)),
            Next::Sleep(Time::DISK) => {
                if let Some(at) = machine.awaits_disk(id) {
                    self.push(at.max(end), Entry::Sleeps(id));
                }
            }
            Next::Sleep(until) => self.push(until.max(end), Entry::Sleeps(id)),
            Next::Wait | Next::Exit => {}
        }
    }

    /// Waits inside a step: the others run until [`wake_waiters`](Self::wake_waiters) or the deadline.
    pub(crate) fn wait_until(&self, machine: &Machine, deadline: Time) {
        let before = self.signals.get();
        self.suspend(machine, deadline, &|| self.signals.get() != before);
    }

    /// Waits inside a step until the deadline or until `stop` says so.
    pub(crate) fn suspend(&self, machine: &Machine, deadline: Time, stop: &dyn Fn() -> bool) {
        let (current, charged, began) = (self.current.get(), self.charged.replace(0), self.now());
        if deadline <= began {
            self.charged.set(charged);
            return;
        }
        self.used.set(self.used.get() + charged);
        self.now.set(began);
        let waits = current.is_some();
        self.runnable.set(self.runnable.get() - u64::from(waits));
        self.current.set(None);
        self.run(machine, deadline, stop);
        self.runnable.set(self.runnable.get() + u64::from(waits));
        self.current.set(current);
        let ended = if stop() { self.now.get() } else { deadline.max(self.now.get()) };
        self.now.set(ended);
    }

    /// Lets the others catch up with the running step: between two batches of a long operation.
    pub(crate) fn interleave(&self, machine: &Machine) {
        let (current, now) = (self.current.get(), self.now());
        let charged = self.charged.replace(0);
        self.used.set(self.used.get() + charged);
        self.current.set(None);
        self.run(machine, now, &|| false);
        self.current.set(current);
        self.now.set(now.max(self.now.get()));
    }

    /// Nanoseconds since the running step began.
    pub(crate) fn step_time(&self) -> u64 {
        self.now().since(self.began.get())
    }

    /// True if more actors want to run than there are CPUs.
    pub(crate) fn is_crowded(&self) -> bool {
        self.runnable.get() > self.cpus
    }

    /// Ends every wait in [`wait_until`](Self::wait_until).
    pub(crate) fn wake_waiters(&self) {
        self.signals.set(self.signals.get() + 1);
    }
}
