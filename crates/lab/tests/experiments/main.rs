//! Experiments from outside, as `cargo experiment` runs them. They take minutes, so `./ci.sh experiments` runs them and
//! a bare `cargo test` does not.

mod fair_zones;
mod highalloc;
mod pcp;
mod thpfioscale;
mod timedmunlock;
