//! The conformance suite on our zone, and the table of who passes what.

use std::path::Path;

use crate::subject::{self, Machine, range};
use pageblock_buddy::{Zone, ZoneConfig};
use pageblock_frame::{AllocFlags, MigrateType, NodeId, Order, Pfn, ZoneKind};
use pageblock_testkit::conformance::{Candidate, examine, peers, table};
use pageblock_testkit::host::Stored;

struct Ours(Stored<Zone<'static>>);

impl Candidate for Ours {
    const NAME: &'static str = "pageblock";

    fn new(frames: u64) -> Self {
        let span = range((0, frames));
        let zone = subject::zone(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span));
        assert_eq!(zone.release(span), Ok(frames));
        Self(zone)
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        let pfn = self.0.alloc::<Machine>(Order::new(order)?, MigrateType::Movable, AllocFlags::empty())?;
        Some(pfn.as_u64())
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        let order = Order::new(order).ok_or("Order")?;
        self.0.free::<Machine>(Pfn::new(pfn), order).map_err(|error| {
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

/// `docs/conformance.md` is what the suite finds. To write it anew: `UPDATE_DOCS=1 cargo test -p pageblock-buddy`.
#[test]
fn the_documented_table_is_true() {
    let mut reports = vec![examine::<Ours>()];
    reports.extend(peers::examine_all());
    let text = format!("{HEAD}\n{}\n{FOOT}", table(&reports));
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md");
    if std::env::var_os("UPDATE_DOCS").is_some() {
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, &text).unwrap();
    }
    let documented = std::fs::read_to_string(&file).unwrap();
    assert_eq!(documented, text, "docs/conformance.md is out of date: run the test with UPDATE_DOCS=1");
}

const HEAD: &str = "\
# Conformance

What frame allocators from the registry, and ours, do with the same requests: the suite is
`pageblock_testkit::conformance`, run by `cargo test -p pageblock-buddy --test oracle`, which compares this table
with what it finds. Each point runs on fresh instances of 4096 frames with orders 0 to 10 where that is a parameter.
The peers are built without debug assertions and overflow checks, as they are released.

A failed point is in bold, with what happens instead. An error is given by the name that the allocator has for it;
`false` is `bitmap-allocator`'s return value.
";

const FOOT: &str = "\
* A wrong free must be refused and change nothing. After it, every frame that is left is allocated and compared with
  what is live: \"live frame(s) handed out again\" means two owners, \"lost\" frames never come back.
* The free of `buddy_system_allocator` returns nothing. That of `frame-alloc` is an `unsafe fn`: its contract rules wrong
  frees out, and the table shows what breaking it does. `bitmap-allocator` knows frames, not blocks: it cannot tell a
  block's part or neighbours from the block, and its `dealloc` takes any number below the type's capacity.
* n/a: there is no such call. `bitmap-allocator` has no largest order; a request for more than there is stands in.
";
