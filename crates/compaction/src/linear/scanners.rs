//! The state of one run of the two scanners.

use core::ops::Range;

use pageblock_frame::migration::{Migrate, MigrateMode};
use pageblock_frame::trace::RunCounts;
use pageblock_frame::{Order, Pfn, Platform};

use crate::cluster::BLOCK;
use crate::compactor::{Compactor, NOWHERE};
use crate::config::CompactionConfig;
use crate::migration::{Migration, Sources};
use crate::request::Request;
use crate::targets::{Targets, WithheldTargets};

/// Where both scanners are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Positions {
    /// The migrate scanner: next frame to look at.
    pub(crate) migrate: u32,
    /// The free scanner: where its last pageblock begins, or the zone's end.
    pub(crate) free: u32,
}

/// One run (`struct compact_control`). Dropped, it gives back all that it holds.
pub(crate) struct Scanners<'a, 'z, 'm, P: Platform, M: Migrate> {
    pub(crate) compactor: &'a Compactor,
    pub(crate) migration: Migration<'a, 'z, 'm, P, M>,
    pub(crate) request: &'a Request,
    /// The zone's frames.
    pub(crate) span: Range<u32>,
    pub(crate) at: Positions,
    /// Where the free scanner began.
    pub(crate) first_free: u32,
    /// The migrate scanner began at the zone's start.
    pub(crate) whole: bool,
    pub(crate) sources: Sources<'a, 'z, 'm, P, M>,
    pub(crate) targets: Targets<'a, 'z, 'm, P>,
    /// Pageblocks withheld as targets.
    pub(crate) withheld: WithheldTargets<'a, 'z, 'm, P>,
    pub(crate) counts: RunCounts,
    /// The migrate scanner no longer moves the position that the zone remembers.
    pub(crate) migrate_settled: bool,
    /// Nor does the free scanner.
    pub(crate) free_settled: bool,
    pub(crate) contended: bool,
    /// Pageblock of the last cluster.
    pub(crate) last_block: u32,
    /// Of how many frames the free scanner looks at one.
    pub(crate) stride: u32,
    pub(crate) captured: Option<Pfn>,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Scanners<'a, 'z, 'm, P, M> {
    pub(crate) fn new(
        compactor: &'a Compactor,
        migration: Migration<'a, 'z, 'm, P, M>,
        request: &'a Request,
        span: Range<u32>,
        at: Positions,
    ) -> Self {
        Self {
            compactor,
            migration,
            request,
            whole: request.full || at.migrate <= span.start,
            span,
            at,
            first_free: at.free,
            sources: Sources::new(migration),
            targets: Targets::new(migration.scan, Order::ZERO),
            withheld: WithheldTargets::new(migration.scan),
            counts: RunCounts::default(),
            migrate_settled: false,
            free_settled: false,
            contended: false,
            last_block: NOWHERE,
            stride: if request.mode == MigrateMode::Async { 32 } else { 1 },
            captured: None,
        }
    }

    pub(crate) fn config(&self) -> &'a CompactionConfig {
        self.compactor.config()
    }

    pub(crate) fn have_met(&self) -> bool {
        let Positions { migrate, free } = self.at;
        if self.config().era().meet_by_block() { free / BLOCK <= migrate / BLOCK } else { free <= migrate }
    }

    /// Frames of the block wanted; one where none is.
    pub(crate) fn wanted_frames(&self) -> u32 {
        self.request.order.unwrap_or(Order::ZERO).frames() as u32
    }

    /// Takes up to the part that is missing of `need` targets from one pageblock; returns how many it took.
    pub(crate) fn take_targets(&mut self, block: u32, need: usize) -> usize {
        self.targets.take_from(block, need.saturating_sub(self.targets.len()))
    }
}
