//! Prints figures that are not instructions: a name, a tab, a value.

use std::time::Instant;

use pageblock_benches::POOL;
use pageblock_benches::allocators::empty_zone;
use pageblock_benches::moves::{Freed, make_pageblocks};
use pageblock_buddy::ZoneStorage;
use pageblock_compaction::{Config, Patches};
use pageblock_frame::{Order, Pfn, PfnRange};

fn main() {
    println!("init_256g_ms\t{:.1}", init_ms(256 << 18));
    for freed in Freed::ALL {
        println!("compaction_moves_saved_{}_percent\t{:.1}", freed.name(), moves_saved_percent(freed));
    }
    println!("metadata_bytes_per_frame\t{:.4}", metadata_bytes_per_frame());
}

/// Milliseconds from fresh storage to a zone with all frames free, the best of five. The storage's first touch is in it.
fn init_ms(frames: u64) -> f64 {
    let times = (0..5).map(|_| {
        let start = Instant::now();
        let zone = empty_zone(frames);
        if zone.release(zone.span()) != Ok(frames) {
            panic!("{frames} frames are not released");
        }
        start.elapsed().as_secs_f64() * 1e3
    });
    times.fold(f64::INFINITY, f64::min)
}

/// Frames that the default moves for a free pageblock, against Linux 6.1's scanners from the same states: how many fewer. Beside it, the
/// fewest that anybody could.
fn moves_saved_percent(freed: Freed) -> f64 {
    let total = |config: Config| {
        let costs: Vec<_> = (1..=3).map(|seed| make_pageblocks(config, freed, seed)).collect();
        let made: u64 = costs.iter().map(|cost| cost.made).sum();
        let moved: u64 = costs.iter().map(|cost| cost.moved).sum();
        let scanned: u64 = costs.iter().map(|cost| cost.scanned).sum();
        let least: u64 = costs.iter().map(|cost| cost.least).sum();
        let (moves, looks) = (moved as f64 / made as f64, scanned as f64 / made as f64);
        eprintln!(
            "{freed:?}, {:?}: {made} pageblocks, each {moves:.1} frames moved (at least {:.1}), {looks:.0} scanned",
            config.search,
            least as f64 / made as f64
        );
        moves
    };
    let ours = total(Config::default());
    let _ = total(Config::linux_3_13(Patches::ALL));
    100.0 * (1.0 - ours / total(Config::linux_6_1()))
}

fn metadata_bytes_per_frame() -> f64 {
    ZoneStorage::bytes(PfnRange::from_len(Pfn::new(0), POOL), Order::MAX) as f64 / POOL as f64
}
