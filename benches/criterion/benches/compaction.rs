//! Time to make one pageblock in a zone of which half has been freed. `cargo bench --bench
//! compaction`.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};

use pageblock_benches::moves::{Freed, HalfFull};
use pageblock_compaction::CompactionConfig;

fn pageblock(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("compaction makes one pageblock of 1 GiB, half of it free");
    group.sample_size(20);
    for (freed, state) in [(Freed::InRuns(256), "freed in runs"), (Freed::Singly, "freed singly")] {
        for (name, config) in [("default", CompactionConfig::default()), ("Linux 6.1", CompactionConfig::linux_6_1())] {
            group.bench_function(format!("{state}/{name}"), |bench| {
                bench.iter_batched(
                    || HalfFull::new(freed, 1),
                    |zone| {
                        let cost = zone.make(config, 1);
                        (cost, zone)
                    },
                    BatchSize::PerIteration,
                );
            });
        }
    }
}

criterion_group!(benches, pageblock);
criterion_main!(benches);
