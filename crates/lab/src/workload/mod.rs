//! Experiments of the seed documents, run on our code.
//!
//! * [`highalloc`]: huge pages out of fragmented memory, beside a measured Linux 6.1;
//! * [`timedmunlock`]: seed 001, the time that munlock of a large area takes.

pub(crate) mod highalloc;
mod output;
pub(crate) mod timedmunlock;
