//! Boots the kernel in QEMU. Without QEMU the tests are skipped, loudly; where the environment variable `CI` is set
//! they fail.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pageblock_kernel::{FAIL, Image, Machine, PASS, Profile, Run, build_image, find_qemu, sizes};

/// A run takes a second or two; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(120);

/// QEMU and the image, built once.
fn tools() -> Option<&'static (PathBuf, PathBuf)> {
    static TOOLS: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    TOOLS
        .get_or_init(|| match find_qemu() {
            Ok(qemu) => Some((qemu, build_image(Image::Kernel, Profile::Dev).expect("the image builds"))),
            Err(error) if std::env::var_os("CI").is_some() => panic!("{error}"),
            Err(error) => {
                eprintln!("\n*** SKIPPED, the kernel was not booted: {error} ***\n");
                None
            }
        })
        .as_ref()
}

/// Runs a machine that has to pass. `None` if there is no QEMU.
fn pass(machine: &Machine) -> Option<Run> {
    let (qemu, image) = tools()?;
    let run = machine.run(qemu, image, LIMIT).expect("the machine ends by itself");
    assert_eq!(run.status, Some(PASS), "{machine:?} printed:\n{}", run.log);
    Some(run)
}

/// Runs `mode` on a machine of `memory` with `cpus`, and demands that it passes.
fn run(mode: &str, machine: &str, memory: &str, cpus: u32) -> Option<Run> {
    let append = format!("mode={mode}");
    pass(&Machine { machine: machine.into(), memory: memory.into(), cpus, icount: false, append })
}

fn report(machine: &str, memory: &str, cpus: u32) -> Option<Run> {
    let run = run("report", machine, memory, cpus)?;
    assert!(run.log.contains("page tables: 65 pages mapped"), "{}", run.log);
    assert!(run.log.contains("heap: 1072 frames in use, all back"), "{}", run.log);
    Some(run)
}

/// The zones in `buddyinfo`.
fn zones(run: &Run) -> Vec<&str> {
    let lines = run.log.lines().filter_map(|line| line.strip_prefix("Node 0, zone "));
    // The heads of the paragraphs of `zoneinfo` begin in the same way, but have no numbers.
    lines
        .map(str::split_whitespace)
        .filter_map(|mut words| Some((words.next()?, words.next()?)).map(|(zone, _)| zone))
        .collect()
}

#[test]
fn boots_with_128_mib_and_one_cpu() {
    if let Some(run) = report("pc", "128M", 1) {
        assert!(run.log.contains("smp: 1 CPUs"), "{}", run.log);
        assert_eq!(zones(&run), ["DMA", "DMA32"], "{}", run.log);
    }
}

#[test]
fn boots_with_2_gib_and_two_cpus() {
    if let Some(run) = report("pc", "2G", 2) {
        assert!(run.log.contains("smp: 2 CPUs"), "{}", run.log);
    }
}

#[test]
fn boots_with_6_gib_and_four_cpus() {
    if let Some(run) = report("q35", "6G", 4) {
        assert!(run.log.contains("smp: 4 CPUs"), "{}", run.log);
        assert_eq!(zones(&run), ["DMA", "DMA32", "Normal"], "{}", run.log);
        assert!(run.log.contains("0x000100000000..0x000200000000 usable"), "{}", run.log);
    }
}

#[test]
fn stress_on_one_cpu_loses_nothing() {
    if let Some(run) = run("stress", "pc", "128M", 1) {
        assert!(run.log.contains("frames are back"), "{}", run.log);
    }
}

#[test]
fn stress_on_four_cpus_loses_nothing() {
    if let Some(run) = run("stress", "q35", "512M", 4) {
        assert!(run.log.contains("frames are back"), "{}", run.log);
        assert!(run.log.contains("stress: cpu 3"), "{}", run.log);
        let busy = run.log.lines().find_map(|line| line.strip_prefix("stress: lists found in use ")?.split_once(' '));
        let busy: u64 = busy.and_then(|(busy, _)| busy.parse().ok()).expect("a number");
        assert!(busy > 0, "no interrupt came in the middle: {}", run.log);
        assert!(run.log.contains("stress: lists emptied 80 times by"), "{}", run.log);
    }
}

#[test]
fn every_frame_can_be_taken() {
    for cpus in [1, 4] {
        if let Some(run) = run("exhaust", "q35", "256M", cpus) {
            assert!(run.log.contains("frames taken, 0 left"), "{}", run.log);
            assert!(run.log.contains("frames are back"), "{}", run.log);
        }
    }
}

#[test]
fn wrong_frees_are_named() {
    let Some(run) = run("misuse", "pc", "128M", 1) else { return };
    let lines: Vec<_> = run.log.lines().filter(|line| line.starts_with("misuse: ")).collect();
    let want = [
        "misuse: a wrong order: OrderMismatch",
        "misuse: the middle of a block: NotHead",
        "misuse: a frame beyond all memory: OutOfRange",
        "misuse: a second time: OnList",
        "misuse: a third time: NotAllocated",
        "misuse: every wrong free was refused",
    ];
    assert_eq!(lines, want, "{}", run.log);
}

#[test]
fn frames_move_from_under_processes() {
    if let Some(run) = run("migrate", "q35", "256M", 4) {
        assert!(run.log.contains("migration: 3200 frames moved"), "{}", run.log);
    }
}

#[test]
fn compaction_makes_large_pages_under_processes() {
    for (mode, cpus) in [("compact", 1), ("compact", 4), ("kcompactd", 4)] {
        let Some(run) = run(mode, "q35", "256M", cpus) else { return };
        let made = run.log.lines().find_map(|line| line.strip_prefix("compaction: ")?.split_once(" pages of 2 MiB by"));
        let made: u64 = made.and_then(|(made, _)| made.parse().ok()).expect("a number");
        // Half of 251 MiB is free, less the frames that the watermarks keep back.
        assert!(made >= 50, "{}", run.log);
        assert!(run.log.contains("frames are back"), "{}", run.log);
    }
}

#[test]
fn the_page_cache_gives_way() {
    for (memory, cpus) in [("128M", 1), ("256M", 4)] {
        let Some(run) = run("reclaim", "q35", memory, cpus) else { return };
        assert!(run.log.contains("frames are back"), "{}", run.log);
        let figure = |before: &str, after: &str| -> u64 {
            let line = run.log.lines().find_map(|line| line.strip_prefix(before)?.split_once(after)).expect(after);
            line.0.rsplit(' ').next().and_then(|number| number.parse().ok()).expect("a number")
        };
        let written = figure("reclaim: ", " written back");
        // The kernel's frames are made of whole pageblocks, so that nearly all that it does not take stays the
        // cache's.
        let (taken, left) =
            (figure("reclaim: ", " frames for the kernel"), figure("reclaim: ", " pages left in memory"));
        assert!(left * 4 > taken * 3, "{left} pages left where {taken} were taken: {}", run.log);
        let (kswapd, direct) = (figure("reclaim: ", " given up to kswapd"), figure("reclaim: ", " to others"));
        let wakes = figure("reclaim: kswapd woken ", " times");
        assert!(written > 1000, "{}", run.log);
        if cpus == 1 {
            assert_eq!((wakes, kswapd), (0, 0), "there is no thread: {}", run.log);
            assert!(direct > 10_000, "{}", run.log);
        } else {
            assert!(wakes > 0 && kswapd > 10_000, "{}", run.log);
        }
    }
}

#[test]
fn an_area_is_locked_and_unlocked() {
    let Some(run) = run("mlock", "q35", "256M", 2) else { return };
    assert!(run.log.contains("mlock: 4096 frames locked, 4096 unevictable"), "{}", run.log);
    assert!(run.log.contains("first half: 2048 frames locked, 2048 unevictable"), "{}", run.log);
    assert!(run.log.contains("frames are back"), "{}", run.log);
}

/// The control: without shoot-downs, writes go to the old frames, and that is found out.
#[test]
fn lost_writes_are_noticed() {
    let machine = Machine { append: "mode=migrate shoot=0".into(), ..Machine::default() };
    let Some((qemu, image)) = tools() else { return };
    let run = machine.run(qemu, image, LIMIT).expect("the machine ends by itself");
    assert_eq!(run.status, Some(FAIL), "{}", run.log);
    assert!(run.log.contains("PANIC"), "{}", run.log);
}

/// Counting instructions, two runs print the same to the last byte.
#[test]
fn counted_runs_are_identical() {
    let machine = Machine {
        memory: "128M".into(),
        cpus: 1,
        icount: true,
        append: "mode=stress rounds=5000 tick_us=1000".into(),
        ..Machine::default()
    };
    if let (Some(first), Some(second)) = (pass(&machine), pass(&machine)) {
        assert_eq!(first.log, second.log);
    }
}

#[test]
fn the_monitor_answers() {
    let machine = Machine { append: "mode=monitor".into(), ..Machine::default() };
    let Some((qemu, image)) = tools() else { return };
    let run = machine
        .converse(
            qemu,
            image,
            "help\ncpus\nalloc 9 2\ndrain\nfrag\ncompact\nvmstat\nbuddyinfo\nfrag\nfree\ncheck\nnonsense\nexit\n",
            LIMIT,
        )
        .expect("`exit` ends it");
    assert_eq!(run.status, Some(PASS), "{}", run.log);
    assert!(run.log.contains("cpu 3: controller 3"), "{}", run.log);
    assert!(run.log.contains("2 blocks held"), "{}", run.log);
    assert!(run.log.contains("frames were on per-CPU lists, 0 are"), "{}", run.log);
    assert!(run.log.contains("frames moved"), "{}", run.log);
    assert!(run.log.contains("compact_success"), "{}", run.log);
    assert!(run.log.contains("; nothing wrong"), "{}", run.log);
    assert!(run.log.contains("no command `nonsense`"), "{}", run.log);
}

/// The smallest kernel runs in 16 MiB; buddy and facade together take at most 32 KiB of code in it, apart from what
/// runs once at boot.
#[test]
fn the_smallest_kernel_is_small() {
    let Some((qemu, _)) = tools() else { return };
    let image = build_image(Image::Tiny, Profile::Release).expect("the image builds");
    let machine = Machine { memory: "16M".into(), cpus: 1, machine: "pc".into(), ..Machine::default() };
    let run = machine.run(qemu, &image, LIMIT).expect("the machine ends by itself");
    assert_eq!(run.status, Some(PASS), "{}", run.log);
    let sizes = sizes(&image).expect("an image with symbols");
    assert!(sizes.buddy + sizes.facade <= 32 << 10, "{sizes}");
}
