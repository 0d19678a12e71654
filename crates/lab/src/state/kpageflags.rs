//! `kpageflags.rle`: the state of each frame of the machine, run-length encoded as `start(hex) count class`.

use std::path::Path;

use pageblock_frame::{MAX_PFN, MigrateType, Pfn, PfnRange};

use super::{each_line, each_text_line};
use crate::trace::Words;
use crate::{InputError, ParseError};

/// State of a frame.
///
/// ```
/// use pageblock_lab::state::FrameClass;
/// assert_eq!(FrameClass::from_letter(b'C'), Some(FrameClass::Cache));
/// assert_eq!(FrameClass::Cache.letter(), 'C');
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FrameClass {
    /// `F`: in a free block of the buddy lists.
    Free,
    /// `A`: anonymous memory.
    Anon,
    /// `B`: anonymous memory in a huge page.
    HugeAnon,
    /// `C`: page cache.
    Cache,
    /// `L`: page cache in a large folio.
    LargeCache,
    /// `S`: slab.
    Slab,
    /// `T`: page table.
    PageTable,
    /// `M`: mapped, otherwise unknown.
    Mapped,
    /// `R`: reserved.
    Reserved,
    /// `Z`: the zero page.
    Zero,
    /// `H`: hugetlb.
    Hugetlb,
    /// `K`: kernel allocation without a type flag.
    Kernel,
    /// `P`: no flag at all: kernel allocations, stacks, frames on per-CPU lists, and numbers without a frame.
    Plain,
}

impl FrameClass {
    const ALL: [(u8, Self); 13] = [
        (b'F', Self::Free),
        (b'A', Self::Anon),
        (b'B', Self::HugeAnon),
        (b'C', Self::Cache),
        (b'L', Self::LargeCache),
        (b'S', Self::Slab),
        (b'T', Self::PageTable),
        (b'M', Self::Mapped),
        (b'R', Self::Reserved),
        (b'Z', Self::Zero),
        (b'H', Self::Hugetlb),
        (b'K', Self::Kernel),
        (b'P', Self::Plain),
    ];

    /// The class with this letter.
    #[must_use]
    pub fn from_letter(letter: u8) -> Option<Self> {
        Self::ALL.into_iter().find_map(|(known, class)| (known == letter).then_some(class))
    }

    /// The letter of the class.
    #[must_use]
    pub fn letter(self) -> char {
        Self::ALL.into_iter().find_map(|(letter, class)| (class == self).then_some(char::from(letter))).unwrap_or('?')
    }

    /// True if the allocator can give the frame out, now or after its holder frees it.
    #[must_use]
    pub const fn is_managed(self) -> bool {
        !matches!(self, Self::Reserved | Self::Zero)
    }

    /// The migrate type with which the frame was allocated, where the class says it.
    #[must_use]
    pub const fn migrate_type(self) -> Option<MigrateType> {
        match self {
            Self::Anon | Self::HugeAnon | Self::Cache | Self::LargeCache | Self::Hugetlb => Some(MigrateType::Movable),
            Self::PageTable => Some(MigrateType::Unmovable),
            _ => None,
        }
    }
}

/// Frames next to one another that are the same.
///
/// ```
/// use pageblock_frame::{Pfn, PfnRange};
/// use pageblock_lab::state::{FrameClass, Run};
/// let run = Run { frames: PfnRange::from_len(Pfn::new(16), 4), class: FrameClass::Slab };
/// assert!(run.class.is_managed());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The frames.
    pub frames: PfnRange,
    /// Their class.
    pub class: FrameClass,
}

/// The file: runs in ascending order, without overlap.
///
/// ```
/// use pageblock_lab::state::{FrameClass, FrameMap};
/// let map = FrameMap::parse("k".as_ref(), "0 16 R\n10 8 F\n18 8 C\n").unwrap();
/// assert_eq!(map.count(FrameClass::Free), 8);
/// assert!(FrameMap::parse("k".as_ref(), "0 16 R\nf 8 F\n").is_err()); // overlap
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FrameMap {
    /// The runs.
    pub runs: Vec<Run>,
}

impl FrameMap {
    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// The first malformed line; runs that overlap.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let mut map = Self::default();
        each_text_line(path, text, |line| map.line(line))?;
        Ok(map)
    }

    /// Reads a file, plain or zstd.
    ///
    /// # Errors
    /// As [`FrameMap::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let mut map = Self::default();
        each_line(path, "the frames of the machine, run-length encoded", |line| map.line(line))?;
        if map.runs.is_empty() {
            return Err(InputError::content(
                path,
                "a run of frames: its first in hexadecimal, their number, their class",
            ));
        }
        Ok(map)
    }

    /// Number of frames of a class.
    #[must_use]
    pub fn count(&self, class: FrameClass) -> u64 {
        self.runs.iter().filter(|run| run.class == class).map(|run| run.frames.len()).sum()
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let mut words = Words::new(line);
        let start = words.expect("the first frame in hexadecimal")?;
        let value = crate::trace::hexadecimal(start).filter(|&start| start < MAX_PFN);
        let first = value.ok_or_else(|| ParseError::syntax("the first frame in hexadecimal, below 2^32", start))?;
        let count = words.number("a number of frames")?;
        let word = words.expect("the letter of a class")?;
        let class = if let [letter] = word { FrameClass::from_letter(*letter) } else { None };
        let class = class.ok_or_else(|| ParseError::syntax("one of the classes FABCLSTMRZHKP", word))?;
        if !words.rest().is_empty() {
            return Err(ParseError::syntax("the end of the line", words.rest()));
        }
        if count > MAX_PFN - first {
            return Err(ParseError::syntax("a run of frames below 2^32", line));
        }
        if self.runs.last().is_some_and(|run| run.frames.end.as_u64() > first) {
            return Err(ParseError::syntax("a run that starts after the one before", line));
        }
        self.runs.push(Run { frames: PfnRange::from_len(Pfn::new(first), count), class });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| FrameMap::parse("k".as_ref(), text).unwrap_err().to_string();
        assert_eq!(refused("0 16 Q\n"), "k:1: expected one of the classes FABCLSTMRZHKP, found `Q`");
        assert_eq!(refused("0 1\n"), "k:1: expected the letter of a class, found the end of the line");
        assert_eq!(refused("zz 1 F\n"), "k:1: expected the first frame in hexadecimal, below 2^32, found `zz`");
        assert_eq!(refused("0 2 F\n1 1 F\n"), "k:2: expected a run that starts after the one before, found `1 1 F`");
        assert_eq!(refused("0 1 F x\n"), "k:1: expected the end of the line, found `x`");
        assert!(refused("ffffffff 2 F\n").contains("a run of frames below 2^32"));
    }
}
