//! Firmware's tables out of a fuzzer's bytes: each is refused with a name, or read to its end into a memory map that is sound.

use pageblock_memmap::{DeviceTree, Loaded, MapOptions, PhysRange, Region, RegionMap};

/// Builds a map of the regions and checks it, if they fit.
fn build(regions: impl Iterator<Item = Region>) {
    if let Ok(map) = RegionMap::<32>::build(regions, &[], MapOptions::new()) {
        assert_eq!(map.check(), Ok(()));
    }
}

/// A flattened device tree.
///
/// # Panics
/// If a tree that was accepted cannot be read, or its blob is not protected.
pub fn fdt(data: &[u8]) {
    let Ok(tree) = DeviceTree::new(data) else { return };
    let loaded = Loaded { blob: 0x8800_0000.into(), kernel: PhysRange::from(0x8020_0000..0x8030_0000) };
    assert!(tree.regions(loaded).any(|region| region.start == loaded.blob && region.len() == tree.len() as u64));
    build(tree.regions(loaded));
    let pairs = tree.distances().count();
    assert!(tree.cpus().count() + pairs <= data.len());
    let _ = tree.initrd();
}
