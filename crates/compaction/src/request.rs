//! The request to a run, and its outcome.

use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::{CompactResult, RunCounts, ScanPositions};
use pageblock_frame::{AllocFlags, MigrateType, Order, Pfn, ZoneKind};

/// The caller of a run.
///
/// ```
/// assert_ne!(pageblock_compaction::Origin::Direct, pageblock_compaction::Origin::Kcompactd);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// An allocation that found no block.
    Direct,
    /// The reclaim thread (Linux up to 4.5).
    KswapdState,
    /// The compaction thread, because a block was asked for.
    Kcompactd,
    /// The compaction thread, because the zone is scattered.
    Proactive,
    /// The administrator (`/proc/sys/vm/compact_memory`).
    Command,
}

/// How determined an allocation is (`enum compact_priority`).
///
/// ```
/// use pageblock_compaction::Priority;
/// assert!(Priority::SyncFull < Priority::Async); // as in Linux, the smaller the more determined
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Priority {
    /// Waits for locks, scans the whole zone, ignores skip bits, deferral and the suitability of targets.
    SyncFull = 0,
    /// Waits for locks.
    SyncLight = 1,
    /// Waits for nothing.
    Async = 2,
}

/// Aim of a run in one zone, and its means.
///
/// ```
/// use pageblock_compaction::{Origin, Priority, Request};
/// use pageblock_frame::{MigrateType, Order, migration::MigrateMode};
/// let huge = Request::direct(Order::new(9).unwrap(), MigrateType::Movable, Priority::Async);
/// assert_eq!((huge.mode, huge.origin, huge.full), (MigrateMode::Async, Origin::Direct, false));
/// assert_eq!(Request::command().order, None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The block wanted; `None` for as many as can be had.
    pub order: Option<Order>,
    /// Its purpose.
    pub migrate_type: MigrateType,
    /// How much may be waited.
    pub mode: MigrateMode,
    /// The caller.
    pub origin: Origin,
    /// Highest zone that the request could use, for the lowmem reserve.
    pub limit: ZoneKind,
    /// The allocation's flags, for watermarks.
    pub flags: AllocFlags,
    /// The whole zone, whatever skip bits, remembered positions and types of targets say.
    pub full: bool,
    /// The block goes to the caller at once, where
    /// [`CompactionConfig::capture`](crate::CompactionConfig::capture) has it so and the caller is an allocation.
    pub captures: bool,
}

impl Request {
    const fn new(order: Option<Order>, mode: MigrateMode, origin: Origin) -> Self {
        Self {
            order,
            migrate_type: MigrateType::Movable,
            mode,
            origin,
            limit: ZoneKind::Movable,
            flags: AllocFlags::empty(),
            full: order.is_none(),
            captures: true,
        }
    }

    /// For an allocation.
    #[must_use]
    pub const fn direct(order: Order, migrate_type: MigrateType, priority: Priority) -> Self {
        let mode = match priority {
            Priority::Async => MigrateMode::Async,
            _ => MigrateMode::SyncLight,
        };
        let full = matches!(priority, Priority::SyncFull);
        Self { migrate_type, full, ..Self::new(Some(order), mode, Origin::Direct) }
    }

    /// For the reclaim thread of Linux up to 4.5: asynchronously.
    #[must_use]
    pub const fn kswapd(order: Order) -> Self {
        Self::new(Some(order), MigrateMode::Async, Origin::KswapdState)
    }

    /// For the compaction thread.
    #[must_use]
    pub const fn kcompactd(order: Order) -> Self {
        Self::new(Some(order), MigrateMode::SyncLight, Origin::Kcompactd)
    }

    /// For the compaction thread, without being asked.
    #[must_use]
    pub const fn proactive() -> Self {
        Self::new(None, MigrateMode::SyncLight, Origin::Proactive)
    }

    /// For the administrator.
    #[must_use]
    pub const fn command() -> Self {
        Self::new(None, MigrateMode::Sync, Origin::Command)
    }

    /// True if this is a direct run that waits for nothing.
    #[must_use]
    pub(crate) fn is_direct_async(&self) -> bool {
        self.mode == MigrateMode::Async && self.origin == Origin::Direct
    }
}

/// How a run went.
///
/// ```
/// use pageblock_compaction::CompactOutcome;
/// use pageblock_frame::trace::CompactResult;
/// let outcome = CompactOutcome::unstarted(CompactResult::Deferred);
/// assert_eq!((outcome.captured, outcome.counts.migrated), (None, 0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a captured block that is not taken is lost"]
pub struct CompactOutcome {
    /// In one word.
    pub result: CompactResult,
    /// The block wanted, allocated: the caller's.
    pub captured: Option<Pfn>,
    /// Work done.
    pub counts: RunCounts,
}

impl CompactOutcome {
    /// Of a run that did not begin.
    pub const fn unstarted(result: CompactResult) -> Self {
        Self {
            result,
            captured: None,
            counts: RunCounts { migrate_scanned: 0, free_scanned: 0, isolated: 0, migrated: 0, failed: 0 },
        }
    }
}

/// A run that has ended.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) outcome: CompactOutcome,
    /// Where it last worked.
    pub(crate) at: ScanPositions,
}
