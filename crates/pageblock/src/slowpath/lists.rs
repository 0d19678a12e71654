//! Rungs that take back the blocks on per-CPU lists: they may be of another order, or make a larger block.

use pageblock_buddy::Zone;
use pageblock_frame::sync::{AtomicU32, AtomicU64, Ordering, Pinned};
use pageblock_frame::{AllocFlags, CpuId, Gfp, Order, PAGEBLOCK_ORDER, Platform};
use pageblock_pcp::{Drain, PcpLists};

use super::attempts::at_min;
use super::wake::wake_threads;
use super::{Climb, Step, nothing_else_helps};
use crate::counters::count;
use crate::inner::Inner;
use crate::request::Request;

/// Rounds that a request waits for other CPUs to empty their lists.
pub(crate) const SPINS: u64 = 1 << 12;
/// CPUs of which one request of the short ladder empties the lists, and of which it looks at them.
const MAX_DRAINED: usize = 2;
const MAX_SEEN: usize = 16;
/// Requests that are refused on the word of a drain in vain, before there is another drain.
const MAX_REFUSED: u32 = 63;

/// Free memory as one CPU sees it at little cost. Blocks on the lists of other CPUs are not in it.
#[derive(Clone, Copy, Debug)]
struct Seen {
    /// Frames that are free in the zones or on this CPU's lists.
    frames: u64,
    /// Batches of the depots that are in use.
    batches: u32,
}

impl Seen {
    const NOTHING: Self = Self { frames: 0, batches: 0 };

    fn by<P: Platform>(request: &Request<P>, own: CpuId) -> Self {
        let mut seen = Self::NOTHING;
        request.zones().for_each(|zone| seen.add(request, zone, own));
        seen
    }

    #[inline]
    fn add<P: Platform>(&mut self, request: &Request<P>, zone: &'static Zone<'static>, own: CpuId) {
        self.frames += zone.free_frames();
        if let Some(lists) = request.inner.lists_of(zone) {
            self.frames += lists.frames_on(own);
            self.batches += lists.batches_in_use();
        }
    }
}

/// Result of the last drain. Requests that it could not help are refused without another one until more is free than
/// was then. Blocks that come and go meanwhile, or are freed to other CPUs' lists, are found by the drain that comes
/// after some refusals. All fields are hints: Relaxed, and lost updates cost a drain.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `left` | requests that will be refused without a drain | a refused request; 0 by a drain that helped |
/// | `order` | the smallest order that the drain did not help | the request that drained |
/// | `frames`, `batches` | [`Seen`] after it | the same |
/// | `cursor` | the first CPU to look at | the same |
#[derive(Debug)]
pub(crate) struct LastDrain {
    left: AtomicU32,
    order: AtomicU32,
    frames: AtomicU64,
    batches: AtomicU32,
    cursor: AtomicU32,
}

impl LastDrain {
    pub(crate) fn new() -> Self {
        let zero = || AtomicU32::new(0);
        Self { left: zero(), order: zero(), frames: AtomicU64::new(0), batches: zero(), cursor: zero() }
    }

    /// True if another drain would help a request of this order no more than the last one did. Counts the request.
    fn was_in_vain(&self, order: Order, now: Seen) -> bool {
        let left = self.left.load(Ordering::Relaxed);
        let more =
            now.frames > self.frames.load(Ordering::Relaxed) || now.batches > self.batches.load(Ordering::Relaxed);
        if left == 0 || more || u32::from(order.as_u8()) < self.order.load(Ordering::Relaxed) {
            return false;
        }
        self.left.store(left - 1, Ordering::Relaxed);
        true
    }

    fn note_in_vain(&self, order: Order, now: Seen) {
        self.order.store(order.as_u8().into(), Ordering::Relaxed);
        self.frames.store(now.frames, Ordering::Relaxed);
        self.batches.store(now.batches, Ordering::Relaxed);
        self.left.store(MAX_REFUSED, Ordering::Relaxed);
    }

    fn note_help(&self) {
        self.left.store(0, Ordering::Relaxed);
    }
}

/// On a platform where nothing moves memory or gives it up: true if the request would climb the short ladder in vain,
/// as one before it did. The zones cannot serve it, and lists and depots hold no more than they did then.
#[inline]
pub(crate) fn is_refused_again<P: Platform>(request: &Request<P>) -> bool {
    request.inner.last_drain.left.load(Ordering::Relaxed) > 0 && looks_refused(request)
}

#[cold]
fn looks_refused<P: Platform>(request: &Request<P>) -> bool {
    const INSISTS: Gfp = Gfp::NOFAIL.union(Gfp::MEMALLOC).union(Gfp::ATOMIC_BIT);
    if request.gfp.intersects(INSISTS) || !nothing_else_helps::<P>() {
        return false;
    }
    let flags = request.slow_flags();
    let own = Pinned::<P>::new().cpu();
    let mut now = Seen::NOTHING;
    for zone in request.zones() {
        if may_serve(request, zone, flags) || zone.highatomic() > 0 || zone.boost() > 0 {
            return false;
        }
        now.add(request, zone, own);
    }
    let refused = request.inner.last_drain.was_in_vain(request.order, now);
    if refused {
        wake_threads(request);
    }
    refused
}

/// On the short ladder: the blocks on the lists of this CPU and of a few others, unless they are known to be of no use.
/// Other CPUs are asked only by a request that can wait. The price does not grow with the number of CPUs.
pub(super) fn take_back<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    let last_drain = &request.inner.last_drain;
    let own = Pinned::<P>::new().cpu();
    let must = climb.has(Gfp::NOFAIL);
    if !must && last_drain.was_in_vain(request.order, Seen::by(request, own)) {
        return Step::Continue(());
    }
    let mut step = give_back_own(climb, own);
    let mut drained = Drained::default();
    if step.is_continue() && climb.has(Gfp::DIRECT_RECLAIM) {
        drained = drain_others(climb, own, must);
        if drained.helps {
            step = at_min(climb);
        }
    }
    match step {
        Step::Break(_) => last_drain.note_help(),
        Step::Continue(()) if climb.has(Gfp::DIRECT_RECLAIM) => {
            let mut now = Seen::by(request, own);
            // These will be free in the zone soon, where a request finds them without a drain.
            now.frames += drained.pending;
            last_drain.note_in_vain(request.order, now);
        }
        // The other CPUs have not been asked.
        Step::Continue(()) => {}
    }
    step
}

/// Outcome of a drain of lists that held something.
#[derive(Clone, Copy, Debug, Default)]
struct Drained {
    /// Blocks may have gone back by now: the CPU is this one, or has been kicked.
    helps: bool,
    /// Frames on lists of CPUs that have been asked, and that nothing kicked.
    pending: u64,
}

/// Empties the lists of other CPUs: of all for a request that must not fail, else of some that hold something,
/// beginning where the last request ended.
fn drain_others<P: Platform>(climb: &Climb<P>, own: CpuId, must: bool) -> Drained {
    let inner = climb.request.inner;
    let (most_drained, most_seen) = if must { (usize::MAX, usize::MAX) } else { (MAX_DRAINED, MAX_SEEN) };
    let cpus = (inner.cpus.len() as u32).max(1);
    let first = inner.last_drain.cursor.load(Ordering::Relaxed) % cpus;
    let (mut asked, mut seen) = (0, 0);
    let mut drained = Drained::default();
    while asked < most_drained && seen < most_seen.min(cpus as usize) {
        let cpu = CpuId::new((first + seen as u32) % cpus);
        seen += 1;
        if cpu != own {
            let Drained { helps, pending } = drain_of(climb, cpu);
            asked += usize::from(helps || pending > 0);
            drained = Drained { helps: drained.helps | helps, pending: drained.pending + pending };
        }
    }
    inner.last_drain.cursor.store((first + seen as u32) % cpus, Ordering::Relaxed);
    if drained.helps {
        count(&inner.counters.drains);
    }
    drained
}

/// Empties the lists of one CPU in the zones of the request.
fn drain_of<P: Platform>(climb: &Climb<P>, cpu: CpuId) -> Drained {
    let request = &climb.request;
    let mut drained = Drained::default();
    for lists in request.zones().filter_map(|zone| request.inner.lists_of(zone)) {
        let held = lists.frames_on(cpu);
        if held == 0 {
            continue;
        }
        match lists.drain_cpu(cpu) {
            Ok(Drain::Done) => drained.helps = true,
            Ok(Drain::Kicked) => {
                drained.helps = true;
                let _ = lists.wait(SPINS);
            }
            Ok(Drain::Requested) => drained.pending += held,
            Err(_) => {}
        }
    }
    drained
}

/// Blocks on this CPU's lists.
pub(super) fn drain_own_lists<P: Platform>(climb: &Climb<P>) -> Step {
    give_back_own(climb, Pinned::<P>::new().cpu())
}

/// Gives back as many blocks of this CPU's lists as the request needs, and all if it is refused the blocks that this
/// has made.
fn give_back_own<P: Platform>(climb: &Climb<P>, own: CpuId) -> Step {
    let request = &climb.request;
    let mut helped = false;
    for zone in request.zones() {
        if let Some(lists) = request.inner.lists_of(zone) {
            helped |= lists.give_back_until(request.order, || may_serve(request, zone, climb.flags()));
        }
    }
    if !helped {
        return Step::Continue(());
    }
    at_min(climb)?;
    // Not all went back if the zone seemed able to serve for a moment.
    if drain_of(climb, own).helps { at_min(climb) } else { Step::Continue(()) }
}

/// The zone has enough frames for the request, and a block, of whatever type.
#[inline]
fn may_serve<P: Platform>(request: &Request<P>, zone: &Zone<'_>, flags: AllocFlags) -> bool {
    let none = request.order >= PAGEBLOCK_ORDER && zone.whole_blocks() == 0;
    !none && zone.watermark_ok(request.order, zone.mark_for(flags), request.limit, flags)
}

/// The other CPUs are asked for their blocks, and have a moment to answer (`drain_all_pages()`).
pub(super) fn drain_all_lists<P: Platform>(climb: &Climb<P>) -> Step {
    let request = &climb.request;
    if drain_zones(request.inner, request.zones(), SPINS) { at_min(climb) } else { Step::Continue(()) }
}

/// Empties the lists of some zones: this CPU's at once, the others' by request. Waits `spins` rounds for each zone in
/// which a CPU was kicked; a CPU that has not answered by then does not help the caller. True if the lists held
/// anything.
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

/// Asks all CPUs for the blocks on their lists, and waits for those that were kicked. Returns how many have yet to
/// answer.
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
