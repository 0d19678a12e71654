//! Claims of seed 003 (workloads.md, section 4.4) on the whole machine: allocator, kswapd, LRU lists, disk. Machines are small, with the
//! zones of the seed's in the same proportion. Every count is deterministic; nothing here depends on time.

use assert_cmd::Command;
use serde_json::Value;

/// Runs an experiment and returns its JSON.
fn run(arguments: &[&str]) -> Value {
    let output = Command::cargo_bin("pageblock").unwrap().arg("run").args(arguments).arg("--json").output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn number(value: &Value, field: &str) -> f64 {
    value[field].as_f64().unwrap_or_else(|| panic!("{field} is missing in {value}"))
}

/// The runs under a set of rules, by seed.
fn runs<'a>(outcome: &'a Value, variant: &str) -> &'a [Value] {
    let rows = outcome["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row["variant"] == variant).unwrap_or_else(|| panic!("no {variant}"));
    row["runs"].as_array().unwrap()
}

fn zone<'a>(run: &'a Value, kind: &str) -> &'a Value {
    run["zones"].as_array().unwrap().iter().find(|zone| zone["kind"] == kind).unwrap()
}

/// Frames that were looked at in a zone.
fn scanned(run: &Value, kind: &str) -> f64 {
    number(zone(run, kind), "scanned_kswapd") + number(zone(run, kind), "scanned_direct")
}

/// Of DMA32 and Normal, DMA32's part in percent.
fn share(run: &Value, of: impl Fn(&Value, &str) -> f64) -> f64 {
    100.0 * of(run, "DMA32") / (of(run, "DMA32") + of(run, "Normal"))
}

fn throughput(run: &Value, op: &str) -> f64 {
    let phases = run["phases"].as_array().unwrap();
    number(phases.iter().find(|phase| phase["op"] == op).unwrap(), "throughput")
}

#[test]
fn both_zones_age_and_without_the_class_zone_dma32_never() {
    let arguments = ["tiobench", "--memory", "256M", "--threads", "1", "--iterations", "2", "--check"];
    let outcome = run(&arguments);
    for seed in 0..2 {
        let of = |variant| &runs(&outcome, variant)[seed];
        let base = of("linux316");
        let managed = share(base, |run, kind| number(zone(run, kind), "managed"));
        // C2: zones age by their sizes.
        let split = share(base, scanned);
        assert!((split - managed).abs() < 5.0, "{split} % of the scanning, {managed} % of the frames");
        // C3: dropped, exactly nothing, with and without the gap.
        for frozen in ["no-class-zone", "neither", "series"] {
            assert_eq!(scanned(of(frozen), "DMA32"), 0.0, "{frozen}");
            assert!(scanned(of(frozen), "Normal") > 1.2 * scanned(base, "Normal"), "{frozen}: all of it is in Normal");
            let allocs = share(of(frozen), |run, kind| number(zone(run, kind), "allocs"));
            assert!(allocs < managed / 2.0, "{frozen}: {allocs} % of the allocations");
        }
        // C4: the class zone alone brings it back. C5: the gap alone changes little.
        for restored in ["series-class-zone", "no-gap"] {
            let other = share(of(restored), scanned);
            assert!((other - split).abs() < 5.0, "{restored}: {other} %, {split} % with both");
        }
        let (gap, both) = (throughput(of("no-gap"), "SeqRead"), throughput(base, "SeqRead"));
        assert!((gap - both).abs() < 0.02 * both, "{gap} {both}");
        // Our default reads as fast as the best of them.
        let all = outcome["rows"].as_array().unwrap();
        let best = all.iter().map(|row| throughput(&row["runs"][seed], "SeqRead")).fold(0.0, f64::max);
        assert!(
            throughput(of("default"), "SeqRead") >= 0.99 * best,
            "{} of {best}",
            throughput(of("default"), "SeqRead")
        );
    }
}

#[test]
fn bad_arguments_are_refused_by_name() {
    for (arguments, expected) in [
        (["tiobench", "--memory", "64M"], "--memory"),
        (["tiobench", "--threads", "0"], "--threads"),
        (["tiobench", "--iterations", "0"], "--iterations"),
        (["tiobench", "--only", "linux-9"], "--only"),
    ] {
        let output = Command::cargo_bin("pageblock").unwrap().arg("run").args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(expected), "{arguments:?}: {error}");
    }
}
