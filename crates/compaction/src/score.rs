//! How scattered free memory is, for compaction that no request asked for (Linux 5.9).

use pageblock_frame::PAGEBLOCK_ORDER;

/// Scores between which proactive compaction works.
///
/// ```
/// use pageblock_compaction::{ScoreMarks, score_marks};
/// assert_eq!(score_marks(20), ScoreMarks { low: 80, high: 90 });
/// assert_eq!(score_marks(100), ScoreMarks { low: 5, high: 15 });
/// assert_eq!(score_marks(0), ScoreMarks { low: 100, high: 100 });
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ScoreMarks {
    /// It stops at this.
    pub low: u64,
    /// It starts above this.
    pub high: u64,
}

/// The marks for a proactiveness of 0 to 100.
#[must_use]
pub const fn marks(proactiveness: u8) -> ScoreMarks {
    let low = 100u64.saturating_sub(proactiveness as u64);
    let low = if low < 5 { 5 } else { low };
    ScoreMarks { low, high: if low + 10 < 100 { low + 10 } else { 100 } }
}

/// Percent of the free frames that are not in blocks of pageblock order or more; 0 if nothing is free.
///
/// ```
/// use pageblock_compaction::zone_score;
/// assert_eq!(zone_score(&[488, 0, 0, 0, 0, 0, 0, 0, 0, 1]), 48);
/// assert_eq!(zone_score(&[]), 0);
/// ```
#[must_use]
pub fn zone_score(free_blocks: &[u64]) -> u64 {
    let all: u64 = free_blocks.iter().enumerate().map(|(order, blocks)| blocks << order).sum();
    (scattered(free_blocks) * 100).checked_div(all).unwrap_or(0)
}

/// Free frames that are not in blocks of pageblock order or more.
pub(crate) fn scattered(free_blocks: &[u64]) -> u64 {
    let parts = free_blocks.iter().enumerate().take(PAGEBLOCK_ORDER.index());
    parts.map(|(order, blocks)| blocks << order).sum()
}

/// A node's score, from its zones' scores and present frames.
///
/// ```
/// assert_eq!(pageblock_compaction::node_score([(100, 999), (0, 1000)]), 49);
/// ```
#[must_use]
pub fn node_score(zones: impl IntoIterator<Item = (u64, u64)> + Clone) -> u64 {
    let present: u64 = zones.clone().into_iter().map(|(_, present)| present).sum();
    zones.into_iter().map(|(score, frames)| (score * frames).checked_div(present + 1).unwrap_or(0)).sum()
}
