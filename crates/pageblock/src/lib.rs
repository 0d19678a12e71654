//! Linux's physical page allocator for Rust kernels: zones, migrate types, pageblocks, checked free; no heap, no `std`.
//!
//! * [`PageAllocator`]: boot from a memory map, [`alloc`](PageAllocator::alloc), [`free`](PageAllocator::free); `const`
//!   constructible, for a static
//! * [`Frames`]: a block that frees itself
//! * [`Config`]: the differences between machines, as a value
//! * [`Gfp`]: needs and permissions of a request, with Linux's names
//!
//! # How a request travels
//! ```text
//! alloc(gfp) ─► the CPU's own list of the zone that is tried first; if it is empty:
//!     ▼
//! Request: flags checked, zone limit, migrate type, zonelist of the CPU's node
//!     │ first attempt: zones of the list in turn, down to the low watermark
//!     └─► slowpath: one function a rung; compaction and reclaim are among them ─► AllocError::OutOfMemory
//! free(pfn, order) ─► the zone that spans the frame ─► its state byte says whether that is right
//! ```
//!
//! # Invariants
//! 1. Every usable frame of the memory map is either managed by exactly one zone or holds metadata.
//! 2. A call that returns an error has changed nothing but the count of bad frees.
//! 3. Metadata lies outside the frames: a kernel that frees wrongly can alias its own frames, never corrupt the
//!    allocator.
//!
//! # Lock order
//! One zone lock at a time, interrupts saved; nothing of the kernel's is called while it is held.
//!
//! # Where `unsafe` is
//! In the declarations of promises that only the kernel can make (`init`, `add_memory`, `free`, `free_range`), and
//! where the allocator itself makes that promise: metadata frames, zeroing of frames just taken, handles being dropped.

#![doc = include_str!("kernel.md")]
#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "hosted")]
extern crate std;

pub mod adapt;
mod allocator;
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv32",
    target_arch = "riscv64",
    // The A profile, which has 64-bit atomics.
    all(target_arch = "arm", target_has_atomic = "64")
))]
pub mod arch;
mod builder;
mod bulk;
mod commit;
mod compaction;
mod config;
mod contiguous;
mod counters;
mod diagnosis;
mod dirty;
mod error;
mod fast;
mod frames;
#[cfg(feature = "history")]
mod history;
#[cfg(not(feature = "history"))]
#[path = "no_history.rs"]
mod history;
#[cfg(feature = "hosted")]
#[cfg_attr(docsrs, doc(cfg(feature = "hosted")))]
pub mod hosted;
mod init;
mod inner;
mod many;
#[cfg(feature = "page_owner")]
mod page_owner;
mod percpu;
mod pressure;
mod report;
mod request;
mod shared;
mod slowpath;
mod stats;
mod table;
mod threads;
mod view;
mod vmstat;
mod zones;

pub use allocator::PageAllocator;
pub use builder::RequestBuilder;
pub use commit::Commitment;
pub use compaction::Compaction;
pub use config::{Config, Experiment, MAX_RESERVATIONS, ZoneSpreading};
#[cfg(feature = "poison")]
#[cfg_attr(docsrs, doc(cfg(feature = "poison")))]
pub use diagnosis::PoisonDamage;
pub use dirty::DirtyLimit;
pub use error::{AddError, AllocError, CompactError, ConfigError, InitError};
pub use frames::{FrameRun, Frames, Parts, RawFrames};
#[cfg(feature = "history")]
pub use history::{STALL_BUCKETS, STALL_LIMIT, SlowPath, Stalls};
pub use many::FrameSet;
#[cfg(feature = "page_owner")]
#[cfg_attr(docsrs, doc(cfg(feature = "page_owner")))]
pub use page_owner::{OwnedBlock, OwnerEpoch, OwnerMark, PageOwners, SiteUsage};
pub use percpu::Cpus;
pub use report::Report;
pub use shared::{RefCount, SharedFrames};
pub use stats::Stats;
pub use table::FrameTable;
pub use threads::ReclaimThreads;
pub use vmstat::VmStat;
pub use zones::ZoneView;

// The types of this crate's signatures, traits and errors: a kernel depends on no other crate of the family.
pub use pageblock_buddy::{
    AllocAtError, BoostRule, Distances, FreeCounts, FreeError, Policy, Reserves, Violation, WatermarkRule, Watermarks,
    Zone, ZoneError, ZoneEvents,
};
#[cfg(feature = "history")]
pub use pageblock_buddy::{BoostArithmetic, FairPolicy};
pub use pageblock_compaction::{CompactionConfig, CompactionVmStat, ContigError, Next, Search};
#[cfg(feature = "history")]
pub use pageblock_compaction::{Era, Patches};
pub use pageblock_frame::kernel_lock;
pub use pageblock_frame::migration::{
    Interrupt, IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal,
};
pub use pageblock_frame::reclaim::{Actor, FilePages, Reclaim, Shrink, Shrunk};
pub use pageblock_frame::sync::{self, PerCpuPtr, Pinned};
pub use pageblock_frame::trace::{self, Event, RunCounts};
pub use pageblock_frame::{
    COSTLY_ORDER, CpuId, FrameState, Gfp, GfpError, Hooks, IrqState, MAX_PFN, MigrateType, NoHooks, NodeId, Order,
    PAGE_SHIFT, PAGE_SIZE, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn, PfnRange, PhysAddr, Platform, ZoneKind,
};
pub use pageblock_memmap::{
    AcpiTableError, DeviceTree, DeviceTreeError, DropCount, DropReason, Loaded, PhysRange, PvhError, PvhInfo, Region,
    RegionError, RegionKind, RegionReport, Slit, Srat, ZoneLimitError, ZoneLimits,
};
pub use pageblock_pcp::{
    Drain, ListSet, PcpConfig, PcpError, PcpViolation, RefillSize, Sizes, Sizing, Tuning, WhenShort,
};
pub use pageblock_reclaim::ReclaimConfig;
#[cfg(feature = "history")]
pub use pageblock_reclaim::{BalanceGap, BalancedRule, ClassZone, ListsBy};

/// The names that most kernels need, to be imported as a whole.
///
/// ```
/// use pageblock::prelude::*;
/// let map = [Region::usable(0..64 << 20), Region::reserved(0x10_0000..0x38_0000)];
/// # let _ = (map, Config::new(), Gfp::KERNEL, Order::HUGE);
/// ```
pub mod prelude {
    pub use crate::{AllocError, Config, Frames, Gfp, Hooks, Order, PageAllocator, Platform, Region};
}

/// The README's program, compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
