//! `pageblock run highalloc` from outside, on a machine of the measured size: which way the figures go. Every count is
//! deterministic; nothing here depends on time.

use std::fs;

use serde_json::Value;
use std::process::Command;

fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_pageblock"));
    command.args(["run", "highalloc"]);
    command
}

/// Of all runs of a line, the mean of what `of` says.
fn mean(row: &Value, of: impl Fn(&Value) -> f64) -> f64 {
    let runs = row["runs"].as_array().unwrap();
    runs.iter().map(of).sum::<f64>() / runs.len() as f64
}

fn number(run: &Value, field: &str) -> f64 {
    run[field].as_f64().unwrap()
}

#[test]
fn the_default_gets_what_linux_leaves() {
    let output = command().args(["--iterations", "1", "--check", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rows = result["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 48);
    for ours in rows.iter().filter(|row| row["preset"] == "default") {
        let same = |row: &&Value| ["pattern", "share", "flags"].iter().all(|key| row[*key] == ours[*key]);
        let linux = rows.iter().filter(same).find(|row| row["preset"] == "linux 6.1").unwrap();
        let name = format!("{} {} {}", ours["pattern"], ours["share"], ours["flags"]);
        // Of what could be had: Linux's rules reclaim more before, so that its free pages are others.
        let share = |row: &Value| mean(row, |run| number(run, "got") / number(run, "usable_blocks"));
        // Light requests take what is whole at the moment. Where kernel pages come late, Linux's refills mix them into
        // movable pageblocks, and leave whole ones that the default has given to the kernel.
        let mixes = ours["pattern"] == "late" && ours["flags"] == "light";
        let least = if mixes { 0.05 } else { share(linux).min(1.0) - 0.02 };
        assert!(share(ours) >= least, "{name}: {:.2} against {:.2}", share(ours), share(linux));
        if ours["flags"] != "light" {
            assert!(share(ours) >= 0.9, "{name}: {:.2} of what could be had", share(ours));
        }
        let filled = |row: &Value| mean(row, |run| number(&run["kernel_blocks"], "filled"));
        let fewest = mean(ours, |run| number(&run["fewest_blocks"], "filled"));
        // The first and the last pageblock are shared with what was there before, and what comes after.
        assert!(filled(ours) <= (1.1 * fewest).max(fewest + 2.0), "{name}: {} of {fewest}", filled(ours));
        let late = ours["pattern"] == "late" && ours["share"] == 25;
        assert!(!late || filled(linux) > 1.3 * fewest, "Linux's rules spread kernel pages over a full memory");
    }
}

#[test]
fn kernel_pages_stay_together_in_a_small_full_memory() {
    let output = command().args(["--memory", "256M", "--iterations", "1", "--json"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let result: Value = serde_json::from_slice(&output.stdout).unwrap();
    for row in result["rows"].as_array().unwrap().iter().filter(|row| row["preset"] == "default") {
        let filled = mean(row, |run| number(&run["kernel_blocks"], "filled"));
        let fewest = mean(row, |run| number(&run["fewest_blocks"], "filled"));
        // 14 of 10 and 39 of 29 when the compaction thread alone made room.
        assert!(
            filled <= (1.2 * fewest).max(fewest + 2.0),
            "{} {}: {filled} of {fewest}",
            row["pattern"],
            row["share"]
        );
    }
}

#[test]
fn the_report_shows_linux_beside_ours() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new");
    let output = command().args(["--iterations", "1", "--out"]).arg(&out).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    for expected in ["highalloc: order-9 blocks, 16 failures", "87.70", "235 managed"] {
        assert!(text.contains(expected), "{expected} is not in:\n{text}");
    }
    let html = fs::read_to_string(out.join("highalloc.html")).unwrap();
    assert!(html.contains("<svg") && html.contains("order-9 blocks"));
    let json: Value = serde_json::from_str(&fs::read_to_string(out.join("highalloc.json")).unwrap()).unwrap();
    assert_eq!(json["patience"], 16);
    assert!(fs::read_to_string(out.join("highalloc.svg")).unwrap().starts_with("<svg"));
}

#[test]
fn bad_arguments_are_refused_by_name() {
    for (arguments, expected) in [
        (["--memory", "64M"], "--memory"),
        (["--memory", "17G"], "--memory"),
        (["--iterations", "0"], "--iterations"),
        (["--patience", "0"], "--patience"),
    ] {
        let output = command().args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
