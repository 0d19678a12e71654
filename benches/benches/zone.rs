//! Times of the zone's loops beside those of other allocators. `cargo bench --bench zone`.

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::{Bitmap, BuddySystem, OurZone};
use pageblock_benches::loops::{self, Mix};
use pageblock_benches::{Frames, POOL};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

const STEPS: usize = 100_000;

fn pair<A: Frames>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
    for order in [0, 1, 3, 9] {
        let mut allocator = A::new(POOL);
        group.bench_function(format!("{name}/order{order}"), |bench| {
            bench.iter(|| loops::pairs(&mut allocator, order, 1));
        });
    }
}

fn mix<A: Frames>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str) {
    let mut allocator = A::new(POOL);
    let mut mix = Mix::new(POOL, 1);
    let mut live = Vec::with_capacity(POOL as usize);
    loops::mix(&mut allocator, &mut live, &mix.fill());
    group.bench_function(name, |bench| {
        bench.iter_batched(
            || mix.steps(STEPS),
            |steps| loops::mix(&mut allocator, &mut live, &steps),
            BatchSize::PerIteration,
        );
    });
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("pair");
    pair::<OurZone>(&mut group, "zone");
    pair::<FrameAlloc<Summary>>(&mut group, "frame-alloc");
    pair::<BuddySystem>(&mut group, "buddy_system_allocator");
    pair::<Bitmap>(&mut group, "bitmap-allocator");
}

fn mixes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mix");
    group.throughput(Throughput::Elements(STEPS as u64)).sample_size(20);
    mix::<OurZone>(&mut group, "zone");
    mix::<FrameAlloc<Summary>>(&mut group, "frame-alloc");
    mix::<BuddySystem>(&mut group, "buddy_system_allocator");
}

fn bulks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("bulk");
    group.throughput(Throughput::Elements(POOL)).sample_size(20);
    let mut zone = OurZone::new(POOL);
    let mut frames = loops::frame_buffer();
    group.bench_function("zone", |bench| bench.iter(|| loops::bulk(&mut zone, &mut frames)));
}

criterion_group!(benches, pairs, mixes, bulks);
criterion_main!(benches);
