//! Whole runs of compaction on zones in known and in random states.
#![cfg(not(loom))]

mod callbacks;
mod common;
mod daemon;
mod faults;
mod figures;
mod notes;
mod patches;
mod scenes;
