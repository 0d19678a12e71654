//! Compaction, as events that print as Linux's tracepoints do.

use core::fmt;

use crate::migration::MigrateMode;
use crate::{Gfp, NodeId, Order, Pfn, PfnRange, ZoneKind};

/// How an attempt to compact a zone went. Better ones compare greater; several zones are joined by the maximum.
///
/// ```
/// use pageblock_frame::trace::CompactResult;
/// assert!(CompactResult::Success > CompactResult::Deferred);
/// assert_eq!(CompactResult::PartialSkipped.to_string(), "partial_skipped");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum CompactResult {
    /// The fragmentation index says that memory is short rather than scattered. Only in events.
    NotSuitableZone,
    /// Watermarks or the fragmentation index say that it would not help.
    Skipped,
    /// It failed not long ago.
    Deferred,
    /// Nothing suitable is free yet. Only in events.
    NoSuitablePage,
    /// Worth going on.
    Continue,
    /// The whole zone was scanned.
    Complete,
    /// The rest of the zone was scanned, not the whole of it.
    PartialSkipped,
    /// Stopped: a lock was contended, the caller is being killed, or there was nothing to move to.
    Contended,
    /// A suitable block is free, or was captured.
    Success,
}

impl CompactResult {
    /// Linux's word in traces.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotSuitableZone => "not_suitable_zone",
            Self::Skipped => "skipped",
            Self::Deferred => "deferred",
            Self::NoSuitablePage => "no_suitable_page",
            Self::Continue => "continue",
            Self::Complete => "complete",
            Self::PartialSkipped => "partial_skipped",
            Self::Contended => "contended",
            Self::Success => "success",
        }
    }

    /// The number that Linux 3.13 prints: skipped 0, continue 1, partial 2, complete 3.
    ///
    /// ```
    /// use pageblock_frame::trace::CompactResult;
    /// assert_eq!(CompactResult::Complete.status_3_13(), 3);
    /// ```
    #[must_use]
    pub const fn status_3_13(self) -> u8 {
        match self {
            Self::NotSuitableZone | Self::Skipped | Self::Deferred => 0,
            Self::NoSuitablePage | Self::Continue => 1,
            Self::Contended | Self::Success | Self::PartialSkipped => 2,
            Self::Complete => 3,
        }
    }
}

impl fmt::Display for CompactResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Where the two scanners of a run are, in which zone.
///
/// ```
/// use pageblock_frame::migration::MigrateMode;
/// use pageblock_frame::trace::ScanPositions;
/// use pageblock_frame::{Pfn, PfnRange};
/// let zone = PfnRange::new(Pfn::new(0x1000), Pfn::new(0x9000));
/// let at = ScanPositions { zone, migrate: zone.start, free: Pfn::new(0x8e00), mode: MigrateMode::Async };
/// assert_eq!(at.to_string(), "zone_start=0x1000 migrate_pfn=0x1000 free_pfn=0x8e00 zone_end=0x9000, mode=async");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScanPositions {
    /// The zone.
    pub zone: PfnRange,
    /// The migrate scanner, upwards.
    pub migrate: Pfn,
    /// The free scanner, downwards.
    pub free: Pfn,
    /// How much the run may wait.
    pub mode: MigrateMode,
}

impl fmt::Display for ScanPositions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zone, migrate, free, mode } = self;
        let (start, end) = (zone.start, zone.end);
        write!(f, "zone_start={start} migrate_pfn={migrate} free_pfn={free} zone_end={end}, mode={mode}")
    }
}

/// Work of one run.
///
/// ```
/// assert_eq!(pageblock_frame::trace::RunCounts::default().migrated, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RunCounts {
    /// Frames that the migrate scanner looked at.
    pub migrate_scanned: u64,
    /// Frames that the free scanner looked at.
    pub free_scanned: u64,
    /// Frames that both took out.
    pub isolated: u64,
    /// Frames moved.
    pub migrated: u64,
    /// Frames that were lent and not moved.
    pub failed: u64,
}

impl core::ops::AddAssign for RunCounts {
    fn add_assign(&mut self, other: Self) {
        self.migrate_scanned += other.migrate_scanned;
        self.free_scanned += other.free_scanned;
        self.isolated += other.isolated;
        self.migrated += other.migrated;
        self.failed += other.failed;
    }
}

/// A zone, an order, and the state of their deferral.
///
/// ```
/// use pageblock_frame::trace::DeferState;
/// use pageblock_frame::{NodeId, Order, ZoneKind};
/// let state = DeferState {
///     node: NodeId::new(0), zone: ZoneKind::Normal, order: Order::new(9).unwrap(),
///     failed: Order::new(9).unwrap(), considered: 1, shift: 2,
/// };
/// assert_eq!(state.to_string(), "node=0 zone=Normal   order=9 order_failed=9 consider=1 limit=4");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeferState {
    /// The zone's node.
    pub node: NodeId,
    /// The zone.
    pub zone: ZoneKind,
    /// The order asked for.
    pub order: Order,
    /// The smallest order that failed.
    pub failed: Order,
    /// Attempts since.
    pub considered: u32,
    /// Attempts are let through once in two to the power of this.
    pub shift: u32,
}

impl fmt::Display for DeferState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { node, zone, order, failed, considered, shift } = self;
        let limit = 1u64 << shift;
        write!(f, "node={node} zone={zone:<8} order={order} order_failed={failed} consider={considered} limit={limit}")
    }
}

/// One thing that compaction did. Displays as the name and the text of Linux 6.1's tracepoint.
///
/// ```
/// use pageblock_frame::trace::CompactEvent;
/// use pageblock_frame::{Pfn, PfnRange};
/// let range = PfnRange::new(Pfn::new(0x200), Pfn::new(0x400));
/// let event = CompactEvent::IsolateMigrate { range, scanned: 512, taken: 31 };
/// assert_eq!(
///     event.to_string(),
///     "mm_compaction_isolate_migratepages: range=(0x200 ~ 0x400) nr_scanned=512 nr_taken=31"
/// );
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum CompactEvent {
    /// A run began.
    Begin(ScanPositions),
    /// A run ended.
    End {
        /// Where the scanners are now.
        at: ScanPositions,
        /// How it went.
        status: CompactResult,
        /// Its work.
        counts: RunCounts,
        /// How long it took, in nanoseconds of the platform's clock.
        nanoseconds: u64,
    },
    /// The migrate scanner went over a range.
    IsolateMigrate {
        /// The range.
        range: PfnRange,
        /// Frames looked at.
        scanned: u64,
        /// Frames taken.
        taken: u64,
    },
    /// The free scanner went over a range.
    IsolateFree {
        /// The range.
        range: PfnRange,
        /// Frames looked at.
        scanned: u64,
        /// Frames taken.
        taken: u64,
    },
    /// A batch was moved.
    Migrate {
        /// Frames moved.
        migrated: u64,
        /// Frames not moved.
        failed: u64,
    },
    /// An allocation turned to compaction.
    TryToCompact {
        /// The order asked for.
        order: Order,
        /// The request's flags.
        gfp: Gfp,
        /// 0 most determined, 2 least.
        priority: u8,
    },
    /// Whether a run would help.
    Suitable {
        /// The zone's node.
        node: NodeId,
        /// The zone.
        zone: ZoneKind,
        /// The order asked for; `None` for the whole zone.
        order: Option<Order>,
        /// The answer.
        result: CompactResult,
    },
    /// Whether a run is done.
    Finished {
        /// The zone's node.
        node: NodeId,
        /// The zone.
        zone: ZoneKind,
        /// The order asked for; `None` for the whole zone.
        order: Option<Order>,
        /// The answer.
        result: CompactResult,
    },
    /// An attempt was not made, because of earlier failures.
    Deferred(DeferState),
    /// A failure: attempts will be made more rarely.
    Defer(DeferState),
    /// A success: attempts will be made again.
    DeferReset(DeferState),
    /// The compaction thread goes to sleep.
    KcompactdSleep {
        /// Its node.
        node: NodeId,
    },
    /// The compaction thread is asked for a block.
    WakeupKcompactd {
        /// Its node.
        node: NodeId,
        /// Order wanted.
        order: Order,
        /// Highest zone that would do.
        limit: ZoneKind,
    },
    /// The compaction thread begins.
    KcompactdWake {
        /// Its node.
        node: NodeId,
        /// Order wanted.
        order: Order,
        /// Highest zone that would do.
        limit: ZoneKind,
    },
}

impl CompactEvent {
    /// The tracepoint's name.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Begin(_) => "mm_compaction_begin",
            Self::End { .. } => "mm_compaction_end",
            Self::IsolateMigrate { .. } => "mm_compaction_isolate_migratepages",
            Self::IsolateFree { .. } => "mm_compaction_isolate_freepages",
            Self::Migrate { .. } => "mm_compaction_migratepages",
            Self::TryToCompact { .. } => "mm_compaction_try_to_compact_pages",
            Self::Suitable { .. } => "mm_compaction_suitable",
            Self::Finished { .. } => "mm_compaction_finished",
            Self::Deferred(_) => "mm_compaction_deferred",
            Self::Defer(_) => "mm_compaction_defer_compaction",
            Self::DeferReset(_) => "mm_compaction_defer_reset",
            Self::KcompactdSleep { .. } => "mm_compaction_kcompactd_sleep",
            Self::WakeupKcompactd { .. } => "mm_compaction_wakeup_kcompactd",
            Self::KcompactdWake { .. } => "mm_compaction_kcompactd_wake",
        }
    }

    /// The event in the form in which *Memory compaction efficiency improvements*, patch 1, printed it for Linux 3.13.
    /// Kinds that it did not have print as in 6.1.
    #[must_use]
    pub const fn in_3_13(&self) -> In313<'_> {
        In313(self)
    }
}

impl fmt::Display for CompactEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: ", self.name())?;
        let signed = |order: &Option<Order>| order.map_or(-1, |order| i32::from(order.as_u8()));
        match self {
            Self::Begin(at) => write!(f, "{at}"),
            Self::End { at, status, .. } => write!(f, "{at} status={status}"),
            Self::IsolateMigrate { range, scanned, taken } | Self::IsolateFree { range, scanned, taken } => {
                write!(f, "range=({} ~ {}) nr_scanned={scanned} nr_taken={taken}", range.start, range.end)
            }
            Self::Migrate { migrated, failed } => write!(f, "nr_migrated={migrated} nr_failed={failed}"),
            Self::TryToCompact { order, gfp, priority } => {
                write!(f, "order={order} gfp_mask={:#x} priority={priority}", gfp.bits())
            }
            Self::Suitable { node, zone, order, result } | Self::Finished { node, zone, order, result } => {
                write!(f, "node={node} zone={zone:<8} order={} ret={result}", signed(order))
            }
            Self::Deferred(state) | Self::Defer(state) | Self::DeferReset(state) => write!(f, "{state}"),
            Self::KcompactdSleep { node } => write!(f, "nid={node}"),
            Self::WakeupKcompactd { node, order, limit } | Self::KcompactdWake { node, order, limit } => {
                write!(f, "nid={node} order={order} classzone_idx={limit:<8}")
            }
        }
    }
}

/// Displays an event as Linux 3.13 with that patch; see [`CompactEvent::in_3_13`].
///
/// ```
/// use pageblock_frame::trace::CompactEvent;
/// let event = CompactEvent::Migrate { migrated: 30, failed: 2 };
/// assert_eq!(event.in_3_13().to_string(), "mm_compaction_migratepages: nr_migrated=30 nr_failed=2");
/// ```
#[derive(Clone, Copy, Debug)]
pub struct In313<'a>(&'a CompactEvent);

impl fmt::Display for In313<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.0.name();
        match self.0 {
            CompactEvent::Begin(ScanPositions { zone, migrate, free, .. }) => write!(
                f,
                "{name}: zone_start={} migrate_start={} free_start={} zone_end={}",
                zone.start.as_u64(),
                migrate.as_u64(),
                free.as_u64(),
                zone.end.as_u64()
            ),
            CompactEvent::End { status, .. } => write!(f, "{name}: status={}", status.status_3_13()),
            CompactEvent::IsolateMigrate { scanned, taken, .. } | CompactEvent::IsolateFree { scanned, taken, .. } => {
                write!(f, "{name}: nr_scanned={scanned} nr_taken={taken}")
            }
            other => write!(f, "{other}"),
        }
    }
}
