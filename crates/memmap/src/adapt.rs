//! Regions from the tables of boot protocols: raw ones, and, each behind a feature, other crates' types.
//!
//! Limine's entries need no feature, they are `(base, length, type)`:
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

#[cfg(feature = "multiboot2")]
use crate::Loaded;
use crate::region::{Region, RegionKind};
use pageblock_frame::PAGE_SHIFT;

/// Bytes of an e820 entry as the BIOS call writes it: base, length, type.
const E820_ENTRY: usize = 20;
/// Bytes of a multiboot 1 module's entry.
const MULTIBOOT_MODULE: usize = 16;
/// Bytes of a UEFI memory descriptor of version 1, up to and with the number of pages.
const UEFI_ENTRY: usize = 32;

/// The little-endian double word at this byte, 0 beyond the end.
pub(crate) fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// The little-endian word at this byte, 0 beyond the end.
pub(crate) fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_le_bytes)
}

impl Region {
    /// The entries of an e820 table in memory, `entry_size` bytes apart: 20 or 24 for the BIOS and Linux's boot
    /// protocol, 24 for PVH and multiboot 2. A rest at the end is no entry; an entry size below 20 is taken
    /// for 20.
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

    /// The entries of a multiboot 1 memory map in memory: each begins with the length of the rest of it. The map ends
    /// at the first entry that is too short, or that reaches beyond the table.
    ///
    /// ```
    /// use pageblock_memmap::Region;
    /// let mut map = [0u8; 48]; // two entries of 24 bytes
    /// (map[0], map[24]) = (20, 20);
    /// (map[14], map[20]) = (1, 1); // usable, 64 KiB at 0
    /// (map[30], map[38], map[44]) = (1, 1, 2); // reserved, 64 KiB at 64 KiB
    /// let regions: Vec<_> = Region::multiboot_map(&map).collect();
    /// assert_eq!(regions, [Region::from_e820(0, 0x1_0000, 1), Region::from_e820(0x1_0000, 0x1_0000, 2)]);
    /// ```
    pub fn multiboot_map(map: &[u8]) -> impl Iterator<Item = Self> + Clone + '_ {
        let mut rest = map;
        core::iter::from_fn(move || {
            let (length, entry) = rest.split_at_checked(4)?;
            let (entry, behind) = entry.split_at_checked(word32(length, 0) as usize)?;
            rest = behind;
            (entry.len() >= E820_ENTRY).then(|| Self::from_e820(word64(entry, 0), word64(entry, 8), word32(entry, 16)))
        })
    }

    /// Ranges of the modules that a multiboot 1 loader lists, the initial ramdisk among them: entries of 16 bytes,
    /// which begin with the addresses of the first byte and of the byte behind the last.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// let mut list = [0u8; 16];
    /// (list[2], list[6]) = (0x20, 0x28); // 512 KiB at 2 MiB
    /// let modules: Vec<_> = Region::multiboot_modules(&list).collect();
    /// assert_eq!(modules, [Region::new(0x20_0000u64, 0x28_0000u64, RegionKind::Kernel)]);
    /// ```
    pub fn multiboot_modules(list: &[u8]) -> impl Iterator<Item = Self> + Clone + '_ {
        let range = |module: &[u8]| (u64::from(word32(module, 0)), u64::from(word32(module, 4)));
        list.chunks_exact(MULTIBOOT_MODULE).map(range).map(|(start, end)| Self::new(start, end, RegionKind::Kernel))
    }

    /// The memory map of the zero page that Linux's boot protocol hands over (`struct boot_params`), and the initial
    /// ramdisk.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// let mut page = [0u8; 4096];
    /// page[0x1e8] = 1; // one entry
    /// page[0x2d0 + 10] = 2; // 128 KiB at 0
    /// page[0x2d0 + 16] = 1;
    /// (page[0x219], page[0x21d]) = (0x80, 0x10); // 4 KiB at 32 KiB
    /// let regions: Vec<_> = Region::boot_params(&page).collect();
    /// assert_eq!(regions[0], Region::from_e820(0, 0x2_0000, 1));
    /// assert_eq!(regions[1], Region::new(0x8000u64, 0x9000u64, RegionKind::Kernel));
    /// ```
    pub fn boot_params(page: &[u8; 4096]) -> impl Iterator<Item = Self> + Clone + '_ {
        let (_, table) = page.split_at(0x2d0);
        // The page has room for 128.
        let entries = (page[0x1e8] as usize).min(128);
        let table = Self::e820_table(table, E820_ENTRY).take(entries);
        // Each number's upper half came later, and stands elsewhere.
        let number = |low, high| u64::from(word32(page, high)) << 32 | u64::from(word32(page, low));
        let (start, len) = (number(0x218, 0xc0), number(0x21c, 0xc4));
        let ramdisk = (len > 0).then(|| Self::new(start, start.saturating_add(len), RegionKind::Kernel));
        table.chain(ramdisk)
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
    /// An entry of the map of `bootloader` 0.11. Memory that the boot loader uses is reclaimable: its page tables are
    /// in it. The kernel's own image is part of that.
    fn from(region: &bootloader_api::info::MemoryRegion) -> Self {
        use bootloader_api::info::MemoryRegionKind as Kind;
        let kind = match region.kind {
            Kind::Usable => RegionKind::Usable,
            Kind::Bootloader => RegionKind::Reclaimable,
            Kind::UnknownUefi(kind) => RegionKind::from_uefi(kind),
            // The loader has told the usable ones; ranges that it calls unknown are in use.
            _ => RegionKind::Reserved,
        };
        Self::new(region.start, region.end, kind)
    }
}

#[cfg(feature = "bootloader")]
#[cfg_attr(docsrs, doc(cfg(feature = "bootloader")))]
impl From<&bootloader::bootinfo::MemoryRegion> for Region {
    /// An entry of the map of `bootloader` 0.9. The kernel's image, its stack and the page tables are entries of their
    /// own.
    fn from(region: &bootloader::bootinfo::MemoryRegion) -> Self {
        use bootloader::bootinfo::MemoryRegionType as Type;
        let kind = match region.region_type {
            Type::Usable => RegionKind::Usable,
            Type::AcpiReclaimable | Type::Bootloader => RegionKind::Reclaimable,
            Type::Kernel | Type::KernelStack | Type::PageTable | Type::BootInfo | Type::Package | Type::InUse => {
                RegionKind::Kernel
            }
            _ => RegionKind::Reserved,
        };
        let address = |frame: u64| frame.saturating_mul(1 << PAGE_SHIFT);
        Self::new(address(region.range.start_frame_number), address(region.range.end_frame_number), kind)
    }
}

#[cfg(feature = "limine")]
#[cfg_attr(docsrs, doc(cfg(feature = "limine")))]
impl From<&limine::memory_map::Entry> for Region {
    /// An entry of the Limine boot protocol's map. Kernel and modules are entries of their own.
    fn from(entry: &limine::memory_map::Entry) -> Self {
        use limine::memory_map::EntryType as Type;
        let kind = match entry.entry_type {
            Type::USABLE => RegionKind::Usable,
            Type::ACPI_RECLAIMABLE | Type::BOOTLOADER_RECLAIMABLE => RegionKind::Reclaimable,
            Type::EXECUTABLE_AND_MODULES => RegionKind::Kernel,
            _ => RegionKind::Reserved,
        };
        Self::new(entry.base, entry.base.saturating_add(entry.length), kind)
    }
}

#[cfg(feature = "multiboot2")]
#[cfg_attr(docsrs, doc(cfg(feature = "multiboot2")))]
impl From<&multiboot2::MemoryArea> for Region {
    /// An entry of a multiboot 2 memory map. **The areas include the kernel and the modules**: [`Region::multiboot2`]
    /// takes them out.
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

#[cfg(feature = "multiboot2")]
#[cfg_attr(docsrs, doc(cfg(feature = "multiboot2")))]
impl Region {
    /// The memory map of a multiboot 2 loader; and out of it what the map does not tell: the modules, the information
    /// itself and the kernel's image. Without a map, or with entries of an unknown size, nothing is usable.
    pub fn multiboot2<'a>(
        info: &'a multiboot2::BootInformation<'a>,
        loaded: Loaded,
    ) -> impl Iterator<Item = Self> + Clone + 'a {
        // That crate panics for entries of another size.
        let map = info.memory_map_tag().filter(|map| map.entry_size() as usize == size_of::<multiboot2::MemoryArea>());
        let areas = map.map(multiboot2::MemoryMapTag::memory_areas).unwrap_or_default();
        let modules = info.module_tags().map(|module| {
            let (start, end) = (module.start_address(), module.end_address());
            Self::new(u64::from(start), u64::from(end), RegionKind::Kernel)
        });
        let blob_end = loaded.blob.as_u64().saturating_add(info.total_size() as u64);
        let blob = Self::new(loaded.blob, blob_end, RegionKind::Kernel);
        let kernel = Self::new(loaded.kernel.start, loaded.kernel.end, RegionKind::Kernel);
        areas.iter().map(Self::from).chain(modules).chain([blob, kernel])
    }
}

#[cfg(feature = "uefi-raw")]
#[cfg_attr(docsrs, doc(cfg(feature = "uefi-raw")))]
impl From<&uefi_raw::table::boot::MemoryDescriptor> for Region {
    /// A UEFI memory descriptor after `ExitBootServices`; the entries of the `uefi` crate's memory maps are of this
    /// type.
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

    #[cfg(feature = "bootloader")]
    #[test]
    fn kinds_of_the_older_bootloader() {
        use bootloader::bootinfo::{FrameRange, MemoryRegion, MemoryRegionType as Type};
        let region = |region_type| {
            Region::from(&MemoryRegion {
                range: FrameRange { start_frame_number: 1, end_frame_number: 3 },
                region_type,
            })
        };
        assert_eq!(region(Type::Usable), Region::new(0x1000u64, 0x3000u64, RegionKind::Usable));
        assert_eq!(region(Type::PageTable).kind, RegionKind::Kernel);
        assert_eq!(region(Type::AcpiReclaimable).kind, RegionKind::Reclaimable);
        assert_eq!(region(Type::FrameZero).kind, RegionKind::Reserved);
        let range = FrameRange { start_frame_number: 1, end_frame_number: u64::MAX };
        assert_eq!(Region::from(&MemoryRegion { range, region_type: Type::Reserved }).end.as_u64(), u64::MAX);
    }

    #[cfg(feature = "limine")]
    #[test]
    fn limine_kinds() {
        use limine::memory_map::{Entry, EntryType as Type};
        let region = |entry_type| Region::from(&Entry { base: 0x1000, length: 0x2000, entry_type });
        assert_eq!(region(Type::USABLE), Region::new(0x1000u64, 0x3000u64, RegionKind::Usable));
        assert_eq!(region(Type::BOOTLOADER_RECLAIMABLE).kind, RegionKind::Reclaimable);
        assert_eq!(region(Type::EXECUTABLE_AND_MODULES).kind, RegionKind::Kernel);
        assert_eq!(region(Type::FRAMEBUFFER).kind, RegionKind::Reserved);
    }

    #[test]
    fn a_multiboot_map_ends_where_it_makes_no_sense() {
        let mut map = [0u8; 72];
        (map[0], map[20], map[24], map[44], map[48]) = (20, 1, 20, 2, 19);
        assert_eq!(Region::multiboot_map(&map).count(), 2, "the third entry is too short");
        map[24] = 200;
        assert_eq!(Region::multiboot_map(&map).count(), 1, "the second reaches beyond the table");
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
