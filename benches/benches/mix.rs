//! Times of the random mix at half occupancy, orders 0 to 3 at 80, 10, 5 and 5 %. `cargo bench --bench mix`.

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::{BuddySystem, OurZone};
use pageblock_benches::loops::{self, Mix};
use pageblock_benches::machine::Machine;
use pageblock_benches::{Frames, POOL};
use pageblock_testkit::conformance::peers::{Depot, FrameAlloc, Summary};

const STEPS: usize = 100_000;

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

fn mixes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("mix");
    group.throughput(Throughput::Elements(STEPS as u64)).sample_size(20);
    mix::<Machine>(&mut group, "pageblock");
    mix::<OurZone>(&mut group, "zone");
    mix::<FrameAlloc<Summary>>(&mut group, "frame-alloc");
    mix::<FrameAlloc<Depot>>(&mut group, "frame-alloc-depot");
    mix::<BuddySystem>(&mut group, "buddy_system_allocator");
}

criterion_group!(benches, mixes);
criterion_main!(benches);
