//! Measure your own workload: replace the body of `workload`. `cargo bench --package pageblock-benches --bench own`.

use criterion::{Criterion, criterion_group, criterion_main};

use pageblock::{Gfp, Order};
use pageblock_benches::machine::Machine;
use pageblock_benches::{Frames, POOL};

/// The load to measure: here 16 large folios that live together.
fn workload(machine: &Machine) {
    let frames = machine.allocator();
    let folios: Vec<_> = (0..16).map(|_| frames.alloc_order(Order::saturating(4), Gfp::HIGHUSER_MOVABLE)).collect();
    drop(folios);
}

fn own(criterion: &mut Criterion) {
    let machine = Machine::new(POOL);
    criterion.bench_function("your own workload, 1 GiB, one CPU", |bench| bench.iter(|| workload(&machine)));
}

criterion_group!(benches, own);
criterion_main!(benches);
