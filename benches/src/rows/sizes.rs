//! Sizes: bytes of metadata a frame, bytes of code; and the values timed once.

use core::mem::MaybeUninit;
use std::process::Command;
use std::time::Instant;

use crate::machine::{Machine, map_of};
use crate::moves::{Freed, make_pageblocks};
use crate::table::{Kind, Row};
use pageblock_compaction::CompactionConfig;

const PAGE: usize = 4096;
/// Frames of 16 MiB, 1 GiB, 256 GiB.
const SMALL: u64 = 4 << 10;
const MIDDLE: u64 = 256 << 10;
const LARGE: u64 = 64 << 20;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = vec![
        Row::one(Kind::Plain, "init.256G.ms", init_ms),
        Row::one(Kind::Plain, "metadata.16M", || metadata(SMALL)),
        Row::one(Kind::Plain, "metadata.1G", || metadata(MIDDLE)),
        Row::one(Kind::Plain, "text.smallest", || text(&[])),
        Row::one(Kind::Plain, "text.lists", || text(&["--features", "lists"])),
    ];
    for freed in Freed::ALL {
        let name = format!("compaction.moves_saved.{}", freed.name());
        rows.push(Row::one(Kind::Plain, name, move || moves_saved(freed)));
    }
    rows
}

/// Milliseconds from a memory map of 256 GiB to an allocator, the best of five. Its metadata's pages were touched
/// before.
fn init_ms() -> f64 {
    let map = map_of(LARGE);
    let bytes = Machine::<2>::metadata_bytes(&map);
    let times = (0..5).map(|_| {
        let storage = Box::leak(Box::<[u8]>::new_uninit_slice(bytes));
        storage.iter_mut().step_by(PAGE).for_each(|byte| *core::hint::black_box(byte) = MaybeUninit::new(0));
        let start = Instant::now();
        core::hint::black_box(Machine::<2>::boot(&map, storage));
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Bytes a frame, all that boot carves for two CPUs.
fn metadata(frames: u64) -> f64 {
    Machine::<2>::metadata_bytes(&map_of(frames)) as f64 / frames as f64
}

/// Bytes of code of `benches/size`, which initialises, allocates and frees, built for size.
fn text(options: &[&str]) -> f64 {
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/size/Cargo.toml");
    let program = match std::env::current_exe() {
        Ok(program) => program.with_file_name("size"),
        Err(error) => panic!("{error}"),
    };
    let build = Command::new("cargo")
        .args(["build", "--quiet", "--release", "--manifest-path", manifest, "--target-dir"])
        .arg(&program)
        .args(options)
        .status();
    assert!(build.is_ok_and(|status| status.success()), "{manifest} does not build");
    let sections = Command::new("size").arg("-A").arg(program.join("release/pageblock-size")).output();
    let sections = sections.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    let text =
        sections.lines().find_map(|line| line.strip_prefix(".text")).and_then(|rest| rest.split_whitespace().next());
    match text.and_then(|text| text.parse().ok()) {
        Some(bytes) => bytes,
        None => panic!("`size` says nothing of .text: {sections}"),
    }
}

/// Percent of frames that the default moves less for a free pageblock than Linux 6.1's scanners, from the same states.
fn moves_saved(freed: Freed) -> f64 {
    let moves = |config: CompactionConfig| {
        let costs: Vec<_> = (1..=3).map(|seed| make_pageblocks(config, freed, seed)).collect();
        let made: u64 = costs.iter().map(|cost| cost.made).sum();
        let moved: u64 = costs.iter().map(|cost| cost.moved).sum();
        let least: u64 = costs.iter().map(|cost| cost.least).sum();
        eprintln!("{freed:?}, {:?}: {made} pageblocks, {moved} frames moved, at least {least}", config.search);
        moved as f64 / made as f64
    };
    100.0 * (1.0 - moves(CompactionConfig::default()) / moves(CompactionConfig::linux_6_1()))
}
