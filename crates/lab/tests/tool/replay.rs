//! The binary on a small recording, and on bad input.
//!
//! The recording (`fixtures/small`) is of a machine with 32 MiB: zones DMA (frames 1 to 4095) and DMA32 (4096 to 8191).

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

use crate::{fixture, pageblock};

/// What a command that succeeds says, or one that fails.
fn ended(command: &mut Command, success: bool) -> Output {
    let output = command.output().unwrap();
    assert_eq!(output.status.success(), success, "{}", String::from_utf8_lossy(&output.stderr));
    output
}

/// A copy of the recording, with its trace changed.
fn changed(change: impl FnOnce(String) -> Vec<u8>) -> (TempDir, PathBuf) {
    let directory = TempDir::new().unwrap();
    fs::create_dir(directory.path().join("before")).unwrap();
    for entry in fs::read_dir(fixture().join("before")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), directory.path().join("before").join(entry.file_name())).unwrap();
    }
    let trace = directory.path().join("trace.txt");
    fs::write(&trace, change(fs::read_to_string(fixture().join("trace.txt")).unwrap())).unwrap();
    (directory, trace)
}

fn compressed(text: &str) -> Vec<u8> {
    ruzstd::encoding::compress_to_vec(text.as_bytes(), ruzstd::encoding::CompressionLevel::Fastest)
}

fn json(trace: &Path, more: &[&str]) -> Value {
    let output = ended(pageblock().arg("replay").arg(trace).arg("--json").args(more), true);
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn refused(trace: &Path) -> String {
    let output = ended(pageblock().arg("replay").arg(trace), false);
    assert!(output.stdout.is_empty(), "nothing is printed where nothing was found");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn every_frame_of_the_small_recording_is_accounted_for() {
    let found = json(&fixture().join("trace.txt"), &[]);
    assert_eq!(found["events"], 40);
    let ours = &found["rules"][0];
    assert_eq!((&ours["rules"], &ours["refused"], &ours["rejected_frees"]), (&"default".into(), &0.into(), &0.into()));
    assert_eq!(found["conserved"], true);
    assert_eq!(found["unmatched"], serde_json::json!([]));
    // 7040 at the start, and one that was on a per-CPU list; 521 allocated, 524 freed, of which one twice; four moved,
    // of which one was freed after.
    assert_eq!(found["start"]["free_frames"], 7040);
    assert_eq!(ours["end"]["free_frames"], 7045);
    assert_eq!(found["linux"]["free_frames"], 7045);
    assert_eq!(found["linux"]["fallbacks"], 2);
    assert_eq!(found["linux"]["fallbacks_below_pageblock"], 1);
    // The second is of the request that Linux refused.
    assert_eq!(ours["end"]["fallbacks"], 2);
    assert_eq!(ours["end"]["fallbacks_below_pageblock"], 0);
    assert_eq!(ours["end"]["unusable_free_index"].as_array().unwrap().len(), 11);
    assert!(ours["metadata_bytes_per_frame"].as_f64().unwrap() > 0.0);
}

#[test]
fn where_map_and_events_disagree_is_counted() {
    let found = json(&fixture().join("trace.txt"), &[]);
    let expected = serde_json::json!({
        "listed_at_start": 1, "freed_before_trace": 0, "taken_before_trace": 0, "allocated_while_held": 1, "freed_while_free": 9, "outside": 1,
        "frees_in_pieces": 0,
    });
    assert_eq!(found["disagreements"], expected);
    let moves = serde_json::json!({"moved": 4, "freed_after": 1, "given_back": 4});
    assert_eq!(found["moves"], moves);
    assert_eq!(found["event_counts"]["free_batched"], 2);
    assert_eq!(found["event_counts"]["alloc_failed"], 1);
    assert_eq!(found["live"]["start_frames"], 887);
}

#[test]
fn tables_are_stable() {
    let output = ended(pageblock().args(["replay", "-v"]).arg(fixture().join("trace.txt")), true);
    let text = String::from_utf8(output.stdout).unwrap();
    let varies = ["trace  ", "machine  ", "Report: "];
    let lines = text.lines().filter(|line| !varies.iter().any(|start| line.starts_with(start)));
    let expected = include_str!("../fixtures/small/tables.txt");
    assert_eq!(lines.collect::<Vec<_>>().join("\n").trim_end(), expected.trim_end());
}

#[test]
fn proc_files_look_like_linux() {
    let run = |command: &str| {
        let output = ended(pageblock().arg(command).arg(fixture().join("trace.txt")), true);
        String::from_utf8(output.stdout).unwrap()
    };
    let buddyinfo = run("buddyinfo");
    assert_eq!(
        buddyinfo.lines().next(),
        Some("Node 0, zone      DMA      0      0      0      0      0      0      0      0      1      1      3 ")
    );
    let pagetypeinfo = run("pagetypeinfo");
    assert!(
        pagetypeinfo.starts_with("Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type")
    );
    assert!(pagetypeinfo.contains("Number of blocks type "));
}

#[test]
fn a_compressed_trace_is_the_same_trace() {
    let (_directory, trace) = changed(|text| compressed(&text));
    assert_eq!(json(&trace, &[])["rules"], json(&fixture().join("trace.txt"), &[])["rules"]);
}

#[test]
fn the_report_is_a_page_with_plots() {
    let out = TempDir::new().unwrap();
    let page = out.path().join("deep/report");
    json(&fixture().join("trace.txt"), &["--out", page.to_str().unwrap()]);
    let html = fs::read_to_string(page.join("index.html")).unwrap();
    assert!(html.contains("wholly free pageblocks") && html.trim_end().ends_with("</html>"));
    assert!(html.matches("<table>").count() == 5 && html.len() < 2 << 20);
    let (_, data) = html.split_once("id=\"data\">").unwrap();
    let data: Value = serde_json::from_str(data.split_once("</script>").unwrap().0).unwrap();
    assert_eq!((&data["schema_version"], data["sides"].as_array().unwrap().len()), (&Value::from(2), 2));
    let blocks: u64 = data["zones"].as_array().unwrap().iter().map(|zone| zone["blocks"].as_u64().unwrap()).sum();
    assert_eq!(blocks, 16);
    let result: Value = serde_json::from_slice(&fs::read(page.join("result.json")).unwrap()).unwrap();
    assert_eq!(result["events"], 40);
    assert_eq!(result["schema_version"], 2);
    let over_time = fs::read_to_string(page.join("over-time.csv")).unwrap();
    assert!(
        over_time.starts_with("seconds,linux_whole_pageblocks,default_whole_pageblocks,")
            && over_time.lines().count() > 1
    );
}

#[test]
fn without_a_map_of_frames_the_counts_are_matched() {
    let (directory, trace) = changed(String::into_bytes);
    fs::remove_file(directory.path().join("before/kpageflags.rle")).unwrap();
    let found = json(&trace, &[]);
    assert_eq!(found["start_from"], "synthetic");
    assert_eq!(found["conserved"], true);
    assert_eq!(found["rules"][0]["refused"], 0);
    let zones = |side: &str| {
        let zones = found[side]["zones"].as_array().unwrap();
        zones.iter().map(|zone| zone["free_blocks"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(zones("start"), zones("start_recorded"));
    // What could not be matched is said: that nothing is known of single frames.
    assert_eq!(found["unmatched"].as_array().unwrap().len(), 1);
}

#[test]
fn a_malformed_line_is_named() {
    let (_directory, trace) = changed(|text| text.replace("pfn=0x1504 order=1", "pfn=0x1504 order=one").into_bytes());
    let expected = format!("pageblock: {}:13: expected an order from 0 to 15, found `one`\n", trace.display());
    assert_eq!(refused(&trace), expected);
    let lenient = json(&trace, &["--lenient"]);
    assert_eq!(lenient["skipped"]["malformed"], 1);
    assert_eq!(lenient["events"], 39);
    assert_eq!(lenient["conserved"], true);
}

#[test]
fn a_line_cut_in_the_middle_is_named() {
    let (_directory, trace) = changed(|text| text.into_bytes()[..1200].to_vec());
    let message = refused(&trace);
    assert!(message.contains("trace.txt:1") && message.contains(": expected "), "{message}");
}

#[test]
fn an_unknown_flag_is_named() {
    let (_directory, trace) = changed(|text| text.replace("GFP_NOFS|", "GFP_NOFS|__GFP_NEW|").into_bytes());
    let message = refused(&trace);
    assert!(message.contains("trace.txt:28: expected a request flag such as"), "{message}");
    assert!(message.contains("found `__GFP_NEW`"), "{message}");
    assert_eq!(json(&trace, &["--lenient"])["skipped"]["malformed"], 1);
}

#[test]
fn a_truncated_file_is_named() {
    let (_directory, trace) = changed(|text| compressed(&text.replace("40/40", "40").repeat(200)));
    let whole = fs::read(&trace).unwrap();
    fs::File::create(&trace).unwrap().write_all(&whole[..whole.len() / 2]).unwrap();
    let message = refused(&trace);
    assert!(message.contains("trace.txt:"), "{message}");
    assert!(message.contains("expected the rest of the compressed file, which is cut short"), "{message}");
    let lenient = json(&trace, &["--lenient"]);
    assert_eq!((&lenient["skipped"]["truncated"], &lenient["conserved"]), (&Value::Bool(true), &Value::Bool(true)));
}

#[test]
fn lost_events_are_an_error() {
    let (_directory, trace) = changed(|text| text.replace("40/40", "40/100").into_bytes());
    let message = refused(&trace);
    assert!(
        message.contains("trace.txt:3: expected a complete recording, found that 60 events were lost"),
        "{message}"
    );
    assert_eq!(json(&trace, &["--lenient"])["skipped"]["lost"], 60);
    let lost = "CPU:0 [LOST 7 EVENTS]\n              rm-103";
    let (_directory, trace) = changed(|text| text.replacen("              rm-103", lost, 1).into_bytes());
    assert!(refused(&trace).contains("trace.txt:20: expected a complete recording, found that 7 events were lost"));
}

#[test]
fn missing_files_are_named() {
    for name in ["iomem", "buddyinfo", "pagetypeinfo", "zoneinfo"] {
        let (directory, trace) = changed(String::into_bytes);
        fs::remove_file(directory.path().join("before").join(name)).unwrap();
        let message = refused(&trace);
        assert!(message.contains(&format!("before/{name}: expected ")), "{message}");
    }
    // The trace first, whatever else is missing.
    for trace in [fixture().join("none.txt"), PathBuf::from("/nonexist"), fixture()] {
        let message = refused(&trace);
        let wanted = format!("{}: expected a readable trace file", trace.display());
        assert!(message.contains(&wanted), "{message}");
    }
    let mut command = pageblock();
    let output = ended(command.args(["replay", "--state", "/nonexist"]).arg(fixture().join("trace.txt")), false);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("/nonexist: expected a directory with the machine's state"), "{message}");
    assert_eq!(
        message.matches("os error").count() + message.matches("not a directory").count(),
        1,
        "said once: {message}"
    );
}

#[test]
fn malformed_state_is_named() {
    for (name, text, expected) in [
        ("buddyinfo", "Node 0, zone DMA x\n", "before/buddyinfo:1: expected a number of free blocks, found `x`"),
        ("zoneinfo", "Node 0, zone DMA\n  pages free ?\n", "before/zoneinfo:2: expected a number of frames, found `?`"),
        (
            "kpageflags.rle",
            "0 16 R\n8 8 F\n",
            "before/kpageflags.rle:2: expected a run that starts after the one before",
        ),
        ("iomem", "0-1 System RAM\n", "before/iomem:1: expected"),
    ] {
        let (directory, trace) = changed(String::into_bytes);
        fs::write(directory.path().join("before").join(name), text).unwrap();
        let message = refused(&trace);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn a_state_elsewhere_is_found() {
    let (_directory, trace) = changed(String::into_bytes);
    let moved = TempDir::new().unwrap();
    let alone = moved.path().join("alone.txt");
    fs::copy(&trace, &alone).unwrap();
    assert!(refused(&alone).contains("before/iomem: expected"));
    for state in [fixture(), fixture().join("before")] {
        assert_eq!(json(&alone, &["--state", state.to_str().unwrap()])["conserved"], true);
    }
}
