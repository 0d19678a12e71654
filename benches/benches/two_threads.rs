//! Times of one thread while another does the same on the same allocator. `cargo bench --bench two_threads`; the times of one
//! thread alone are those of the other benches, and `ratios` prints both side by side.

use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::{Bitmap, BuddySystem, OurZone};
use pageblock_benches::floor::Floor;
use pageblock_benches::loops::{self, Mix};
use pageblock_benches::machine::{Machine, become_cpu};
use pageblock_benches::two::{Locked, PerCpuDepot, Shared, beside};
use pageblock_benches::{Frames, POOL};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

const STEPS: usize = 50_000;

fn pair<S: Shared, const ORDER: u8>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let [mut ours, mut theirs] = S::handles();
    beside(
        move || loops::pairs_of::<_, ORDER>(&mut theirs, 10_000),
        |_| {
            group.bench_function(format!("{}/order{ORDER}", S::NAME), |bench| {
                bench.iter_custom(|pairs| {
                    let start = Instant::now();
                    loops::pairs_of::<_, ORDER>(&mut ours, pairs);
                    start.elapsed()
                });
            });
        },
    );
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two_threads/pair");
    pair::<Floor<true>, 0>(&mut group);
    pair::<Machine, 0>(&mut group);
    pair::<Machine, 1>(&mut group);
    pair::<Machine, 3>(&mut group);
    pair::<Machine, 9>(&mut group);
    pair::<OurZone, 0>(&mut group);
    pair::<OurZone, 9>(&mut group);
    pair::<FrameAlloc<Summary>, 0>(&mut group);
    pair::<FrameAlloc<Summary>, 9>(&mut group);
    pair::<FrameAlloc<PerCpuDepot>, 0>(&mut group);
    pair::<FrameAlloc<PerCpuDepot>, 9>(&mut group);
    pair::<Locked<BuddySystem>, 0>(&mut group);
    pair::<Locked<Bitmap>, 0>(&mut group);
}

/// A live set at half of a pool.
fn half<F: Frames>(frames: &mut F, seed: u64) -> (Mix, Vec<loops::Live>) {
    let mut mix = Mix::new(POOL, seed);
    let mut live = Vec::with_capacity(POOL as usize);
    loops::mix(frames, &mut live, &mix.fill());
    (mix, live)
}

fn mix<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    become_cpu(0);
    let [mut ours, mut theirs] = S::handles();
    let (mut mix, mut live) = half(&mut ours, 1);
    let (mut their_mix, mut their_live) = half(&mut theirs, 2);
    beside(
        move || loops::mix(&mut theirs, &mut their_live, &their_mix.steps(STEPS)),
        |_| {
            group.bench_function(S::NAME, |bench| {
                bench.iter_batched(
                    || mix.steps(STEPS),
                    |steps| loops::mix(&mut ours, &mut live, &steps),
                    criterion::BatchSize::PerIteration,
                );
            });
        },
    );
}

fn mixes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two_threads/mix");
    group.throughput(Throughput::Elements(STEPS as u64)).sample_size(20);
    mix::<Machine>(&mut group);
    mix::<OurZone>(&mut group);
    mix::<FrameAlloc<Summary>>(&mut group);
    mix::<FrameAlloc<PerCpuDepot>>(&mut group);
    mix::<Locked<BuddySystem>>(&mut group);
}

fn bulk<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let [mut ours, mut theirs] = S::handles();
    let (mut frames, mut others) = (loops::frame_numbers(), loops::frame_numbers());
    beside(
        move || {
            loops::fill_all(&mut theirs, &mut others);
            loops::empty_all(&mut theirs, &others);
        },
        |_| {
            group.bench_function(S::NAME, |bench| {
                bench.iter(|| {
                    loops::fill_all(&mut ours, &mut frames);
                    loops::empty_all(&mut ours, &frames);
                });
            });
        },
    );
}

fn bulks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("two_threads/bulk");
    group.throughput(Throughput::Elements(POOL)).sample_size(10);
    bulk::<Machine>(&mut group);
    bulk::<OurZone>(&mut group);
    bulk::<FrameAlloc<Summary>>(&mut group);
    bulk::<FrameAlloc<PerCpuDepot>>(&mut group);
    bulk::<Locked<BuddySystem>>(&mut group);
    bulk::<Locked<Bitmap>>(&mut group);
}

criterion_group!(benches, pairs, mixes, bulks);
criterion_main!(benches);
