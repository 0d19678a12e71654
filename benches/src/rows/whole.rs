//! Outcomes: whole pageblocks that are left after a long load, on one CPU and on several in turn.

use crate::loads::{Lifetimes, Load, Orders, Turns};
use crate::machine::Emulated;
use crate::table::{Kind, Row, Run};
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
    let mut rows = Vec::new();
    for (name, orders, lifetimes, percent) in LOADS {
        let load = move || Load::new(orders, lifetimes, POOL, percent);
        let runs: [(usize, Run); 3] = [
            (1, Box::new(move || ours::<1>(load()))),
            (2, Box::new(move || ours::<2>(load()))),
            (8, Box::new(move || ours::<8>(load()))),
        ];
        for (cpus, run) in runs {
            let row = format!("whole.{name}.cpus{cpus}");
            let names = vec![row.clone(), format!("{row}.refused")];
            rows.push(Row { kind: Kind::Plain, names, run });
        }
    }
    rows
}

fn ours<const CPUS: usize>(load: Load) -> Vec<f64> {
    let mut machine = Emulated::<CPUS>::new(POOL);
    let refused = work(&mut machine, load, CPUS as u32);
    vec![machine.count_blocks(PAGEBLOCK) as f64, refused as f64]
}

/// Puts an allocator under the load. Returns how many requests were refused.
fn work<A: Frames>(allocator: &mut A, mut load: Load, cpus: u32) -> u64 {
    let turns = Turns { cpus, steps: TURN };
    load.fill(allocator, turns);
    load.take_refused();
    load.work(allocator, OPERATIONS, turns);
    load.take_refused()
}
