//! Output of the program: text to standard output and standard error, and files.
//!
//! * [`console`]: the one writer of both streams, and the colours of a terminal
//! * [`files`]: files that are written whole or not at all, and the directory of a report

mod console;
mod files;

pub(crate) use console::{Colour, Console, Level, StreamClosed, print, printable, tell};
pub(crate) use files::{prepare, report_directory, write_whole};
