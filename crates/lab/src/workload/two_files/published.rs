//! The published figures of a run that fits in memory.

use serde::Deserialize;

use super::super::output::lines;

/// Allocations from a zone.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Allocations {
    pub(super) zone: String,
    #[serde(rename = "v3.16-rc2_vanilla")]
    pub(super) linux: u64,
    #[serde(rename = "fairzone-v4")]
    pub(super) series: u64,
}

/// DMA32's and Normal's.
pub(super) fn read() -> anyhow::Result<Vec<Allocations>> {
    lines(include_str!("../../../data/fair-zones-2014/allocations.csv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_keeps_the_zones_parts_while_memory_lasts() {
        let [low, high]: [Allocations; 2] = read().unwrap().try_into().unwrap();
        assert_eq!((low.zone.as_str(), high.zone.as_str()), ("DMA32", "Normal"));
        assert_eq!(
            [low.linux * 1000 / (low.linux + high.linux), low.series * 1000 / (low.series + high.series)],
            [370, 372]
        );
    }
}
