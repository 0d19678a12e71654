//! The replay of a recorded trace through our zones, beside what Linux did.
//!
//! ```text
//! records ──► plan ──► operations ──► machine (our zones, timed)
//!               │
//!               └──► linux (frame by frame what the events say)
//! ```
//! [`linux::Linux`] follows every frame of the recorded machine by the events alone. [`plan::Planner`] translates records
//! into operations: which block of ours stands for which of Linux's is known before any of them is executed, so that a batch of
//! operations runs with nothing but allocator calls between two readings of the clock. [`machine::Machine`] is our zones,
//! [`ours::Ours`] what they hold; [`compaction::Compaction`] moves it, when the recorded machine compacted.
//! [`engine::replay`] drives all three and, at the end, undoes everything to prove that no frame was lost.

mod compaction;
mod counters;
mod early;
mod engine;
mod figures;
mod film;
mod layout;
mod linux;
mod machine;
mod ours;
mod outcome;
mod places;
mod plan;
mod start;
mod surplus;
mod synthetic;
mod types;
mod undo;

pub(crate) use engine::{Pass, replay};
pub(crate) use film::ZonePlace;
#[cfg(feature = "experiments")]
pub(crate) use outcome::BlockState;
pub(crate) use outcome::{Outcome, Sample, Side};
