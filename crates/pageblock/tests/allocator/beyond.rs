//! What a kernel asks for beside blocks: sets of blocks, runs of pageblocks, promises, shared frames.

use std::thread;

use pageblock::{
    AllocError, Config, FrameTable, Gfp, NodeId, Order, PageAllocator, RawFrames, RefCount, Region, SharedFrames,
    ZoneLimits,
};

use crate::machine::{ALL_OF_IT, Booted, GIB, MIB, boot, memory};

fn counts_of<P: pageblock::Platform>(frames: &PageAllocator<P>) -> FrameTable<RefCount> {
    let storage = vec![core::mem::MaybeUninit::uninit(); FrameTable::<RefCount>::bytes(frames.span())].leak();
    FrameTable::in_storage(frames.span(), storage, |_| RefCount::new()).unwrap()
}

fn all_free<P: pageblock::Platform>(frames: &Booted<P>) {
    let stats = frames.stats();
    assert_eq!((stats.free, stats.bad_frees, frames.committed()), (stats.managed, 0, 0));
    frames.check().unwrap();
}

#[test]
fn a_set_is_all_or_nothing() {
    let frames = boot(&memory(32 * MIB), &ALL_OF_IT);
    let managed = frames.stats().managed;
    let mut buffer = [RawFrames::EMPTY; 2000];
    // Every second frame of a part of memory: the set must be put together from small pieces.
    let mut singles: Vec<_> = (0..2000).map(|_| frames.alloc(Gfp::KERNEL).unwrap()).collect();
    let mut keep = false;
    singles.retain(|_| {
        keep = !keep;
        keep
    });
    let free = managed - singles.len() as u64;
    assert_eq!(frames.alloc_many(free + 1, Gfp::KERNEL, &mut buffer).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(frames.alloc_many(free - 8, Gfp::KERNEL, &mut buffer[..20]).unwrap_err(), AllocError::TooManyBlocks);
    assert_eq!(frames.alloc_many(0, Gfp::KERNEL, &mut buffer).unwrap_err(), AllocError::Empty);
    assert_eq!(frames.stats().free, free);
    let set = frames.alloc_many(free - 8, Gfp::KERNEL, &mut buffer).unwrap();
    assert_eq!(set.frames(), free - 8);
    assert!(set.blocks().is_sorted_by(|a, b| a.order >= b.order));
    assert_eq!(frames.stats().free, 8);
    for block in set.into_raw() {
        // SAFETY: the set gave the block up, and this is its only handle.
        drop(unsafe { pageblock::Frames::from_raw(&frames, *block) });
    }
    drop(singles);
    all_free(&frames);
}

#[test]
fn a_gigabyte_is_one_run() {
    let config = ALL_OF_IT.zones(ZoneLimits::single());
    let frames = boot(&memory(3 * GIB), &config);
    let low = frames.alloc(Gfp::KERNEL).unwrap();
    let mut order = Order::ZERO.frames();
    let mut runs = Vec::new();
    for wanted in [1u64 << 18, 1 << 18, 70_000, 513] {
        let run = frames.request().contiguous(wanted).unwrap();
        assert_eq!(run.pfns().len(), wanted);
        if wanted.is_power_of_two() {
            assert_eq!(run.pfns().start.as_u64() % wanted, 0);
        }
        order = order.max(wanted);
        runs.push(run);
    }
    let held: u64 = runs.iter().map(|run| run.pfns().len()).sum();
    assert_eq!(frames.stats().free, frames.stats().managed - held - 1);
    assert_eq!(frames.request().contiguous(1 << 18).unwrap_err(), AllocError::OutOfMemory);
    drop((runs, low));
    all_free(&frames);
}

#[test]
fn promised_frames_are_left_alone_by_all_cpus() {
    const PROMISED: u64 = 3000;
    let frames = boot(&memory(64 * MIB), &Config::new());
    let mut promise = frames.commit(PROMISED, Gfp::HIGHUSER_MOVABLE).unwrap();
    assert_eq!(frames.committed(), PROMISED);
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                // One more than may be had, in every way in which a kernel asks.
                let mut hoard = Vec::new();
                for gfp in [Gfp::KERNEL, Gfp::ATOMIC, Gfp::KERNEL | Gfp::MEMALLOC] {
                    for order in [4, 0] {
                        while let Ok(block) = frames.alloc_order(Order::new(order).unwrap(), gfp) {
                            hoard.push(block.into_raw());
                        }
                    }
                }
                hoard
            });
        }
    });
    let taken: Vec<_> = core::iter::from_fn(|| promise.alloc()).collect();
    assert_eq!((taken.len() as u64, promise.left(), frames.committed()), (PROMISED, 0, 0));
    frames.check().unwrap();
}

#[test]
fn a_promise_counts_until_it_is_dropped() {
    let frames = boot(&memory(64 * MIB), &Config::new());
    let most = |frames: &Booted| (1..).map(|n| n * 256).take_while(|n| frames.commit(*n, Gfp::KERNEL).is_ok()).last();
    let before = most(&frames);
    // The margin for refills is 64 frames a CPU, of which this machine has 64.
    assert!(before > Some(7_000), "{before:?} of {}", frames.stats().managed);
    let first = frames.commit(6_000, Gfp::KERNEL).unwrap();
    assert!(most(&frames) < before.map(|frames| frames - 5_000));
    assert_eq!(frames.commit(u64::MAX, Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    drop(first);
    assert_eq!(most(&frames), before);
    all_free(&frames);
}

/// Each promise is of the zones that made it: one that is given up leaves those of others where they are.
#[test]
fn a_promise_is_given_up_in_its_own_zones() {
    let map = [Region::usable(0..64 * MIB), Region::usable(64 * MIB..128 * MIB).with_node(NodeId::new(1))];
    let frames = boot(&map, &Config::new());
    let first = frames.commit(6_000, Gfp::USER | Gfp::THISNODE).unwrap();
    let spilling = frames.commit(6_000, Gfp::USER).unwrap();
    assert!(frames.commit(5_000, Gfp::USER | Gfp::THISNODE).is_err());
    drop(first);
    let again = frames.commit(5_000, Gfp::USER | Gfp::THISNODE).unwrap();
    assert_eq!(frames.committed(), 11_000);
    drop((spilling, again));
    assert_eq!(frames.committed(), 0);
}

#[test]
fn the_last_owner_frees_whoever_it_is() {
    let frames = boot(&memory(16 * MIB), &Config::new());
    let counts = counts_of(&frames);
    for _ in 0..200 {
        let shared = SharedFrames::new(frames.alloc(Gfp::USER).unwrap(), &counts).unwrap();
        thread::scope(|scope| {
            for _ in 0..3 {
                let own = shared.clone();
                scope.spawn(move || drop(own.clone()));
            }
            drop(shared);
        });
    }
    all_free(&frames);
}

#[test]
fn one_count_stands_for_one_block() {
    let (frames, other) = (boot(&memory(16 * MIB), &Config::new()), boot(&memory(16 * MIB), &Config::new()));
    let counts = counts_of(&frames);
    let shared = SharedFrames::new(frames.alloc(Gfp::USER).unwrap(), &counts).unwrap();
    let same = other.alloc_at(shared.pfn(), Order::ZERO).unwrap();
    let refused = SharedFrames::new(same, &counts).unwrap_err();
    assert_eq!(refused.pfn(), shared.pfn());
    // SAFETY: the handle is given up here, once.
    let again = unsafe { SharedFrames::from_raw(&frames, shared.clone().into_raw(), &counts) }.unwrap();
    assert_eq!((shared.owners(), again.owners()), (2, 2));
    let shared = shared.into_unique().unwrap_err();
    drop(again);
    drop(shared.into_unique().unwrap());
    drop(refused);
    all_free(&frames);
    all_free(&other);
}

/// One zone, two CPUs: a promise keeps the high watermark and a margin of 64 frames a CPU, and each further promise
/// keeps the ones before it with a margin of their own.
#[test]
fn promises_end_exactly_where_margins_begin() {
    let config = Config::new().zones(ZoneLimits::single()).cpus(2);
    let frames = boot(&memory(64 * MIB), &config);
    let zone = frames.zones().next().unwrap();
    let spare = zone.free_frames() - zone.watermarks().high - 128;
    assert_eq!(frames.commit(spare + 1, Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!((frames.committed(), frames.commit(spare, Gfp::KERNEL).unwrap().left()), (0, spare));
    let first = frames.commit(1000, Gfp::KERNEL).unwrap();
    let rest = spare - 1000 - 128;
    assert_eq!(frames.commit(rest + 1, Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    let second = frames.commit(rest, Gfp::KERNEL).unwrap();
    assert_eq!((first.left() + second.left(), frames.committed()), (1000 + rest, 1000 + rest));
}

#[test]
fn a_promise_over_two_zones_takes_from_each_what_it_promised() {
    let frames = boot(&memory(32 * MIB), &Config::new().cpus(1).lowmem_reserve_ratio([0; 4]));
    let before: Vec<u64> = frames.zones().map(|zone| zone.free_frames()).collect();
    let promised = 6500;
    let mut promise = frames.commit(promised, Gfp::KERNEL).unwrap();
    let held: Vec<_> = core::iter::from_fn(|| promise.alloc()).collect();
    assert_eq!((held.len() as u64, promise.left(), frames.committed()), (promised, 0, 0));
    frames.drain();
    for (zone, before) in frames.zones().zip(before).filter(|(_, before)| *before > 0) {
        let given = before - zone.free_frames();
        assert!(given > 0 && zone.free_frames() >= zone.watermarks().high, "{zone:?} gave {given}");
    }
}

#[test]
fn a_run_leaves_pageblocks_alone_that_are_isolated() {
    let frames = boot(&memory(64 * MIB), &Config::new().zones(ZoneLimits::single()));
    let zone = crate::machine::zone(&frames, 0, pageblock::ZoneKind::Normal);
    for block in (1..32).step_by(2) {
        zone.isolate_block::<crate::machine::Machine>(pageblock::Pfn::new(block * 512)).unwrap();
    }
    let free = frames.stats().free;
    assert_eq!(frames.alloc_exact(1200, Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!((frames.stats().free, frames.check()), (free, Ok(())));
    zone.unisolate_block::<crate::machine::Machine>(pageblock::Pfn::new(5 * 512)).unwrap();
    assert_eq!(frames.alloc_exact(1200, Gfp::KERNEL).unwrap().pfns().start.as_u64(), 4 * 512);
}
