//! One machine of 64 MiB, described by five boot protocols: the allocator comes out the same.
//!
//! `cargo run -p pageblock --example boot_maps --features bootloader_api,multiboot2,uefi-raw`

use std::mem::MaybeUninit;
use std::ptr::NonNull;

use bootloader_api::info::{MemoryRegion, MemoryRegionKind};
use multiboot2::{MemoryArea, MemoryAreaType};
use pageblock::{Config, PageAllocator, Platform, Region, RegionKind, Stats};
use uefi_raw::table::boot::{MemoryDescriptor, MemoryType};

const LOW: u64 = 0x9_f000;
const HIGH: u64 = 0x10_0000;
const END: u64 = 64 << 20;

struct Hosted;

// SAFETY: one thread and no interrupts; no memory is behind the frames, and nothing asks for it.
unsafe impl Platform for Hosted {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        unreachable!("no frame is zeroed, no metadata carved")
    }
}

fn boot(name: &str, map: impl IntoIterator<Item = Region>) -> Result<Stats, Box<dyn std::error::Error>> {
    let frames = PageAllocator::<Hosted>::new();
    let storage = vec![MaybeUninit::uninit(); 1 << 20].leak();
    let stats = frames.init_simulated(map, &Config::new(), storage)?;
    println!("{name:<16} {stats}");
    Ok(stats)
}

/// `bootloader` 0.11: `boot_info.memory_regions.iter().map(Region::from)`.
fn bootloader() -> [MemoryRegion; 3] {
    let region = |start, end, kind| MemoryRegion { start, end, kind };
    [
        region(0, LOW, MemoryRegionKind::Usable),
        region(LOW, HIGH, MemoryRegionKind::UnknownBios(2)),
        region(HIGH, END, MemoryRegionKind::Usable),
    ]
}

/// Multiboot 2: `information.memory_map_tag().unwrap().memory_areas().iter().map(Region::from)`.
fn multiboot() -> [MemoryArea; 3] {
    [
        MemoryArea::new(0, LOW, MemoryAreaType::Available),
        MemoryArea::new(LOW, HIGH - LOW, MemoryAreaType::Reserved),
        MemoryArea::new(HIGH, END - HIGH, MemoryAreaType::Available),
    ]
}

/// UEFI: `memory_map.entries().map(Region::from)`.
fn uefi() -> [MemoryDescriptor; 3] {
    let descriptor = |ty, phys_start, end| MemoryDescriptor {
        ty,
        phys_start,
        page_count: (end - phys_start) / 4096,
        ..MemoryDescriptor::default()
    };
    [
        descriptor(MemoryType::CONVENTIONAL, 0, LOW),
        descriptor(MemoryType::RUNTIME_SERVICES_DATA, LOW, HIGH),
        descriptor(MemoryType::CONVENTIONAL, HIGH, END),
    ]
}

/// Raw e820 entries in memory, as PVH passes them: 24 bytes each.
fn pvh() -> Vec<u8> {
    let entries = [(0, LOW, 1u64), (LOW, HIGH - LOW, 2), (HIGH, END - HIGH, 1)];
    entries.iter().flat_map(|entry| [entry.0, entry.1, entry.2]).flat_map(u64::to_le_bytes).collect()
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    // Limine's entries, which need no feature: base, length, type.
    let limine = [(0, LOW, 0), (LOW, HIGH - LOW, 1), (HIGH, END - HIGH, 0)];
    let limine = limine
        .map(|(base, length, kind): (u64, u64, u64)| Region::new(base, base + length, RegionKind::from_limine(kind)));
    let plain = [(0, LOW, true), (HIGH, END - HIGH, true)].map(Region::from);
    let all = [
        boot("bootloader_api", bootloader().iter().map(Region::from))?,
        boot("multiboot2", multiboot().iter().map(Region::from))?,
        boot("uefi-raw", uefi().iter().map(Region::from))?,
        boot("PVH, e820", Region::e820_table(&pvh(), 24))?,
        boot("limine", limine)?,
        boot("plain", plain)?,
    ];
    assert!(all.iter().all(|stats| stats.managed == (LOW + END - HIGH) / 4096));
    Ok(())
}
