//! The state of one run by occupancy.

use core::ops::Range;

use arrayvec::ArrayVec;
use pageblock_frame::migration::Migrate;
use pageblock_frame::trace::{RunCounts, ScanPositions};
use pageblock_frame::{Order, PAGEBLOCK_ORDER, Pfn, Platform};

use crate::choice::Blocker;
use crate::cluster::BLOCK;
use crate::compactor::Compactor;
use crate::config::CompactionConfig;
use crate::migration::Migration;
use crate::request::Request;
use crate::targets::Targets;

/// One run. Dropped, it gives back all that it holds.
pub(super) struct Run<'a, 'z, 'm, P: Platform, M: Migrate> {
    pub(super) compactor: &'a Compactor,
    pub(super) migration: Migration<'a, 'z, 'm, P, M>,
    pub(super) request: &'a Request,
    /// The order to be made.
    pub(super) order: Order,
    pub(super) counts: RunCounts,
    pub(super) targets: Targets<'a, 'z, 'm, P>,
    /// Pageblocks with a page that was busy just now.
    pub(super) busy: ArrayVec<u32, 64>,
    /// The pageblocks compared now.
    pub(super) window: Range<u32>,
    /// Where among them the search for targets is.
    pub(super) target: u32,
    /// The pageblock that was to be emptied last.
    pub(super) source: u32,
    pub(super) captured: Option<Pfn>,
    /// The frame that was in the way last.
    pub(super) blocker: Blocker,
    /// Of the candidates of this choice, those that were read through in vain.
    pub(super) misread: usize,
}

/// How emptying a block went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Emptied {
    Yes,
    No,
    /// It may go better later, or in another mode.
    NotNow,
    /// There was nothing to move to.
    NoRoom,
}

impl<'a, 'z, 'm, P: Platform, M: Migrate> Run<'a, 'z, 'm, P, M> {
    pub(super) fn new(compactor: &'a Compactor, migration: Migration<'a, 'z, 'm, P, M>, request: &'a Request) -> Self {
        Self {
            compactor,
            migration,
            request,
            order: request.order.unwrap_or(PAGEBLOCK_ORDER),
            counts: RunCounts::default(),
            targets: Targets::new(migration.scan, Order::ZERO),
            busy: ArrayVec::new(),
            window: 0..0,
            target: 0,
            source: 0,
            captured: None,
            blocker: None,
            misread: 0,
        }
    }

    pub(super) fn config(&self) -> &'a CompactionConfig {
        self.compactor.config()
    }

    /// A single pageblock is read while its blocks are isolated. Of several, all are read before the first is emptied;
    /// of a part of one, it must be found out first which.
    pub(super) fn reads_late(&self) -> bool {
        self.order == PAGEBLOCK_ORDER
    }

    /// Where the run last worked, inside the zone.
    pub(super) fn positions(&self) -> ScanPositions {
        let zone = self.migration.scan.zone();
        let start = (zone.span().start.as_u64() - zone.base().as_u64()) as u32;
        let clip = |block: u32| zone.pfn_of((block * BLOCK).max(start).min(start + zone.span().len() as u32));
        ScanPositions {
            zone: zone.span(),
            migrate: clip(self.source),
            free: clip(self.target),
            mode: self.request.mode,
        }
    }
}
