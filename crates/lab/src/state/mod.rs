//! A machine's recorded state: `/proc` and `kpageflags` before and after a trace.
//!
//! One reader a file, each strict: a line that is not as Linux writes it is an error with file and line. [`State`]
//! holds the content of one directory of a recording.

mod buddyinfo;
mod iomem;
mod kpageflags;
mod pagetypeinfo;
mod recording;
mod zoneinfo;

pub use buddyinfo::{BuddyRow, Buddyinfo};
pub use iomem::Iomem;
pub use kpageflags::{FrameClass, FrameMap, Run};
pub use pagetypeinfo::{BlockRow, Pagetypeinfo, TypeRow};
pub use recording::{Recording, State};
pub use zoneinfo::{ZoneRow, Zoneinfo};

use std::path::Path;

use crate::trace::{LineSource, Words};
use crate::{InputError, ParseError};

/// Calls `each` with every line of a file that is not blank; faults get the file's name and the line's number.
fn each_line(
    path: &Path,
    expected: &'static str,
    mut each: impl FnMut(&[u8]) -> Result<(), ParseError>,
) -> Result<(), InputError> {
    let mut source = LineSource::open(path, expected)?;
    while let Some(line) = source.next_line()? {
        if let Err(error) = if line.trim_ascii().is_empty() { Ok(()) } else { each(line) } {
            return Err(InputError::line(path, source.number(), error));
        }
    }
    Ok(())
}

/// The same for a text that is in memory already.
fn each_text_line(
    path: &Path,
    text: &str,
    mut each: impl FnMut(&[u8]) -> Result<(), ParseError>,
) -> Result<(), InputError> {
    for (number, line) in text.lines().enumerate() {
        if !line.trim().is_empty() {
            each(line.as_bytes()).map_err(|error| InputError::line(path, number as u64 + 1, error))?;
        }
    }
    Ok(())
}

/// `Node N, zone NAME` at the beginning of a line, with or without a comma after the name.
fn node_and_zone(words: &mut Words<'_>) -> Result<(u8, String), ParseError> {
    words.literal("Node")?;
    let node = words.expect("a node number")?;
    let digits = node.strip_suffix(b",").unwrap_or(node);
    let number = std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok());
    let number = number.ok_or_else(|| ParseError::syntax("a node number below 256 and a comma", node))?;
    words.literal("zone")?;
    let name = words.expect("the name of a zone")?;
    let name = name.strip_suffix(b",").unwrap_or(name);
    Ok((number, String::from_utf8_lossy(name).into_owned()))
}
