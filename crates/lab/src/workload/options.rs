//! Options that experiments share. Differences are documented beside their own: size of memory, and the choices that a
//! seed decides.

use std::num::{NonZeroU32, NonZeroUsize};

use clap::{Arg, Args};

use crate::commands::map::parse_size;

/// How much memory: a value of its own for every experiment, which [`MemoryRange::option`] gives default, bounds and
/// text.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Memory {
    /// Memory of the machine
    #[arg(id = "memory", long = "memory", value_name = "SIZE", default_value = "1G", value_parser = parse_size)]
    pub(crate) bytes: u64,
}

/// How often, and with which random numbers.
#[derive(Args, Clone, Copy, Debug)]
pub(crate) struct Runs {
    /// Runs of each column, 1 to 10000, each with a seed of its own
    #[arg(long, value_name = "N", default_value = "1", value_parser = parse_iterations)]
    pub(crate) iterations: NonZeroU32,
    /// Seed of the first run; the next has the next
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) seed: u64,
    /// Runs at a time, each with memory of its own [default: the host's CPUs]
    #[arg(long, value_name = "N", value_parser = parse_jobs)]
    pub(crate) jobs: Option<NonZeroUsize>,
}

fn parse_jobs(text: &str) -> Result<NonZeroUsize, String> {
    let jobs = text.parse().ok().filter(|jobs: &NonZeroUsize| jobs.get() <= 1024);
    jobs.ok_or_else(|| "expected 1 to 1024 runs at a time".to_owned())
}

fn parse_iterations(text: &str) -> Result<NonZeroU32, String> {
    let runs = text.parse().ok().filter(|runs: &NonZeroU32| runs.get() <= 10_000);
    runs.ok_or_else(|| "expected 1 to 10000 runs".to_owned())
}

impl Runs {
    /// The seeds, one a run. After the largest comes 0.
    pub(super) fn seeds(self) -> impl Iterator<Item = u64> + Clone {
        (0..self.iterations.get()).map(move |number| self.seed.wrapping_add(u64::from(number)))
    }

    /// How many runs so many columns make.
    pub(super) fn times(self, columns: usize) -> u64 {
        u64::from(self.iterations.get()) * columns as u64
    }
}

/// Memory with which an experiment works, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct MemoryRange {
    pub(super) least: u64,
    pub(super) most: u64,
    pub(super) default: &'static str,
}

impl MemoryRange {
    /// The option `--memory` with these bounds. The given text comes first in its help, then the bounds, then the
    /// rest.
    pub(super) fn option(self, option: Arg, what: &str, rest: &str) -> Arg {
        let help = format!("{what}, in bytes or with K, M or G; {} to {}{rest}", short(self.least), short(self.most));
        option.default_value(self.default).help(help).value_parser(move |text: &str| self.parse(text))
    }

    fn parse(self, text: &str) -> Result<u64, String> {
        let bytes = parse_size(text)?;
        if !(self.least..=self.most).contains(&bytes) {
            return Err(format!("expected {} to {}, found {}", short(self.least), short(self.most), short(bytes)));
        }
        Ok(bytes)
    }
}

/// Bytes as they would be typed, with the largest unit that leaves no rest.
fn short(bytes: u64) -> String {
    let units = [(30, "G"), (20, "M"), (10, "K")];
    let unit = units.into_iter().find(|(shift, _)| bytes > 0 && bytes.trailing_zeros() >= *shift);
    unit.map_or_else(|| format!("{bytes} bytes"), |(shift, name)| format!("{}{name}", bytes >> shift))
}

#[cfg(test)]
mod tests {
    use super::*;

    const RANGE: MemoryRange = MemoryRange { least: 128 << 20, most: 16 << 30, default: "1G" };

    #[test]
    fn memory_outside_the_bounds_is_refused_with_both() {
        assert_eq!(RANGE.parse("128M"), Ok(128 << 20));
        assert_eq!(RANGE.parse("16GiB"), Ok(16 << 30));
        assert_eq!(RANGE.parse("127M").unwrap_err(), "expected 128M to 16G, found 127M");
        assert_eq!(RANGE.parse("17179869185").unwrap_err(), "expected 128M to 16G, found 17179869185 bytes");
        assert_eq!(RANGE.parse("0").unwrap_err(), "expected 128M to 16G, found 0 bytes");
        assert!(RANGE.parse("much").unwrap_err().starts_with("expected a number of bytes"));
    }

    #[test]
    fn every_run_has_a_seed_of_its_own_up_to_the_last() {
        let runs = Runs { iterations: NonZeroU32::new(3).unwrap(), seed: u64::MAX - 1, jobs: None };
        assert_eq!(runs.seeds().collect::<Vec<_>>(), [u64::MAX - 1, u64::MAX, 0]);
        assert_eq!(runs.times(4), 12);
    }

    #[test]
    fn the_option_takes_default_and_text_from_the_range() {
        let command = Memory::augment_args(clap::Command::new("run"));
        let mut command =
            command.mut_arg("memory", |option| RANGE.option(option, "Memory of the machine", ", no more"));
        let help = command.render_help().to_string();
        assert!(
            help.contains("Memory of the machine, in bytes or with K, M or G; 128M to 16G, no more [default: 1G]"),
            "{help}"
        );
        let error = command.try_get_matches_from(["run", "--memory", "64M"]).unwrap_err().to_string();
        assert!(
            error.contains("'64M'") && error.contains("--memory") && error.contains("expected 128M to 16G"),
            "{error}"
        );
    }
}
