//! Measure your own workload: replace the bodies of `by_handle` and `by_number`. `cargo bench --bench own`, with peers
//! `cargo bench --bench own --features pageblock-criterion/peers`.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};

use pageblock::hosted::{self, Hosted};
use pageblock::{Config, Gfp, Order, PageAllocator};

/// What is measured: 16 large folios that live together.
const BLOCKS: usize = 16;
const ORDER: u8 = 4;
const MEMORY: usize = 1 << 30;

/// By handles, which free themselves.
fn by_handle<const CPU_WORD: bool>(frames: &'static PageAllocator<Hosted<CPU_WORD>>) {
    let order = Order::saturating(ORDER);
    let folios: [_; BLOCKS] = core::array::from_fn(|_| frames.alloc_order(order, Gfp::HIGHUSER_MOVABLE));
    drop(folios);
}

/// By number, as what a page table keeps, and what every allocator has.
fn by_number(mut alloc: impl FnMut(u8) -> Option<u64>, mut free: impl FnMut(u64, u8)) {
    let blocks: [_; BLOCKS] = core::array::from_fn(|_| alloc(ORDER));
    blocks.into_iter().flatten().for_each(|block| free(block, ORDER));
}

fn ours<const CPU_WORD: bool>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
    let frames = match hosted::boot_with::<CPU_WORD>(MEMORY, &Config::new().cpus(2)) {
        Ok(frames) => frames,
        Err(error) => panic!("{error}"),
    };
    group.bench_function(format!("pageblock, {name}, by handle"), |bench| bench.iter(|| by_handle(frames)));
    let alloc = |order| {
        let frames = frames.alloc_order(Order::saturating(order), Gfp::HIGHUSER_MOVABLE).ok()?;
        Some(frames.into_raw().pfn.as_u64())
    };
    let free = |pfn, order| {
        // SAFETY: the loop allocated the block, and uses it no more.
        let freed = unsafe { frames.free(pageblock::Pfn::new(pfn), Order::saturating(order)) };
        assert_eq!(freed, Ok(()));
    };
    group.bench_function(format!("pageblock, {name}, by number"), |bench| {
        bench.iter(|| by_number(alloc, free));
    });
}

#[cfg(feature = "peers")]
fn peer<A: pageblock_testkit::conformance::Candidate>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let allocator = core::cell::RefCell::new(A::new(MEMORY as u64 >> 12));
    group.bench_function(format!("{}, by number", A::NAME), |bench| {
        bench.iter(|| {
            let free = |block, order| assert_eq!(allocator.borrow_mut().free(block, order), Ok(()));
            by_number(|order| allocator.borrow_mut().alloc(order), free);
        });
    });
}

fn own(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("your own workload: 16 folios of 64 KiB, 1 GiB, one CPU");
    ours::<true>(&mut group, "CPU word");
    ours::<false>(&mut group, "no CPU word");
    #[cfg(feature = "peers")]
    {
        use pageblock_testkit::conformance::peers::{BuddySystem, Depot, FrameAlloc, Summary};
        peer::<FrameAlloc<Summary>>(&mut group);
        peer::<FrameAlloc<Depot>>(&mut group);
        peer::<BuddySystem>(&mut group);
    }
    group.finish();
}

criterion_group!(benches, own);
criterion_main!(benches);
