//! Compaction: making large free blocks by moving the blocks that are in the way.
//!
//! Memory ends up scattered: enough frames are free, but no 512 beside one another. A migrator ([`Migrate`]) holds
//! movable memory and can move it; compaction chooses sources and targets.
//!
//! * [`Compactor`]: the state of one zone that is kept between runs, and [`Compactor::run`], one run
//! * [`CompactionConfig`]: how sources and targets are found, and every change since Linux 3.13 as a switch,
//!   above all the six [`Patches`] of *Memory compaction efficiency improvements* (2013)
//! * [`compact_zones`]: an allocation's turn, over the zones that would do; [`settle`] accounts for it
//! * [`Kcompactd`]: the thread that compacts ahead, as a state machine
//! * [`Compactor::alloc_contig_range`]: a range that the caller names
//! * [`Deferral`]: leaving a zone alone after failures
//! * [`CompactionVmStat`]: the counters of `/proc/vmstat`
//!
//! # How a run works
//! In Linux's forms a migrate scanner walks the zone upwards and isolates movable frames, and a free scanner walks
//! downwards and isolates free ones. Contents go from the former to the latter until the two meet. The default instead
//! empties the emptiest pageblock that can be emptied into the fullest.
//!
//! # Files
//! `run` chooses between `occupancy` and `linear`; both isolate and move through `migration` and hold `targets`.
//! `choice` reads counts and states, `suitable` asks the watermarks. No file uses one that uses it.
//!
//! # Invariants
//! 1. No lock is held in any call of [`Migrate`].
//! 2. At every moment every frame is free, or under exactly one state byte: sources and targets in hand are `Isolated`.
//! 3. Positions, skip bits, notes and deferral are hints: any value is safe, and a lost one costs time.
//! 4. A run ends with nothing withheld or isolated, however it ends: also if the migrator unwinds.
//!
//! # Lock order
//! The zone lock, one at a time, for a bounded number of word operations; nothing inside it.

#![no_std]
#![deny(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
extern crate std;

mod choice;
mod cluster;
mod compactor;
mod config;
mod contig;
mod counters;
mod defer;
mod direct;
mod era;
#[cfg(feature = "history")]
mod history;
mod kcompactd;
mod linear;
mod migration;
mod occupancy;
mod request;
mod run;
mod score;
mod suitable;
mod targets;

pub use compactor::Compactor;
pub use config::{CompactionConfig, Search};
pub use contig::ContigError;
pub use counters::CompactionVmStat;
pub use defer::{Deferral, Proof};
pub use direct::{CompactZone, DirectRequest, Got, accountable, compact_zones, settle};
#[cfg(feature = "history")]
pub use era::{Era, Patches};
pub use kcompactd::{Kcompactd, KswapdState, Next};
pub use pageblock_frame::migration::Migrate;
pub use request::{CompactOutcome, Origin, Priority, Request};
pub use score::{ScoreMarks, marks as score_marks, node_score, zone_score};

/// The README's program.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
