//! The simulated machine that experiments run on.
//!
//! Every decision of the allocator, of reclaim and of compaction is made by the real crates; only the world around them
//! is simulated, and its time. A machine is deterministic: the same setup and the same actors give the same history.
//!
//! * [`Machine`]: memory, disk, files, processes, kernel objects and their clock
//! * [`Actor`]: a process or thread that works in steps ([`schedule`])
//! * [`owner`]: the holder of each frame of its memory, and what can be moved or given up
//! * `disk`, `waits`: an elevator, and the actors that wait for it
//! * `loading`: pages on their way from the disk
//! * `cache`: reading, writing and deleting files; `writeback`: dirty pages on their way to the disk
//! * `journal`, `xfs`, `log`: the file system's own pages, of ext4 and of XFS, and the latter's log; `mapped`: programs and libraries
//! * `process`: anonymous memory; `objects`: slabs, and shrinking them
//! * `shadows`: records of evicted pages
//! * `reclaim`: the work of the pages' owner for scanners of the LRU lists
//! * `threads`: kswapd, kcompactd, the write-back thread
//! * [`costs`]: the cost of each operation, in simulated time
//!
//! # Rules
//! 1. The allocator comes back in: it moves and evicts pages, and lets others run while it waits. So no borrow of the
//!    machine's state is held in a call to it.
//! 2. A step is one operation; its cost is charged where it is done.
//! 3. One machine a thread at a time: platform functions are static.

mod cache;
pub(crate) mod costs;
mod disk;
mod files;
mod hooks;
mod journal;
mod loading;
mod log;
mod mapped;
mod objects;
pub(crate) mod owner;
mod process;
mod reclaim;
mod schedule;
mod setup;
mod shadows;
mod slab;
#[cfg(test)]
mod tests;
mod threads;
mod time;
mod waits;
mod writeback;
mod xfs;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::{Rc, Weak};

use anyhow::Context;
use pageblock_frame::trace::ScanPositions;
use pageblock_frame::{CpuId, Pfn, ZoneKind};
use pageblock_reclaim::Shrinker;
use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

pub(crate) use cache::Stream;
pub(crate) use disk::Drive;
pub(crate) use files::FileId;
pub(crate) use objects::Shrinking;
pub(crate) use process::{Fault, ProcessId};
pub(crate) use schedule::{Actor, ActorId, Next};
pub(crate) use setup::{Setup, zones_of};
pub(crate) use slab::Kind;
pub(crate) use time::Time;

use disk::Disk;
use files::Files;
use hooks::{Burst, Seat, Tally};
use journal::Journal;
use loading::Loading;
use log::Log;
use objects::Deferred;
use owner::{Entered, Memory, Sim};
use process::Processes;
use reclaim::Pages;
use schedule::Schedule;
use shadows::Shadows;
use slab::Slabs;
use threads::Threads;
use waits::Waits;
use writeback::{Dirty, Piece};
use xfs::Buffers;

/// A machine. Lives on one thread.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `memory` | see there | all, through its methods |
/// | `schedule` | see there | actors spawn, wake, sleep; `run` |
/// | `disk`, `waits`, `files`, `slabs`, `dirty`, `processes` | see their types | the operations of `cache`, `objects`, `writeback`, `process`; borrowed for a moment |
/// | `tally` | counts since the start | the hooks |
pub(crate) struct Machine {
    memory: Rc<Memory>,
    schedule: Schedule,
    disk: RefCell<Disk>,
    waits: RefCell<Waits>,
    loading: RefCell<Loading>,
    /// Files are read ahead while their reader goes on.
    reads_ahead: bool,
    files: RefCell<Files>,
    slabs: RefCell<Slabs>,
    /// Dentries and inodes that the shrinker still has to look at, and by which rule.
    deferred: Cell<Deferred>,
    shrinking: Shrinking,
    shrinker: Shrinker<'static, 'static, Pages, Sim>,
    dirty: RefCell<Dirty>,
    shadows: RefCell<Shadows>,
    processes: RefCell<Processes>,
    threads: Threads,
    journal: RefCell<Journal>,
    /// Nanoseconds for which the journal holds a page; 0: there is none.
    journal_hold: u64,
    /// The file system is XFS, with these buffers.
    is_xfs: bool,
    buffers: RefCell<Buffers>,
    log: RefCell<Log>,
    /// Pieces of files on their way to the disk, by the first frame of each.
    pieces: RefCell<HashMap<Pfn, Piece>>,
    /// Age at which dirty pages are written, in nanoseconds.
    dirty_expire: u64,
    tally: RefCell<Tally>,
    burst: Burst,
    /// By kind of zone, where the scanners of its last compaction ended: the migrate scanner's frame and the free
    /// scanner's.
    scanners: Cell<[Option<(Pfn, Pfn)>; ZoneKind::COUNT]>,
    /// Nanoseconds of CPU that programs used themselves.
    user: Cell<u64>,
    random: RefCell<Xoshiro256PlusPlus>,
    cpus: u32,
    /// Frames that the allocator manages.
    managed: u64,
    /// The thread is on this machine until this is dropped.
    _entered: Entered,
}

impl std::fmt::Debug for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Machine").field("now", &self.now()).field("memory", &self.memory).finish_non_exhaustive()
    }
}

impl Machine {
    /// Boots a machine, with its kernel threads, and makes it the thread's.
    pub(crate) fn boot(setup: &Setup) -> anyhow::Result<Rc<Self>> {
        let memory = Memory::new(&setup.memory).context("the machine does not boot")?;
        let managed = memory.allocator().stats().managed;
        let machine = Rc::new_cyclic(|weak: &Weak<Self>| {
            memory.set_hooks(Some(Rc::new(Seat::new(weak.clone()))));
            Self {
                _entered: memory.enter(),
                schedule: Schedule::new(setup.cpus),
                disk: RefCell::new(Disk::new(setup.drive)),
                waits: RefCell::default(),
                loading: RefCell::default(),
                reads_ahead: setup.reads_ahead,
                files: RefCell::default(),
                slabs: RefCell::default(),
                deferred: Cell::default(),
                shrinking: setup.shrinking,
                shrinker: Shrinker::new(memory.areas(), Pages::new(weak.clone()), setup.shrink),
                dirty: RefCell::default(),
                shadows: RefCell::default(),
                processes: RefCell::default(),
                threads: Threads::default(),
                journal: RefCell::default(),
                journal_hold: setup.journal_hold,
                is_xfs: setup.is_xfs,
                buffers: RefCell::default(),
                log: RefCell::new(Log::new(setup.log_period)),
                pieces: RefCell::default(),
                dirty_expire: setup.dirty_expire,
                tally: RefCell::default(),
                burst: Burst::default(),
                scanners: Cell::default(),
                user: Cell::default(),
                random: RefCell::new(Xoshiro256PlusPlus::seed_from_u64(setup.seed)),
                cpus: setup.cpus.max(1),
                managed,
                memory,
            }
        });
        machine.files.borrow_mut().marks_second_use = setup.marks_second_use;
        machine.start_threads();
        Ok(machine)
    }

    /// Its memory.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The simulated time, for the running actor.
    pub(crate) fn now(&self) -> Time {
        self.schedule.now()
    }

    /// Frames that the allocator manages.
    pub(crate) fn managed(&self) -> u64 {
        self.managed
    }

    /// Counts since the start.
    pub(crate) fn tally(&self) -> Tally {
        *self.tally.borrow()
    }

    /// Pages read from the disk and written to it since the start.
    pub(crate) fn transferred(&self) -> (u64, u64) {
        self.disk.borrow().transferred()
    }

    /// The machine's dice. Not to be held across a call of the machine.
    pub(crate) fn dice<R>(&self, throw: impl FnOnce(&mut Xoshiro256PlusPlus) -> R) -> R {
        throw(&mut self.random.borrow_mut())
    }

    /// A new actor.
    pub(crate) fn spawn(&self, actor: impl Actor + 'static) -> ActorId {
        self.schedule.spawn(Box::new(actor))
    }

    /// The running actor computes for so many nanoseconds.
    pub(crate) fn compute(&self, nanoseconds: u64) {
        self.schedule.charge(nanoseconds);
        Sim::set_now(self.now().nanoseconds());
    }

    /// The running actor's program computes for so many nanoseconds.
    pub(crate) fn think(&self, nanoseconds: u64) {
        self.user.set(self.user.get() + nanoseconds);
        self.compute(nanoseconds);
    }

    /// Nanoseconds of CPU that all actors used: their programs, and the kernel.
    pub(crate) fn cpu_times(&self) -> (u64, u64) {
        (self.user.get(), self.schedule.cpu_used().saturating_sub(self.user.get()))
    }

    /// Where the scanners of a zone's last compaction ended: the migrate scanner's frame, and the free scanner's.
    pub(crate) fn scanners(&self, zone: ZoneKind) -> Option<(Pfn, Pfn)> {
        self.scanners.get()[zone.index()]
    }

    fn remember_scanners(&self, at: &ScanPositions) {
        let zone = self.memory.allocator().zones().find(|zone| zone.span() == at.zone);
        let mut all = self.scanners.get();
        if let Some(zone) = zone {
            all[zone.kind().index()] = Some((at.migrate, at.free));
        }
        self.scanners.set(all);
    }

    /// Lets the actors act until `limit`.
    pub(crate) fn run_until(&self, limit: Time) {
        self.run_while(limit, &|| true);
    }

    /// Lets the actors act until `limit`, or until `goes_on` says no: asked before every step.
    pub(crate) fn run_while(&self, limit: Time, goes_on: &dyn Fn() -> bool) {
        self.schedule.run(self, limit, &|| !goes_on());
        if goes_on() {
            self.schedule.pass(limit);
        }
    }

    /// The thread is this actor from here on. Returns the former one, for [`leave`](Self::leave).
    fn enter(&self, id: ActorId, time: Time) -> bool {
        let reclaiming = Sim::is_reclaiming();
        Sim::set_reclaiming(false);
        self.resume(Some(id), time);
        reclaiming
    }

    /// The actor's step is over.
    fn leave(&self, before: Option<ActorId>, reclaiming: bool) {
        Sim::set_reclaiming(reclaiming);
        self.resume(before, self.now());
    }

    fn resume(&self, id: Option<ActorId>, time: Time) {
        Sim::set_cpu(CpuId::new(id.map_or(0, |id| id.number() % self.cpus)));
        Sim::set_now(time.nanoseconds());
    }
}
