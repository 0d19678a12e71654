//! Regions from what boot protocols hand over: raw tables, and, each behind a feature, other crates' types.
//!
//! Limine's crate needs no feature, its entries are `(base, length, type)`:
//!
//! ```
//! use pageblock_memmap::{Region, RegionKind};
//! # struct Entry { base: u64, length: u64, entry_type: u64 }
//! # let response = [Entry { base: 0x10_0000, length: 0x1000, entry_type: 0 }];
//! # let entries = response.iter();
//! // let entries = MEMMAP_REQUEST.get_response().unwrap().entries().iter();
//! let regions = entries.map(|entry| {
//!     Region::new(entry.base, entry.base + entry.length, RegionKind::from_limine(entry.entry_type))
//! });
//! assert_eq!(regions.map(|region| region.len()).sum::<u64>(), 0x1000);
//! ```

use crate::region::{Region, RegionKind};
use pageblock_frame::PAGE_SHIFT;

/// Bytes of an e820 entry as the BIOS call writes it: base, length, type.
const E820_ENTRY: usize = 20;
/// Bytes of a UEFI memory descriptor of version 1, up to and with the number of pages.
const UEFI_ENTRY: usize = 32;

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

impl Region {
    /// The entries of an e820 table in memory, `entry_size` bytes apart: 20 or 24 for the BIOS and Linux's boot protocol,
    /// 24 for PVH and multiboot 2. What is left over at the end is no entry; an entry size below 20 is taken for 20.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// let mut table = [0u8; 48]; // two entries of PVH
    /// table[8..16].copy_from_slice(&0x9_fc00u64.to_le_bytes());
    /// table[16] = 1;
    /// table[24..32].copy_from_slice(&0x9_fc00u64.to_le_bytes());
    /// table[32..40].copy_from_slice(&0x400u64.to_le_bytes());
    /// table[40] = 2;
    /// let regions: Vec<_> = Region::e820_table(&table, 24).collect();
    /// assert_eq!(regions[0], Region::from_e820(0, 0x9_fc00, 1));
    /// assert_eq!((regions[1].len(), regions[1].kind), (0x400, RegionKind::Reserved));
    /// ```
    pub fn e820_table(table: &[u8], entry_size: usize) -> impl Iterator<Item = Self> + Clone + '_ {
        let entries = table.chunks_exact(entry_size.max(E820_ENTRY));
        entries.map(|entry| Self::from_e820(word64(entry, 0), word64(entry, 8), word32(entry, 16)))
    }

    /// The descriptors of a UEFI memory map in memory, `descriptor_size` bytes apart, which is more than the descriptor
    /// of the specification: ask `GetMemoryMap`. A size below 32 is taken for 32.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// let mut map = [0u8; 96]; // two descriptors, 48 bytes apart
    /// map[0] = 7; // conventional memory
    /// map[8..16].copy_from_slice(&0x10_0000u64.to_le_bytes());
    /// map[24..32].copy_from_slice(&16u64.to_le_bytes());
    /// map[48] = 3; // boot services code
    /// map[80] = 1; // 256 pages at 0
    /// map[73] = 1;
    /// let regions: Vec<_> = Region::uefi_map(&map, 48).collect();
    /// assert_eq!(regions[0], Region::new(0x10_0000u64, 0x11_0000u64, RegionKind::Usable));
    /// assert_eq!((regions[1].len(), regions[1].kind), (0x10_0000, RegionKind::Reclaimable));
    /// ```
    pub fn uefi_map(map: &[u8], descriptor_size: usize) -> impl Iterator<Item = Self> + Clone + '_ {
        let entries = map.chunks_exact(descriptor_size.max(UEFI_ENTRY));
        entries.map(|entry| uefi_region(word32(entry, 0), word64(entry, 8), word64(entry, 24)))
    }
}

fn uefi_region(kind: u32, start: u64, pages: u64) -> Region {
    let end = start.saturating_add(pages.saturating_mul(1 << PAGE_SHIFT));
    Region::new(start, end, RegionKind::from_uefi(kind))
}

#[cfg(feature = "bootloader_api")]
#[cfg_attr(docsrs, doc(cfg(feature = "bootloader_api")))]
impl From<&bootloader_api::info::MemoryRegion> for Region {
    /// An entry of the map of `bootloader` 0.11. What the boot loader uses is reclaimable: its page tables are in it. The
    /// kernel's own image is part of that.
    fn from(region: &bootloader_api::info::MemoryRegion) -> Self {
        use bootloader_api::info::MemoryRegionKind as Kind;
        let kind = match region.kind {
            Kind::Usable => RegionKind::Usable,
            Kind::Bootloader => RegionKind::Reclaimable,
            Kind::UnknownUefi(kind) => RegionKind::from_uefi(kind),
            // The loader has told the usable ones; what it calls unknown is in use.
            _ => RegionKind::Reserved,
        };
        Self::new(region.start, region.end, kind)
    }
}

#[cfg(feature = "multiboot2")]
#[cfg_attr(docsrs, doc(cfg(feature = "multiboot2")))]
impl From<&multiboot2::MemoryArea> for Region {
    /// An entry of a multiboot 2 memory map. **The areas include the kernel and the modules**: reserve them.
    fn from(area: &multiboot2::MemoryArea) -> Self {
        use multiboot2::MemoryAreaType as Type;
        let kind = match area.typ() {
            Type::Available => RegionKind::Usable,
            Type::AcpiAvailable => RegionKind::Reclaimable,
            _ => RegionKind::Reserved,
        };
        Self::new(area.start_address(), area.start_address().saturating_add(area.size()), kind)
    }
}

#[cfg(feature = "uefi-raw")]
#[cfg_attr(docsrs, doc(cfg(feature = "uefi-raw")))]
impl From<&uefi_raw::table::boot::MemoryDescriptor> for Region {
    /// A UEFI memory descriptor after `ExitBootServices`; the entries of the `uefi` crate's memory maps are of this type.
    fn from(descriptor: &uefi_raw::table::boot::MemoryDescriptor) -> Self {
        uefi_region(descriptor.ty.0, descriptor.phys_start, descriptor.page_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn tables_that_are_cut_short_lose_the_last_entry_only() {
        let mut table = [0u8; 24 + 23];
        table[8] = 16;
        table[16] = 1;
        assert_eq!(Region::e820_table(&table, 24).collect::<Vec<_>>(), [Region::from_e820(0, 16, 1)]);
        assert_eq!(Region::e820_table(&table[..19], 0).count(), 0);
        assert_eq!(Region::uefi_map(&[7; 31], 0).count(), 0);
    }

    #[test]
    fn a_descriptor_beyond_the_address_space_ends_with_it() {
        let region = uefi_region(7, u64::MAX - 4095, u64::MAX);
        assert_eq!(region.end.as_u64(), u64::MAX);
    }

    #[cfg(feature = "bootloader_api")]
    #[test]
    fn bootloader_kinds() {
        use bootloader_api::info::{MemoryRegion, MemoryRegionKind as Kind};
        let kind = |kind| Region::from(&MemoryRegion { start: 0x1000, end: 0x3000, kind });
        assert_eq!(kind(Kind::Usable), Region::new(0x1000u64, 0x3000u64, RegionKind::Usable));
        assert_eq!(kind(Kind::Bootloader).kind, RegionKind::Reclaimable);
        assert_eq!(kind(Kind::UnknownBios(3)).kind, RegionKind::Reserved);
        assert_eq!(kind(Kind::UnknownUefi(4)).kind, RegionKind::Reclaimable);
    }

    #[cfg(feature = "multiboot2")]
    #[test]
    fn multiboot_kinds() {
        use multiboot2::{MemoryArea, MemoryAreaType as Type};
        let kind = |kind: Type| Region::from(&MemoryArea::new(0x1000, 0x2000, kind));
        assert_eq!(kind(Type::Available), Region::new(0x1000u64, 0x3000u64, RegionKind::Usable));
        assert_eq!(kind(Type::AcpiAvailable).kind, RegionKind::Reclaimable);
        assert_eq!(kind(Type::Defective).kind, RegionKind::Reserved);
        assert_eq!(Region::from(&MemoryArea::new(u64::MAX, 2, Type::Available)).len(), 0);
    }

    #[cfg(feature = "uefi-raw")]
    #[test]
    fn uefi_kinds() {
        use uefi_raw::table::boot::{MemoryDescriptor, MemoryType};
        let descriptor =
            MemoryDescriptor { ty: MemoryType::CONVENTIONAL, phys_start: 0x1000, page_count: 2, ..Default::default() };
        assert_eq!(Region::from(&descriptor), Region::new(0x1000u64, 0x3000u64, RegionKind::Usable));
    }
}
