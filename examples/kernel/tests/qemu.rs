//! Boots the kernel in QEMU. Without QEMU the tests are skipped, loudly; where the environment variable `CI` is set they fail.

#![forbid(unsafe_code)]

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use pageblock_kernel::{Machine, PASS, Profile, Run, build_image, find_qemu};

/// A run takes a second or two; the machine may be busy.
const LIMIT: Duration = Duration::from_secs(120);

/// QEMU and the image, built once.
fn tools() -> Option<&'static (PathBuf, PathBuf)> {
    static TOOLS: OnceLock<Option<(PathBuf, PathBuf)>> = OnceLock::new();
    TOOLS
        .get_or_init(|| match find_qemu() {
            Ok(qemu) => Some((qemu, build_image(Profile::Dev).expect("the image builds"))),
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

fn report(machine: &str, memory: &str, cpus: u32) -> Option<Run> {
    let machine =
        Machine { machine: machine.into(), memory: memory.into(), cpus, icount: false, append: "mode=report".into() };
    pass(&machine)
}

#[test]
fn boots_with_128_mib_and_one_cpu() {
    if let Some(run) = report("pc", "128M", 1) {
        assert!(run.log.contains("smp: 1 CPUs"), "{}", run.log);
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
        assert!(run.log.contains("0x000100000000..0x000200000000 usable"), "{}", run.log);
    }
}

#[test]
fn the_monitor_answers() {
    let machine = Machine { append: "mode=monitor".into(), ..Machine::default() };
    let Some((qemu, image)) = tools() else { return };
    let run = machine.converse(qemu, image, "help\ncpus\nnonsense\nexit\n", LIMIT).expect("`exit` ends it");
    assert_eq!(run.status, Some(PASS), "{}", run.log);
    assert!(run.log.contains("cpu 3: controller 3"), "{}", run.log);
    assert!(run.log.contains("no command `nonsense`"), "{}", run.log);
}
