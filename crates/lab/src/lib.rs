//! The hosted machine of `pageblock`: recorded Linux traces replayed through our allocator, tables, plots, and the
//! binary `pageblock`.
//!
//! * [`trace`]: the text of ftrace, one event a line, streamed;
//! * [`memmap`]: memory maps, from `/proc/iomem` or a boot log;
//! * [`state`]: `/proc` and `kpageflags` of the machine before and after;
//! * `replay`: a trace through zones like those of the recorded machine, beside Linux's own;
//! * `report`: its result as tables, JSON, and a page with plots;
//! * `machine`: the simulated machine that experiments run on: the owners of its pages, and their work;
//! * `workload`: the experiments of the five works (`docs/sources.md`);
//! * [`commands`]: the command line.
//!
//! Input is strict: a fault is an [`InputError`] with file, line and the expected text. Everything that is written
//! passes through `output`.

#![deny(unsafe_code, clippy::print_stdout, clippy::print_stderr)]

pub mod commands;
mod error;
#[cfg(feature = "experiments")]
#[expect(dead_code, unused_imports, reason = "experiments that use it are being added")]
mod machine;
pub mod memmap;
mod output;
mod replay;
mod report;
pub mod state;
pub mod trace;
#[cfg(feature = "experiments")]
mod workload;

pub use commands::main;
pub use error::{InputError, ParseError};

#[cfg(doctest)]
mod guide;
