//! Real interrupts: a POSIX timer's signal handler allocates, frees, drains and frees wrongly on the thread that it
//! interrupts, at whatever instruction that is, for every preset of the lists.
//!
//! `PCP_INTERRUPTS=1000000 cargo test --release -p pageblock-pcp --test signals -- --nocapture` interrupts a million
//! times (about a minute); without the variable it is a few thousand times, in CI twenty thousand.
#![cfg(all(target_os = "linux", not(loom)))]
#![expect(clippy::disallowed_types, reason = "counters of the test, not of the allocator")]

mod handler;
mod machine;
mod thread;
mod timer;

use std::sync::atomic::Ordering;

use pageblock_pcp::PcpConfig;

use handler::{BUSY, INTERRUPTS, MASKED};
use machine::{FRAMES, Fixture};
use thread::{INTERRUPTED, KINDS, Thread};

/// Interrupts that the run is to have with this preset: the default gets half of them.
fn share(name: &str, all: u64) -> u64 {
    let others = PcpConfig::PRESETS.len() as u64 - 1;
    if name == "default" { all / 2 } else { all.div_ceil(2 * others) }
}

/// One preset, until it has been interrupted so often. Returns how often it was, and how often the lists were busy.
fn run(config: PcpConfig, wanted: u64) -> (u64, u64) {
    let before = (INTERRUPTS.load(Ordering::Relaxed), BUSY.load(Ordering::Relaxed));
    let fixture = Fixture::install(config);
    let mut thread = Thread::new(fixture);
    let timer = timer::Timer::start();
    let counts = || (INTERRUPTS.load(Ordering::Relaxed) - before.0, BUSY.load(Ordering::Relaxed) - before.1);
    // The timer can fall into step with the thread and never meet a busy list for a while: then it runs on.
    while counts().0 < wanted || (counts().1 * 1000 < counts().0 && counts().0 < 100 * wanted) {
        // Few: on some machines dozens of interrupts come in each step.
        (0..8).for_each(|_| thread.step());
    }
    drop(timer);
    let held = thread.held_frames() + handler::held_frames();
    fixture.zone.check().unwrap();
    fixture.lists.check().unwrap();
    assert_eq!(fixture.zone.free_frames() + fixture.lists.frames() + held, FRAMES);
    thread.free_all();
    handler::free_all(fixture);
    fixture.lists.quiesce(0).unwrap();
    assert_eq!((fixture.zone.free_frames(), fixture.lists.frames()), (FRAMES, 0));
    fixture.zone.check().unwrap();
    counts()
}

#[test]
fn interrupts_at_any_instruction_lose_nothing() {
    let wanted = std::env::var("PCP_INTERRUPTS").ok().map_or(4_000, |count| count.parse().unwrap());
    for (name, config) in PcpConfig::PRESETS {
        let (interrupts, busy) = run(config, share(name, wanted));
        println!("{name}: {interrupts} interrupts, {busy} of them found the lists busy");
        // A few in a thousand at least: otherwise this has tested nothing.
        assert!(busy * 1000 >= interrupts, "{name}: {busy} of {interrupts}");
    }
    println!("{} came while interrupts were off, and did nothing", MASKED.load(Ordering::Relaxed));
    for (kind, interrupted) in KINDS.iter().zip(&INTERRUPTED) {
        let interrupted = interrupted.load(Ordering::Relaxed);
        println!("{kind}: interrupted {interrupted} times while the lists were busy");
        // The rarest operations come once in a thousand.
        assert!(interrupted > 0 || wanted < 1_000_000, "{kind} was never interrupted");
    }
}
