//! Firmware's tables out of a fuzzer's bytes: each is refused with a name, or read to its end into a memory map that is
//! sound.

use pageblock_memmap::{DeviceTree, Loaded, MapOptions, PhysRange, Region, RegionMap, Slit, Srat};

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

/// ACPI's SRAT and SLIT. The checksum is made right first: else nothing but it would be looked at.
///
/// # Panics
/// If a table that was accepted cannot be read.
pub fn acpi(data: &[u8]) {
    let mut table = data.to_vec();
    let length = data.get(4..8).map_or(0, |length| u32::from_le_bytes([length[0], length[1], length[2], length[3]]));
    if let Some(summed) = table.get_mut(..(length as usize).max(36)) {
        summed[9] = summed[9].wrapping_sub(summed.iter().fold(0, |sum, byte| sum.wrapping_add(*byte)));
    }
    if let Ok(srat) = Srat::new(&table) {
        build(srat.regions());
        assert!(srat.cpus().count() * 16 <= data.len());
    }
    if let Ok(slit) = Slit::new(&table) {
        let nodes = slit.distances().len().isqrt();
        assert_eq!(nodes * nodes, slit.distances().len());
    }
}
