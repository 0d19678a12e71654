//! A dirty memory map, as firmwares write them, made into clean runs of frames and zones, with an account of what was
//! lost.
//!
//! `cargo run -p pageblock --example e820`

use pageblock::{PhysRange, Region, ZoneLimits};
use pageblock_memmap::{MapOptions, RegionMap};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let map = [
        Region::from_e820(0x10_0000, 0xbfe8_0000, 1), // not sorted
        Region::from_e820(0, 0x9_fc00, 1),            // not whole frames
        Region::from_e820(0x9_fc00, 0x400, 2),
        Region::from_e820(0x9000_0000, 0x1000_0000, 2), // a device in the middle of memory
        Region::from_e820(0x1_0000_0000, 0x4000_0000, 1),
        Region::from_e820(0x1_2000_0000, 0x1000_0000, 1), // described twice
        Region::from_e820(0xbff0_0000, 0x8000, 3),        // ACPI tables
        Region::from_e820(0, 0, 0),                       // empty
    ];
    let kernel = PhysRange::from(0x10_0000..0x38_1234);
    let clean: RegionMap = RegionMap::build(map, &[kernel], MapOptions::new().reserve_low(1 << 20))?;
    for run in clean.usable() {
        println!("usable {}", run.range);
    }
    for zone in clean.zones(&ZoneLimits::x86_64())? {
        println!("{zone:?}");
    }
    println!("{}", clean.report());
    let kernel_end = 0x38_1234u64.div_ceil(4096);
    assert_eq!(clean.usable_frames(), 0x9_0000 - kernel_end + 0xb_ff78 - 0xa_0000 + 0x4_0000);
    Ok(())
}
