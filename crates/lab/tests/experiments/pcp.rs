//! `pageblock run hackbench`, `netperf` and `fsmark` from outside: what the lists of each preset change and what they
//! do not. Everything is counted and comes out the same every time.

use std::fs;

use serde_json::Value;
use std::process::Command;

const PRESETS: [&str; 6] = ["off", "2016", "5.14", "6.1", "6.7", "default"];

fn command(workload: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["run", workload]);
    command
}

/// The sets of a short run.
fn sets(workload: &str, length: &str) -> Vec<Value> {
    let output = command(workload).args(["--length", length, "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["workload"].as_str(), result["cpus"].as_u64()), (Some(workload), Some(4)));
    let sets = result["sets"].as_array().unwrap().clone();
    for row in sets.iter().flat_map(|set| set["rows"].as_array().unwrap()) {
        let names: Vec<_> = row["columns"].as_array().unwrap().iter().map(|c| c["preset"].as_str().unwrap()).collect();
        assert_eq!(names, PRESETS);
    }
    sets
}

/// One figure of each row, by preset.
fn figures(set: &Value, figure: &str) -> Vec<(String, [f64; 6])> {
    let row = |row: &Value| {
        let columns = row["columns"].as_array().unwrap();
        let values = std::array::from_fn(|place| columns[place][figure].as_f64().unwrap());
        (row["name"].as_str().unwrap().to_owned(), values)
    };
    set["rows"].as_array().unwrap().iter().map(row).collect()
}

/// By how many percent each preset needs fewer zone locks than lists for order 0 alone.
fn gains(set: &Value) -> Vec<(String, [f64; 6])> {
    let gain = |values: [f64; 6]| values.map(|value| 100.0 * (values[0] - value) / values[0]);
    figures(set, "zone_locks_per_1000").into_iter().map(|(name, values)| (name, gain(values))).collect()
}

#[test]
fn hackbench_meets_less_at_the_zone_lock_with_lists_for_high_orders() {
    let sets = sets("hackbench", "20");
    let [pipes, sockets] = [gains(&sets[0]), gains(&sets[1])];
    assert_eq!(pipes.iter().map(|row| row.0.as_str()).collect::<Vec<_>>(), ["1", "3", "5", "7", "12", "16"]);
    for (pipes, sockets) in pipes.iter().zip(&sockets) {
        for (place, preset) in PRESETS.iter().enumerate().skip(1) {
            assert!(pipes.1[place] > 0.0 && sockets.1[place] > 0.0, "{} groups, {preset}", pipes.0);
        }
        // Pipes use pages of order 0, which had lists before; sockets use slabs of order 1 as well.
        assert!(sockets.1[1] > pipes.1[1], "{} groups: {sockets:?} {pipes:?}", pipes.0);
    }
}

#[test]
fn netperf_meets_less_at_the_zone_lock_wherever_its_slabs_come_and_go() {
    let sets = sets("netperf", "10");
    let locks = figures(&sets[0], "zone_locks_per_1000");
    let busy: Vec<_> = locks.iter().filter(|row| row.1[0] > 10.0).collect();
    assert!(busy.len() >= 5, "{locks:?}");
    for (size, values) in busy {
        assert!(values[1..].iter().all(|value| *value < values[0]), "{size} bytes: {values:?}");
        for preset in [1, 2, 5] {
            assert!(values[preset] * 2.0 < values[0], "{size} bytes, {}: {values:?}", PRESETS[preset]);
        }
    }
}

/// "The workload is only allocating and does not have mix of allocs/frees that would benefit from the caching."
#[test]
fn fsmark_is_the_negative_control() {
    let sets = sets("fsmark", "100");
    for (threads, reuse) in figures(&sets[0], "moved_per_frame") {
        // Every frame comes out of the zone, under its lock; a list gives none a second time. What is above 1 is what
        // lists still hold at the end.
        assert!(reuse.iter().all(|&moved| moved >= 1.0), "{threads} threads: {reuse:?}");
        assert!(reuse.iter().all(|&moved| moved < 1.2), "{threads} threads: {reuse:?}");
        let [off, seed, ..] = reuse;
        assert!((seed - off).abs() < 0.02, "{threads} threads: no difference by the lists of 2016: {reuse:?}");
    }
    let counts = &sets[0]["rows"][0]["columns"];
    assert!(counts.as_array().unwrap().iter().all(|column| column["counts"]["frees"] == 0));
}

#[test]
fn runs_repeat_themselves_and_the_seeds_tables_are_beside_them() {
    let directory = tempfile::tempdir().unwrap();
    let run = || {
        let output =
            command("hackbench").args(["--length", "2", "--seed", "7", "--out"]).arg(directory.path()).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let text = run();
    assert_eq!(text, run());
    for expected in ["pipes, processes: zone-lock", "sockets, processes: frames moved"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    let html = fs::read_to_string(directory.path().join("hackbench.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("zone-lock"));
    let json: Value =
        serde_json::from_str(&fs::read_to_string(directory.path().join("hackbench.json")).unwrap()).unwrap();
    assert_eq!(json["seed"], 7);
    assert!(fs::read_to_string(directory.path().join("hackbench.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn bad_arguments_are_refused_by_name() {
    for (arguments, expected) in [
        (["--cpus", "0"], "--cpus"),
        (["--cpus", "17"], "--cpus"),
        (["--length", "0"], "--length"),
        (["--seed", "x"], "--seed"),
    ] {
        let output = command("netperf").args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}

/// A column's mean and range over several seeds are those of the runs with these seeds, one by one.
#[test]
fn iterations_are_runs_with_seeds_of_their_own() {
    let run = |workload: &str, args: &[&str]| -> Value {
        let output = command(workload).args(["--length", "5", "--json"]).args(args).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let columns = |result: &Value| -> Vec<Value> {
        let rows = result["sets"].as_array().unwrap().iter().flat_map(|set| set["rows"].as_array().unwrap());
        rows.flat_map(|row| row["columns"].as_array().unwrap().clone()).collect()
    };
    let locks = |column: &Value| column["zone_locks_per_1000"].as_f64().unwrap();
    let runs = |column: &Value| -> Vec<f64> {
        column["zone_locks"].as_array().unwrap().iter().map(|locks| locks.as_f64().unwrap()).collect()
    };
    let all = columns(&run("netperf", &["--iterations", "3", "--seed", "4"]));
    let single = ["4", "5", "6"].map(|seed| columns(&run("netperf", &["--seed", seed])));
    let mut differ = 0;
    for (place, column) in all.iter().enumerate() {
        let alone = single.each_ref().map(|columns| locks(&columns[place]));
        assert_eq!(runs(column), alone);
        assert!((locks(column) - alone.iter().sum::<f64>() / 3.0).abs() < 1e-9);
        differ += usize::from(alone[0] != alone[1]);
    }
    assert!(differ > 0, "the seeds make no difference");
    // The control has no order to draw.
    assert!(columns(&run("fsmark", &["--iterations", "2"])).iter().map(runs).all(|runs| runs[0] == runs[1]));
}
