//! The pages that share their lists: of a zone, or of a node; and their counts, zone by zone.

use core::fmt;

use pageblock_frame::const_unless_model;
use pageblock_frame::reclaim::{Actor, Shrink};
use pageblock_frame::sync::{AtomicU64, Ordering};
use pageblock_frame::{NodeId, Pfn, PfnRange, ZoneKind};
use pageblock_lru::{Lru, LruList};

/// Where a zone is.
///
/// ```
/// use pageblock_frame::{Pfn, PfnRange, ZoneKind};
/// use pageblock_reclaim::AreaSpan;
/// let dma = AreaSpan { kind: ZoneKind::Dma, frames: PfnRange::new(Pfn::new(1), Pfn::new(4096)) };
/// assert!(dma.frames.contains(Pfn::new(4095)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AreaSpan {
    /// The zone.
    pub kind: ZoneKind,
    /// Its frames, holes included.
    pub frames: PfnRange,
}

/// Counts of scans in one zone, in frames. Displays as lines of `/proc/vmstat` without the zone's name.
///
/// ```
/// use pageblock_reclaim::AreaScan;
/// let zone = AreaScan { scan_kswapd: 600, scan_direct: 400, steal_kswapd: 250, ..AreaScan::default() };
/// assert_eq!(zone.velocity(2_000_000_000), 500); // a second
/// assert_eq!(zone.efficiency(), 25); // percent
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AreaScan {
    /// Looked at by the background thread.
    pub scan_kswapd: u64,
    /// Looked at by tasks.
    pub scan_direct: u64,
    /// Freed by the background thread.
    pub steal_kswapd: u64,
    /// Freed by tasks.
    pub steal_direct: u64,
    /// Taken off a list only to be put back, because a round had no use for this zone.
    pub skipped: u64,
}

impl AreaScan {
    /// Frames looked at a second, in so many nanoseconds; 0 for no time ("zone velocity" of mmtests).
    #[must_use]
    pub const fn velocity(&self, nanoseconds: u64) -> u64 {
        if nanoseconds == 0 {
            return 0;
        }
        let scanned = self.scan_kswapd as u128 + self.scan_direct as u128;
        (scanned * 1_000_000_000 / nanoseconds as u128) as u64
    }

    /// Frames freed of a hundred looked at; 100 if none was.
    #[must_use]
    pub const fn efficiency(&self) -> u64 {
        let scanned = self.scan_kswapd as u128 + self.scan_direct as u128;
        let freed = self.steal_kswapd as u128 + self.steal_direct as u128;
        match (freed * 100).checked_div(scanned) {
            Some(percent) => percent as u64,
            None => 100,
        }
    }
}

impl fmt::Display for AreaScan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { scan_kswapd, scan_direct, steal_kswapd, steal_direct, skipped } = self;
        writeln!(f, "pgscan_kswapd {scan_kswapd}\npgscan_direct {scan_direct}")?;
        writeln!(f, "pgsteal_kswapd {steal_kswapd}\npgsteal_direct {steal_direct}\npgskip {skipped}")
    }
}

/// A [`AreaScan`] that is being counted. Relaxed: statistics.
#[derive(Debug)]
pub(crate) struct Tally {
    scan: [AtomicU64; 2],
    steal: [AtomicU64; 2],
    skipped: AtomicU64,
}

impl Tally {
    const_unless_model! {
        const fn new() -> Self {
            Self {
                scan: [AtomicU64::new(0), AtomicU64::new(0)],
                steal: [AtomicU64::new(0), AtomicU64::new(0)],
                skipped: AtomicU64::new(0),
            }
        }
    }
}

const fn index(actor: Actor) -> usize {
    match actor {
        Actor::Kswapd => 0,
        Actor::Direct => 1,
    }
}

/// Lists, and the zones of their pages: one where lists are a zone's, all of the node's where they are the
/// node's.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `tallies` | one a kind of zone | a scan |
/// | `cost` | frames of each sort, anonymous and file, found in use or written; halved as they grow | a scan |
///
/// ```
/// use pageblock_frame::{Descriptor, NodeId, Pfn, PfnRange, ZoneKind};
/// use pageblock_lru::Lru;
/// use pageblock_reclaim::{Area, AreaSpan};
/// let table = [const { Descriptor::new() }; 64];
/// let lru = Lru::new(Pfn::new(0), &table);
/// let zones = [
///     AreaSpan { kind: ZoneKind::Dma32, frames: PfnRange::new(Pfn::new(0), Pfn::new(16)) },
///     AreaSpan { kind: ZoneKind::Normal, frames: PfnRange::new(Pfn::new(16), Pfn::new(64)) },
/// ];
/// let node = Area::new(NodeId::new(0), &lru, &zones);
/// assert_eq!(node.kind_of(Pfn::new(16)), Some(ZoneKind::Normal));
/// assert_eq!(node.scan(ZoneKind::Normal).scan_kswapd, 0);
/// ```
#[derive(Debug)]
pub struct Area<'a, 'm> {
    node: NodeId,
    lru: &'a Lru<'m>,
    zones: &'a [AreaSpan],
    tallies: [Tally; ZoneKind::COUNT],
    pub(crate) cost: [AtomicU64; 2],
}

impl<'a, 'm> Area<'a, 'm> {
    const_unless_model! {
        /// These lists of a node, which hold the pages of these zones.
        #[must_use]
        pub const fn new(node: NodeId, lru: &'a Lru<'m>, zones: &'a [AreaSpan]) -> Self {
            Self {
                node,
                lru,
                zones,
                tallies: [Tally::new(), Tally::new(), Tally::new(), Tally::new()],
                cost: [AtomicU64::new(0), AtomicU64::new(0)],
            }
        }
    }

    /// The node.
    #[must_use]
    pub const fn node(&self) -> NodeId {
        self.node
    }

    /// The lists.
    #[must_use]
    pub const fn lru(&self) -> &'a Lru<'m> {
        self.lru
    }

    /// The zone that a frame is in, among these.
    #[must_use]
    pub fn kind_of(&self, pfn: Pfn) -> Option<ZoneKind> {
        self.zones.iter().find(|zone| zone.frames.contains(pfn)).map(|zone| zone.kind)
    }

    /// Counts of scans in one of the zones.
    #[must_use]
    pub fn scan(&self, kind: ZoneKind) -> AreaScan {
        let Some(Tally { scan: [kscan, dscan], steal: [ksteal, dsteal], skipped }) = self.tallies.get(kind.index())
        else {
            return AreaScan::default();
        };
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        AreaScan {
            scan_kswapd: read(kscan),
            scan_direct: read(dscan),
            steal_kswapd: read(ksteal),
            steal_direct: read(dsteal),
            skipped: read(skipped),
        }
    }

    /// True if a round may free pages of this kind of zone.
    pub(crate) fn accepts(round: &Shrink, kind: ZoneKind) -> bool {
        round.zone.map_or(kind <= round.limit, |only| only == kind)
    }

    /// True if a round may free any page here.
    pub(crate) fn serves(&self, round: &Shrink) -> bool {
        self.node == round.node && self.zones.iter().any(|zone| Self::accepts(round, zone.kind))
    }

    /// True if a round may free every page here.
    pub(crate) fn serves_wholly(&self, round: &Shrink) -> bool {
        self.zones.iter().all(|zone| Self::accepts(round, zone.kind))
    }

    /// Frames of the pages on every list that are in zones of which `wanted` says yes. Lists know only their sum:
    /// where they hold several zones, a zone's part is taken to be that of its frames among those that have
    /// descriptors.
    pub(crate) fn frames_in(&self, wanted: impl Fn(ZoneKind) -> bool) -> [u64; LruList::COUNT] {
        let (mut part, mut whole) = (0u128, 0u128);
        for zone in self.zones {
            let frames = u128::from(zone.frames.intersect(self.lru.span()).len());
            whole += frames;
            if wanted(zone.kind) {
                part += frames;
            }
        }
        let share = |frames: u64| {
            if part == whole { frames } else { (u128::from(frames) * part / whole.max(1)) as u64 }
        };
        self.lru.all_frames().map(share)
    }

    fn tally(&self, pfn: Pfn) -> Option<&Tally> {
        self.tallies.get(self.kind_of(pfn)?.index())
    }

    pub(crate) fn count_scan(&self, actor: Actor, pfn: Pfn, frames: u64) {
        if let Some(scan) = self.tally(pfn).and_then(|tally| tally.scan.get(index(actor))) {
            scan.fetch_add(frames, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_steal(&self, actor: Actor, pfn: Pfn, frames: u64) {
        if let Some(steal) = self.tally(pfn).and_then(|tally| tally.steal.get(index(actor))) {
            steal.fetch_add(frames, Ordering::Relaxed);
        }
    }

    pub(crate) fn count_skip(&self, kind: ZoneKind, frames: u64) {
        if let Some(tally) = self.tallies.get(kind.index()) {
            tally.skipped.fetch_add(frames, Ordering::Relaxed);
        }
    }

    /// Adds to the cost of scanning a sort of pages (`lru_note_cost()`). Costs fade: they are halved once they exceed a
    /// quarter of the pages, and an update lost to another CPU is no harm.
    pub(crate) fn note_cost(&self, file: bool, frames: u64) {
        let [anon, files] = &self.cost;
        let own = if file { files } else { anon };
        let sum = own.fetch_add(frames, Ordering::Relaxed).saturating_add(frames);
        let [a, b, c, d, _] = self.lru.all_frames();
        let pages = a.saturating_add(b).saturating_add(c).saturating_add(d);
        if sum > pages / 4 {
            for cost in &self.cost {
                cost.store(cost.load(Ordering::Relaxed) / 2, Ordering::Relaxed);
            }
        }
    }
}
