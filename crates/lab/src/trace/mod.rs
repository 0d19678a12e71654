//! Recorded traces: the text of Linux's ftrace, one event a line.
//!
//! [`parse_line`] reads one line; [`TraceReader`] streams a file, plain or zstd. The meaning of the allocator's events
//! is in [`Event`]; events of other kinds are read as [`Event::Other`], so that a recording may hold more than is
//! needed.

mod event;
mod gfp;
mod line;
mod reader;
mod source;
mod text;
mod zstd;

pub use event::{Allocation, Compaction, Event, Extfrag, ListMove, Record};
pub use gfp::{GfpText, parse_gfp};
pub use line::parse_line;
pub use reader::{Skipped, Strictness, TraceReader};
pub(crate) use source::{LineSource, STANDARD_INPUT};
pub(crate) use text::{Words, hexadecimal};
