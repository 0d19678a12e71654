//! Times, each row in one run with its counterpart. They mean something on a quiet machine only, ratios rather
//! than nanoseconds.

use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

use crate::allocators::BuddySystem;
use crate::floor::Floor;
use crate::loads::Orders;
use crate::machine::Machine;
use crate::peers::BuddySlab;
use crate::ratios::{Before, Freeing, Times, bulk, mix, pair};
use crate::table::{Kind, Row};
use crate::two::{Locked, PerCpuDepot, Shared};

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row::one(Kind::Plain, "time.pair.to_floor", || {
            pair::<Machine, 0>(Before::Work).alone / pair::<Floor<true>, 0>(Before::Work).alone
        }),
        Row::one(Kind::Plain, "time.two.o4", || beside(pair::<Machine, 4>(Before::Work))),
        Row::one(Kind::Plain, "time.two.mixlf", || beside(mix::<Machine>(Orders::Folios))),
        Row::one(Kind::Plain, "time.two.free_random", || beside(bulk::<Machine>(Freeing::Random)[1])),
    ];
    for (name, orders) in [("mix03.50", Orders::Small), ("mixlf.50", Orders::Folios)] {
        let names = std::iter::once(format!("time.{name}"))
            .chain(PEERS.map(|peer| format!("peer.{peer}.time.{name}")))
            .collect();
        rows.push(Row::several(Kind::Plain, names, move || {
            vec![
                mix::<Machine>(orders).alone,
                mix::<FrameAlloc<Summary>>(orders).alone,
                mix::<FrameAlloc<PerCpuDepot>>(orders).alone,
                unlocked::<BuddySlab>(orders),
                unlocked::<BuddySystem>(orders),
            ]
        }));
    }
    rows
}

const PEERS: [&str; 4] = ["frame-alloc-core", "frame-alloc-depot", "buddy-slab-allocator", "buddy_system_allocator"];

/// Beside another thread to alone; not a number if the other thread was never at work long enough.
fn beside(times: Times) -> f64 {
    times.ratio().unwrap_or(f64::NAN)
}

/// An allocator without a lock of its own, behind a spin lock as its users have it.
fn unlocked<A>(orders: Orders) -> f64
where
    Locked<A>: Shared,
{
    mix::<Locked<A>>(orders).alone
}
