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

#[test]
fn stalls_come_with_the_fourth_patch_and_keep_types_apart() {
    let (mut events, mut huge) = ([0.0; 5], [0.0; 5]);
    for seed in ["1", "2", "3"] {
        for (cells, advised) in blocks(seed).iter().zip([false, true]) {
            let stalls = figure(cells, "stalls");
            assert!(stalls[3] > 0.0, "seed {seed}: {stalls:?}");
            assert_eq!([stalls[0], stalls[1], stalls[2], stalls[4]], [0.0; 4], "seed {seed}");
            let longest = figure(cells, "longest_stall_ns")[3];
            assert!(longest <= 20e6, "a stall ends after HZ/50: {longest}");
            assert_eq!(figure(cells, "failed"), [0.0; 5], "everybody gets pages");
            let found = figure(cells, "events");
            (0..5).for_each(|place| events[place] += found[place]);
            let (slots, huge_slots) = (figure(cells, "slots"), figure(cells, "huge_slots"));
            if advised {
                (0..5).for_each(|place| huge[place] += huge_slots[place] / slots[place]);
            }
        }
    }
    assert!(events[3] * 2.0 < events[0], "patches 1-4 mix less than none: {events:?}");
    assert!(events[4] * 2.0 < events[0], "so does the default: {events:?}");
    assert!(huge[3] > huge[0] && huge[4] > huge[0], "advised huge pages come more often: {huge:?}");
}
