//! Compaction: making large free blocks by moving what is in the way.
//!
//! Memory ends up scattered: enough frames are free, but no 512 beside one another. Whoever owns movable memory
//! ([`Migrate`]) lets it be moved; compaction decides what moves where.
//!
//! * [`Compactor`]: what is remembered of one zone between runs, and [`Compactor::run`], one run
//! * [`Config`]: how sources and targets are found, and every change since Linux 3.13 as a switch, above all the six
//!   [`Patches`] of the series of 2013 (seed 000)
//! * [`compact_zones`]: an allocation's turn, over the zones that would do; [`settle`] accounts for it
//! * [`Kcompactd`]: the thread that compacts ahead, as a state machine
//! * [`Compactor::alloc_contig_range`]: a range that the caller names
//! * [`Deferral`]: leaving a zone alone after failures
//! * [`VmStat`]: the counters of `/proc/vmstat`
//!
//! # How a run works
//! In Linux's forms a migrate scanner walks the zone upwards and isolates movable frames, a free scanner walks
//! downwards and isolates free ones, and the contents go from the former to the latter until the two meet. The default instead takes the emptiest
//! pageblock that can be emptied and fills the fullest with what it held.
//!
//! # Invariants
//! 1. No lock is held in any call of [`Migrate`].
//! 2. At every moment every frame is free, or under exactly one state byte: lent sources and targets in hand are `Isolated`.
//! 3. Positions, skip bits, notes and deferral are hints: any value is safe, and a lost one costs time.
//! 4. A run ends with nothing withheld, lent or in hand, however it ends.
//!
//! # Lock order
//! The zone lock, one at a time, for a bounded number of word operations; nothing inside it.

#![no_std]
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(test)]
extern crate std;

mod choice;
mod compactor;
mod config;
mod contig;
mod counters;
mod defer;
mod direct;
mod fast;
mod free_scan;
mod kcompactd;
mod linear;
mod migrate_scan;
mod moving;
mod occupancy;
mod request;
mod score;
mod suitable;

pub use compactor::Compactor;
pub use config::{Config, Patches, Search};
pub use contig::ContigError;
pub use counters::VmStat;
pub use defer::{Deferral, Proof};
pub use direct::{CompactZone, DirectRequest, Got, accountable, compact_zones, settle};
pub use kcompactd::{Kcompactd, Kswapd, Next};
pub use pageblock_frame::migration::Migrate;
pub use request::{Origin, Outcome, Priority, Request};
pub use score::{ScoreMarks, marks as score_marks, node_score, zone_score};
