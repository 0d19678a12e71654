//! Maps against oracles that know nothing of intervals.

mod carve;
mod examples;
mod oracle;
mod zones;

use std::vec::Vec;

use crate::{MapOptions, Region, RegionMap};

/// The usable runs as numbers.
fn runs<const N: usize>(map: &RegionMap<N>) -> Vec<(u64, u64)> {
    map.usable().map(|run| (run.range.start.as_u64(), run.range.end.as_u64())).collect()
}

fn build(regions: &[Region]) -> RegionMap {
    RegionMap::build(regions.iter().copied(), &[], MapOptions::new()).unwrap()
}
