//! Times of munlock: the work's eight columns and our own form, on one node, interleaved over two, and on huge pages.
//! `cargo bench --bench mlock`.

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};

use pageblock_mlock::{Placement, SoftArea, Steps};

/// Base pages of the area: 256 MiB.
const PAGES: u64 = 1 << 16;

fn munlock(criterion: &mut Criterion) {
    for (placement, set) in Placement::ALL.into_iter().zip(["one-node", "interleaved", "huge"]) {
        let tables = SoftArea::descriptors(placement, PAGES);
        let area = SoftArea::new(placement, PAGES, &tables);
        let mut group = criterion.benchmark_group(format!("munlock of 256 MiB, {set}"));
        group.throughput(Throughput::Elements(PAGES)).sample_size(20);
        let columns = (0..8).map(|patches| (format!("step{patches}"), Steps::first(patches)));
        for (name, steps) in columns.chain([("default".to_owned(), Steps::default())]) {
            group.bench_function(name, |bench| {
                bench.iter_batched(|| area.lock(), |()| area.unlock_with(u64::MAX, steps), BatchSize::PerIteration);
            });
        }
    }
}

criterion_group!(benches, munlock);
criterion_main!(benches);
