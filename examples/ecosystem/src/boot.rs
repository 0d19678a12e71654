//! From each boot loader's tables to a memory map: the guide's page "From a boot loader's tables" shows these functions.
//! Each returns the iterator that `PageAllocator::init` takes.

use multiboot2::BootInformation;
use pageblock::{DeviceTree, DeviceTreeError, Loaded, PhysRange, Region, Srat};

/// The kernel's image, from symbols of its linker script.
#[derive(Clone, Copy, Debug)]
pub struct Image {
    pub start: u64,
    pub end: u64,
}

impl Image {
    const fn range(self) -> PhysRange {
        PhysRange::new(pageblock::PhysAddr::new(self.start), pageblock::PhysAddr::new(self.end))
    }
}

/// # Errors
/// The first fault of the tree.
// ANCHOR: device_tree
pub fn device_tree(blob: &[u8], address: u64, image: Image) -> Result<impl Iterator<Item = Region>, DeviceTreeError> {
    let loaded = Loaded { blob: address.into(), kernel: image.range() };
    Ok(DeviceTree::new(blob)?.regions(loaded))
}
// ANCHOR_END: device_tree

// ANCHOR: limine
pub fn limine<'a>(entries: &'a [&'a limine::memory_map::Entry]) -> impl Iterator<Item = Region> {
    entries.iter().map(|entry| Region::from(*entry))
}
// ANCHOR_END: limine

// ANCHOR: bootloader_api
pub fn bootloader_api(info: &bootloader_api::BootInfo) -> impl Iterator<Item = Region> {
    let ramdisk = info.ramdisk_addr.into_option().map(|start| ramdisk(start, info.ramdisk_len));
    info.memory_regions.iter().map(Region::from).chain(ramdisk)
}
// ANCHOR_END: bootloader_api

/// The initial ramdisk, where a table gives address and length.
fn ramdisk(start: u64, len: u64) -> Region {
    Region::reserved(start..start.saturating_add(len))
}

// ANCHOR: multiboot2
pub fn multiboot2<'a>(info: &'a BootInformation<'a>, address: u64, image: Image) -> impl Iterator<Item = Region> {
    Region::multiboot2(info, Loaded { blob: address.into(), kernel: image.range() })
}
// ANCHOR_END: multiboot2

// ANCHOR: multiboot
pub fn multiboot(map: &[u8], modules: &[u8], image: Image) -> impl Iterator<Item = Region> {
    let image = Region::reserved(image.start..image.end);
    Region::multiboot_map(map).chain(Region::multiboot_modules(modules)).chain([image])
}
// ANCHOR_END: multiboot

// ANCHOR: uefi
pub fn uefi(map: &[u8], descriptor_size: usize) -> impl Iterator<Item = Region> {
    // The image and what it has loaded are of the type LoaderData or LoaderCode, which is not usable.
    Region::uefi_map(map, descriptor_size)
}
// ANCHOR_END: uefi

// ANCHOR: pvh
pub fn pvh(map: &[u8], modules: &[u8], image: Image) -> impl Iterator<Item = Region> {
    let image = Region::reserved(image.start..image.end);
    Region::e820_table(map, 24).chain(Region::pvh_modules(modules)).chain([image])
}
// ANCHOR_END: pvh

// ANCHOR: linux
pub fn linux(zero_page: &[u8; 4096], image: Image) -> impl Iterator<Item = Region> {
    Region::boot_params(zero_page).chain([Region::reserved(image.start..image.end)])
}
// ANCHOR_END: linux

// ANCHOR: nodes
pub fn with_nodes(map: impl Iterator<Item = Region>, srat: Srat<'_>) -> impl Iterator<Item = Region> {
    map.chain(srat.regions())
}
// ANCHOR_END: nodes

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::hosted::Simulated;
    use pageblock::{Config, Gfp, PageAllocator};
    use std::mem::MaybeUninit;

    const MIB: u64 = 1 << 20;
    /// Kernel and module of each loader below, in 16 MiB of memory.
    const IMAGE: Image = Image { start: 2 * MIB, end: 3 * MIB };
    const MODULE: std::ops::Range<u64> = 5 * MIB..5 * MIB + 4096;

    /// Takes all memory of this map, which keeps the kernel, the module and `more` out of it.
    fn keeps(map: impl IntoIterator<Item = Region>, more: &[std::ops::Range<u64>]) {
        let frames = PageAllocator::<Simulated>::new();
        let storage = vec![MaybeUninit::uninit(); 1 << 20].leak();
        frames.init_simulated(map, &Config::new(), storage).unwrap();
        let taken: Vec<_> = std::iter::from_fn(|| frames.alloc(Gfp::ATOMIC | Gfp::MEMALLOC).ok()).collect();
        assert!(taken.len() > 3000, "{} frames of 16 MiB", taken.len());
        for kept in [IMAGE.start..IMAGE.end, MODULE].iter().chain(more) {
            let inside = |frame: u64| frame + 4096 > kept.start && frame < kept.end;
            assert!(!taken.iter().any(|frame| inside(frame.phys())), "{kept:x?} is handed out");
        }
    }

    /// A little-endian table of double words.
    fn words(words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    #[test]
    fn limine_names_the_kernel_and_the_modules() {
        use limine::memory_map::{Entry, EntryType as Type};
        let entry = |base, end, entry_type| Entry { base, length: end - base, entry_type };
        let taken = Type::EXECUTABLE_AND_MODULES;
        let map = [
            entry(0, IMAGE.start, Type::USABLE),
            entry(IMAGE.start, IMAGE.end, taken),
            entry(IMAGE.end, MODULE.start, Type::USABLE),
            entry(MODULE.start, MODULE.end, taken),
            entry(MODULE.end, 16 * MIB, Type::USABLE),
        ];
        keeps(limine(&map.each_ref()), &[]);
    }

    #[test]
    fn multiboot_lists_the_modules() {
        let mut map = 20u32.to_le_bytes().to_vec();
        map.extend(words(&[0, 16 * MIB]));
        map.extend(1u32.to_le_bytes());
        let modules = words(&[MODULE.start | MODULE.end << 32, 0]);
        keeps(multiboot(&map, &modules, IMAGE), &[]);
    }

    #[test]
    fn multiboot2_lists_the_modules_and_lies_in_memory_itself() {
        // Memory map (type 6), module (type 3) with an empty command line, end.
        let tags = [6 | 40 << 32, 24, 0, 16 * MIB, 1, 3 | 17 << 32, MODULE.start | MODULE.end << 32, 0, 8 << 32];
        let blob: Vec<u64> = std::iter::once((tags.len() as u64 + 1) * 8).chain(tags).collect();
        // SAFETY: the information is well formed, aligned, and outlives its use.
        let info = unsafe { BootInformation::load(blob.as_ptr().cast()) }.unwrap();
        keeps(multiboot2(&info, 7 * MIB, IMAGE), &[7 * MIB..7 * MIB + blob.len() as u64 * 8]);
    }

    #[test]
    fn pvh_and_linux_list_the_ramdisk() {
        let (map, modules) = (words(&[0, 16 * MIB, 1]), words(&[MODULE.start, MODULE.end - MODULE.start, 0, 0]));
        keeps(pvh(&map, &modules, IMAGE), &[]);
        let mut page = [0u8; 4096];
        page[0x1e8] = 1;
        page[0x2d0..0x2e8].copy_from_slice(&map);
        page[0x218..0x21c].copy_from_slice(&(MODULE.start as u32).to_le_bytes());
        page[0x21c..0x220].copy_from_slice(&((MODULE.end - MODULE.start) as u32).to_le_bytes());
        keeps(linux(&page, IMAGE), &[]);
    }

    #[test]
    fn uefi_marks_what_the_loader_holds() {
        let descriptor = |kind, start: u64, end: u64| words(&[kind, start, 0, (end - start) / 4096, 0]);
        let (loader_data, conventional) = (2, 7);
        let map = [
            descriptor(conventional, 0, IMAGE.start),
            descriptor(loader_data, IMAGE.start, IMAGE.end),
            descriptor(conventional, IMAGE.end, MODULE.start),
            descriptor(loader_data, MODULE.start, MODULE.end),
            descriptor(conventional, MODULE.end, 16 * MIB),
        ];
        keeps(uefi(&map.concat(), 40), &[]);
    }

    #[test]
    fn a_device_tree_names_nodes_and_reservations() {
        let blob = include_bytes!("../../../crates/memmap/tests/tables/riscv64-virt.dtb");
        let base = 0x8000_0000;
        let image = Image { start: base + IMAGE.start, end: base + IMAGE.end };
        let map = device_tree(blob, base + 7 * MIB, image).unwrap();
        let usable = |region: &Region| region.kind == pageblock::RegionKind::Usable;
        let (memory, kept): (Vec<_>, Vec<_>) = map.partition(usable);
        assert_eq!(memory.iter().map(|region| region.len()).sum::<u64>(), 1 << 30);
        let keeps = |at: u64| kept.iter().any(|region| region.start.as_u64() <= at && at < region.end.as_u64());
        assert!(keeps(image.start) && keeps(base + 7 * MIB) && keeps(base + 7 * MIB + blob.len() as u64 - 1));
        assert!(!keeps(image.end));
    }

    #[test]
    fn srat_gives_memory_to_nodes() {
        let srat = Srat::new(include_bytes!("../../../crates/memmap/tests/tables/srat-q35.bin")).unwrap();
        let map = with_nodes([Region::usable(0..16 * MIB)].into_iter(), srat);
        assert!(map.map(|region| region.node).max() > Some(pageblock::NodeId::new(0)));
    }
}
