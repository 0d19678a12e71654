//! What is shown of an allocator, in Linux's columns.

use pageblock::{Config, Gfp, ZoneLimits};

use crate::machine::{MIB, boot, memory, order};

#[test]
fn the_files_agree_with_the_allocator() {
    let config = Config::new().zones(ZoneLimits::single()).min_free_kbytes(Some(1024));
    let frames = boot(&memory(64 * MIB), &config);
    let held = frames.alloc_order(order(9), Gfp::KERNEL).unwrap();
    assert_eq!(
        frames.buddyinfo().to_string(),
        "Node 0, zone   Normal      0      0      0      0      0      0      0      0      0      1     15 \n"
    );
    let types = frames.pagetypeinfo().to_string();
    let lines: Vec<&str> = types.lines().collect();
    assert_eq!(lines[..2], ["Page block order: 9", "Pages per block:  512"]);
    assert!(lines.iter().any(|line| line.starts_with("Node    0, zone   Normal, type      Movable")));
    assert!(lines.iter().any(|line| line.starts_with("Number of blocks type ")));
    let blocks: u64 = lines.last().unwrap().split_whitespace().filter_map(|word| word.parse::<u64>().ok()).sum();
    assert_eq!(blocks, 32);
    let info = frames.zoneinfo().to_string();
    for line in [
        "  pages free     15872",
        "        min      256",
        "        low      320",
        "        high     384",
        "        spanned  16384",
        "        managed  16384",
        "        protection: (0, 0, 0, 0)",
    ] {
        assert!(info.lines().any(|other| other == line), "{line} in\n{info}");
    }
    assert_eq!(frames.unusable_index().to_string().lines().count(), 1);
    assert!(frames.extfrag_index().to_string().contains("-1.000"));
    drop(held);
    assert_eq!(
        frames.stats().to_string(),
        format!(
            "16384 of 16384 frames free in 1 zones, {} bytes of metadata, 0 bad frees",
            frames.stats().metadata_bytes
        )
    );
}
