//! What frees and releases frames by number, without a promise: where no memory is behind the frames, a wrong number is
//! a fault of the test and nothing more.

#![expect(unsafe_code, reason = "promises about memory, where there is none")]

use pageblock_buddy::{FreeError, SplitError, Zone, ZoneError};
use pageblock_frame::{Order, Pfn, PfnRange, Platform, StateByte};
use pageblock_pcp::PcpLists;

/// Does not compile for a platform with memory.
const fn no_memory<P: Platform>() {
    const { assert!(!P::HAS_MEMORY, "frames with memory have owners") };
}

/// A zone whose platform has no memory.
///
/// # Errors
/// Those of the method that each is named for.
#[expect(clippy::missing_errors_doc, reason = "said above")]
pub trait SimulatedZone {
    /// [`Zone::release`].
    fn release_simulated<P: Platform>(&self, range: PfnRange) -> Result<u64, ZoneError>;
    /// [`Zone::free`].
    fn free_simulated<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError>;
    /// [`Zone::free_range`].
    fn free_range_simulated<P: Platform>(&self, range: PfnRange) -> Result<(), FreeError>;
    /// [`Zone::free_bulk`].
    fn free_bulk_simulated<P: Platform>(&self, order: Order, blocks: &[u32]) -> usize;
    /// Makes a held frame's block one of another type or order.
    fn set_state_simulated<P: Platform>(&self, pfn: Pfn, state: StateByte);
    /// [`Zone::split`].
    fn split_simulated<P: Platform>(&self, pfn: Pfn, order: Order, parts: Order) -> Result<(), SplitError>;
}

impl SimulatedZone for Zone<'_> {
    fn release_simulated<P: Platform>(&self, range: PfnRange) -> Result<u64, ZoneError> {
        no_memory::<P>();
        // SAFETY: there is no memory that anything could use.
        unsafe { self.release(range) }
    }

    fn free_simulated<P: Platform>(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        no_memory::<P>();
        // SAFETY: as above.
        unsafe { self.free::<P>(pfn, order) }
    }

    fn free_range_simulated<P: Platform>(&self, range: PfnRange) -> Result<(), FreeError> {
        no_memory::<P>();
        // SAFETY: as above.
        unsafe { self.free_range::<P>(range) }
    }

    fn free_bulk_simulated<P: Platform>(&self, order: Order, blocks: &[u32]) -> usize {
        no_memory::<P>();
        // SAFETY: as above.
        unsafe { self.free_bulk::<P>(order, blocks) }
    }

    fn set_state_simulated<P: Platform>(&self, pfn: Pfn, state: StateByte) {
        no_memory::<P>();
        if let Some(index) = self.index_of(pfn) {
            // SAFETY: as above.
            unsafe { self.state_table() }.set(index, state);
        }
    }

    fn split_simulated<P: Platform>(&self, pfn: Pfn, order: Order, parts: Order) -> Result<(), SplitError> {
        no_memory::<P>();
        // SAFETY: as above.
        unsafe { self.split::<P>(pfn, order, parts) }
    }
}

/// Per-CPU lists whose platform has no memory.
pub trait SimulatedLists {
    /// [`PcpLists::free`].
    ///
    /// # Errors
    /// As that.
    fn free_simulated(&self, pfn: Pfn, order: Order) -> Result<(), FreeError>;
}

impl<P: Platform> SimulatedLists for PcpLists<'_, P> {
    #[inline(always)]
    fn free_simulated(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        no_memory::<P>();
        // SAFETY: there is no memory that anything could use.
        unsafe { self.free(pfn, order) }
    }
}
