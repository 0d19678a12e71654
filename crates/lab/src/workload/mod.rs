//! Experiments of the seed documents, run on our code.
//!
//! * [`timedmunlock`]: seed 001, the time that munlock of a large area takes.

pub(crate) mod timedmunlock;
