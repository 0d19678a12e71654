//! The rows of single loops on the allocators of others, and the check that every allocator passes.

use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

use super::{facade, shared, whole};
use crate::Frames;
use crate::allocators::{Bitmap, BuddySystem};
use crate::machine::Emulated;
use crate::peers::{BuddySlab, Regioned, check};
use crate::table::{Kind, Row};
use crate::two::PerCpuDepot;

/// Bytes of a frame, the unit of some peers.
const BYTES: u64 = 4096;
/// Frames that are checked.
const CHECKED: u64 = 1 << 16;

pub(super) fn rows() -> Vec<Row> {
    let checks = [
        checked::<Emulated<2>>("facade", 1),
        checked::<FrameAlloc<Summary>>("peer.frame-alloc-core", BYTES),
        checked::<FrameAlloc<PerCpuDepot>>("peer.frame-alloc-depot", BYTES),
        checked::<Regioned<2>>("peer.frame-alloc-regioned", BYTES),
        checked::<BuddySlab>("peer.buddy-slab-allocator", BYTES),
        checked::<BuddySystem>("peer.buddy_system_allocator", 1),
        checked::<Bitmap>("peer.bitmap-allocator", 1),
    ];
    let mut rows = Vec::from(checks);
    for cpus in [1, 2, 8] {
        let regioned = match cpus {
            1 => whole::rows_of::<Regioned<1>>,
            2 => whole::rows_of::<Regioned<2>>,
            _ => whole::rows_of::<Regioned<8>>,
        };
        rows.extend(whole::rows_of::<FrameAlloc<Summary>>("peer.frame-alloc-core.", cpus));
        rows.extend(whole::rows_of::<FrameAlloc<PerCpuDepot>>("peer.frame-alloc-depot.", cpus));
        rows.extend(regioned("peer.frame-alloc-regioned.", cpus));
        rows.extend(whole::rows_of::<BuddySlab>("peer.buddy-slab-allocator.", cpus));
        rows.extend(whole::rows_of::<BuddySystem>("peer.buddy_system_allocator.", cpus));
    }
    rows.extend(loops::<FrameAlloc<Summary>>("peer.frame-alloc-core"));
    rows.extend(loops::<FrameAlloc<PerCpuDepot>>("peer.frame-alloc-depot"));
    rows.extend(loops::<Regioned<2>>("peer.frame-alloc-regioned"));
    rows.extend(loops::<BuddySlab>("peer.buddy-slab-allocator"));
    rows.extend(loops::<BuddySystem>("peer.buddy_system_allocator"));
    rows.extend(loops::<Bitmap>("peer.bitmap-allocator"));
    rows.extend(shared::rows_of::<FrameAlloc<Summary>>("peer.frame-alloc-core."));
    rows.extend(shared::rows_of::<FrameAlloc<PerCpuDepot>>("peer.frame-alloc-depot."));
    rows.extend(shared::rows_of::<BuddySlab>("peer.buddy-slab-allocator."));
    // None of them has a lock that the tool knows: the users of most put one around all of it.
    rows.retain(|row| !row.names.iter().any(|name| name.contains(".locked.")));
    rows
}

fn checked<A: Frames>(name: &str, unit: u64) -> Row {
    Row::one(Kind::Plain, format!("{name}.check"), move || check::<A>(CHECKED, unit) as f64)
}

/// Rows counted of every allocator.
fn loops<A: Frames + 'static>(name: &str) -> Vec<Row> {
    let mut rows = facade::pairs_by_order::<A>(name);
    rows.extend(facade::mixes::<A>(name));
    rows.extend(facade::bulks::<A>(name));
    rows
}
