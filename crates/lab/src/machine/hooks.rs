//! The machine as the allocator sees it: wake-ups, waits, and counts.

use std::cell::Cell;
use std::rc::{Rc, Weak};

use pageblock_frame::reclaim::{FilePages, Shrink, Shrunk};
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{CpuId, Gfp, NodeId, PAGEBLOCK_ORDER, Pfn, ZoneKind};
use serde::Serialize;

use super::owner::{Hooks, Name, Sim};
use super::{Machine, Time, costs};

/// Events since the start, in the words of `/proc/vmstat`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Tally {
    /// Blocks handed out.
    pub(crate) allocs: u64,
    /// Frames handed out, by kind of zone (`pgalloc_*`).
    pub(crate) zone_allocs: [u64; pageblock_frame::ZoneKind::COUNT],
    /// Page faults without I/O.
    pub(crate) minor_faults: u64,
    /// Page faults with I/O.
    pub(crate) major_faults: u64,
    /// Requests for single frames that failed: the machine would have killed a process.
    pub(crate) out_of_memory: u64,
    /// Kernel objects that shrinkers looked at.
    pub(crate) slabs_scanned: u64,
    /// Pages dropped together with their inode, by kswapd and by tasks that reclaim for themselves.
    pub(crate) inode_steals: [u64; 2],
    /// Anonymous pages written to swap, and read from it.
    pub(crate) swapped_out: u64,
    pub(crate) swapped_in: u64,
    /// Pages of files that reclaim began to write.
    pub(crate) written_by_reclaim: u64,
    /// Fallbacks between migrate types.
    pub(crate) fallbacks: u64,
    /// Of those, the ones that took less than a pageblock.
    pub(crate) fragmenting: u64,
    /// Of those, the ones in a burst of 15 or more: one refill of a per-CPU list.
    pub(crate) in_bursts: u64,
    /// Blocks handed out by type: unmovable, movable, reclaimable.
    pub(crate) typed_allocs: [u64; 3],
    /// Times that kswapd was woken.
    pub(crate) kswapd_wakes: u64,
    /// Times that an actor waited inside an allocation.
    pub(crate) waits: u64,
    /// Nanoseconds of that.
    pub(crate) waited: u64,
    /// Frames that the migrate scanner looked at.
    pub(crate) migrate_scanned: u64,
    /// Frames that the free scanner looked at.
    pub(crate) free_scanned: u64,
    /// Frames moved.
    pub(crate) migrated: u64,
}

/// Fallbacks in a burst from which on it counts as one.
const BURST: u64 = 15;

/// Fallbacks of one refill: nothing between them takes time.
#[derive(Debug, Default)]
pub(super) struct Burst(Cell<Option<(Time, u64)>>);

impl Burst {
    /// One more fallback. How many more lie in bursts for it.
    fn join(&self, now: Time) -> u64 {
        let length = self.0.get().filter(|(time, _)| *time == now).map_or(0, |(_, length)| length) + 1;
        self.0.set(Some((now, length)));
        match length {
            ..BURST => 0,
            BURST => BURST,
            _ => 1,
        }
    }
}

/// The machine's place in its own memory: does not keep it alive.
pub(super) struct Seat(Weak<Machine>);

impl Seat {
    pub(super) fn new(machine: Weak<Machine>) -> Self {
        Self(machine)
    }

    fn machine(&self) -> Option<Rc<Machine>> {
        self.0.upgrade()
    }
}

impl Hooks for Seat {
    fn wake_kswapd(&self, node: NodeId) {
        if let Some(machine) = self.machine() {
            machine.tally.borrow_mut().kswapd_wakes += 1;
            machine.wake_kswapd(node);
        }
    }

    fn wake_kcompactd(&self, node: NodeId) {
        if let Some(machine) = self.machine() {
            machine.wake_kcompactd(node);
        }
    }

    fn wait_until(&self, _node: NodeId, deadline: u64) {
        if let Some(machine) = self.machine() {
            machine.wait_until(Time::new(deadline));
        }
    }

    fn wake_waiters(&self, _node: NodeId) {
        if let Some(machine) = self.machine() {
            machine.schedule.wake_waiters();
        }
    }

    fn kick(&self, cpu: CpuId) -> bool {
        self.machine().is_some_and(|machine| {
            let before = machine.schedule.current();
            Sim::set_cpu(cpu);
            machine.memory.allocator().cpus().handle_kick();
            machine.resume(before, machine.now());
            true
        })
    }

    fn is_crowded(&self) -> bool {
        self.machine().is_some_and(|machine| machine.wants_reschedule())
    }

    fn shrink(&self, round: &Shrink) -> Option<Shrunk> {
        Some(self.machine()?.shrink(round))
    }

    fn enters(&self, pfn: Pfn, name: Name, written: bool) {
        if let Some(machine) = self.machine() {
            machine.readmit(pfn, name, written);
        }
    }

    fn file_pages(&self, node: NodeId, zone: ZoneKind) -> FilePages {
        self.machine().map_or(FilePages::default(), |machine| machine.zone_files(node, zone))
    }

    fn trace(&self, event: &Event) {
        if let Some(machine) = self.machine() {
            machine.note(event);
        }
    }
}

impl Machine {
    /// Counts an event, and charges its cost.
    fn note(&self, event: &Event) {
        let mut tally = self.tally.borrow_mut();
        let cost = match *event {
            Event::Alloc { pfn, order, gfp, .. } => {
                tally.allocs += 1;
                tally.typed_allocs[gfp.migrate_type().index().min(2)] += 1;
                if let Some(zone) = self.memory.allocator().zone_of(pfn) {
                    tally.zone_allocs[zone.kind().index()] += order.frames();
                }
                let zeroed = if gfp.contains(Gfp::ZERO) { order.frames() * costs::ZERO_PAGE } else { 0 };
                zeroed + if order == PAGEBLOCK_ORDER { costs::ALLOC_HUGE } else { costs::ALLOC }
            }
            Event::Free { .. } => costs::FREE,
            Event::Fallback(fallback) => {
                tally.fallbacks += 1;
                if fallback.is_fragmenting() {
                    tally.fragmenting += 1;
                    tally.in_bursts += self.burst.join(self.now());
                }
                0
            }
            Event::Compaction(CompactEvent::IsolateMigrate { scanned, .. }) => {
                tally.migrate_scanned += scanned;
                scanned * costs::SCAN_SOURCE
            }
            Event::Compaction(CompactEvent::IsolateFree { scanned, .. }) => {
                tally.free_scanned += scanned;
                scanned * costs::SCAN_TARGET
            }
            Event::Compaction(CompactEvent::Migrate { migrated, .. }) => {
                tally.migrated += migrated;
                migrated * costs::MIGRATE
            }
            Event::Compaction(CompactEvent::End { at, .. }) => {
                self.remember_scanners(&at);
                0
            }
            _ => 0,
        };
        drop(tally);
        if cost > 0 {
            self.compute(cost);
        }
    }

    /// Between two batches of a compaction the others catch up. True if another actor waits for this CPU and its turn
    /// is over.
    fn wants_reschedule(&self) -> bool {
        let (id, reclaiming) = (self.schedule.current(), Sim::is_reclaiming());
        self.schedule.interleave(self);
        Sim::set_reclaiming(reclaiming);
        self.resume(id, self.now());
        self.schedule.is_crowded() && self.schedule.step_time() > costs::TIME_SLICE
    }

    /// The running actor waits inside the allocator.
    fn wait_until(&self, deadline: Time) {
        let (id, began, reclaiming) = (self.schedule.current(), self.now(), Sim::is_reclaiming());
        self.schedule.wait_until(self, deadline);
        Sim::set_reclaiming(reclaiming);
        self.resume(id, self.now());
        let mut tally = self.tally.borrow_mut();
        tally.waits += 1;
        tally.waited += self.now().since(began);
    }
}
