//! `/proc/zoneinfo`: extents and watermarks of the zones.

use std::path::Path;

use pageblock_frame::{Pfn, PfnRange};

use super::{each_line, each_text_line, node_and_zone};
use crate::trace::Words;
use crate::{InputError, ParseError};

/// One zone; counts in frames.
///
/// ```
/// use pageblock_frame::{Pfn, PfnRange};
/// let row = pageblock_lab::state::ZoneRow { start: 4096, spanned: 8, ..Default::default() };
/// assert_eq!(row.span(), PfnRange::new(Pfn::new(4096), Pfn::new(4104)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ZoneRow {
    /// Node of the zone.
    pub node: u8,
    /// Name of the zone.
    pub zone: String,
    /// Free frames in the buddy lists.
    pub free: u64,
    /// Watermark boost.
    pub boost: u64,
    /// Min watermark, with boost.
    pub min: u64,
    /// Low watermark, with boost.
    pub low: u64,
    /// High watermark, with boost.
    pub high: u64,
    /// Frames from first to last, holes included.
    pub spanned: u64,
    /// Frames that exist.
    pub present: u64,
    /// Frames that the allocator manages.
    pub managed: u64,
    /// Lowmem reserve against requests by their highest zone.
    pub protection: Vec<u64>,
    /// Frames on per-CPU lists.
    pub listed: u64,
    /// CPUs with lists of it.
    pub cpus: u32,
    /// First frame.
    pub start: u64,
}

impl ZoneRow {
    /// The frames from first to last.
    #[must_use]
    pub const fn span(&self) -> PfnRange {
        PfnRange::from_len(Pfn::new(self.start), self.spanned)
    }
}

/// The file.
///
/// ```
/// use pageblock_lab::state::Zoneinfo;
/// let text = "Node 0, zone   Normal\n  pages free     7\n        min      1\n        low      2\n        high     3\n\
///     \x20       spanned  16\n        present  16\n        managed  12\n  start_pfn:           4096\n";
/// let info = Zoneinfo::parse("zoneinfo".as_ref(), text).unwrap();
/// assert_eq!((info.rows[0].free, info.rows[0].managed, info.rows[0].start), (7, 12, 4096));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Zoneinfo {
    /// One row a zone, empty ones included.
    pub rows: Vec<ZoneRow>,
}

impl Zoneinfo {
    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// The first malformed line; no zone with memory; a zone with memory but no first frame.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let mut info = Self::default();
        each_text_line(path, text, |line| info.line(line))?;
        info.finish(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Zoneinfo::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let mut info = Self::default();
        each_line(path, "the machine's /proc/zoneinfo", |line| info.line(line))?;
        info.finish(path)
    }

    /// The zones that have memory.
    pub fn populated(&self) -> impl Iterator<Item = &ZoneRow> {
        self.rows.iter().filter(|row| row.present > 0)
    }

    fn finish(self, path: &Path) -> Result<Self, InputError> {
        if self.populated().next().is_none() {
            return Err(InputError::content(path, "a zone with memory (`present` above 0)"));
        }
        let placeless =
            self.populated().find(|row| row.start == 0 && row.zone != "DMA" && self.populated().count() > 1);
        match placeless {
            Some(row) => Err(InputError::content(path, format!("a line `start_pfn:` for zone {}", row.zone))),
            None => Ok(self),
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let mut words = Words::new(line);
        if words.rest().starts_with(b"Node") {
            let (node, zone) = node_and_zone(&mut words)?;
            self.rows.push(ZoneRow { node, zone, ..ZoneRow::default() });
            return Ok(());
        }
        let Some(row) = self.rows.last_mut() else {
            return Err(ParseError::syntax("`Node N, zone NAME`", words.rest()));
        };
        match words.next().unwrap_or_default() {
            b"pages" => {
                words.literal("free")?;
                row.free = words.number("a number of frames")?;
            }
            b"boost" => row.boost = words.number("a number of frames")?,
            b"min" => row.min = words.number("a number of frames")?,
            b"low" => row.low = words.number("a number of frames")?,
            b"high" => row.high = words.number("a number of frames")?,
            b"spanned" => row.spanned = words.number("a number of frames")?,
            b"present" => row.present = words.number("a number of frames")?,
            b"managed" => row.managed = words.number("a number of frames")?,
            b"start_pfn:" => row.start = words.number("a frame number")?,
            b"count:" => row.listed += words.number("a number of frames")?,
            b"cpu:" => row.cpus += 1,
            b"protection:" => row.protection = protection(words.rest())?,
            _ => {}
        }
        Ok(())
    }
}

/// `(0, 3019, 24090)`.
fn protection(text: &[u8]) -> Result<Vec<u64>, ParseError> {
    const EXPECTED: &str = "numbers of frames in parentheses, separated by commas";
    let inner = text.strip_prefix(b"(").and_then(|text| text.strip_suffix(b")"));
    let inner = inner.ok_or_else(|| ParseError::syntax(EXPECTED, text))?;
    inner.split(|&byte| byte == b',').map(|number| Words::new(number).number(EXPECTED)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| Zoneinfo::parse("z".as_ref(), text).unwrap_err().to_string();
        assert_eq!(refused("  pages free 3\n"), "z:1: expected `Node N, zone NAME`, found `pages free 3`");
        assert_eq!(refused("Node 0, zone DMA\n  pages free x\n"), "z:2: expected a number of frames, found `x`");
        assert_eq!(refused("Node 0, zone DMA\n  pages free 3\n"), "z: expected a zone with memory (`present` above 0)");
        assert!(
            refused("Node 0, zone DMA\n        protection: (0, y)\n").starts_with("z:2: expected numbers of frames")
        );
    }
}
