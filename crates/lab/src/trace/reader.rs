//! A whole trace, streamed.

use std::path::Path;

use super::line::entries;
use super::{LineSource, Record, parse_line};
use crate::{InputError, ParseError};

/// Treatment of faulty input.
///
/// ```
/// assert_eq!(pageblock_lab::trace::Strictness::default(), pageblock_lab::trace::Strictness::Strict);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strictness {
    /// Stop with an error at the first fault.
    #[default]
    Strict,
    /// Pass over faulty lines, and count them.
    Lenient,
}

/// Lines that a lenient reader passed over.
///
/// ```
/// assert!(pageblock_lab::trace::Skipped::default().first.is_none());
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default, serde::Serialize)]
pub struct Skipped {
    /// Faulty lines.
    pub malformed: u64,
    /// Events that the recording says were lost; 1 for a loss without a number.
    pub lost: u64,
    /// The message for the first of them.
    pub first: Option<String>,
    /// The file could not be read to its end.
    pub truncated: bool,
}

/// Reads a trace record by record.
///
/// ```
/// use std::io::Write;
/// use pageblock_lab::trace::{Strictness, TraceReader};
/// let mut file = tempfile::NamedTempFile::new().unwrap();
/// writeln!(file, "# tracer: nop\na-1 [000] ..... 1.0: mm_page_free: pfn=0x10 order=0").unwrap();
/// let mut reader = TraceReader::open(file.path(), Strictness::Strict).unwrap();
/// assert!(reader.next_record().unwrap().is_some());
/// assert!(reader.next_record().unwrap().is_none());
/// ```
#[derive(Debug)]
pub struct TraceReader {
    lines: LineSource,
    strictness: Strictness,
    skipped: Skipped,
    announced: Option<u64>,
}

impl TraceReader {
    /// Opens a trace, plain or zstd.
    ///
    /// # Errors
    /// [`InputError::Open`].
    pub fn open(path: &Path, strictness: Strictness) -> Result<Self, InputError> {
        let lines = LineSource::open(path, "a readable trace file")?;
        Ok(Self { lines, strictness, skipped: Skipped::default(), announced: None })
    }

    /// The next event, or `None` at the end of the file.
    ///
    /// # Errors
    /// The first fault, with file and line; if lenient, none.
    pub fn next_record(&mut self) -> Result<Option<Record>, InputError> {
        loop {
            let error = match self.lines.next_line() {
                Ok(None) => return Ok(None),
                Ok(Some(line)) => {
                    if line.first() == Some(&b'#')
                        && let Some((_, written)) = entries(line)
                    {
                        self.announced = Some(written);
                    }
                    match parse_line(line) {
                        Ok(Some(record)) => return Ok(Some(record)),
                        Ok(None) => continue,
                        Err(error) => InputError::line(self.lines.path(), self.lines.number(), error),
                    }
                }
                Err(error) => error,
            };
            if self.strictness == Strictness::Strict {
                return Err(error);
            }
            if self.skip(&error) {
                return Ok(None);
            }
        }
    }

    /// Counts a fault; true if nothing can be read after it.
    fn skip(&mut self, error: &InputError) -> bool {
        self.skipped.first.get_or_insert_with(|| error.to_string());
        match error {
            InputError::Line { error: ParseError::Lost { events }, .. } => self.skipped.lost += events.unwrap_or(1),
            InputError::Line { .. } => self.skipped.malformed += 1,
            _ => self.skipped.truncated = true,
        }
        self.skipped.truncated
    }

    /// The file's name.
    pub(crate) fn path(&self) -> &Path {
        self.lines.path()
    }

    /// Lines passed over so far.
    #[must_use]
    pub const fn skipped(&self) -> &Skipped {
        &self.skipped
    }

    /// Number of events that the file's header says were recorded.
    #[must_use]
    pub const fn announced(&self) -> Option<u64> {
        self.announced
    }

    /// Bytes read so far, and bytes of the file.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        self.lines.progress()
    }
}
