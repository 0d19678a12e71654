//! The content of a line of a trace.

use std::fmt;

use pageblock_frame::{Gfp, Order, PAGEBLOCK_ORDER, Pfn, PfnRange, ZoneKind};

use super::GfpText;

/// One event, with its task and time.
///
/// Its `Display` is a line that [`parse_line`](super::parse_line) reads back. The task's name is not kept.
///
/// ```
/// use pageblock_lab::trace::{Event, parse_line};
/// let line = b"tar-77 [001] d..3.  12.000034: mm_page_free: pfn=0x1c order=2";
/// let record = parse_line(line).unwrap().unwrap();
/// assert_eq!((record.cpu, record.pid, record.micros), (1, 77, 12_000_034));
/// assert_eq!(record.to_string(), "task-77 [001] ..... 12.000034: mm_page_free: pfn=0x1c order=2");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// CPU that recorded it.
    pub cpu: u32,
    /// Task that caused it.
    pub pid: u32,
    /// Time in microseconds since an arbitrary origin.
    pub micros: u64,
    /// The kind of event.
    pub event: Event,
}

/// The event.
///
/// ```
/// use pageblock_lab::trace::{Event, parse_line};
/// let line = b"a b-1 [000] ..... 1.0: sched_switch: prev_comm=x";
/// assert_eq!(parse_line(line).unwrap().unwrap().event, Event::Other);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Event {
    /// `mm_page_alloc`: a request, served or failed.
    Alloc(Allocation),
    /// `mm_page_free`: a block came back.
    Free {
        /// First frame.
        pfn: Pfn,
        /// Size of the block.
        order: Order,
    },
    /// `mm_page_free_batched`: repeats an [`Event::Free`] of the same frame.
    FreeBatched {
        /// The frame.
        pfn: Pfn,
    },
    /// `mm_page_alloc_extfrag`: a request took from a pageblock of another type.
    Extfrag(Extfrag),
    /// `mm_page_alloc_zone_locked`: a block left the free lists, for a request or for a per-CPU list.
    ZoneLocked(ListMove),
    /// `mm_page_pcpu_drain`: a block went from a per-CPU list to the free lists.
    PcpuDrain(ListMove),
    /// One of the compaction events.
    Compaction(Compaction),
    /// An event that the replay has no use for.
    Other,
}

/// `mm_page_alloc`.
///
/// ```
/// use pageblock_lab::trace::{Event, parse_line};
/// let line = b"a-1 [000] .... 1.0: mm_page_alloc: page=NULL pfn=0 order=9 migratetype=1 gfp_flags=GFP_TRANSHUGE";
/// let Event::Alloc(alloc) = parse_line(line).unwrap().unwrap().event else { panic!() };
/// assert_eq!((alloc.pfn, alloc.order.as_u8()), (None, 9));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Allocation {
    /// First frame; `None` if Linux could not serve the request.
    pub pfn: Option<Pfn>,
    /// Size of the block.
    pub order: Order,
    /// Number of the migrate type, in the numbering of the kernel that recorded.
    pub migrate_type: u8,
    /// Flags of the request.
    pub gfp: Gfp,
}

/// `mm_page_alloc_extfrag`.
///
/// ```
/// use pageblock_lab::trace::{Event, parse_line};
/// let line = b"a-1 [000] d..3. 1.0: mm_page_alloc_extfrag: pfn=0x2b0800 alloc_order=2 fallback_order=10 \
///     pageblock_order=9 alloc_migratetype=0 fallback_migratetype=1 fragmenting=0 change_ownership=1";
/// let Event::Extfrag(event) = parse_line(line).unwrap().unwrap().event else { panic!() };
/// assert!(!event.is_fragmenting() && event.change_ownership);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extfrag {
    /// First frame of the free block that was taken from.
    pub pfn: Pfn,
    /// Order of the request.
    pub alloc_order: Order,
    /// Order of the free block.
    pub fallback_order: Order,
    /// Order of a pageblock on that machine.
    pub pageblock_order: Order,
    /// Migrate type of the request.
    pub wanted: u8,
    /// Migrate type of the free block.
    pub from: u8,
    /// The pageblock (or pageblocks) has the type of the request from then on.
    pub change_ownership: bool,
}

impl Extfrag {
    /// The free block was smaller than a pageblock: types are mixed within one.
    #[must_use]
    pub fn is_fragmenting(&self) -> bool {
        self.fallback_order < self.pageblock_order
    }
}

/// A block on its way between a zone's free lists and elsewhere.
///
/// ```
/// use pageblock_lab::trace::{Event, parse_line};
/// let line = b"a-1 [000] d..2. 1.0: mm_page_pcpu_drain: pfn=0x4d25 order=0 migratetype=1";
/// let Event::PcpuDrain(moved) = parse_line(line).unwrap().unwrap().event else { panic!() };
/// assert_eq!((moved.pfn.as_u64(), moved.migrate_type), (0x4d25, 1));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListMove {
    /// First frame.
    pub pfn: Pfn,
    /// Size of the block.
    pub order: Order,
    /// Number of the migrate type.
    pub migrate_type: u8,
}

/// One of the compaction events, as far as the replay looks into them.
///
/// ```
/// use pageblock_lab::trace::{Compaction, Event, parse_line};
/// let line = b"a-1 [000] ..... 1.0: mm_compaction_migratepages: nr_migrated=32 nr_failed=1";
/// let event = parse_line(line).unwrap().unwrap().event;
/// assert_eq!(event, Event::Compaction(Compaction::Migrate { migrated: 32, failed: 1 }));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Compaction {
    /// `mm_compaction_begin`: a run starts on a zone.
    Begin,
    /// `mm_compaction_end`.
    End,
    /// `mm_compaction_isolate_migratepages`: movable pages were taken aside.
    IsolateMigrate {
        /// Where they lie; not recorded by old kernels.
        range: Option<PfnRange>,
        /// Frames that were looked at.
        scanned: u64,
        /// Frames that were taken.
        taken: u64,
    },
    /// `mm_compaction_isolate_freepages` and `…_fast_isolate_freepages`: free frames were taken, without an allocation
    /// event.
    IsolateFree {
        /// Frames that were looked at.
        scanned: u64,
        /// Frames that were taken.
        taken: u64,
    },
    /// `mm_compaction_migratepages`: pages were moved.
    Migrate {
        /// Pages that moved.
        migrated: u64,
        /// Pages that could not be moved.
        failed: u64,
    },
    /// `mm_compaction_try_to_compact_pages`: a task found no block, and turns to compaction.
    TryToCompact {
        /// Size of the block that it wants.
        order: Order,
        /// Its purpose.
        gfp: Gfp,
        /// How determined it is: 2 waits for nothing, 1 for locks, 0 scans everything (`enum compact_priority`).
        priority: u8,
    },
    /// `mm_compaction_kcompactd_wake`: the compaction thread begins because a request will want a block.
    KcompactdWake {
        /// Its node.
        node: u8,
        /// Size of the block.
        order: Order,
        /// Highest zone that it looks at.
        limit: ZoneKind,
    },
    /// `mm_compaction_kcompactd_sleep`: it is done.
    KcompactdSleep,
    /// Decisions about compaction: suitable, finished, deferred, woken.
    Decision,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, fraction) = (self.micros / 1_000_000, self.micros % 1_000_000);
        write!(f, "task-{} [{:03}] ..... {seconds}.{fraction:06}: {}", self.pid, self.cpu, self.event)
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Alloc(alloc) => alloc.fmt(f),
            Self::Free { pfn, order } => write!(f, "mm_page_free: pfn={pfn} order={order}"),
            Self::FreeBatched { pfn } => write!(f, "mm_page_free_batched: pfn={pfn} order=0"),
            Self::Extfrag(event) => event.fmt(f),
            Self::ZoneLocked(moved) => {
                let refill = u8::from(moved.order < PAGEBLOCK_ORDER);
                write!(f, "mm_page_alloc_zone_locked: {moved} percpu_refill={refill}")
            }
            Self::PcpuDrain(moved) => write!(f, "mm_page_pcpu_drain: {moved}"),
            Self::Compaction(event) => event.fmt(f),
            Self::Other => f.write_str("other: "),
        }
    }
}

impl fmt::Display for Allocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("mm_page_alloc: ")?;
        match self.pfn {
            Some(pfn) => write!(f, "pfn={pfn}")?,
            None => f.write_str("page=NULL pfn=0x0")?,
        }
        write!(f, " order={} migratetype={} gfp_flags={}", self.order, self.migrate_type, GfpText(self.gfp))
    }
}

impl fmt::Display for Extfrag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "mm_page_alloc_extfrag: pfn={} alloc_order={} fallback_order={} pageblock_order={} alloc_migratetype={} \
             fallback_migratetype={} fragmenting={} change_ownership={}",
            self.pfn,
            self.alloc_order,
            self.fallback_order,
            self.pageblock_order,
            self.wanted,
            self.from,
            u8::from(self.is_fragmenting()),
            u8::from(self.change_ownership)
        )
    }
}

impl fmt::Display for ListMove {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "pfn={} order={} migratetype={}", self.pfn, self.order, self.migrate_type)
    }
}

impl fmt::Display for Compaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Begin => f.write_str("mm_compaction_begin: zone_start=0x0"),
            Self::End => f.write_str("mm_compaction_end: zone_start=0x0"),
            Self::IsolateMigrate { range, scanned, taken } => {
                f.write_str("mm_compaction_isolate_migratepages: ")?;
                if let Some(range) = range {
                    write!(f, "range=({} ~ {}) ", range.start, range.end)?;
                }
                write!(f, "nr_scanned={scanned} nr_taken={taken}")
            }
            Self::IsolateFree { scanned, taken } => {
                write!(f, "mm_compaction_isolate_freepages: nr_scanned={scanned} nr_taken={taken}")
            }
            Self::Migrate { migrated, failed } => {
                write!(f, "mm_compaction_migratepages: nr_migrated={migrated} nr_failed={failed}")
            }
            Self::TryToCompact { order, gfp, priority } => {
                let gfp = GfpText(*gfp);
                write!(f, "mm_compaction_try_to_compact_pages: order={order} gfp_mask={gfp} priority={priority}")
            }
            Self::KcompactdWake { node, order, limit } => {
                write!(f, "mm_compaction_kcompactd_wake: nid={node} order={order} classzone_idx={limit}")
            }
            Self::KcompactdSleep => f.write_str("mm_compaction_kcompactd_sleep: nid=0"),
            Self::Decision => f.write_str("mm_compaction_finished: "),
        }
    }
}
