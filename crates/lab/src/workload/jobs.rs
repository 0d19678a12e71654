//! Runs that share nothing, several at a time.

use std::num::{NonZero, NonZeroUsize};
use std::sync::{Mutex, PoisonError};

use anyhow::Context;

use super::options::Runs;

/// Runs every line of a table with every seed; returns the runs of each line, in the order of lines and seeds. Lines
/// take turns, so that early results say something of all; `tick` is called after each run. The error is that of
/// the first run that failed.
pub(super) fn each<L: Sync, R: Send>(
    lines: &[L],
    runs: Runs,
    run: impl Fn(&L, u64) -> anyhow::Result<R> + Sync,
    tick: &(dyn Fn() + Sync),
) -> anyhow::Result<Vec<Vec<R>>> {
    let seeds = runs.seeds();
    let jobs: Vec<_> = seeds.flat_map(|seed| (0..lines.len()).map(move |line| (line, seed))).collect();
    let results = side_by_side(&jobs, runs.jobs, |(line, seed)| run(&lines[*line], *seed), tick);
    let mut rows: Vec<Vec<R>> = lines.iter().map(|_| Vec::new()).collect();
    for ((line, _), result) in jobs.into_iter().zip(results) {
        rows[line].push(result.context("a run did not end")??);
    }
    Ok(rows)
}

/// So many threads, or one a CPU of the host, take the next job each.
fn side_by_side<J: Sync, R: Send>(
    jobs: &[J],
    most: Option<NonZeroUsize>,
    run: impl Fn(&J) -> R + Sync,
    tick: &(dyn Fn() + Sync),
) -> Vec<Option<R>> {
    let next = Mutex::new(jobs.iter().enumerate());
    let results: Mutex<Vec<Option<R>>> = Mutex::new(jobs.iter().map(|_| None).collect());
    let take = || next.lock().unwrap_or_else(PoisonError::into_inner).next();
    let work = || {
        while let Some((number, job)) = take() {
            let result = run(job);
            results.lock().unwrap_or_else(PoisonError::into_inner)[number] = Some(result);
            tick();
        }
    };
    let host = most.map_or_else(|| std::thread::available_parallelism().map_or(1, NonZero::get), NonZero::get);
    std::thread::scope(|scope| {
        for _ in 0..host.min(jobs.len()) {
            scope.spawn(work);
        }
    });
    results.into_inner().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use pageblock_frame::sync::{AtomicU64, Ordering};

    use super::*;

    const RUNS: Runs = Runs { iterations: NonZeroU32::new(3).unwrap(), seed: 7, jobs: None };

    #[test]
    fn runs_stand_in_the_order_of_lines_and_seeds() {
        let ticks = AtomicU64::new(0);
        let tick = || {
            ticks.fetch_add(1, Ordering::Relaxed);
        };
        let runs = each(&["a", "b"], RUNS, |line, seed| Ok(format!("{line}{seed}")), &tick).unwrap();
        assert_eq!(runs, [["a7", "a8", "a9"], ["b7", "b8", "b9"]]);
        assert_eq!(ticks.load(Ordering::Relaxed), 6);
    }

    #[test]
    fn the_first_that_failed_is_the_error() {
        let run = |line: &u32, seed| if seed == 8 { anyhow::bail!("line {line}, seed {seed}") } else { Ok(()) };
        let error = each(&(0..100).collect::<Vec<u32>>(), RUNS, run, &|| ()).unwrap_err();
        assert_eq!(error.to_string(), "line 0, seed 8");
    }
}
