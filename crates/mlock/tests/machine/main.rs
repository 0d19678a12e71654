//! mlock and munlock on a machine with two nodes.

mod common;
mod cost;
mod property;
mod races;
