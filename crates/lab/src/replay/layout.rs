//! The zones of the recorded machine.

use pageblock_buddy::{Watermarks, ZoneConfig};
use pageblock_frame::{NodeId, Order, Pfn, PfnRange, ZoneKind};

use crate::InputError;
use crate::state::{State, ZoneRow};

/// Frames of the largest machine: 4 TiB.
const MOST_FRAMES: u64 = 1 << 30;

/// One zone, as recorded.
#[derive(Clone, Debug)]
pub(crate) struct ZoneLayout {
    /// Its place and purpose.
    pub(crate) config: ZoneConfig,
    /// Linux's watermarks without boost.
    pub(crate) marks: Watermarks,
    /// Frames kept from requests by their highest zone.
    pub(crate) reserve: [u64; ZoneKind::COUNT],
    /// The memory in it: whole frames of System RAM.
    pub(crate) ram: Vec<PfnRange>,
    /// Linux's own figures.
    pub(crate) recorded: ZoneRow,
}

impl ZoneLayout {
    /// Frames of memory.
    pub(crate) fn present(&self) -> u64 {
        self.ram.iter().map(|range| range.len()).sum()
    }

    /// The zone's name in messages and tables.
    pub(crate) fn name(&self) -> &'static str {
        self.config.kind.name()
    }
}

/// The zones of a machine, ascending by address.
///
/// # Errors
/// A zone that `zoneinfo` gives memory but `iomem` does not, zones that overlap, a kind of zone that 64-bit machines do
/// not have.
pub(crate) fn zones(state: &State) -> Result<Vec<ZoneLayout>, InputError> {
    let path = state.directory.join("zoneinfo");
    let orders = state.buddyinfo.rows.first().map_or(Order::MAX.index() + 1, |row| row.free.len());
    let max_order = Order::saturating(orders.saturating_sub(1) as u8).max(pageblock_frame::PAGEBLOCK_ORDER);
    let mut zones = Vec::new();
    for row in state.zoneinfo.populated().filter(|row| row.zone != "Device") {
        let kind = ZoneKind::ALL.into_iter().find(|kind| kind.name() == row.zone);
        let kind =
            kind.ok_or_else(|| InputError::content(&path, format!("no zone {} (a 64-bit machine)", row.zone)))?;
        let ram: Vec<_> = state.iomem.ram.iter().map(|range| range.intersect(row.span())).collect();
        let ram: Vec<_> = ram.into_iter().filter(|range| !range.is_empty()).collect();
        if ram.is_empty() {
            let expected = format!("a zone {} that lies in the System RAM of iomem", row.zone);
            return Err(InputError::content(&path, expected));
        }
        // Space behind the last frame of memory needs no table, whatever the file says.
        let end = ram.last().map_or(row.span().end, |last| last.end.min(row.span().end));
        if end.as_u64() > MOST_FRAMES {
            return Err(InputError::content(&path, format!("a zone {} below 4 TiB", row.zone)));
        }
        let mut config = ZoneConfig::new(kind, NodeId::new(row.node), PfnRange::new(row.span().start, end));
        config.max_order = max_order;
        let plain = |mark: u64| mark.saturating_sub(row.boost);
        let marks = Watermarks { min: plain(row.min), low: plain(row.low), high: plain(row.high) };
        let reserve = std::array::from_fn(|limit| row.protection.get(limit).copied().unwrap_or(0));
        zones.push(ZoneLayout { config, marks, reserve, ram, recorded: row.clone() });
    }
    zones.sort_by_key(|zone| zone.config.span.start);
    let overlap = zones.windows(2).find(|pair| pair[0].config.span.end > pair[1].config.span.start);
    match overlap {
        Some(pair) => {
            let expected = format!("zones {} and {} that do not overlap", pair[0].name(), pair[1].name());
            Err(InputError::content(&path, expected))
        }
        None => Ok(zones),
    }
}

/// The first frame after the last zone.
pub(crate) fn top(zones: &[ZoneLayout]) -> Pfn {
    zones.last().map_or(Pfn::new(0), |zone| zone.config.span.end)
}
