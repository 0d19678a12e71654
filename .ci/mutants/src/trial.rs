//! Runs of tests: one for each mutant's tests in a binary, ended by the first failure, or by a limit of CPU time.
#![expect(clippy::disallowed_types, reason = "not part of a model")]

use std::collections::BTreeSet;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};

/// A process that takes no CPU time for so long waits for something that does not come. On a busy machine the
/// nicest process still gets its share.
const STUCK: Duration = Duration::from_secs(90);
const SIGXCPU: i32 = 24;
/// The name of all tests of a documentation, which does not run them one by one.
const WHOLE: &str = "documentation";

/// A test, with what it takes without a mutant.
pub struct Test {
    pub binary: PathBuf,
    /// The crate that has it, as a folder's name.
    pub of: String,
    pub name: String,
    pub seconds: f64,
    pub reaches: BTreeSet<u32>,
}

/// How a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    Passed,
    /// An assertion failed, or the process died.
    Failed(String),
    /// The limit of CPU time.
    CpuLimit(String),
    /// It waited, and took no CPU time.
    Stuck(String),
}

/// One run, and the CPU time that it took.
pub struct Run {
    pub ending: Ending,
    pub seconds: f64,
}

/// Runs these tests of a binary one after another, each at the machine's leisure.
pub fn run(binary: &Path, tests: &[&str], limit: f64, variables: &[(&str, String)], empty: &Path) -> Result<Run> {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -c 0; ulimit -S -t \"$0\"; exec nice \"$@\""]).arg(format!("{:.0}", limit.ceil()));
    command.arg(binary).args(["--exact", "--test-threads=1"]).args(tests.iter().filter(|name| **name != WHOLE));
    command.current_dir(empty).stdout(Stdio::piped()).stderr(Stdio::null());
    // The same cases as everywhere, none of them remembered, and no search for the shortest.
    command.env("PROPTEST_RNG_SEED", "20261122").env("PROPTEST_MAX_SHRINK_ITERS", "0");
    command.env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true");
    command.env("SCHEDULE_STEPS", "300000").env("RUST_BACKTRACE", "0");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn()?;
    let (process, mut output) = (child.id(), child.stdout.take().context("its output")?);
    let (over, stuck) = (AtomicBool::new(false), AtomicBool::new(false));
    let mut text = String::new();
    let mut seconds = 0.0;
    let status = std::thread::scope(|scope| {
        let watch = scope.spawn(|| watch(process, &over, &stuck));
        let mut bytes = [0; 4096];
        // Ends with the process, or with the first failure.
        while let Ok(count @ 1..) = output.read(&mut bytes) {
            text += &String::from_utf8_lossy(&bytes[..count]);
            if text.contains(" ... FAILED\n") {
                let _ = child.kill();
                break;
            }
        }
        over.store(true, Ordering::Release);
        seconds = watch.join().unwrap_or_default();
        child.wait()
    })?;
    let last = text.lines().rfind(|line| line.starts_with("test ") && !line.contains("result:")).unwrap_or_default();
    let at = last.split(' ').nth(1).unwrap_or(WHOLE).to_owned();
    let ending = if let Some(failed) = text.lines().find_map(|line| line.strip_suffix(" ... FAILED")) {
        Ending::Failed(failed.trim_start_matches("test ").replace(" - should panic", ""))
    } else if stuck.load(Ordering::Acquire) {
        Ending::Stuck(at)
    } else if status.signal() == Some(SIGXCPU) {
        Ending::CpuLimit(at)
    } else if status.success() {
        Ending::Passed
    } else {
        Ending::Failed(at)
    };
    Ok(Run { ending, seconds })
}

/// Looks at a process until its run is over, and ends one that is stuck; the CPU time that it was last seen with.
fn watch(process: u32, over: &AtomicBool, stuck: &AtomicBool) -> f64 {
    let (mut seconds, mut since, mut pause) = (0.0, Instant::now(), Duration::from_millis(1));
    while !over.load(Ordering::Acquire) {
        let now = cpu_seconds(process).unwrap_or(seconds);
        if now > seconds {
            (seconds, since) = (now, Instant::now());
        } else if since.elapsed() > STUCK {
            stuck.store(true, Ordering::Release);
            let _ = Command::new("kill").args(["-9", &process.to_string()]).status();
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(Duration::from_millis(20));
    }
    cpu_seconds(process).unwrap_or(seconds).max(seconds)
}

/// CPU time of a process, all its threads, by `/proc`.
fn cpu_seconds(process: u32) -> Option<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks: f64 = fields.get(11)?.parse::<f64>().ok()? + fields.get(12)?.parse::<f64>().ok()?;
    Some(ticks / 100.0)
}

/// The tests of a binary by name.
pub fn names(binary: &Path) -> Result<Vec<String>> {
    if binary.ends_with("rust_out") {
        return Ok(vec![WHOLE.to_owned()]);
    }
    let output = Command::new(binary).args(["--list", "--format", "terse"]).output()?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect())
}
