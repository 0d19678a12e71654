//! Figures about an allocator, derived from its zones; nothing is counted per operation but errors.

use core::fmt;

use pageblock_buddy::Zone;
use pageblock_frame::Platform;

use pageblock_pcp::PcpLists;

use crate::inner::Inner;

/// An allocator's memory at one moment, in frames unless said otherwise. Displays as one line.
///
/// ```
/// use pageblock::PageAllocator;
/// use pageblock::hosted::Simulated;
/// let frames = PageAllocator::<Simulated>::new();
/// assert_eq!(frames.stats().to_string(), "0 of 0 frames free in 0 zones, 0 bytes of metadata, 0 bad frees");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Stats {
    /// Zones.
    pub zones: usize,
    /// Frames of memory in the zones, reserved or not.
    pub present: u64,
    /// Frames that are the allocator's, free or held.
    pub managed: u64,
    /// Free frames, those on per-CPU lists included.
    pub free: u64,
    /// Frames on per-CPU lists: free, but neither to watermarks nor to other CPUs.
    pub listed: u64,
    /// Bytes of metadata.
    pub metadata_bytes: usize,
    /// Frees that were refused since boot.
    pub bad_frees: u64,
}

impl Stats {
    pub(crate) fn of<P: Platform>(inner: &Inner<P>, bad_frees: u64) -> Self {
        let zones = inner.zones;
        let listed = inner.lists().iter().map(PcpLists::frames).sum();
        Self {
            zones: zones.len(),
            present: zones.iter().map(Zone::present).sum(),
            managed: zones.iter().map(Zone::managed).sum(),
            free: zones.iter().map(Zone::free_frames).sum::<u64>() + listed,
            listed,
            metadata_bytes: inner.metadata_bytes,
            bad_frees,
        }
    }
}

impl fmt::Display for Stats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { zones, managed, free, metadata_bytes, bad_frees, .. } = self;
        write!(
            f,
            "{free} of {managed} frames free in {zones} zones, {metadata_bytes} bytes of metadata, {bad_frees} bad frees"
        )
    }
}
