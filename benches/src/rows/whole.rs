//! Outcomes: whole pageblocks that are left after a long load, on one CPU and on several in turn.

use crate::loads::{Lifetimes, Load, Orders, OwnLoads, Turns};
use crate::machine::Emulated;
use crate::table::{Kind, Row};
use crate::{Frames, POOL};

/// Operations in all, and those after which the CPU changes.
const OPERATIONS: usize = 10_000_000;
const TURN: u32 = 64;
/// The order of a pageblock.
const PAGEBLOCK: u8 = 9;

const LOADS: [(&str, Orders, Lifetimes, u64); 8] = [
    ("mix03.50", Orders::Small, Lifetimes::Random, 50),
    ("mix03.80", Orders::Small, Lifetimes::Random, 80),
    ("mix03.95", Orders::Small, Lifetimes::Random, 95),
    ("short.50", Orders::Small, Lifetimes::MostlyShort, 50),
    ("short.80", Orders::Small, Lifetimes::MostlyShort, 80),
    ("short.95", Orders::Small, Lifetimes::MostlyShort, 95),
    ("mixlf.80", Orders::Folios, Lifetimes::Random, 80),
    ("mixlf.95", Orders::Folios, Lifetimes::Random, 95),
];

pub(super) fn rows() -> Vec<Row> {
    let mut rows = rows_of::<Emulated<1>>("", 1);
    rows.extend(rows_of::<Emulated<2>>("", 2));
    rows.extend(rows_of::<Emulated<8>>("", 8));
    rows
}

/// The rows of an allocator, with names that begin with `prefix`, on so many CPUs.
pub(super) fn rows_of<A: Frames + 'static>(prefix: &str, cpus: u32) -> Vec<Row> {
    let row = |(name, orders, lifetimes, percent)| {
        let row = format!("{prefix}whole.{name}.cpus{cpus}");
        let names = vec![row.clone(), format!("{row}.refused")];
        Row::several(Kind::Plain, names, move || {
            let mut allocator = A::new(POOL);
            let refused = work(&mut allocator, Load::new(orders, lifetimes, POOL, percent), cpus);
            vec![allocator.count_blocks(PAGEBLOCK) as f64, refused as f64]
        })
    };
    let mut rows = Vec::from(LOADS.map(row));
    let own = format!("{prefix}whole.own03.50.cpus{cpus}");
    rows.push(Row::several(Kind::Plain, vec![own.clone(), format!("{own}.refused")], move || {
        let mut allocator = A::new(POOL);
        let mut loads = OwnLoads::new(Orders::Small, Lifetimes::Random, POOL, 50, cpus);
        loads.fill(&mut allocator, TURN as usize);
        loads.take_refused();
        loads.work(&mut allocator, OPERATIONS, TURN as usize);
        vec![allocator.count_blocks(PAGEBLOCK) as f64, loads.take_refused() as f64]
    }));
    rows
}

/// Puts an allocator under the load. Returns how many requests were refused.
fn work<A: Frames>(allocator: &mut A, mut load: Load, cpus: u32) -> u64 {
    let turns = Turns { cpus, steps: TURN };
    load.fill(allocator, turns);
    load.take_refused();
    load.work(allocator, OPERATIONS, turns);
    load.take_refused()
}
