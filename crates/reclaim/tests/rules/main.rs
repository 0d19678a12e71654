//! Reclaim against mock zones and mock owners, faithful and faulty.
#![cfg(not(loom))]

mod boost;
mod direct;
mod faults;
mod kswapd;
mod machine;

mod mock;

mod scanning;
mod starvation;
mod vectors;
