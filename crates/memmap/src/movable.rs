//! How much of each node's top is a Movable zone.

use crate::map::{RegionMap, Runs};
use crate::zones::{ZoneLimitError, ZoneLimits};
use pageblock_frame::{MAX_NODES, MAX_PFN, NodeId, Order, ZoneKind};

/// No Movable zone: it would start above all frames.
const NONE: u64 = MAX_PFN;

/// Sets the first frame of each node's Movable zone (`find_zone_movable_pfns_for_nodes()`).
///
/// Frames that the kernel keeps are spread evenly over the nodes; a node that is smaller than its share passes the rest
/// on. Memory below the highest zone that has any counts as the kernel's first: a Movable zone is cut from that zone
/// only.
pub(crate) fn movable_starts<const N: usize>(
    map: &RegionMap<N>,
    limits: &ZoneLimits,
    starts: &mut [u64; MAX_NODES],
) -> Result<(), ZoneLimitError> {
    *starts = [NONE; MAX_NODES];
    let present = map.present_frames();
    let kernel = kernel_frames(present, limits)?;
    if kernel > 0 && kernel < present {
        above_kernel(map, kernel, top_zone_start(map, limits), starts);
    }
    Ok(())
}

/// The same where the kernel keeps this many frames and all that are below `floor`.
#[inline(never)]
fn above_kernel<const N: usize>(map: &RegionMap<N>, kernel: u64, floor: u64, starts: &mut [u64; MAX_NODES]) {
    starts.fill(0);
    let mut nodes = nodes(map).count() as u64;
    let mut required = kernel;
    while required > 0 && nodes > 0 {
        let share = required.div_ceil(nodes);
        for node in self::nodes(map) {
            if let Some(start) = starts.get_mut(node.index()) {
                let got = give_kernel(map.present().on(node), start, floor, share.min(required));
                required = required.saturating_sub(got);
            }
        }
        nodes -= 1;
    }
    for (number, start) in starts.iter_mut().enumerate() {
        let end = map.present().on(NodeId::new(number as u8)).hull().map_or(0, |hull| hull.end.as_u64());
        let rounded = (*start).max(floor).next_multiple_of(Order::MAX.frames());
        *start = if rounded < end { rounded } else { NONE };
    }
}

/// Frames that are to stay outside Movable zones; 0 without a Movable zone.
fn kernel_frames(present: u64, limits: &ZoneLimits) -> Result<u64, ZoneLimitError> {
    if limits.movable == 0 {
        return Ok(limits.kernel);
    }
    let wanted = limits.movable.saturating_add(Order::MAX.frames() - 1) & !(Order::MAX.frames() - 1);
    if wanted >= present {
        return Err(ZoneLimitError::MovableTooLarge { wanted, present });
    }
    Ok(limits.kernel.max(present - wanted))
}

/// Where the highest zone that has memory on any node begins.
fn top_zone_start<const N: usize>(map: &RegionMap<N>, limits: &ZoneLimits) -> u64 {
    let windows = [ZoneKind::Normal, ZoneKind::Dma32, ZoneKind::Dma].map(|kind| limits.window(kind, NONE));
    let populated = windows.into_iter().find(|window| map.present_in(*window).next().is_some());
    populated.map_or(0, |window| window.start.as_u64())
}

/// Gives the kernel up to `share` more frames of a node, from `start` up, and moves `start` behind them. Returns how
/// many frames the kernel got: memory below `floor` is its own anyway and may be more than its share.
fn give_kernel<const N: usize>(runs: Runs<'_, N>, start: &mut u64, floor: u64, share: u64) -> u64 {
    let mut got = 0;
    for run in runs {
        let first = run.range.start.as_u64().max(*start);
        let end = run.range.end.as_u64();
        if first >= end {
            continue;
        }
        let below = floor.clamp(first, end) - first;
        let above = (end - first - below).min(share.saturating_sub(got + below));
        if below + above == 0 {
            break;
        }
        got += below + above;
        *start = first + below + above;
    }
    got
}

/// The nodes that have memory, ascending.
fn nodes<const N: usize>(map: &RegionMap<N>) -> impl Iterator<Item = NodeId> + '_ {
    (0..MAX_NODES as u8).map(NodeId::new).filter(|node| map.present().on(*node).next().is_some())
}
