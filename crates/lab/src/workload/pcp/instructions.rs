//! Instructions a message in the allocator, counted by valgrind on this very program.

use std::process::Command;

use anyhow::{Context, bail};
use pageblock::PcpConfig;

use super::frames::{Frames, Nothing, Plain};
use super::measure::{Case, Outcome, cases};
use super::{Kind, PcpArgs};

/// Two lengths: their difference is counted, so start, fork and exit cancel out.
const LENGTHS: [u32; 2] = [5, 15];
/// The column without an allocator: the stream's own instructions.
const CONTROL: usize = PcpConfig::PRESETS.len();

/// Runs one case once: `[case, column, length]`.
pub(super) fn only(kind: Kind, args: &PcpArgs, numbers: &[u32]) -> anyhow::Result<()> {
    let [number, column, length] = *numbers else { bail!("--only: expected three numbers") };
    let cases = cases(kind, args, length);
    let case = cases.get(number as usize).with_context(|| format!("--only: expected a case below {}", cases.len()))?;
    let mut frames: Box<dyn Frames> = match PcpConfig::PRESETS.get(column as usize) {
        Some((_, lists)) => Box::new(Plain::new(*lists, args.cpus as usize)?),
        None if column as usize == CONTROL => Box::new(Nothing::default()),
        None => bail!("--only: expected a column from 0 to {CONTROL}"),
    };
    case.stream.run(&mut frames);
    Ok(())
}

/// Counts for every preset of every case.
pub(super) fn count(kind: Kind, args: &PcpArgs, outcome: &mut Outcome, tick: &mut dyn FnMut()) -> anyhow::Result<()> {
    let [short, long] = LENGTHS.map(|length| cases(kind, args, length));
    let rows = outcome.sets.iter_mut().flat_map(|set| &mut set.rows);
    for (number, row) in rows.enumerate() {
        let messages = |cases: &[Case]| cases.get(number).map_or(0, |case| case.stream.messages());
        let more = (messages(&long) - messages(&short)) as f64;
        let mut slope = |column: usize| -> anyhow::Result<f64> {
            let [short, long] = LENGTHS.map(|length| run(kind, args, (number, column, length)));
            tick();
            Ok(long? - short?)
        };
        let own = slope(CONTROL)?;
        for (number, column) in row.columns.iter_mut().enumerate() {
            column.instructions_per_message = Some((slope(number)? - own) / more);
        }
    }
    Ok(())
}

fn run(kind: Kind, args: &PcpArgs, (case, column, length): (usize, usize, u32)) -> anyhow::Result<f64> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let numbers = [case.to_string(), column.to_string(), length.to_string()];
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", kind.name(), "--cpus", &args.cpus.to_string(), "--seed", &args.runs.seed.to_string(), "--only"])
        .args(numbers)
        .output()
        .context("--instructions needs valgrind, which cannot be run")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let Some(number) = collected.and_then(|number| number.trim().parse().ok()) else {
        bail!("valgrind counted nothing: {text}")
    };
    Ok(number)
}

/// How often `tick` is called.
pub(super) fn ticks(outcome: &Outcome) -> u64 {
    outcome.sets.iter().map(|set| set.rows.len() as u64 * (CONTROL as u64 + 1)).sum()
}
