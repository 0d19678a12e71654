//! The machine's memory in one zone: the run of memory that holds the kernel, less the kernel and the zone's own metadata.

use core::fmt;
use core::mem::MaybeUninit;
use core::ops::Range;

use pageblock_buddy::{FreeError, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::sync::Once;
use pageblock_frame::{AllocFlags, Carver, Gfp, NodeId, Order, PAGE_SIZE, Pfn, PfnRange, ZoneKind};

use crate::arch::paging::phys_ptr;
use crate::boot::pvh::BootInfo;
use crate::platform::Kernel;

static ZONE: Once<Zone<'static>> = Once::new();

/// Gives the memory behind `kernel` to the allocator.
///
/// # Panics
/// The firmware's map does not have the kernel in one run of memory with room behind it.
pub fn init(boot: &BootInfo, kernel: &Range<u64>) {
    let run = boot.map().iter().find(|entry| entry.is_ram() && entry.base <= kernel.start && kernel.end < entry.end());
    let end = Pfn::new(run.expect("the kernel lies in memory").end() / PAGE_SIZE);
    let all = PfnRange::new(Pfn::new(kernel.end / PAGE_SIZE), end);
    // Sized for more frames than there will be: the metadata takes some.
    let bytes = ZoneStorage::bytes(all, Order::MAX);
    let metadata = phys_ptr::<MaybeUninit<u8>>(kernel.end);
    // SAFETY: memory behind the kernel that nobody uses, mapped, and kept out of the zone below.
    let raw = unsafe { core::slice::from_raw_parts_mut(metadata, bytes) };
    let span = PfnRange::new(Pfn::new((kernel.end + bytes as u64).div_ceil(PAGE_SIZE)), end);
    let config = ZoneConfig::new(ZoneKind::Dma32, NodeId::new(0), span);
    let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(raw)).expect("sized for a larger span");
    let zone = Zone::new(config, storage).expect("a span that is not empty");
    zone.release(span).expect("within the zone");
    ZONE.set(zone).expect("memory is given once");
}

fn zone() -> &'static Zone<'static> {
    ZONE.get().expect("memory was given at boot")
}

/// Allocates a block.
#[inline(always)]
pub fn alloc(order: Order, gfp: Gfp) -> Option<Pfn> {
    ZONE.get()?.alloc::<Kernel>(order, gfp.migrate_type(), AllocFlags::empty())
}

/// Frees a block.
///
/// # Errors
/// The block was not allocated like this; nothing has changed.
#[inline(always)]
pub fn free(pfn: Pfn, order: Order) -> Result<(), FreeError> {
    match ZONE.get() {
        Some(zone) => zone.free::<Kernel>(pfn, order),
        None => Err(FreeError::OutOfRange),
    }
}

/// Frames that are free.
pub fn free_frames() -> u64 {
    zone().free_frames()
}

/// Recomputes everything that is derived from the free maps.
///
/// # Panics
/// It does not agree with them.
pub fn check() {
    if let Err(violation) = zone().check() {
        panic!("the zone is damaged: {violation}");
    }
}

/// `/proc/buddyinfo`.
pub fn buddyinfo() -> impl fmt::Display {
    zone().buddyinfo()
}

/// `/proc/pagetypeinfo`.
pub fn pagetypeinfo() -> impl fmt::Display {
    zone().pagetypeinfo()
}

/// `/proc/zoneinfo`.
pub fn zoneinfo() -> impl fmt::Display {
    zone().zoneinfo()
}
