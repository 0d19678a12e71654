//! Instructions a page, counted by valgrind on this very program.

use std::process::Command;

use anyhow::{Context, bail};
use pageblock_mlock::{Placement, SoftArea};

use super::{Outcome, TimedMunlockArgs};

/// Two lengths in pages: their difference is counted, so start and population cancel out.
const LENGTHS: [u64; 2] = [16_384, 65_536];

/// Unlocks part of an area once: `[set, column, pages]`.
pub(super) fn only(args: &TimedMunlockArgs, arguments: &[u64]) -> anyhow::Result<()> {
    let [set, column, pages] = *arguments else { bail!("--only: expected three numbers") };
    let placement = Placement::ALL.get(set as usize).context("--only: expected a set from 0 to 2")?;
    let forms = args.columns();
    let Some(form) = forms.get(column as usize) else {
        bail!("--only: expected a column from 0 to {}", forms.len() - 1)
    };
    let tables = SoftArea::descriptors(*placement, LENGTHS[1]);
    let area = SoftArea::new(*placement, LENGTHS[1], &tables);
    area.lock();
    area.unlock_with(pages, std::hint::black_box(form.steps));
    Ok(())
}

/// Counts for every column of every set.
pub(super) fn count(args: &TimedMunlockArgs, outcome: &mut Outcome) -> anyhow::Result<()> {
    for (set, result) in outcome.sets.iter_mut().enumerate() {
        for (number, column) in result.columns.iter_mut().enumerate() {
            let [short, long] = LENGTHS.map(|pages| run(args, [set as u64, number as u64, pages]));
            column.instructions_per_page = Some((long? - short?) / (LENGTHS[1] - LENGTHS[0]) as f64);
        }
    }
    Ok(())
}

fn run(args: &TimedMunlockArgs, only: [u64; 3]) -> anyhow::Result<f64> {
    let program = std::env::current_exe().context("the program's own file is not known")?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(program)
        .args(["run", "timedmunlock"])
        .args(args.steps.iter().map(|steps| format!("--steps={}", steps.list())))
        .arg("--only")
        .args(only.map(|number| number.to_string()))
        .output()
        .context("--instructions needs valgrind, which cannot be run")?;
    let text = String::from_utf8_lossy(&output.stderr);
    let collected = text.lines().find_map(|line| line.split("Collected :").nth(1));
    let Some(number) = collected.and_then(|number| number.trim().parse().ok()) else {
        bail!("valgrind counted nothing: {text}")
    };
    Ok(number)
}
