//! Times of a pair of allocation and free, ours beside the floors and those of others. `cargo bench --bench pair`.

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, criterion_group, criterion_main};

use pageblock_benches::allocators::{Bitmap, BuddySystem};
use pageblock_benches::floor::Floor;
use pageblock_benches::machine::Machine;
use pageblock_benches::{Frames, POOL, loops};
use pageblock_testkit::conformance::peers::{Depot, FrameAlloc, Summary};

fn pair<A: Frames, const ORDER: u8>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
    let mut allocator = A::new(POOL);
    group.bench_function(format!("{name}/order{ORDER}"), |bench| {
        bench.iter_custom(|pairs| {
            let start = std::time::Instant::now();
            loops::pairs::<A, ORDER>(&mut allocator, pairs);
            start.elapsed()
        });
    });
}

fn every_order<A: Frames>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
    pair::<A, 0>(group, name);
    pair::<A, 1>(group, name);
    pair::<A, 3>(group, name);
    pair::<A, 4>(group, name);
    pair::<A, 9>(group, name);
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one block allocated and freed, one thread, ns a pair");
    pair::<Floor<false>, 0>(&mut group, "floor");
    pair::<Floor<true>, 0>(&mut group, "floor-with-state");
    every_order::<Machine>(&mut group, "pageblock");
    every_order::<FrameAlloc<Summary>>(&mut group, "frame-alloc");
    every_order::<FrameAlloc<Depot>>(&mut group, "frame-alloc-depot");
    every_order::<BuddySystem>(&mut group, "buddy_system_allocator");
    every_order::<Bitmap>(&mut group, "bitmap-allocator");
}

criterion_group!(benches, pairs);
criterion_main!(benches);
