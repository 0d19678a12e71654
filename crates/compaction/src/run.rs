//! One run over a zone: by occupancy, or with the two scanners.

use core::marker::PhantomData;

use pageblock_buddy::{Patience, Zone};
use pageblock_frame::migration::{Migrate, MigrateMode};
use pageblock_frame::trace::{CompactEvent, CompactResult, Event};
use pageblock_frame::{Hooks, Order, Pfn, Platform, ZoneKind};

use crate::compactor::Compactor;
use crate::config::Search;
use crate::migration::Migration;
use crate::request::{CompactOutcome, Finished, Request};
use crate::{linear, occupancy, suitable};

impl Compactor {
    /// Whether a run for a block of `order` would help (`compaction_suitable()`): `Continue`, or `Success` if there is
    /// one already, or `Skipped`. `limit` is the highest zone that the request could use.
    #[must_use]
    pub fn suitable<P: Platform>(&self, zone: &Zone<'_>, order: Order, limit: ZoneKind) -> CompactResult {
        let request = Request { limit, ..Request::kswapd(order) };
        match suitable::suitable::<P>(zone, self.config(), &request) {
            CompactResult::NotSuitableZone => CompactResult::Skipped,
            result => result,
        }
    }

    /// Compacts the zone once (`compact_zone()`), unless its watermarks or fragmentation say that it would not help.
    /// Deferral is the caller's business.
    pub fn run<P: Platform, M: Migrate>(&self, zone: &Zone<'_>, migrator: &M, request: &Request) -> CompactOutcome {
        let result = suitable::suitable::<P>(zone, self.config(), request);
        P::hooks().trace(&Event::Compaction(CompactEvent::Suitable {
            node: zone.node(),
            zone: zone.kind(),
            order: request.order,
            result,
        }));
        match result {
            CompactResult::Continue => {}
            CompactResult::Success => return CompactOutcome::unstarted(CompactResult::Success),
            _ => return CompactOutcome::unstarted(CompactResult::Skipped),
        }
        let patience = if request.mode == MigrateMode::Async { Patience::Note } else { Patience::Wait };
        let scan = zone.scan::<P>(patience);
        let began = P::hooks().now();
        let migration = Migration { scan: &scan, migrator, mode: request.mode, passes: self.config().passes };
        let Finished { outcome, at } = match self.config().search {
            Search::Occupancy => occupancy::run(self, migration, request),
            Search::Linear | Search::FreeLists => linear::run(self, migration, request),
        };
        let captured = Captured::<P>::hold(zone, outcome.captured, request.order.unwrap_or_default());
        self.counters.add_run(&outcome.counts, request.origin);
        let nanoseconds = P::hooks().now().saturating_sub(began);
        let CompactOutcome { result: status, counts, .. } = outcome;
        self.trace_run::<P>(CompactEvent::End { at, status, counts, nanoseconds });
        captured.arrived();
        outcome
    }
}

/// The block that a run has captured, on its way to the caller. Freed if a hook unwinds meanwhile.
pub(crate) struct Captured<'z, 'm, P: Platform> {
    zone: &'z Zone<'m>,
    pfn: Option<Pfn>,
    order: Order,
    platform: PhantomData<P>,
}

impl<'z, 'm, P: Platform> Captured<'z, 'm, P> {
    pub(crate) const fn hold(zone: &'z Zone<'m>, pfn: Option<Pfn>, order: Order) -> Self {
        Self { zone, pfn, order, platform: PhantomData }
    }

    /// The caller has it.
    pub(crate) fn arrived(mut self) {
        self.pfn = None;
    }
}

impl<P: Platform> Drop for Captured<'_, '_, P> {
    fn drop(&mut self) {
        if let Some(pfn) = self.pfn {
            // SAFETY: the run took it, and nothing else knows of it.
            #[expect(unsafe_code, reason = "a block that was captured here")]
            let _ = unsafe { self.zone.free::<P>(pfn, self.order) };
        }
    }
}
