//! Wrong frees and wrong requests: each named, none changing anything.

use pageblock::{
    AllocError, Config, FrameTable, FreeError, Gfp, NodeId, Order, PageAllocator, Pfn, PfnRange, Region, RegionKind,
};
use pageblock_buddy::AllocAtError;
use pageblock_frame::GfpError;

use crate::machine::{MIB, Machine, boot, memory, order};

/// The state that a refused call must leave alone.
fn picture(frames: &PageAllocator<Machine>) -> (u64, String) {
    frames.check().unwrap();
    (frames.stats().free, frames.pagetypeinfo().to_string())
}

#[test]
fn every_wrong_free_is_named_and_changes_nothing() {
    let map = [
        Region::new(0u64, 32 * MIB, RegionKind::Usable),
        Region::new(48 * MIB, 64 * MIB, RegionKind::Usable),
        Region::new(8 * MIB, 9 * MIB, RegionKind::Reserved),
    ];
    let frames = boot(&map, &Config::new());
    let raw = frames.alloc_order(order(3), Gfp::KERNEL).unwrap().into_raw();
    let (block, three) = (raw.pfn, raw.order);
    let freed = frames.alloc(Gfp::KERNEL).unwrap().into_raw().pfn;
    // SAFETY: hosted frames have nothing behind them.
    let free = |pfn, order| unsafe { frames.free(pfn, order) };
    free(freed, Order::ZERO).unwrap();
    let before = picture(&frames);
    let cases = [
        (freed, Order::ZERO, FreeError::OnList),
        (Pfn::new(1 << 30), Order::ZERO, FreeError::OutOfRange),
        (Pfn::new(u64::MAX), Order::LIMIT, FreeError::OutOfRange),
        (block, order(2), FreeError::OrderMismatch { allocated: three }),
        (block, order(4), FreeError::OrderMismatch { allocated: three }),
        (block.add(1), Order::ZERO, FreeError::NotHead { head: block }),
        (block.add(4), order(2), FreeError::NotHead { head: block }),
        (Pfn::new(8 << 8), Order::ZERO, FreeError::Reserved),
        (Pfn::new(40 << 8), Order::ZERO, FreeError::Reserved),
    ];
    for (i, (pfn, order, expected)) in cases.into_iter().enumerate() {
        assert_eq!(free(pfn, order), Err(expected), "{pfn} {order}");
        assert_eq!(picture(&frames), before);
        assert_eq!(frames.stats().bad_frees, i as u64 + 1);
    }
    let range = PfnRange::new(block.add(7), block.add(9));
    // SAFETY: as above.
    assert_eq!(unsafe { frames.free_range(range) }, Err(FreeError::OnList));
    assert_eq!(picture(&frames), before);
    free(block, three).unwrap();
    assert_eq!(frames.stats().free, frames.stats().managed);
}

#[test]
fn a_handle_whose_frames_somebody_else_freed_is_counted_not_freed() {
    let frames = boot(&memory(32 * MIB), &Config::new());
    let handle = frames.alloc(Gfp::KERNEL).unwrap();
    // SAFETY: hosted frames have nothing behind them.
    unsafe { frames.free(handle.pfn(), handle.order()) }.unwrap();
    let before = picture(&frames);
    drop(handle);
    assert_eq!(picture(&frames), before);
    assert_eq!(frames.stats().bad_frees, 1);
}

#[test]
fn wrong_requests_are_named_and_change_nothing() {
    let frames = boot(&memory(32 * MIB), &Config::new());
    let before = picture(&frames);
    let alloc = |order, gfp| frames.alloc_order(order, gfp).map(drop).unwrap_err();
    assert_eq!(alloc(order(11), Gfp::KERNEL), AllocError::OrderTooLarge { largest: Order::MAX });
    assert_eq!(alloc(order(0), Gfp::DMA | Gfp::DMA32), GfpError::ZoneBits.into());
    assert_eq!(alloc(order(0), Gfp::MOVABLE | Gfp::RECLAIMABLE), GfpError::Mobility.into());
    assert_eq!(frames.alloc_exact(0, Gfp::KERNEL).unwrap_err(), AllocError::Empty);
    assert_eq!(
        frames.alloc_exact(1 << 40, Gfp::KERNEL).unwrap_err(),
        AllocError::OutOfMemory,
        "a run may be that large"
    );
    let node = NodeId::new(1);
    assert_eq!(frames.alloc_on(node, Order::ZERO, Gfp::KERNEL).unwrap_err(), AllocError::NoSuchNode(node));
    assert_eq!(frames.alloc_bulk(Gfp::KERNEL, &mut []), Ok(0));
    assert_eq!(picture(&frames), before);
}

#[test]
fn a_place_is_given_once() {
    let frames = boot(&memory(32 * MIB), &Config::new());
    let at = |pfn, log2| frames.alloc_at(Pfn::new(pfn), order(log2));
    assert_eq!(at(0x1001, 1).unwrap_err(), AllocAtError::Misaligned.into());
    assert_eq!(at(1 << 20, 0).unwrap_err(), AllocAtError::OutOfRange.into());
    let held = at(0x1000, 4).unwrap();
    assert_eq!(held.pfns(), PfnRange::new(Pfn::new(0x1000), Pfn::new(0x1010)));
    assert_eq!(at(0x1008, 3).unwrap_err(), AllocAtError::Busy.into());
    drop(held);
    drop(at(0x1008, 3).unwrap());
    frames.check().unwrap();
    assert_eq!(frames.stats().free, frames.stats().managed);
}

#[test]
fn blocks_can_be_split_and_given_back_in_pieces() {
    let frames = boot(&memory(32 * MIB), &Config::new());
    let managed = frames.stats().managed;
    let block = frames.alloc_order(order(9), Gfp::USER).unwrap();
    let block = block.split(order(9)).unwrap_err();
    let mut parts = block.split(order(7)).unwrap();
    let kept = parts.nth(1).unwrap();
    assert_eq!(parts.len(), 2);
    drop(parts);
    assert_eq!(frames.stats().free, managed - 128);
    let first = kept.pfn();
    let _ = kept.into_raw();
    // SAFETY: hosted frames have nothing behind them.
    unsafe {
        frames.free_range(PfnRange::new(first.add(3), first.add(100))).unwrap();
        assert_eq!(frames.stats().free, managed - 128 + 97);
        frames.check().unwrap();
        frames.free_range(PfnRange::new(first, first.add(3))).unwrap();
        frames.free_range(PfnRange::new(first.add(100), first.add(128))).unwrap();
    }
    let run = frames.alloc_exact(700, Gfp::KERNEL).unwrap();
    assert_eq!((run.pfns().len(), frames.stats().free), (700, managed - 700));
    assert!(run.pfns().start.is_aligned(order(10)));
    drop(run);
    assert_eq!((frames.stats().free, frames.stats().bad_frees), (managed, 0));
    frames.check().unwrap();
}

#[test]
fn a_block_that_is_used_up_is_no_bad_free() {
    let frames = boot(&memory(16 * MIB), &Config::new());
    let end = frames.zones().next().unwrap().span().end;
    // SAFETY: hosted frames have nothing behind them, and there are none in an empty range.
    assert_eq!(unsafe { frames.free_range(PfnRange::new(end, end)) }, Ok(()));
    let held: Vec<_> = std::iter::from_fn(|| frames.alloc_exact(512, Gfp::KERNEL | Gfp::MEMALLOC).ok()).collect();
    assert!(held.iter().any(|run| run.pfns().end == end), "the last block of memory is among them");
    assert_eq!(frames.stats().bad_frees, 0);
}

#[test]
fn more_frames_than_there_are_numbers_are_refused() {
    let frames = boot(&memory(16 * MIB), &Config::new());
    let before = picture(&frames);
    for number in [u64::MAX, u64::MAX - 5, 1 << 63, (1 << 63) + 1, 1 << 40, 4097] {
        for gfp in [Gfp::KERNEL, Gfp::ATOMIC, Gfp::KERNEL | Gfp::MEMALLOC, Gfp::USER] {
            assert_eq!(frames.alloc_exact(number, gfp).unwrap_err(), AllocError::OutOfMemory);
            assert_eq!(frames.commit(number, gfp).unwrap_err(), AllocError::OutOfMemory);
            frames.request().gfp(gfp).align(Order::HUGE).below(number).contiguous(number).unwrap_err();
        }
        let most = PfnRange::new(Pfn::new(number.wrapping_neg()), Pfn::new(u64::MAX));
        assert!(FrameTable::<[u64; 8]>::bytes(most) as u64 >= most.len().saturating_mul(64));
    }
    let all = PfnRange::new(Pfn::new(0), Pfn::new(u64::MAX));
    assert_eq!(FrameTable::<u64>::bytes(all), usize::MAX);
    assert!(FrameTable::<u64>::in_storage(all, Default::default(), |_| 0).is_none());
    assert_eq!(picture(&frames), before);
}
