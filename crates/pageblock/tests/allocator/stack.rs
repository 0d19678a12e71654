//! How deep calls go: boot stacks are small, and so are those of interrupt handlers.

use std::hint::black_box;
use std::mem::MaybeUninit;

use pageblock::{Config, Gfp, NodeId, Order, PageAllocator, Region, RegionKind};
use pageblock_testkit::host::Quiet;

/// Bytes that are painted: more than any call needs.
const PAINTED: usize = 256 << 10;
/// Bytes below the frame that paints and looks, for what it calls meanwhile. A call that needs less counts as that.
const GAP: usize = 1 << 10;
const PAINT: u8 = 0xa5;

/// Bytes of stack that a call needs: the stack below is painted before, and looked at after.
#[expect(unsafe_code, reason = "the rest of a thread's stack has no name")]
#[inline(never)]
fn depth_of(call: impl FnOnce()) -> usize {
    let local = MaybeUninit::<u64>::uninit();
    let top = std::ptr::from_ref(black_box(&local)).cast::<u8>().cast_mut();
    for below in GAP..PAINTED {
        // SAFETY: this thread's stack, which is larger, below every frame that is in use.
        unsafe { top.sub(below).write_volatile(PAINT) };
    }
    call();
    // SAFETY: as above.
    (GAP..PAINTED).rev().find(|below| unsafe { top.sub(*below).read_volatile() } != PAINT).unwrap_or(GAP)
}

/// Runs on a stack with room for what is painted.
fn on_a_large_stack<R: Send + 'static>(test: impl FnOnce() -> R + Send + 'static) -> R {
    std::thread::Builder::new().stack_size(8 * PAINTED).spawn(test).unwrap().join().unwrap()
}

fn storage(bytes: usize) -> &'static mut [MaybeUninit<u8>] {
    Box::leak(Box::new_uninit_slice(bytes))
}

/// Two nodes, all kinds of zones, and regions that overlap.
fn map() -> [Region; 6] {
    let second = NodeId::new(1);
    [
        Region::from((0, 0xa_0000, true)),
        Region::from((0x10_0000, 0xbff0_0000, true)),
        Region::reserved(0x10_0000..0x180_0000),
        Region::from((4 << 30, 1 << 30, true)),
        Region::from((5 << 30, 1 << 30, true)).with_node(second),
        Region::new(5_u64 << 30, 6_u64 << 30, RegionKind::Affinity).with_node(second),
    ]
}

#[test]
fn initialisation_needs_eight_kibibytes_of_stack() {
    let depth = on_a_large_stack(|| {
        static FRAMES: PageAllocator<Quiet> = PageAllocator::new();
        let config = Config::new().reserve_low(0x10_0000);
        let storage = storage(PageAllocator::<Quiet>::metadata_bytes(map(), &config).unwrap());
        let depth = depth_of(|| _ = black_box(FRAMES.init_simulated(map(), &config, storage)));
        assert_eq!(FRAMES.zones().len(), 4);
        depth
    });
    println!("init: {depth} bytes of stack");
    assert!(depth <= 8 << 10, "{depth} bytes");
}

#[test]
#[expect(unsafe_code, reason = "frees by number")]
fn other_calls_need_four_kibibytes_of_stack() {
    on_a_large_stack(|| {
        static FRAMES: PageAllocator<Quiet> = PageAllocator::new();
        let config = Config::new();
        let storage = storage(PageAllocator::<Quiet>::metadata_bytes(map(), &config).unwrap());
        FRAMES.init_simulated(map(), &config, storage).unwrap();
        let mut deepest: [(&str, usize); 5] = ["alloc", "free", "refused", "drain", "stats"].map(|name| (name, 0));
        let mut note = |call: usize, depth: usize| deepest[call].1 = deepest[call].1.max(depth);
        let orders = [0, 3, 9, 1, 10, 5, 0, 7].map(Order::saturating);
        let gfps = [Gfp::KERNEL, Gfp::HIGHUSER_MOVABLE, Gfp::ATOMIC];
        let mut held = Vec::with_capacity(1 << 20);
        for step in 0.. {
            let (order, gfp) = (orders[step % orders.len()], gfps[step % gfps.len()]);
            let mut taken = None;
            let mut allocation = || taken = FRAMES.alloc_order(order, gfp).ok().map(pageblock::Frames::into_raw);
            // Every call would take minutes.
            let sample = step < 200 || step % 397 == 0;
            let depth = if sample { depth_of(allocation) } else { (allocation(), GAP).1 };
            note(if taken.is_some() { 0 } else { 2 }, depth);
            match taken {
                Some(block) => held.push(block),
                None if order == Order::ZERO => break,
                None => {}
            }
        }
        for (step, block) in held.into_iter().enumerate() {
            // SAFETY: taken above, once.
            let free = || unsafe { FRAMES.free(block.pfn, block.order).unwrap() };
            note(1, if step % 397 < 5 { depth_of(free) } else { (free(), GAP).1 });
        }
        note(3, depth_of(|| _ = black_box(FRAMES.drain())));
        note(4, depth_of(|| _ = black_box(FRAMES.stats())));
        println!("{deepest:?}");
        assert!(deepest.iter().all(|(_, depth)| *depth <= 4 << 10), "{deepest:?}");
    });
}
