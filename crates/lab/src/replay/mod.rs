//! The replay of a recorded trace through our zones, beside Linux's own course.
//!
//! ```text
//! records ──► plan ──► operations ──► machines (allocators with their lists, one a rule set)
//!               │
//!               └──► linux (frame by frame, by the events)
//! ```
//! [`linux::Linux`] follows every frame of the recorded machine by the events alone. [`plan::Planner`] translates
//! records into operations, each on the CPU and at the time that its record names. [`ours::Ours`] executes them on one
//! of our machines: a [`PageAllocator`](pageblock::PageAllocator) by one of the [`rules`], with per-CPU lists,
//! compaction and its threads, as a kernel has it. [`places::Places`] knows where everything is that it holds.
//! [`engine::replay`] drives all and, at the end, undoes everything to prove that no frame was lost.

mod counters;
mod cpu;
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
mod rules;
mod start;
mod surplus;
mod synthetic;
mod types;
mod undo;

pub(crate) use engine::{Pass, replay};
pub(crate) use film::ZonePlace;
#[cfg(feature = "experiments")]
pub(crate) use outcome::BlockState;
pub(crate) use outcome::{Files, Outcome, Ruled, Sample, Side};
pub(crate) use rules::Rules;
