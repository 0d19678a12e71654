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

/// Any of a series' patches, for a column of its own.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct StepSet(u16);

impl StepSet {
    /// Reads `1,4`; patches above `most` are refused.
    pub(crate) fn parse(text: &str, most: u8) -> Result<Self, String> {
        let step = |text: &str| text.parse().ok().filter(|step| (1..=most).contains(step));
        let bits = text.split(',').try_fold(0, |bits, text| step(text).map(|step| bits | 1_u16 << step));
        bits.map(Self).ok_or_else(|| format!("expected patches from 1 to {most} with commas between, found `{text}`"))
    }

    /// True if the patch is one of them.
    pub(crate) const fn has(self, step: u8) -> bool {
        self.0 & 1 << step != 0
    }

    /// As a heading: `1+4`; a single one as `only 4`, since `4` is the first four.
    pub(crate) fn name(self) -> String {
        let list = self.list();
        if list.contains(',') { list.replace(',', "+") } else { format!("only {list}") }
    }

    /// As it was typed.
    pub(crate) fn list(self) -> String {
        let steps: Vec<String> = (1..16).filter(|step| self.has(*step)).map(|step| step.to_string()).collect();
        steps.join(",")
    }
}

/// What a machine has beside its memory; by default as the published one.
#[derive(Args, Clone, Copy, Debug, Default)]
pub(crate) struct Hardware {
    /// CPUs of the machine, or of each of its nodes [default: as the published one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub(crate) cpus: Option<u32>,
    /// DMA32's share of memory in percent [default: as the published machine's]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u64).range(1..=95))]
    pub(crate) dma32: Option<u64>,
}

impl Hardware {
    /// CPUs, if the published machine has so many.
    pub(crate) fn cpus_or(self, published: u32) -> u32 {
        self.cpus.unwrap_or(published)
    }

    /// DMA32's share in thousandths, if the published machine has this one.
    pub(crate) fn dma32_or(self, published: u64) -> u64 {
        self.dma32.map_or(published, |percent| 10 * percent)
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
    fn any_patches_make_a_column() {
        let set = StepSet::parse("1,4", 6).unwrap();
        assert_eq!((set.name().as_str(), set.has(1), set.has(2), set.has(4)), ("1+4", true, false, true));
        assert_eq!(StepSet::parse("3", 6).unwrap().name(), "only 3");
        for wrong in ["", "0", "7", "1,,2", "1-4"] {
            assert!(StepSet::parse(wrong, 6).unwrap_err().starts_with("expected patches from 1 to 6"), "{wrong}");
        }
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
