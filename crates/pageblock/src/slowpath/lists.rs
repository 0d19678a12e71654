//! Rungs that take back what per-CPU lists hold: it may be of another order, or make a larger block.

use pageblock_buddy::Zone;
use pageblock_frame::sync::{AtomicU32, AtomicU64, Ordering, Pinned};
use pageblock_frame::{CpuId, Gfp, Order, Platform};
use pageblock_pcp::{Drain, PcpLists};

use super::attempts::at_min;
use super::{Climb, Step};
use crate::counters::count;
use crate::inner::Inner;

/// Rounds that a request waits for other CPUs to empty their lists.
pub(crate) const SPINS: u64 = 1 << 12;
/// CPUs whose lists one request of the short ladder empties.
const MAX_DRAINED: usize = 4;
/// log2 of the requests that are told of a drain in vain without another drain, at most.
const MAX_SHIFT: u32 = 6;

/// What the last drain came to. Requests that it could not help are refused without another one, for more and more of them,
/// until frames have come back to the zones. All fields are hints: Relaxed, and lost updates cost a drain.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `left` | requests that will be refused without a drain | a refused request |
/// | `shift` | 0 after a drain that helped, else log2 of the next `left` | the request that drained |
/// | `order` | the smallest order that the drain did not help | the same |
/// | `free` | free frames of all zones after it | the same |
/// | `cursor` | the CPU whose lists are looked at first | the same |
#[derive(Debug)]
pub(crate) struct LastDrain {
    left: AtomicU32,
    shift: AtomicU32,
    order: AtomicU32,
    free: AtomicU64,
    cursor: AtomicU32,
}

impl LastDrain {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self { left: zero(), shift: zero(), order: zero(), free: AtomicU64::new(0), cursor: zero() }
    }

    /// True if another drain would help a request of this order no more than the last one did, where so many frames are free in the
    /// zones or at hand on lists. Counts the request.
    fn was_in_vain(&self, order: Order, free: u64) -> bool {
        let shift = self.shift.load(Ordering::Relaxed);
        if shift == 0 || u32::from(order.as_u8()) < self.order.load(Ordering::Relaxed) {
            return false;
        }
        if free > self.free.load(Ordering::Relaxed) {
            // Frames have come back since.
            self.shift.store(0, Ordering::Relaxed);
            return false;
        }
        let left = self.left.load(Ordering::Relaxed);
        self.left.store(left.saturating_sub(1), Ordering::Relaxed);
        left > 0
    }

    fn note_in_vain(&self, order: Order, free: u64) {
        let shift = self.shift.load(Ordering::Relaxed);
        let order = u32::from(order.as_u8());
        let order = if shift == 0 { order } else { order.min(self.order.load(Ordering::Relaxed)) };
        let shift = (shift + 2).min(MAX_SHIFT);
        self.order.store(order, Ordering::Relaxed);
        self.free.store(free, Ordering::Relaxed);
        self.left.store((1 << shift) - 1, Ordering::Relaxed);
        self.shift.store(shift, Ordering::Relaxed);
    }

    fn note_help(&self) {
        self.shift.store(0, Ordering::Relaxed);
    }
}

/// On the short ladder: what the lists of this CPU and of a few others hold, unless it is known to be of no use. Other CPUs are asked
/// only by a request that can wait. The price does not grow with the number of CPUs but for a look at their lists, which a drain in
/// vain makes rare.
pub(super) fn take_back<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    let inner = request.inner;
    let free = || request.zones().map(Zone::free_frames).sum::<u64>();
    let own = Pinned::<P>::new().cpu();
    let must = climb.has(Gfp::NOFAIL);
    let lists = request.zones().filter_map(|zone| inner.lists_of(zone));
    let held: u64 = lists.map(|lists| lists.frames_on(own) + lists.frames_in_depot()).sum();
    if held < request.order.frames() && !must && inner.last_drain.was_in_vain(request.order, free() + held) {
        return Step::Continue(());
    }
    let mut found = drain_of(climb, own);
    if climb.has(Gfp::DIRECT_RECLAIM) {
        found |= drain_others(climb, own, if must { usize::MAX } else { MAX_DRAINED });
    }
    let step = if found { at_min(climb) } else { Step::Continue(()) };
    match step {
        Step::Break(_) => inner.last_drain.note_help(),
        Step::Continue(()) => inner.last_drain.note_in_vain(request.order, free()),
    }
    step
}

/// Empties the lists of so many other CPUs that hold something, beginning where the last request ended.
fn drain_others<P: Platform>(climb: &Climb<P>, own: CpuId, most: usize) -> bool {
    let inner = climb.request.inner;
    let cpus = (inner.cpus.len() as u32).max(1);
    let first = inner.last_drain.cursor.load(Ordering::Relaxed) % cpus;
    let others = (0..cpus).map(|step| CpuId::new((first + step) % cpus)).filter(|cpu| *cpu != own);
    let mut drained = 0;
    for cpu in others {
        if drained == most {
            inner.last_drain.cursor.store(cpu.index() as u32, Ordering::Relaxed);
            break;
        }
        drained += usize::from(drain_of(climb, cpu));
    }
    if drained > 0 {
        count(&inner.counters.drains);
    }
    drained > 0
}

/// Empties the lists of one CPU in the zones of the request. True if they held anything.
fn drain_of<P: Platform>(climb: &Climb<P>, cpu: CpuId) -> bool {
    let request = &climb.request;
    let mut held = false;
    for lists in request.zones().filter_map(|zone| request.inner.lists_of(zone)) {
        // The depot's batches are drained together with any CPU's lists.
        if lists.frames_on(cpu) + lists.frames_in_depot() > 0 {
            held = true;
            if lists.drain_cpu(cpu) == Ok(Drain::Kicked) {
                let _ = lists.wait(SPINS);
            }
        }
    }
    held
}

/// What this CPU's lists hold.
pub(super) fn drain_own_lists<P: Platform>(climb: &Climb<P>) -> Step {
    let own = Pinned::<P>::new().cpu();
    if drain_of(climb, own) { at_min(climb) } else { Step::Continue(()) }
}

/// The other CPUs are asked for what they hold, and have a moment to answer (`drain_all_pages()`).
pub(super) fn drain_all_lists<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    if drain_zones(request.inner, request.zones(), SPINS) { at_min(climb) } else { Step::Continue(()) }
}

/// Empties the lists of some zones: this CPU's at once, the others' by request. Waits `spins` rounds for each zone in which a CPU was
/// kicked; a CPU that has not answered by then does not help the caller. True if the lists held anything.
pub(crate) fn drain_zones<P: Platform>(
    inner: &Inner<P>,
    zones: impl Iterator<Item = &'static Zone<'static>>,
    spins: u64,
) -> bool {
    let mut held = false;
    for zone in zones {
        if let Some(lists) = inner.lists_of(zone).filter(|lists| lists.frames() > 0) {
            if !held {
                count(&inner.counters.drains);
            }
            held = true;
            drain_lists(lists, spins);
        }
    }
    held
}

/// Asks all CPUs for what their lists hold, and waits for those that were kicked. Returns how many have yet to answer.
pub(crate) fn drain_lists<P: Platform>(lists: &PcpLists<'_, P>, spins: u64) -> u32 {
    let (mut kicked, mut requested) = (0, 0);
    for cpu in 0..lists.cpus() as u32 {
        match lists.drain_cpu(CpuId::new(cpu)) {
            Ok(Drain::Kicked) => kicked += 1,
            Ok(Drain::Requested) => requested += 1,
            Ok(Drain::Done) | Err(_) => {}
        }
    }
    if kicked > 0 && lists.wait(if requested > 0 { 0 } else { spins }).is_ok() { requested } else { kicked + requested }
}
