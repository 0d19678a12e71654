//! Times of one thread while another does the same on the same allocator. `cargo bench --bench two_threads`; the times
//! of one thread alone are those of the other benches, and `ratios` prints both side by side.

use std::cell::RefCell;
use std::time::Instant;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::{Bitmap, BuddySystem};
use pageblock_benches::floor::Floor;
use pageblock_benches::loads::{Lifetimes, Load, Orders, Turns};
use pageblock_benches::loops;
use pageblock_benches::machine::{Machine, become_cpu};
use pageblock_benches::two::{Locked, PerCpuDepot, Shared, beside};
use pageblock_benches::{Frames, POOL};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

const STEPS: usize = 50_000;

fn pair<S: Shared, const ORDER: u8>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let [mut ours, mut theirs] = S::handles();
    beside(
        move || loops::pairs::<_, ORDER>(&mut theirs, 10_000),
        |_| {
            group.bench_function(format!("{}/order{ORDER}", S::NAME), |bench| {
                bench.iter_custom(|pairs| {
                    let start = Instant::now();
                    loops::pairs::<_, ORDER>(&mut ours, pairs);
                    start.elapsed()
                });
            });
        },
    );
}

fn pairs(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("one block allocated and freed beside a second thread");
    pair::<Floor<true>, 0>(&mut group);
    pair::<Machine, 0>(&mut group);
    pair::<Machine, 1>(&mut group);
    pair::<Machine, 3>(&mut group);
    pair::<Machine, 9>(&mut group);
    pair::<FrameAlloc<Summary>, 0>(&mut group);
    pair::<FrameAlloc<Summary>, 9>(&mut group);
    pair::<FrameAlloc<PerCpuDepot>, 0>(&mut group);
    pair::<FrameAlloc<PerCpuDepot>, 9>(&mut group);
    pair::<Locked<BuddySystem>, 0>(&mut group);
    pair::<Locked<Bitmap>, 0>(&mut group);
}

/// A handle and a load that holds half of a pool.
fn half<F: Frames>(frames: &mut F) -> Load {
    let mut load = Load::new(Orders::Small, Lifetimes::Random, POOL, 50);
    load.fill(frames, Turns::ONE);
    load
}

fn mix<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    become_cpu(0);
    let [mut ours, mut theirs] = S::handles();
    let load = RefCell::new(half(&mut ours));
    let mut their_load = half(&mut theirs);
    beside(
        move || {
            let steps = their_load.steps(STEPS);
            their_load.run(&mut theirs, &steps);
        },
        |_| {
            group.bench_function(S::NAME, |bench| {
                bench.iter_batched(
                    || load.borrow_mut().steps(STEPS),
                    |steps| load.borrow_mut().run(&mut ours, &steps),
                    criterion::BatchSize::PerIteration,
                );
            });
        },
    );
}

fn mixes(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("random orders 0 to 3, half occupied, beside a second thread");
    group.throughput(Throughput::Elements(STEPS as u64)).sample_size(20);
    mix::<Machine>(&mut group);
    mix::<FrameAlloc<Summary>>(&mut group);
    mix::<FrameAlloc<PerCpuDepot>>(&mut group);
    mix::<Locked<BuddySystem>>(&mut group);
}

fn bulk<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    let [mut ours, mut theirs] = S::handles();
    let (mut frames, mut others) = (loops::frame_numbers(POOL), loops::frame_numbers(POOL));
    beside(
        move || {
            loops::fill(&mut theirs, &mut others);
            loops::empty(&mut theirs, &others);
        },
        |_| {
            group.bench_function(S::NAME, |bench| {
                bench.iter(|| {
                    loops::fill(&mut ours, &mut frames);
                    loops::empty(&mut ours, &frames);
                });
            });
        },
    );
}

fn bulks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("262,144 frames one by one beside a second thread");
    group.throughput(Throughput::Elements(POOL)).sample_size(10);
    bulk::<Machine>(&mut group);
    bulk::<FrameAlloc<Summary>>(&mut group);
    bulk::<FrameAlloc<PerCpuDepot>>(&mut group);
    bulk::<Locked<BuddySystem>>(&mut group);
    bulk::<Locked<Bitmap>>(&mut group);
}

criterion_group!(benches, pairs, mixes, bulks);
criterion_main!(benches);
