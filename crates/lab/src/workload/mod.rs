//! Experiments of the five works, run on our code.
//!
//! * [`highalloc`]: huge pages out of fragmented memory, beside a measured Linux 6.1
//! * [`pcp`]: High-order per-CPU lists (2016), how often CPUs meet at the zone lock
//! * [`stress_highalloc`]: Memory compaction efficiency improvements (2013), huge pages on a busy machine
//! * [`timedmunlock`]: munlock batching (2013), the time that munlock of a large area takes
//! * [`thpfioscale`]: Fragmentation avoidance and stalls (2018), mixing of migrate types while small files fill memory
//! * [`tiobench`]: Fair zone policy (2014), throughput and scanning by zone of streams twice as large as memory
//! * [`two_files`]: Fair zone policy (2014), whether a second working set takes the place of the first
//! * [`works`]: all of these, row by row beside what was published.

mod figure;
pub(crate) mod highalloc;
mod jobs;
mod options;
mod output;
pub(crate) mod pcp;
pub(crate) mod stress_highalloc;
pub(crate) mod thpfioscale;
pub(crate) mod timedmunlock;
pub(crate) mod tiobench;
pub(crate) mod two_files;
pub(crate) mod works;
