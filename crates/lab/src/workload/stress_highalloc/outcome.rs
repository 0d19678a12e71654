//! Findings of the runs.

use serde::Serialize;

#[cfg(test)]
use super::super::output::least_and_most;
use super::phase::Flags;

/// Phases of a run.
pub(super) const PHASES: usize = 3;

/// One run.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Run {
    /// Successes in percent of the attempts, rounded down, by phase.
    pub(super) success: [u64; PHASES],
    /// Attempts of each phase.
    pub(super) attempts: u64,
    /// The counters, by the series' names. Counters that the machine does not have are missing.
    pub(super) counters: Vec<(&'static str, f64)>,
    /// The zones before and after each phase; of the first iteration only.
    #[serde(skip)]
    pub(super) maps: Vec<Map>,
}

impl Run {
    pub(super) fn counter(&self, name: &str) -> Option<f64> {
        self.counters.iter().find(|(other, _)| *other == name).map(|(_, value)| *value)
    }
}

/// A picture of the zones.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Map {
    /// When.
    pub(super) title: String,
    /// By zone.
    pub(super) zones: Vec<ZoneMap>,
}

/// One zone of a picture.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ZoneMap {
    pub(super) name: String,
    pub(super) blocks: Vec<crate::replay::BlockState>,
    /// Pageblocks where the migrate scanner and the free scanner last were.
    pub(super) scanners: Option<(usize, usize)>,
}

/// All runs of a column.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) runs: Vec<Run>,
}

/// Least, mean and largest.
#[cfg(test)]
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) mean: f64,
    pub(super) max: f64,
}

#[cfg(test)]
impl Column {
    /// Of the successes of a phase, counted from 0.
    pub(super) fn success(&self, phase: usize) -> Spread {
        spread(self.runs.iter().map(|run| run.success[phase] as f64))
    }

    /// Mean of a counter.
    pub(super) fn mean(&self, name: &str) -> Option<f64> {
        let values: Option<Vec<f64>> = self.runs.iter().map(|run| run.counter(name)).collect();
        values.filter(|values| !values.is_empty()).map(|values| spread(values.into_iter()).mean)
    }
}

#[cfg(test)]
fn spread(values: impl Iterator<Item = f64>) -> Spread {
    let all: Vec<f64> = values.collect();
    if all.is_empty() {
        return Spread::default();
    }
    let (min, max) = least_and_most(all.iter().copied());
    Spread { min, mean: all.iter().sum::<f64>() / all.len() as f64, max }
}

/// All columns with one set of flags.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Set {
    #[serde(serialize_with = "flags_name")]
    pub(super) flags: Flags,
    pub(super) columns: Vec<Column>,
}

fn flags_name<S: serde::Serializer>(flags: &Flags, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(flags.name())
}

/// Everything.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(super) struct Outcome {
    pub(super) memory_bytes: u64,
    pub(super) iterations: u32,
    pub(super) seed: u64,
    pub(super) sets: Vec<Set>,
}
