//! From a firmware's memory map to clean runs of frames, zones, and room for the metadata.
//!
//! ```text
//! Region, Region, Region ...       raw: unsorted, overlapping, unaligned, empty, inverted
//!    │ RegionMap::build            usable ∪ usable − everything else, then whole frames only
//!    ▼
//! RegionMap ── usable(), present(), reclaimable(), class(pfn), report()
//!    │ carve(bytes, align)         the frames that will hold the metadata
//!    │ zones(&ZoneLimits)          DMA, DMA32, Normal, Movable, a node each
//!    ▼
//! ZoneSpan, ZoneSpan ...           the input of a zone
//! ```
//!
//! # The rule
//! A frame is usable if and only if all its 4,096 bytes are covered by usable regions (together: two regions may meet
//! in the middle of a frame) and none of them by a region of another kind or by a reservation. The order of the input
//! does not matter. Nothing else is lost: [`RegionReport`] accounts for every byte that was described as usable.
//!
//! This is `memblock` and `e820__update_table()` in one. Nothing is allocated; the sets have a fixed capacity, and a
//! map that does not fit is an error.
//!
//! ```
//! use pageblock_memmap::{MapOptions, PhysRange, Region, RegionMap, ZoneLimits};
//!
//! let e820 = [
//!     Region::from_e820(0x10_0000, 0x7ee_0000, 1),
//!     Region::from_e820(0, 0x9_fc00, 1),
//!     Region::from_e820(0x9_fc00, 0x400, 2),
//!     Region::from_e820(0, 0, 0), // microvm ends its list like this
//! ];
//! let kernel = PhysRange::from(0x10_0000..0x18_0800);
//! let mut map: RegionMap = RegionMap::build(e820, &[kernel], MapOptions::new()).unwrap();
//! assert_eq!(map.usable_frames(), 0x9f + 0x7ee0 - 0x81);
//! let metadata = map.carve(40_960, 128, &ZoneLimits::default()).unwrap();
//! assert_eq!(metadata.len(), 10);
//! let zones = map.zones(&ZoneLimits::default()).unwrap();
//! assert_eq!(zones.len(), 2); // DMA and DMA32
//! ```

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
extern crate std;

mod acpi;
mod adapt;
mod fdt;
mod map;
mod movable;
mod node;
mod place;
mod pvh;
mod region;
mod report;
mod set;
#[cfg(test)]
mod tests;
mod zones;

pub use acpi::{AcpiTableError, Slit, Srat};
pub use fdt::{DeviceTree, DeviceTreeError, ListedCpu, Loaded, NodeDistance};
pub use map::{FrameClass, MapOptions, MapRun, RegionError, RegionMap, RegionViolation, Runs};
pub use pvh::{PvhError, PvhInfo};
pub use region::{PhysRange, Region, RegionKind};
pub use report::{DropCount, DropReason, RegionReport};
pub use zones::{SpanRule, ZoneLimitError, ZoneLimits, ZoneSpan};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
