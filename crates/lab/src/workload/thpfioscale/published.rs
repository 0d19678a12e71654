//! The published tables.

use serde::Deserialize;

use super::super::output::lines;
use super::column::Column;

#[derive(Clone, Debug, Deserialize)]
struct Events {
    block: String,
    #[serde(rename = "vanilla_4.20-rc1")]
    vanilla: u64,
    patch1: u64,
    #[serde(rename = "patch1-3")]
    boost: u64,
    #[serde(rename = "patch1-4")]
    stall: u64,
}

/// A latency or a percentage with patches 1 to 3 and with all four.
#[derive(Clone, Debug, Deserialize)]
struct Pair {
    block: String,
    #[serde(alias = "metric_amean")]
    metric: String,
    #[serde(rename = "boost_patch1-3")]
    boost: f64,
    #[serde(rename = "stall_patch1-4")]
    stall: f64,
}

#[derive(Clone, Debug, Deserialize)]
struct Stalls {
    block: String,
    nr_stalls: u64,
    total_stall_seconds_approx: f64,
}

/// All of them.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    events: Vec<Events>,
    pairs: Vec<Pair>,
    stalls: Vec<Stalls>,
}

impl Published {
    /// The files.
    pub(crate) fn read() -> anyhow::Result<Self> {
        let mut pairs: Vec<Pair> = lines(include_str!("../../../data/fragmentation-2018/fault_latency_us.csv"))?;
        pairs.append(&mut lines(include_str!("../../../data/fragmentation-2018/huge_percentage.csv"))?);
        Ok(Self {
            events: lines(include_str!("../../../data/fragmentation-2018/extfrag_events.csv"))?,
            pairs,
            stalls: lines(include_str!("../../../data/fragmentation-2018/stalls.csv"))?,
        })
    }

    /// Mixings below the order of a pageblock.
    pub(crate) fn events(&self, block: &str, column: Column) -> Option<u64> {
        let row = self.events.iter().find(|row| row.block == block)?;
        match column {
            Column::Vanilla => Some(row.vanilla),
            Column::Spreading => Some(row.patch1),
            Column::Boost => Some(row.boost),
            Column::Stall => Some(row.stall),
            Column::Default => None,
        }
    }

    fn pair(&self, block: &str, metric: &str, column: Column) -> Option<f64> {
        let row = self.pairs.iter().find(|row| row.block == block && row.metric.starts_with(metric))?;
        match column {
            Column::Boost => Some(row.boost),
            Column::Stall => Some(row.stall),
            _ => None,
        }
    }

    /// Mean microseconds to fill 2 MiB that came as pages.
    pub(crate) fn base_latency(&self, block: &str, column: Column) -> Option<f64> {
        self.pair(block, "fault-base", column)
    }

    /// Mean microseconds to fill 2 MiB that came as a huge page.
    pub(crate) fn huge_latency(&self, block: &str, column: Column) -> Option<f64> {
        self.pair(block, "fault-huge", column)
    }

    /// Percent of the slots that came as huge pages.
    pub(crate) fn huge_percent(&self, block: &str, column: Column) -> Option<f64> {
        self.pair(block, "huge-", column)
    }

    /// Stalls, and their seconds in all: with all four patches.
    pub(crate) fn stalls(&self, block: &str, column: Column) -> Option<(u64, f64)> {
        let row = self.stalls.iter().find(|row| row.block == block && column == Column::Stall)?;
        Some((row.nr_stalls, row.total_stall_seconds_approx))
    }
}

#[cfg(test)]
mod tests {
    use super::super::column::Block;
    use super::*;

    #[test]
    fn every_published_number_is_found() {
        let published = Published::read().unwrap();
        for block in Block::ALL.map(Block::key) {
            let events = Column::ALL.map(|column| published.events(block, column));
            assert!(events[..4].iter().all(Option::is_some) && events[4].is_none());
            for column in [Column::Boost, Column::Stall] {
                assert!(published.base_latency(block, column).is_some_and(|us| us > 500.0));
                assert!(published.huge_latency(block, column).is_some_and(|us| us > 100.0));
                assert!(published.huge_percent(block, column).is_some_and(|percent| percent < 100.0));
            }
        }
        assert_eq!(published.events("skylake1s_default", Column::Stall), Some(1094));
        assert_eq!(published.stalls("haswell2s_madvhugepage", Column::Stall), Some((2016, 8.0)));
    }
}
