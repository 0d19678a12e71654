//! The conformance suite on a zone with nothing in front of it.

use crate::subject::{self, Machine, range};
use pageblock_buddy::{Zone, ZoneConfig};
use pageblock_frame::{AllocFlags, MigrateType, NodeId, Order, Pfn, ZoneKind};
use pageblock_testkit::conformance::{Candidate, examine};
use pageblock_testkit::host::Stored;
use pageblock_testkit::simulated::SimulatedZone;

struct Ours(Stored<Zone<'static>>);

impl Candidate for Ours {
    const NAME: &'static str = "pageblock, the zone";

    fn new(frames: u64) -> Self {
        let span = range((0, frames));
        let zone = subject::zone(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span));
        assert_eq!(zone.release_simulated::<Machine>(span), Ok(frames));
        Self(zone)
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        let pfn = self.0.alloc::<Machine>(Order::new(order)?, MigrateType::Movable, AllocFlags::empty())?;
        Some(pfn.as_u64())
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        let order = Order::new(order).ok_or("Order")?;
        self.0.free_simulated::<Machine>(Pfn::new(pfn), order).map_err(|error| {
            let name = format!("{error:?}");
            name.split([' ', '{', '(']).next().unwrap_or_default().to_string()
        })
    }

    fn alloc_frames(&mut self, frames: u64) -> Option<Option<u64>> {
        let range = self.0.alloc_exact::<Machine>(frames, MigrateType::Movable, AllocFlags::empty());
        Some(range.map(|range| range.start.as_u64()))
    }

    fn free_frames(&self) -> Option<u64> {
        Some(self.0.free_frames())
    }
}

#[test]
fn our_zone_passes_every_point() {
    assert_eq!(examine::<Ours>().failures(), Vec::<String>::new());
}
