//! Times of the random mix at half occupancy, orders 0 to 3 at 80, 10, 5 and 5 %. `cargo bench --bench mix`.

use std::cell::RefCell;

use criterion::measurement::WallTime;
use criterion::{BatchSize, BenchmarkGroup, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_benches::allocators::BuddySystem;
use pageblock_benches::loads::{Lifetimes, Load, Orders, Turns};
use pageblock_benches::machine::Machine;
use pageblock_benches::{Frames, POOL};
use pageblock_testkit::conformance::peers::{Depot, FrameAlloc, Summary};

const STEPS: usize = 100_000;

fn mix<A: Frames>(group: &mut BenchmarkGroup<'_, WallTime>, name: &str, orders: Orders) {
    let mut allocator = A::new(POOL);
    let mut load = Load::new(orders, Lifetimes::Random, POOL, 50);
    load.fill(&mut allocator, Turns::ONE);
    let load = RefCell::new(load);
    group.bench_function(name, |bench| {
        bench.iter_batched(
            || load.borrow_mut().steps(STEPS),
            |steps| load.borrow_mut().run(&mut allocator, &steps),
            BatchSize::PerIteration,
        );
    });
}

fn mixes(criterion: &mut Criterion) {
    let loads = [("random orders 0 to 3", Orders::Small), ("random large folios", Orders::Folios)];
    for (name, orders) in loads {
        let mut group = criterion.benchmark_group(format!("{name}, half occupied"));
        group.throughput(Throughput::Elements(STEPS as u64)).sample_size(20);
        mix::<Machine>(&mut group, "pageblock", orders);
        mix::<FrameAlloc<Summary>>(&mut group, "frame-alloc", orders);
        mix::<FrameAlloc<Depot>>(&mut group, "frame-alloc-depot", orders);
        mix::<BuddySystem>(&mut group, "buddy_system_allocator", orders);
    }
}

criterion_group!(benches, mixes);
criterion_main!(benches);
