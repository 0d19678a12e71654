//! The conformance suite on the facade, and the table of who passes what.

use std::path::Path;

use pageblock::{Gfp, Order, Pfn, ZoneLimits};
use pageblock_testkit::conformance::{Candidate, examine, peers, table};

use crate::machine::{ALL_OF_IT, Booted, boot, memory};

struct Ours(Booted);

impl Candidate for Ours {
    const NAME: &'static str = "pageblock";

    fn new(frames: u64) -> Self {
        Self(boot(&memory(frames * pageblock::PAGE_SIZE), &ALL_OF_IT.zones(ZoneLimits::single())))
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        // A request that may use every last frame.
        let frames = self.0.alloc_order(Order::new(order)?, Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC).ok()?;
        Some(frames.into_raw().pfn.as_u64())
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        let order = Order::new(order).ok_or("Order")?;
        // SAFETY: nothing is behind the frames; the suite's wrong frees are what is examined, and are refused.
        let result = unsafe { self.0.free(Pfn::new(pfn), order) };
        result.map_err(|error| {
            let name = format!("{error:?}");
            name.split([' ', '{', '(']).next().unwrap_or_default().to_string()
        })
    }

    fn alloc_frames(&mut self, frames: u64) -> Option<Option<u64>> {
        let run = self.0.alloc_exact(frames, Gfp::HIGHUSER_MOVABLE | Gfp::MEMALLOC);
        Some(run.ok().map(|run| run.into_raw().start.as_u64()))
    }

    fn free_frames(&self) -> Option<u64> {
        Some(self.0.stats().free)
    }
}

#[test]
fn the_facade_passes_every_point() {
    assert_eq!(examine::<Ours>().failures(), Vec::<String>::new());
}

/// `docs/conformance.md` is what the suite finds. To write it anew: `UPDATE_DOCS=1 cargo test -p pageblock --test
/// allocator`.
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
`pageblock_testkit::conformance`, run by `cargo test -p pageblock --test allocator`, which compares this table
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
