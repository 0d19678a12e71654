//! Four CPUs, interrupts, CPUs that go and come back, compaction, reclaim, memory that is added and wrong frees, all at
//! once, beside an owner map. A seed decides the order of everything: `SCHEDULE_SEED=n` repeats one run,
//! `SCHEDULE_STEPS=n` sets the number of operations of all runs together. Under `--cfg interleave` CPUs take turns at
//! every access to an atomic (`./ci.sh schedule`).

mod machine;
mod twice;
mod world;

use pageblock_testkit::schedule::Machine;

use machine::{Tally, schedule};

/// Steps of one run, of one operation or many.
const RUN: u64 = 2000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Says which seed has failed.
struct Told(u64);

impl Drop for Told {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("repeat it with SCHEDULE_SEED={}", self.0);
        }
    }
}

fn one(seed: u64) -> Tally {
    let _told = Told(seed);
    match seed % 4 {
        0 => schedule::<Machine<false, false>>(seed, RUN, Vec::new()),
        1 => schedule::<Machine<true, false>>(seed, RUN, Vec::new()),
        2 => schedule::<Machine<false, true>>(seed, RUN, Vec::new()),
        _ => schedule::<Machine<true, true>>(seed, RUN, Vec::new()),
    }
}

#[test]
fn no_frame_has_two_owners_and_none_is_lost() {
    if let Some(seed) = number("SCHEDULE_SEED") {
        println!("{:?}", one(seed));
        return;
    }
    let calls = number("SCHEDULE_STEPS").unwrap_or(150_000);
    let mut sum = Tally::default();
    let mut runs = 0;
    while sum.calls < calls {
        sum += one(runs);
        runs += 1;
    }
    println!("{runs} runs: {sum:?}");
    let each = [sum.moved, sum.reclaimed, sum.refused, sum.interrupts, sum.unplugged, sum.added, sum.ranges];
    assert!(each.iter().all(|&count| count > 0), "a kind of operation never happened: {sum:?}");
}
