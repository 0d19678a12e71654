//! ACPI tables of a virtual machine with two nodes, and damaged ones.

use pageblock_frame::NodeId;
use pageblock_memmap::{AcpiTableError, MapOptions, Region, RegionError, RegionKind, RegionMap, Slit, Srat};
use proptest::prelude::*;

/// As SeaBIOS of QEMU 7.2 leaves them in memory (`-machine q35 -smp 4 -m 256M`, two nodes, distance 21).
const SRAT: &[u8] = include_bytes!("../tables/srat-q35.bin");
pub(crate) const SLIT: &[u8] = include_bytes!("../tables/slit-q35.bin");

/// The table with this byte replaced and the checksum made right.
fn with_byte(table: &[u8], at: usize, byte: u8) -> Vec<u8> {
    let mut table = table.to_vec();
    table[at] = byte;
    sealed(table)
}

fn sealed(mut table: Vec<u8>) -> Vec<u8> {
    table[9] = 0;
    table[9] = 0u8.wrapping_sub(table.iter().fold(0, |sum, byte| sum.wrapping_add(*byte)));
    table
}

#[test]
fn memory_and_processors_of_both_nodes_are_found() {
    let srat = Srat::new(SRAT).unwrap();
    let regions: Vec<_> =
        srat.regions().map(|region| (region.start.as_u64(), region.end.as_u64(), region.node.index())).collect();
    let expected = [(0, 0xa_0000, 0), (0x10_0000, 0x800_0000, 0), (0x800_0000, 0x1000_0000, 1)];
    assert_eq!(regions, expected, "the entry that is not enabled is none");
    assert!(srat.regions().all(|region| region.kind == RegionKind::Affinity));
    let cpus: Vec<_> = srat.cpus().map(|cpu| (cpu.hardware, cpu.node.index())).collect();
    assert_eq!(cpus, [(0, 0), (1, 0), (2, 1), (3, 1)]);
    let slit = Slit::new(SLIT).unwrap();
    let distance = |from, to| slit.distance(NodeId::new(from), NodeId::new(to));
    assert_eq!([distance(0, 0), distance(0, 1), distance(0, 2), distance(2, 0)], [Some(10), Some(21), None, None]);
}

#[test]
fn entries_of_later_processors_are_read() {
    // An x2APIC entry and a GICC entry behind the others: both on node 1, both enabled.
    let mut table = SRAT.to_vec();
    table.extend([2, 24, 0, 0, 1, 0, 0, 0, 0x34, 0x12, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    table.extend([3, 18, 1, 0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    table.extend([9, 2]);
    table[4..8].copy_from_slice(&(SRAT.len() as u32 + 44).to_le_bytes());
    let cpus: Vec<_> = Srat::new(&sealed(table)).unwrap().cpus().skip(4).map(|cpu| (cpu.hardware, cpu.node)).collect();
    assert_eq!(cpus, [(0x1234, NodeId::new(1)), (7, NodeId::new(1))]);
}

#[test]
fn damage_is_named() {
    let (srat, slit) = (|table: &[u8]| Srat::new(table).unwrap_err(), |table: &[u8]| Slit::new(table).unwrap_err());
    assert_eq!(srat(SLIT), AcpiTableError::Signature { found: *b"SLIT" });
    assert_eq!(srat(&SRAT[..35]), AcpiTableError::TooShort { expected: 36, found: 35 });
    assert_eq!(srat(&SRAT[..271]), AcpiTableError::TooShort { expected: 272, found: 271 });
    let mut table = SRAT.to_vec();
    table[50] ^= 1;
    assert_eq!(srat(&table), AcpiTableError::Checksum);
    assert_eq!(srat(&with_byte(SRAT, 49, 0)), AcpiTableError::Entry { offset: 48 }, "an entry of no length");
    assert_eq!(srat(&with_byte(SRAT, 233, 255)), AcpiTableError::Entry { offset: 232 }, "one beyond the end");
    assert_eq!(slit(&with_byte(SLIT, 36, 3)), AcpiTableError::Localities { localities: 3, distances: 4 });
    assert_eq!(slit(&with_byte(SLIT, 36, 0)), AcpiTableError::Localities { localities: 0, distances: 4 });
    assert_eq!(slit(&with_byte(SLIT, 43, 1)), AcpiTableError::Localities { localities: 1 << 56 | 2, distances: 4 });
}

#[test]
fn domains_that_are_no_node_are_the_map_builders_to_name() {
    let table = with_byte(SRAT, 195, 1); // domain 257
    let regions = [Region::from_e820(0, 1 << 28, 1)].into_iter().chain(Srat::new(&table).unwrap().regions());
    let error = RegionMap::<8>::build(regions, &[], MapOptions::new()).unwrap_err();
    assert_eq!(error, RegionError::NodeOutOfRange { index: 3, node: NodeId::new(255) });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// Whatever is done to a table, it is refused or read to the end.
    #[test]
    fn damaged_tables_are_refused_or_read(
        damage in prop::collection::vec((36..272usize, any::<u8>()), 1..12),
        length in 36..280u32,
    ) {
        let mut table = SRAT.to_vec();
        damage.iter().for_each(|(at, byte)| table[*at] = *byte);
        table[4..8].copy_from_slice(&length.to_le_bytes());
        let len = table.len().min(length as usize);
        let sum = table[..len].iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        table[9] = table[9].wrapping_sub(sum);
        match Srat::new(&table) {
            Ok(srat) => {
                let _ = RegionMap::<32>::build(srat.regions(), &[], MapOptions::new());
                prop_assert!(srat.cpus().count() <= len / 16);
            }
            Err(AcpiTableError::TooShort { expected, .. }) => prop_assert_eq!(expected, length as usize),
            Err(error) => prop_assert!(matches!(error, AcpiTableError::Entry { .. }), "{}", error),
        }
        let mut slit = SLIT.to_vec();
        damage.iter().for_each(|(at, byte)| slit[36 + at % 12] = *byte);
        let _ = Slit::new(&sealed(slit)).map(|slit| slit.distances().len());
    }
}
