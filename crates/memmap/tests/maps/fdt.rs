//! Device trees of real machines, one with everything in it, and damaged ones.

use dtoolkit::fdt::Fdt;
use dtoolkit::{Node, Property};
use pageblock_frame::NodeId;
use pageblock_memmap::{
    DeviceTree, DeviceTreeError, Loaded, MapOptions, PhysRange, Region, RegionError, RegionKind, RegionMap,
};
use proptest::prelude::*;

/// Written by QEMU 7.2 (`-machine virt,dumpdtb=`, packed by dtc); the last from `reserved.dts`, by dtc.
const TREES: [(&str, &[u8]); 5] = [
    ("riscv64-virt", include_bytes!("../tables/riscv64-virt.dtb")),
    ("riscv64-numa", include_bytes!("../tables/riscv64-numa.dtb")),
    ("aarch64-virt", include_bytes!("../tables/aarch64-virt.dtb")),
    ("arm-virt", include_bytes!("../tables/arm-virt.dtb")),
    ("reserved", RESERVED),
];
const RESERVED: &[u8] = include_bytes!("../tables/reserved.dtb");

const LOADED: Loaded = Loaded {
    blob: pageblock_frame::PhysAddr::new(0x8700_0000),
    kernel: PhysRange::new(pageblock_frame::PhysAddr::new(0x8020_0000), pageblock_frame::PhysAddr::new(0x8030_0000)),
};

fn of_kind(tree: DeviceTree<'_>, kind: RegionKind) -> Vec<(u64, u64, usize)> {
    let regions = tree.regions(LOADED).filter(|region| region.kind == kind);
    regions.map(|region| (region.start.as_u64(), region.end.as_u64(), region.node.index())).collect()
}

#[test]
fn memory_is_what_another_reader_of_the_same_trees_finds() {
    // The last tree has a name that the other reader refuses.
    for (name, blob) in &TREES[..4] {
        let other = Fdt::new(blob).unwrap();
        let expected: Vec<_> = other
            .root()
            .children()
            .filter(|node| node.name_without_address() == "memory")
            .flat_map(|node| {
                let numa = node.property("numa-node-id").map_or(0, |id| id.value_as::<u32>().unwrap());
                node.reg().unwrap().unwrap().map(move |reg| {
                    let (start, size) = (reg.address::<u64>().unwrap(), reg.size::<u64>().unwrap());
                    (start, start + size, numa as usize)
                })
            })
            .collect();
        assert_eq!(of_kind(DeviceTree::new(blob).unwrap(), RegionKind::Usable), expected, "{name}");
        assert!(!expected.is_empty());
    }
    assert!(Fdt::new(RESERVED).is_err());
}

#[test]
fn machines_have_the_processors_that_they_were_started_with() {
    for (name, blob) in &TREES[..4] {
        let tree = DeviceTree::new(blob).unwrap();
        assert_eq!(tree.cpus().map(|cpu| cpu.hardware).collect::<Vec<_>>(), [0, 1, 2, 3], "{name}");
    }
    let numa = DeviceTree::new(TREES[1].1).unwrap();
    let far: Vec<_> = numa.distances().map(|pair| (pair.from.index(), pair.to.index(), pair.distance)).collect();
    assert_eq!(far, [(0, 0, 10), (0, 1, 21), (1, 0, 21), (1, 1, 10)]);
}

#[test]
fn whatever_is_in_use_is_taken_out() {
    let tree = DeviceTree::new(RESERVED).unwrap();
    assert_eq!(
        of_kind(tree, RegionKind::Usable),
        [(0x8000_0000, 0x8800_0000, 0), (0x1_8000_0000, 0x1_8800_0000, 1)],
        "the disabled one, the bus's and the persistent one are none"
    );
    let reserved = [
        (0x8000_0000, 0x8004_0000, 0),
        (0x8300_0000, 0x8310_0000, 0),
        (0x8400_0000, 0x8400_1000, 0),
        (0x8800_0000, 0x8801_0000, 0),
        (0x8a00_0123, 0x8a00_0124, 0),
    ];
    assert_eq!(of_kind(tree, RegionKind::Reserved), reserved);
    assert_eq!(tree.initrd(), Some((0x8600_0000..0x8600_1388).into()));
    let map: RegionMap = RegionMap::build(tree.regions(LOADED), &[], MapOptions::new()).unwrap();
    let blob = (RESERVED.len() as u64).div_ceil(4096);
    // Firmware, kernel, framebuffer and the page behind it, initial ramdisk, tree.
    let taken = 0x40 + 0x100 + 0x100 + 1 + 2 + blob;
    assert_eq!(map.usable_frames(), 2 * 0x8000 - taken);
    assert_eq!(map.check(), Ok(()));
    let cpus: Vec<_> = tree.cpus().map(|cpu| (cpu.hardware, cpu.node)).collect();
    assert_eq!(cpus, [(0, NodeId::new(0)), (3, NodeId::new(1))]);
}

/// The tree with the word at this byte replaced.
fn with_word(at: usize, word: u32) -> Vec<u8> {
    let mut blob = RESERVED.to_vec();
    blob[at..at + 4].copy_from_slice(&word.to_be_bytes());
    blob
}

fn refused(blob: &[u8]) -> DeviceTreeError {
    DeviceTree::new(blob).expect_err("the tree is damaged")
}

fn word(at: usize) -> usize {
    u32::from_be_bytes(RESERVED[at..at + 4].try_into().unwrap()) as usize
}

#[test]
fn damaged_headers_are_named() {
    let len = RESERVED.len();
    assert_eq!(refused(&[]), DeviceTreeError::TooShort { expected: 40, found: 0 });
    assert_eq!(refused(&RESERVED[..len - 1]), DeviceTreeError::TooShort { expected: len, found: len - 1 });
    assert_eq!(refused(&with_word(0, 0xfeed_d00d)), DeviceTreeError::Magic { found: 0xfeed_d00d });
    assert_eq!(refused(&with_word(20, 16)), DeviceTreeError::Version { found: 16, compatible: 16 });
    assert_eq!(refused(&with_word(24, 18)), DeviceTreeError::Version { found: 17, compatible: 18 });
    for at in [8, 12, 16] {
        assert_eq!(refused(&with_word(at, u32::MAX)), DeviceTreeError::Block { offset: u32::MAX as usize });
    }
    assert_eq!(refused(&with_word(16, len as u32 - 8)), DeviceTreeError::Reservations);
    assert_eq!(DeviceTree::blob_len(RESERVED.first_chunk().unwrap()), Ok(len));
    assert!(DeviceTree::blob_len(&[0; 8]).is_err());
}

#[test]
fn damaged_structures_are_named() {
    let structure = word(8);
    assert_eq!(refused(&with_word(structure, 7)), DeviceTreeError::Token { offset: 0 });
    assert_eq!(refused(&with_word(structure, 2)), DeviceTreeError::Nesting { offset: 0 });
    assert_eq!(refused(&with_word(structure, 9)), DeviceTreeError::Nesting { offset: 0 });
    // The last token but one ends the root.
    let end = structure + word(36) - 8;
    assert_eq!(refused(&with_word(end, 4)), DeviceTreeError::Nesting { offset: end - structure });
    // `#address-cells` of the root is its first property: tag, length, name, value.
    assert_eq!(refused(&with_word(structure + 20, 3)), DeviceTreeError::Cells { cells: 3 });
    assert_eq!(refused(&with_word(structure + 20, 1)), DeviceTreeError::Reg { bytes: 16, entry: 12 });
}

/// A tree of nothing but a root with this many reservations.
fn with_reservations(entries: &[(u64, u64)]) -> Vec<u8> {
    let structure = [1u32, 0, 2, 9];
    let list = 40 + (entries.len() + 1) * 16;
    let header = [0xd00d_feed, (list + 16) as u32, list as u32, list as u32 + 16, 40, 17, 16, 0, 0, 16];
    let pairs = entries.iter().chain(&[(0, 0)]).flat_map(|(start, len)| [*start, *len]);
    let bytes = header.iter().flat_map(|word| word.to_be_bytes());
    let bytes = bytes.chain(pairs.flat_map(u64::to_be_bytes));
    bytes.chain(structure.iter().flat_map(|word| word.to_be_bytes())).collect()
}

#[test]
fn too_many_and_too_large_entries_are_the_map_builders_to_name() {
    let many: Vec<_> = (0..10_000).map(|i| (0x1000 + i * 0x2000, 0x1000)).collect();
    let blob = with_reservations(&many);
    let tree = DeviceTree::new(&blob).unwrap();
    let error = RegionMap::<64>::build(tree.regions(LOADED), &[], MapOptions::new()).unwrap_err();
    assert_eq!(error, RegionError::TooManyRegions { index: 64, capacity: 64 });
    let blob = with_reservations(&[(u64::MAX - 1, u64::MAX)]);
    let region = DeviceTree::new(&blob).unwrap().regions(LOADED).next().unwrap();
    assert_eq!(region, Region::new(u64::MAX - 1, u64::MAX, RegionKind::Reserved));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever is done to a tree, it is refused or read to the end.
    #[test]
    fn damaged_trees_are_refused_or_read(
        which in 0..TREES.len(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in prop::option::weighted(0.2, any::<prop::sample::Index>()),
    ) {
        let mut blob = TREES[which].1.to_vec();
        damage.iter().for_each(|(at, byte)| blob[at.index(TREES[which].1.len())] = *byte);
        blob.truncate(cut.map_or(blob.len(), |at| at.index(blob.len())));
        if let Ok(tree) = DeviceTree::new(&blob) {
            let _ = RegionMap::<32>::build(tree.regions(LOADED), &[], MapOptions::new());
            let _ = (tree.cpus().count(), tree.distances().count(), tree.initrd());
        }
    }
}
