//! `pageblock run thpfioscale` from outside: directions of seed 002 on a scaled machine. Everything is counted in simulated time
//! and comes out the same every time.

use assert_cmd::Command;
use serde_json::Value;

/// Blocks of a run on a small machine with one node: not advised, advised.
fn blocks(seed: &str) -> Vec<Value> {
    let mut command = Command::cargo_bin("pageblock").unwrap();
    let arguments = ["run", "thpfioscale", "--memory", "512M", "--one-node", "--json", "--seed", seed];
    let output = command.args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let parts = result["parts"].as_array().unwrap();
    parts.iter().map(|part| part["cells"].clone()).collect()
}

/// A figure of each column: vanilla, patch 1, patches 1 to 3, patches 1 to 4, default.
fn figure(cells: &Value, name: &str) -> [f64; 5] {
    std::array::from_fn(|place| cells[place]["runs"][0][name].as_f64().unwrap())
}

/// Fallbacks of requests that cannot move.
fn of_unmovable(cells: &Value, column: usize) -> u64 {
    let types = &cells[column]["runs"][0]["fallbacks_by_type"];
    [0, 2].iter().flat_map(|wanted| types[wanted].as_array().unwrap()).map(|n| n.as_u64().unwrap()).sum()
}

fn check_run(seed: &str, cells: &Value) {
    let stalls = figure(cells, "stalls");
    assert!(stalls[3] > 0.0, "seed {seed}: {stalls:?}");
    assert_eq!([stalls[0], stalls[1], stalls[2], stalls[4]], [0.0; 4], "seed {seed}");
    let longest = figure(cells, "longest_stall_ns")[3];
    assert!(longest <= 20e6, "a stall ends after HZ/50: {longest}");
    assert_eq!(figure(cells, "failed"), [0.0; 5], "everybody gets pages");
    assert!(of_unmovable(cells, 3) > 0, "only movable requests stall; the others fall back as before");
}

/// Sums over three seeds, not advised and advised: events, and the part of the slots that came as huge pages.
fn sums() -> [([f64; 5], [f64; 5]); 2] {
    let mut sums = [([0.0; 5], [0.0; 5]); 2];
    for seed in ["1", "2", "3"] {
        for (cells, (events, huge)) in blocks(seed).iter().zip(&mut sums) {
            check_run(seed, cells);
            let (found, slots, huge_slots) =
                (figure(cells, "events"), figure(cells, "slots"), figure(cells, "huge_slots"));
            (0..5).for_each(|place| events[place] += found[place]);
            (0..5).for_each(|place| huge[place] += huge_slots[place] / slots[place] / 3.0);
        }
    }
    sums
}

#[test]
fn each_patch_of_the_series_keeps_types_apart_better() {
    let sums = sums();
    for (events, huge) in &sums {
        println!("events {events:?}, huge {huge:?}");
        assert!(events[1] <= events[0], "spreading only moves them: {events:?}");
        assert!(events[2] * 2.0 < events[1], "the boost takes more than half away: {events:?}");
        assert!(events[3] * 2.0 < events[2], "and so do stalls: {events:?}");
        assert!(events[3] * 5.0 < events[0], "all together: {events:?}");
        assert!(events[4] * 3.0 < events[0], "the default stalls nobody: {events:?}");
    }
    let [(_, plain), (_, advised)] = sums;
    assert!(plain[0] < 0.05, "who neither reclaims nor compacts gets hardly any huge page: {plain:?}");
    assert!(advised[0] > plain[0] && advised[0] < 0.5, "{advised:?}");
    assert!(advised[3] > 0.9 && advised[4] > 0.9, "patch 4 and the default: {advised:?}");
}
