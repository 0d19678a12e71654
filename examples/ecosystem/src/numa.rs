//! ACPI's NUMA tables, found by the `acpi` crate: which node has which memory, and how far the nodes are from one
//! another.

use acpi::sdt::{SdtHeader, Signature};
use acpi::{AcpiHandler as Handler, AcpiTable, AcpiTables, PhysicalMapping};
use pageblock::{AcpiTableError, Region, Slit, Srat};

macro_rules! tables {
    ($($name:ident $signature:ident;)*) => {$(
        /// The table's header; pageblock reads the rest.
        #[repr(transparent)]
        struct $name(SdtHeader);

        // SAFETY: the structure is the header itself.
        unsafe impl AcpiTable for $name {
            const SIGNATURE: Signature = Signature::$signature;

            fn header(&self) -> &SdtHeader {
                &self.0
            }
        }
    )*};
}

tables! {
    SratTable SRAT;
    SlitTable SLIT;
}

/// The bytes of a mapped table, as long as it is mapped.
fn bytes<H: Handler, T: AcpiTable>(table: &PhysicalMapping<H, T>) -> &[u8] {
    // SAFETY: the handler has mapped so many bytes, and firmware's tables do not change.
    unsafe { core::slice::from_raw_parts(table.virtual_start().cast::<u8>().as_ptr(), table.region_length()) }
}

/// Calls `boot` with the regions that say which node has which memory, to be chained to the memory map, and the
/// distances, for `Config::distances`. Without the tables there is one node.
///
/// # Errors
/// [`AcpiTableError`] for a table that makes no sense.
pub fn with_nodes<H: Handler, R>(
    tables: &AcpiTables<H>,
    boot: impl FnOnce(&mut dyn Iterator<Item = Region>, Option<Slit<'_>>) -> R,
) -> Result<R, AcpiTableError> {
    let (srat, slit) = (tables.find_table::<SratTable>().ok(), tables.find_table::<SlitTable>().ok());
    let srat = srat.as_ref().map(|table| Srat::new(bytes(table))).transpose()?;
    let slit = slit.as_ref().map(|table| Slit::new(bytes(table))).transpose()?;
    Ok(boot(&mut srat.iter().flat_map(|srat| srat.regions()), slit))
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::ptr::NonNull;

    /// Physical memory is this program's.
    #[derive(Clone)]
    struct Identity;

    impl Handler for Identity {
        unsafe fn map_physical_region<T>(&self, address: usize, size: usize) -> PhysicalMapping<Self, T> {
            let start = NonNull::new(core::ptr::with_exposed_provenance_mut(address)).unwrap();
            // SAFETY: memory is where its address says.
            unsafe { PhysicalMapping::new(address, start, size, size, Self) }
        }

        fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
    }

    /// Bytes of firmware at an address that ends in 4, as the entries of an XSDT want it.
    fn place(bytes: &[u8]) -> usize {
        let words = vec![0u64; bytes.len() / 8 + 2].leak();
        let place = words.as_mut_ptr().cast::<u8>().wrapping_add(4);
        // SAFETY: the words are leaked, and more than the bytes.
        unsafe { place.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        place.expose_provenance()
    }

    #[test]
    fn tables_recorded_from_a_machine_with_two_nodes() {
        let tables = [
            &include_bytes!("../../../crates/memmap/tests/tables/srat-q35.bin")[..],
            &include_bytes!("../../../crates/memmap/tests/tables/slit-q35.bin")[..],
        ];
        let mut xsdt = vec![0u8; 36];
        xsdt[..4].copy_from_slice(b"XSDT");
        xsdt[4] = 36 + 16;
        tables.iter().for_each(|table| xsdt.extend((place(table) as u64).to_le_bytes()));
        xsdt[9] = xsdt.iter().fold(0, |sum: u8, byte| sum.wrapping_sub(*byte));
        // SAFETY: the table above.
        let tables = unsafe { AcpiTables::from_rsdt(Identity, 2, place(&xsdt)) }.unwrap();
        let (nodes, distances) = with_nodes(&tables, |regions, slit| {
            let nodes: std::collections::BTreeSet<_> = regions.map(|region| region.node.index()).collect();
            (nodes.len(), slit.map(|slit| slit.distances().len()))
        })
        .unwrap();
        assert_eq!((nodes, distances), (2, Some(4)));
    }
}
