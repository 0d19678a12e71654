//! Which way the figures go, on machines small enough for a test: the directions that the published tables show.
//! Everything is simulated, so that nothing here depends on the time that it takes; margins are far smaller than
//! the runs' effects.

use std::num::NonZeroU32;

use super::column::Column as Kind;
use super::measure::{Plan, measure};
use super::outcome::{Column, Set};
use super::phase::Flags;
use crate::workload::options::{Hardware, Runs};

const SEEDS: u32 = 3;

/// The columns asked for, with one set of flags.
fn run(megabytes: u64, flags: Flags, columns: &[Kind]) -> Set {
    run_seeds(megabytes, flags, columns, SEEDS)
}

fn run_seeds(megabytes: u64, flags: Flags, columns: &[Kind], seeds: u32) -> Set {
    let plan = Plan {
        memory: megabytes << 20,
        runs: Runs { iterations: NonZeroU32::new(seeds).unwrap(), seed: 1, jobs: None },
        columns: columns.to_vec(),
        flags: vec![flags],
        hardware: Hardware::default(),
    };
    measure(&plan, &|| {}).unwrap().sets.pop().unwrap()
}

fn column(set: &Set, kind: Kind) -> &Column {
    set.columns.iter().find(|column| column.name == kind.name()).unwrap()
}

fn counter(set: &Set, kind: Kind, name: &str) -> f64 {
    column(set, kind).mean(name).unwrap()
}

/// Frames that both scanners looked at for each huge page.
fn scanned_each(column: &Column) -> f64 {
    let of = |name| column.mean(name).unwrap();
    let attempts = column.runs[0].attempts as f64;
    (of("Compaction migrate scanned") + of("Compaction free scanned")) / (all(column) / 100.0 * attempts)
}

/// Success of all three phases together.
fn all(column: &Column) -> f64 {
    (0..3).map(|phase| column.success(phase).mean).sum()
}

const BASE: Kind = Kind::Patches(2);
/// The same without the fair-zone policy.
const UNFAIR: Kind = Kind::Unfair(2);
const RESET: Kind = Kind::Patches(3);
const MET: Kind = Kind::Patches(4);
const NO_SKIP: Kind = Kind::Patches(5);
const WHOLE: Kind = Kind::Patches(6);

/// The work: phase 1 from 27.5 to 45.5 percent, spread of phase 3 from 22 points to 3, scanning by 3.6 and 4.0.
#[test]
#[ignore = "long: `./ci.sh experiments` runs it"]
fn patch_4_is_the_step_without_thp_flags() {
    let set = run(512, Flags::Nothp, &[BASE, RESET, MET, NO_SKIP, WHOLE]);
    let of = |kind| column(&set, kind);
    for phase in 0..2 {
        let (before, after) = (of(BASE).success(phase).mean, of(MET).success(phase).mean);
        assert!(after >= 1.4 * before && after >= before + 5.0, "phase {}: {before} to {after}", phase + 1);
        // Patch 3 alone is no step.
        let third = of(RESET).success(phase).mean;
        assert!(third < (before + after) / 2.0, "phase {}: {before}, {third}, {after}", phase + 1);
        // And nothing is lost after.
        for later in [NO_SKIP, WHOLE] {
            let mean = of(later).success(phase).mean;
            assert!(mean >= after - 2.0, "phase {}: {after}, then {mean}", phase + 1);
        }
    }
    let (before, after) = (of(BASE).success(2), of(MET).success(2));
    assert!(after.min >= before.min + 5.0 && after.mean > before.mean, "phase 3: {before:?} to {after:?}");
    assert!(after.max - after.min <= (before.max - before.min) / 2.0, "phase 3: {before:?} to {after:?}");
    for name in ["Compaction migrate scanned", "Compaction free scanned", "Page migrate success"] {
        let (before, after) = (counter(&set, BASE, name), counter(&set, MET, name));
        assert!(after >= 2.0 * before, "{name}: {before} to {after}");
    }
    assert!(counter(&set, MET, "Compaction stalls") > counter(&set, BASE, "Compaction stalls"));
}

/// The work: thp is below nothp in phases 1 and 2, and as good in phase 3 from patch 4 on; before, phase 3 is low.
#[test]
#[ignore = "long: `./ci.sh experiments` runs it"]
fn requests_that_do_not_wake_kswapd_get_less_until_the_machine_is_at_rest() {
    let (nothp, thp) = (run(512, Flags::Nothp, &[MET]), run(512, Flags::Thp, &[BASE, UNFAIR, RESET, MET]));
    let theirs = column(&nothp, MET);
    for phase in 0..2 {
        let (with, without) = (column(&thp, MET).success(phase).mean, theirs.success(phase).mean);
        assert!(with < without, "phase {}: {with} and {without}", phase + 1);
    }
    let (before, after) = (column(&thp, BASE).success(2), column(&thp, MET).success(2));
    assert!(after.mean >= before.mean + 10.0, "{before:?} to {after:?}");
    assert!((after.mean - theirs.success(2).mean).abs() < 10.0, "{after:?}, {:?}", theirs.success(2));
    assert!(all(column(&thp, RESET)) < all(column(&thp, MET)));
    // Before, it is low with and without the fair-zone policy, which does not keep it there.
    let unfair = column(&thp, UNFAIR).success(2);
    assert!(unfair.mean <= after.mean - 10.0 && before.mean <= after.mean - 10.0, "{unfair:?}, {before:?}, {after:?}");
    assert!(counter(&thp, MET, "Compaction free scanned") > counter(&thp, BASE, "Compaction free scanned"));
}

/// The work: patches 5 and 6 add little success, and take two points of phase 3; where no request wakes kswapd, which
/// would clear the skip bits, they add scanning, 15 and 9 percent. Ten runs as the series': phase 3 of one run differs
/// from the next by as much as eight points.
#[test]
#[ignore = "long: `./ci.sh experiments` runs it"]
fn patches_5_and_6_add_looks_rather_than_huge_pages() {
    let set = run_seeds(512, Flags::Thp, &[MET, NO_SKIP, WHOLE], 10);
    for phase in 0..3 {
        let means = [MET, NO_SKIP, WHOLE].map(|kind| column(&set, kind).success(phase).mean);
        assert!(means[1..].iter().all(|mean| (mean - means[0]).abs() <= 2.5), "phase {}: {means:?}", phase + 1);
    }
    let [before, after, last] = [MET, NO_SKIP, WHOLE].map(|kind| counter(&set, kind, "Compaction migrate scanned"));
    assert!(after > 1.01 * before && after < 1.5 * before, "patch 5: {before} to {after}");
    // Scanners seldom meet on a machine as small as this, so that the sixth need not add anything.
    assert!(last >= after && last < 1.5 * after, "patch 6: {after} to {last}");
}

/// The work: about 85 percent and steady in phase 3 before the fair-zone policy came with 3.12; 65 to 87 with it. On a
/// machine of the series' size only phases 1 and 2 are better without it here (docs/experiments.md).
///
/// Twelve runs: with the policy, a run of phase 3 ends far below the mean or far above it, so that the mean of four
/// runs is noise. Other seeds and 1 GiB give the same direction (`notebook/2026-11-22-fair-zones.md`).
#[test]
#[ignore = "long: `./ci.sh experiments` runs it"]
fn the_fair_zone_policy_makes_the_faults_worse() {
    let set = run_seeds(512, Flags::Nothp, &[BASE, UNFAIR], 12);
    let (fair, unfair) = (column(&set, BASE).success(2), column(&set, UNFAIR).success(2));
    assert!(unfair.mean >= fair.mean + 5.0, "{fair:?}, {unfair:?}");
    let busy = |kind| column(&set, kind).success(0).mean + column(&set, kind).success(1).mean;
    assert!(busy(UNFAIR) >= 1.3 * busy(BASE), "{} and {}", busy(BASE), busy(UNFAIR));
    assert!(unfair.min >= fair.min + 5.0 && unfair.max - unfair.min <= fair.max - fair.min, "{fair:?}, {unfair:?}");
}

/// This project's default.
#[test]
#[ignore = "long: `./ci.sh experiments` runs it"]
fn the_default_gets_more_than_the_whole_series() {
    for flags in Flags::ALL {
        let set = run(512, flags, &[WHOLE, Kind::Default]);
        let (series, ours) = (column(&set, WHOLE), column(&set, Kind::Default));
        for phase in 0..2 {
            let (theirs, own) = (series.success(phase).mean, ours.success(phase).mean);
            assert!(own >= theirs + 10.0, "{}, phase {}: {theirs} and {own}", flags.name(), phase + 1);
        }
        // A quarter is the figure to reach. The smaller the machine, the less Linux scans before it gives up: with huge
        // page flags a third on this one, a ninth with 1 GiB.
        let most = if flags == Flags::Nothp { 0.25 } else { 0.5 };
        let scanned = (scanned_each(series), scanned_each(ours));
        assert!(scanned.1 <= most * scanned.0, "{}: {scanned:?} frames for each huge page", flags.name());
        // The figure to reach is 95; three runs of an eighth of the machine scatter by two or three around their mean.
        assert!(ours.success(2).mean >= 93.0, "{}: {:?}", flags.name(), ours.success(2));
    }
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let twice = [(); 2].map(|()| run(128, Flags::Nothp, &[WHOLE]));
    assert_eq!(twice[0], twice[1]);
    assert_ne!(twice[0].columns[0].runs[0], twice[0].columns[0].runs[1]);
}
