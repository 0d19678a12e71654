//! Outcomes of replays of recorded traces on two CPUs.

use crate::Frames;
use crate::machine::Emulated;
use crate::table::{Kind, Row};
use crate::traces::{Replay, Trace, found};

/// The order of a pageblock.
const PAGEBLOCK: u8 = 9;

pub(super) fn rows() -> Vec<Row> {
    let row = |(name, folder): (String, std::path::PathBuf)| {
        let names = ["whole", "refused", "refused9"].map(|figure| format!("replay.{name}.{figure}")).to_vec();
        Row::several(Kind::Plain, names, move || match Trace::read(&folder) {
            Ok(trace) => outcome(&trace),
            Err(error) => panic!("{}: {error}", folder.display()),
        })
    };
    found().into_iter().map(row).collect()
}

/// Whole pageblocks that can be had at the end, refused requests, and those of them for whole pageblocks.
fn outcome(trace: &Trace) -> Vec<f64> {
    let mut replay = Replay::<Emulated<2>>::new(trace);
    replay.run(trace);
    let refused = [replay.refused, replay.refused_pageblocks].map(|count| count as f64);
    let whole = replay.allocator.count_blocks(PAGEBLOCK) as f64;
    [vec![whole], refused.to_vec()].concat()
}
