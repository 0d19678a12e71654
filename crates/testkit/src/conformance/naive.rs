//! The slow allocator that passes every point.

use std::collections::BTreeMap;

use super::Candidate;

/// One flag a frame and a map of live blocks: first fit, nothing derived, nothing clever.
///
/// ```
/// use pageblock_testkit::conformance::{Candidate, Naive};
/// let mut naive = Naive::new(64);
/// assert_eq!((naive.alloc(0), naive.alloc(2)), (Some(0), Some(4)));
/// assert_eq!(naive.free(5, 0), Err("NotHead".into()));
/// assert_eq!(naive.free_frames(), Some(59));
/// ```
#[derive(Clone, Debug)]
pub struct Naive {
    free: Vec<bool>,
    live: BTreeMap<u64, u8>,
}

impl Naive {
    fn set(&mut self, pfn: u64, order: u8, free: bool) {
        self.free[pfn as usize..pfn as usize + (1 << order)].fill(free);
    }
}

impl Candidate for Naive {
    const NAME: &'static str = "naive";

    fn new(frames: u64) -> Self {
        Self { free: vec![true; frames as usize], live: BTreeMap::new() }
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        if order > Self::MAX_ORDER {
            return None;
        }
        let place = self.free.chunks_exact(1 << order).position(|block| block.iter().all(|&free| free))?;
        let pfn = (place as u64) << order;
        self.set(pfn, order, false);
        self.live.insert(pfn, order);
        Some(pfn)
    }

    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String> {
        match self.live.get(&pfn) {
            Some(&allocated) if allocated == order => {
                self.live.remove(&pfn);
                self.set(pfn, order, true);
                Ok(())
            }
            Some(_) => Err("OrderMismatch".into()),
            None => Err(match self.free.get(pfn as usize) {
                None => "OutOfRange",
                Some(true) => "NotAllocated",
                Some(false) => "NotHead",
            }
            .into()),
        }
    }

    fn alloc_frames(&mut self, frames: u64) -> Option<Option<u64>> {
        let order = frames.checked_sub(1).map(|last| (u64::BITS - last.leading_zeros()) as u8);
        Some(order.and_then(|order| self.alloc(order)))
    }

    fn free_frames(&self) -> Option<u64> {
        Some(self.free.iter().filter(|&&free| free).count() as u64)
    }
}
