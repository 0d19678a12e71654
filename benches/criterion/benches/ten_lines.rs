//! Ten lines to a bench of your own: docs/measure.md has them.

use criterion::{Criterion, criterion_group, criterion_main};
use pageblock::{Gfp, hosted};

fn receive(criterion: &mut Criterion) {
    let frames = hosted::boot(1 << 30); // a machine of 1 GiB, whose CPUs are your threads
    let burst = || core::array::from_fn::<_, 64, _>(|_| frames.alloc(Gfp::KERNEL));
    criterion.bench_function("a burst of 64 receive buffers", |bench| bench.iter(burst));
}
criterion_group!(benches, receive);
criterion_main!(benches);
