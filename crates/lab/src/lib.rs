//! The hosted machine of `pageblock`: recorded Linux traces replayed through our allocator, tables, plots, and the binary
//! `pageblock`.
//!
//! * [`trace`]: the text of ftrace, one event a line, streamed;
//! * [`memmap`]: memory maps, from `/proc/iomem` or a boot log;
//! * [`state`]: what `/proc` and `kpageflags` said of the machine before and after.
//!
//! Input is strict: a fault is an [`InputError`] with file, line and what was expected.

#![forbid(unsafe_code)]

pub mod commands;
mod error;
pub mod memmap;
pub mod state;
pub mod trace;

pub use error::{InputError, ParseError};
