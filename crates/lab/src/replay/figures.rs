//! Figures of a machine at one time: ours from the zones, Linux's from the model or from its own files.

use pageblock_buddy::{CmaColumn, FreeCounts, PageTypeHeading, unusable_free_index};
use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};
use pageblock_testkit::decompose;

use super::layout::ZoneLayout;
use super::linux::{FREE, Linux};
use super::machine::Machine;
#[cfg(feature = "experiments")]
use super::outcome::BlockState;
use super::outcome::{Files, Side, TypeFigures, ZoneFigures};
use crate::state::State;

fn index_by_order(free_blocks: &[u64]) -> Vec<f64> {
    let orders = Order::saturating(free_blocks.len().saturating_sub(1) as u8).up_to();
    orders.map(|order| unusable_free_index(free_blocks, order) as f64 / 1000.0).collect()
}

/// Fills in the figures that follow from the zones' free blocks.
fn summed(mut side: Side) -> Side {
    let orders = side.zones.iter().map(|zone| zone.free_blocks.len()).max().unwrap_or(0);
    let mut total = vec![0; orders];
    for zone in &mut side.zones {
        zone.unusable_free_index = index_by_order(&zone.free_blocks);
        for (sum, blocks) in total.iter_mut().zip(&zone.free_blocks) {
            *sum += blocks;
        }
    }
    side.free_frames = total.iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    side.free_pageblocks = total
        .iter()
        .enumerate()
        .skip(PAGEBLOCK_ORDER.index())
        .map(|(order, n)| n << (order - PAGEBLOCK_ORDER.index()))
        .sum();
    side.unusable_free_index = index_by_order(&total);
    side
}

/// One of our machines; blocks on its per-CPU lists are not counted.
pub(crate) fn ours(machine: &Machine, layout: &[ZoneLayout]) -> Side {
    let mut side = Side { source: "our zones", ..Side::default() };
    for (zone, layout) in machine.zones().iter().zip(layout) {
        let counts = zone.counts();
        side.mixed_pageblocks += counts.mixed;
        let orders = zone.max_order().index() + 1;
        side.zones.push(ZoneFigures {
            node: layout.recorded.node,
            zone: layout.name().to_owned(),
            free_blocks: counts.by_order[..orders].to_vec(),
            free_blocks_by_type: by_type(&counts, orders),
            unusable_free_index: Vec::new(),
        });
    }
    summed(side)
}

fn by_type(counts: &FreeCounts, orders: usize) -> Vec<TypeFigures> {
    let shown = MigrateType::ALL.into_iter().filter(|kind| {
        kind.is_ordinary() || counts.pageblocks[kind.index()] > 0 || counts.by_type[kind.index()].iter().any(|&n| n > 0)
    });
    let row = |kind: MigrateType| TypeFigures {
        kind: kind.name(),
        free_blocks: counts.by_type[kind.index()][..orders].to_vec(),
        pageblocks: counts.pageblocks[kind.index()],
    };
    shown.map(row).collect()
}

/// The recorded machine by start and events.
pub(crate) fn linux_by_events(linux: &Linux, layout: &[ZoneLayout]) -> Side {
    let mut side = Side { source: "the events", ..Side::default() };
    for zone in layout {
        let (span, max_order) = (zone.config.span, zone.config.max_order);
        let counts = decompose(span, max_order, |pfn| (linux.owner(pfn.as_u64()) == FREE).then_some(0));
        side.zones.push(ZoneFigures {
            node: zone.recorded.node,
            zone: zone.name().to_owned(),
            free_blocks: counts[..=max_order.index()].to_vec(),
            ..ZoneFigures::default()
        });
        let blocks = span.start.as_u64() / PAGEBLOCK_FRAMES..span.end.as_u64().div_ceil(PAGEBLOCK_FRAMES);
        side.mixed_pageblocks += blocks.filter(|&block| linux.block(block).is_mixed()).count() as u64;
    }
    summed(side)
}

/// The recorded machine by its own files. Figures missing there are 0.
pub(crate) fn linux_recorded(state: &State, layout: &[ZoneLayout]) -> Side {
    let mut side = Side { source: "the recorded state", ..Side::default() };
    for zone in layout {
        let (node, name) = (zone.recorded.node, zone.name());
        let Some(row) = state.buddyinfo.zone(node, name) else { continue };
        let counted = state.zoneinfo.rows.iter().find(|row| row.node == node && row.zone == name);
        side.listed_frames += counted.map_or(0, |row| row.listed);
        let pageblocks = state.pagetypeinfo.blocks(node, name).map(|row| row.blocks).unwrap_or_default();
        let kinds = state.pagetypeinfo.types(node, name).map(|row| TypeFigures {
            kind: row.kind.name(),
            free_blocks: row.free.clone(),
            pageblocks: pageblocks[row.kind.index()],
        });
        side.zones.push(ZoneFigures {
            node,
            zone: name.to_owned(),
            free_blocks: row.free.clone(),
            free_blocks_by_type: kinds
                .filter(|row| row.pageblocks > 0 || row.free_blocks.iter().any(|&n| n > 0))
                .collect(),
            unusable_free_index: Vec::new(),
        });
    }
    summed(side)
}

#[cfg(feature = "experiments")]
impl BlockState {
    /// A zone's pageblocks now.
    pub(crate) fn of_zone(zone: &pageblock_buddy::Zone<'_>) -> Vec<Self> {
        let state = |block: &pageblock_frame::Pageblock| Self {
            kind: block.migrate_type(),
            free: block.free(),
            managed: block.managed(),
        };
        let mut states = Vec::new();
        zone.for_each_pageblock(|_, block| states.push(state(block)));
        states
    }
}

/// One of our machines in the formats of Linux's files.
pub(crate) fn files(machine: &Machine) -> Files {
    let zones = || machine.zones().iter();
    let orders = zones().next().map_or(Order::MAX, |zone| zone.max_order());
    let mut pagetypeinfo = PageTypeHeading::free_counts(orders).to_string();
    pagetypeinfo.extend(zones().map(|zone| zone.pagetypeinfo().to_string()));
    pagetypeinfo.push_str(&PageTypeHeading::block_counts(CmaColumn::Absent).to_string());
    pagetypeinfo.extend(zones().map(|zone| zone.blocktypeinfo().to_string()));
    let mut extfrag = String::from("unusable_index\n");
    extfrag.extend(zones().map(|zone| zone.unusable_index().to_string()));
    extfrag.push_str("extfrag_index\n");
    extfrag.extend(zones().map(|zone| zone.extfrag_index().to_string()));
    Files {
        buddyinfo: zones().map(|zone| zone.buddyinfo().to_string()).collect(),
        pagetypeinfo,
        zoneinfo: zones().map(|zone| zone.zoneinfo().to_string()).collect(),
        vmstat: machine.seat.allocator.vmstat().to_string(),
        extfrag,
    }
}
