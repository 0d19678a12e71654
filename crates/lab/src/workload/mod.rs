//! Experiments of the seed documents, run on our code.
//!
//! * [`highalloc`]: huge pages out of fragmented memory, beside a measured Linux 6.1
//! * [`pcp`]: seed 004, how often CPUs meet at the zone lock
//! * [`stress_highalloc`]: seed 000, huge pages on a busy machine
//! * [`timedmunlock`]: seed 001, the time that munlock of a large area takes
//! * [`thpfioscale`]: seed 002, mixing of migrate types while small files fill memory
//! * [`tiobench`]: seed 003, throughput and scanning by zone of streams twice as large as memory
//! * [`two_files`]: seed 003, whether a second working set takes the place of the first.

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
