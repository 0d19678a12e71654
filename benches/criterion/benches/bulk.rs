//! Times of 262,144 single frames allocated one by one, and freed in order, in random order, or by another thread.
//! `cargo bench --bench bulk`.

use std::time::{Duration, Instant};

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::{Bitmap, BuddySystem};
use pageblock_benches::floor::Floor;
use pageblock_benches::machine::{Machine, become_cpu};
use pageblock_benches::two::{Locked, Other, PerCpuDepot, Shared};
use pageblock_benches::{POOL, loops};
use pageblock_testkit::conformance::peers::{FrameAlloc, Summary};

/// Repeats `pass`, which returns the time that counts.
fn repeat(passes: u64, mut pass: impl FnMut() -> Duration) -> Duration {
    (0..passes).map(|_| pass()).sum()
}

fn timed(action: impl FnOnce()) -> Duration {
    let start = Instant::now();
    action();
    start.elapsed()
}

fn bulk<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    become_cpu(0);
    let [mut ours, _] = S::handles();
    let mut frames = loops::frame_numbers(POOL);
    group.bench_function(format!("{}/alloc", S::NAME), |bench| {
        bench.iter_custom(|passes| {
            repeat(passes, || {
                let time = timed(|| loops::fill(&mut ours, &mut frames));
                loops::empty(&mut ours, &frames);
                time
            })
        });
    });
    for (name, random) in [("free in order", false), ("free in random order", true)] {
        group.bench_function(format!("{}/{name}", S::NAME), |bench| {
            bench.iter_custom(|passes| {
                repeat(passes, || {
                    loops::fill(&mut ours, &mut frames);
                    if random {
                        loops::shuffle(&mut frames);
                    }
                    timed(|| loops::empty(&mut ours, &frames))
                })
            });
        });
    }
}

/// One thread takes blocks, another gives all back: not for the floors, since their stacks hold everything and
/// would overflow.
fn by_another<S: Shared>(group: &mut BenchmarkGroup<'_, WallTime>) {
    become_cpu(0);
    let [mut ours, mut theirs] = S::handles();
    let mut frames = loops::frame_numbers(POOL);
    std::thread::scope(|scope| {
        let other = Other::start(scope, |frames: &mut Vec<u64>| loops::fill(&mut theirs, frames));
        group.bench_function(format!("{}/free by another thread", S::NAME), |bench| {
            bench.iter_custom(|passes| {
                repeat(passes, || {
                    frames = other.run(std::mem::take(&mut frames)).unwrap_or_default();
                    timed(|| loops::empty(&mut ours, &frames))
                })
            });
        });
        drop(other);
    });
}

fn bulks(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("262,144 frames one by one, one thread");
    group.throughput(Throughput::Elements(POOL)).sample_size(10);
    bulk::<Floor<true>>(&mut group);
    bulk::<Machine>(&mut group);
    bulk::<FrameAlloc<Summary>>(&mut group);
    bulk::<FrameAlloc<PerCpuDepot>>(&mut group);
    bulk::<Locked<BuddySystem>>(&mut group);
    bulk::<Locked<Bitmap>>(&mut group);
    by_another::<Machine>(&mut group);
    by_another::<FrameAlloc<Summary>>(&mut group);
    by_another::<FrameAlloc<PerCpuDepot>>(&mut group);
    by_another::<Locked<BuddySystem>>(&mut group);
    by_another::<Locked<Bitmap>>(&mut group);
}

criterion_group!(benches, bulks);
criterion_main!(benches);
