//! rCore's interface: `frame_alloc()` gives a tracker that frees its frame when it is dropped. A tracker is `Frames`.

use pageblock::{Frames, Gfp};

use crate::machine::{FRAMES, Machine};

/// A frame and the duty to free it.
pub type FrameTracker = Frames<'static, Machine>;

/// A zeroed frame, as rCore's are.
pub fn frame_alloc() -> Option<FrameTracker> {
    FRAMES.alloc(Gfp::KERNEL | Gfp::ZERO).ok()
}

/// So many frames, one after the other in memory, each with a handle of its own.
pub fn frame_alloc_more(num: usize) -> Option<Vec<FrameTracker>> {
    let order = pageblock::Order::fitting(num as u64)?;
    let block = FRAMES.request().order(order).zeroed().alloc().ok()?;
    if order == pageblock::Order::ZERO {
        return Some(vec![block]);
    }
    // Parts that are not taken are free again.
    Some(block.split(pageblock::Order::ZERO).ok()?.take(num).collect())
}

#[test]
fn trackers_free_their_frames() {
    let _cpu = crate::machine::boot();
    let before = FRAMES.stats();
    let one = frame_alloc().unwrap();
    let more = frame_alloc_more(5).unwrap();
    assert!(more.windows(2).all(|pair| pair[1].pfn() == pair[0].pfn().add(1)));
    assert_eq!(FRAMES.stats().free, before.free - 6);
    drop((one, more));
    assert_eq!((FRAMES.stats().free, FRAMES.stats().bad_frees), (before.free, before.bad_frees));
}
