//! `pageblock run timedmunlock` from outside, on an area small enough for a test. Nothing here depends on time.

use std::fs;

use serde_json::Value;
use std::process::Command;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["run", "timedmunlock"]);
    command
}

#[test]
fn every_column_of_every_set_is_measured_and_checked() {
    let output = command().args(["--memory", "8M", "--iterations", "3", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((result["memory_bytes"].as_u64(), result["iterations"].as_u64()), (Some(8 << 20), Some(3)));
    let sets = result["sets"].as_array().unwrap();
    let names: Vec<_> = sets.iter().map(|set| set["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["one node", "interleaved over two nodes", "huge pages, one node"]);
    for set in sets {
        assert_eq!(set["pages"], 2048);
        let columns = set["columns"].as_array().unwrap();
        let names: Vec<_> = columns.iter().map(|column| column["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["0", "1", "2", "3", "4", "5", "6", "7", "default"]);
        for column in columns {
            let samples = column["samples_s"].as_array().unwrap();
            assert_eq!(samples.len(), 3);
            let (min, mean) = (column["elapsed_s"]["min"].as_f64(), column["elapsed_s"]["mean"].as_f64());
            assert!(min > Some(0.0) && min <= mean);
        }
    }
}

#[test]
fn the_report_shows_the_seeds_table_beside_ours() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new");
    let output = command()
        .args(["--memory", "2M", "--iterations", "1", "--threads", "2", "--steps", "2,4", "--out"])
        .arg(&out)
        .output();
    let output = output.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in
        ["munlock: one node (s; less is better)", "1.92 (-43.4 %)", "3.48 (-16.5 %)", "1 other CPU at work", "2+4"]
    {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    let html = fs::read_to_string(out.join("timedmunlock.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("1.92 (-43.4 %)"));
    let json: Value = serde_json::from_str(&fs::read_to_string(out.join("timedmunlock.json")).unwrap()).unwrap();
    assert_eq!(json["threads"], 2);
    assert!(fs::read_to_string(out.join("timedmunlock.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn bad_arguments_are_refused_by_name() {
    for (arguments, expected) in [
        (["--memory", "65G"], "--memory"),
        (["--memory", "1"], "--memory"),
        (["--memory", "lots"], "--memory"),
        (["--iterations", "0"], "--iterations"),
        (["--threads", "0"], "--threads"),
        (["--steps", "8"], "expected patches from 1 to 7"),
    ] {
        let output = command().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
