//! `/proc/iomem`: which physical addresses are memory.

use std::path::Path;

use pageblock_frame::{PfnRange, PhysAddr};

use super::{each_line, each_text_line};
use crate::trace::{Words, hexadecimal};
use crate::{InputError, ParseError};

/// The frames that lie wholly within `System RAM`, ascending.
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_lab::state::Iomem;
/// let text = "00000000-00000fff : Reserved\n00001000-0009fbff : System RAM\n  00001000-00001fff : Kernel code\n";
/// let map = Iomem::parse("iomem".as_ref(), text).unwrap();
/// assert_eq!((map.ram[0].start, map.ram[0].end), (Pfn::new(1), Pfn::new(0x9f)));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Iomem {
    /// Memory, by frame.
    pub ram: Vec<PfnRange>,
}

impl Iomem {
    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// The first malformed line; no memory at all.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let mut map = Self::default();
        each_text_line(path, text, |line| map.line(line))?;
        map.finish(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Iomem::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let mut map = Self::default();
        each_line(path, "the machine's /proc/iomem", |line| map.line(line))?;
        map.finish(path)
    }

    fn finish(mut self, path: &Path) -> Result<Self, InputError> {
        self.ram.retain(|range| !range.is_empty());
        self.ram.sort_unstable_by_key(|range| range.start);
        if self.ram.is_empty() {
            let expected = "at least one frame of `System RAM` (without root, Linux prints every address as 0)";
            return Err(InputError::content(path, expected));
        }
        Ok(self)
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        const EXPECTED: &str = "`start-end : name` with hexadecimal addresses";
        let mut words = Words::new(line);
        let range = words.expect(EXPECTED)?;
        let dash = memchr::memchr(b'-', range).ok_or_else(|| ParseError::syntax(EXPECTED, range))?;
        let bounds = (hexadecimal(&range[..dash]), hexadecimal(&range[dash + 1..]));
        let (Some(start), Some(last)) = bounds else { return Err(ParseError::syntax(EXPECTED, range)) };
        if words.expect(EXPECTED)? != b":" || last < start {
            return Err(ParseError::syntax(EXPECTED, line));
        }
        let is_nested = line.first() == Some(&b' ');
        if !is_nested && words.rest() == b"System RAM" {
            let end = PhysAddr::new(last.saturating_add(1)).pfn_floor();
            self.ram.push(PfnRange::new(PhysAddr::new(start).pfn_ceil(), end));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| Iomem::parse("i".as_ref(), text).unwrap_err().to_string();
        assert!(refused("00000000-00000000 : System RAM\n").starts_with("i: expected at least one frame"));
        assert!(refused("1000 : System RAM\n").starts_with("i:1: expected `start-end : name`"));
        assert!(refused("2000-1000 : System RAM\n").starts_with("i:1: expected"));
    }
}
