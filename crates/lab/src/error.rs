//! Faults of input files, with their place.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Why a line was refused: the expectation, and the text found in its place.
///
/// ```
/// let error = pageblock_lab::trace::parse_line(b"not a trace line").unwrap_err();
/// assert!(error.to_string().starts_with("expected `task-pid [cpu] flags timestamp: event:`, found `not a trace line`"));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ParseError {
    /// The text is not of the format.
    Syntax {
        /// The expected text.
        expected: &'static str,
        /// The beginning of the text found, with control characters escaped.
        found: String,
    },
    /// The recording says of itself that it is incomplete.
    Lost {
        /// Number of events that are missing, where it says so.
        events: Option<u64>,
    },
}

impl ParseError {
    /// Longest excerpt in a message, in bytes.
    const EXCERPT: usize = 60;

    /// A syntax error at `found`.
    pub(crate) fn syntax(expected: &'static str, found: &[u8]) -> Self {
        let excerpt = &found[..found.len().min(Self::EXCERPT)];
        Self::Syntax { expected, found: crate::output::printable(&String::from_utf8_lossy(excerpt)) }
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syntax { expected, found } if found.is_empty() => {
                write!(f, "expected {expected}, found the end of the line")
            }
            Self::Syntax { expected, found } => write!(f, "expected {expected}, found `{found}`"),
            Self::Lost { events: Some(events) } => {
                write!(f, "expected a complete recording, found that {events} events were lost")
            }
            Self::Lost { events: None } => f.write_str("expected a complete recording, found that events were lost"),
        }
    }
}

impl std::error::Error for ParseError {}

/// A fault in an input file: always with its name and, where one line is to blame, with the line's number.
///
/// ```
/// use pageblock_lab::{InputError, state::Buddyinfo};
/// let error = Buddyinfo::parse("buddyinfo".as_ref(), "Node 0, zone Normal 1 x\n").unwrap_err();
/// assert_eq!(error.to_string(), "buddyinfo:1: expected a number of free blocks, found `x`");
/// assert!(matches!(error, InputError::Line { line: 1, .. }));
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum InputError {
    /// The file is not there or cannot be opened.
    Open {
        /// The file.
        file: PathBuf,
        /// The expected kind.
        expected: &'static str,
        /// The system's message.
        source: io::Error,
    },
    /// Reading failed on the way: a damaged or truncated compressed file.
    Read {
        /// The file.
        file: PathBuf,
        /// Number of the line that could not be read, from 1, in the decompressed text.
        line: u64,
        /// The expected text.
        expected: &'static str,
        /// The reader's message.
        source: io::Error,
    },
    /// A line is malformed.
    Line {
        /// The file.
        file: PathBuf,
        /// Number of the line, from 1, in the decompressed text.
        line: u64,
        /// Its fault.
        error: ParseError,
    },
    /// The file as a whole lacks something, or contradicts another.
    Content {
        /// The file.
        file: PathBuf,
        /// The expected value.
        expected: String,
    },
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { file, expected, .. } => write!(f, "{}: expected {expected}", file.display()),
            Self::Read { file, line, expected, .. } => write!(f, "{}:{line}: expected {expected}", file.display()),
            Self::Line { file, line, error } => write!(f, "{}:{line}: {error}", file.display()),
            Self::Content { file, expected } => write!(f, "{}: expected {expected}", file.display()),
        }
    }
}

impl std::error::Error for InputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } => Some(source),
            Self::Line { .. } | Self::Content { .. } => None,
        }
    }
}

impl InputError {
    /// A malformed line.
    pub(crate) fn line(file: &Path, line: u64, error: ParseError) -> Self {
        Self::Line { file: file.to_owned(), line, error }
    }

    /// A fault of the whole file.
    pub(crate) fn content(file: &Path, expected: impl Into<String>) -> Self {
        Self::Content { file: file.to_owned(), expected: expected.into() }
    }
}
