//! Lines of a file, plain or zstd, streamed.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::zstd::Decompressed;
use crate::InputError;

/// The name of standard input as a file.
pub(crate) const STANDARD_INPUT: &str = "-";
/// The first bytes of a zstd frame, as far as a file that is cut short has them.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// First bytes of files that are not read, and a remedy for each.
const FOREIGN: [(&[u8], &str); 7] = [
    (b"\x1f\x8b", "plain or zstd text, found a gzip file: `gzip -dc FILE | pageblock replay - --state DIR`"),
    (b"\xfd7zXZ\0", "plain or zstd text, found an xz file: `xz -dc FILE | pageblock replay - --state DIR`"),
    (b"BZh", "plain or zstd text, found a bzip2 file: `bzip2 -dc FILE | pageblock replay - --state DIR`"),
    (b"\x04\x22\x4d\x18", "plain or zstd text, found an lz4 file: `lz4 -dc FILE | pageblock replay - --state DIR`"),
    (b"PERFILE2", "plain or zstd text of ftrace, found a file of perf: record with ftrace or trace-cmd"),
    (b"\x17\x08\x44tracing", "plain or zstd text, found a file of trace-cmd: `trace-cmd report FILE` prints it"),
    (b"\x7fELF", "plain or zstd text, found a program"),
];
/// Longest line that is read, in bytes: a file without line ends must not fill the memory.
const MAX_LINE: usize = 64 << 10;
const BUFFER: usize = 256 << 10;

/// Counts the bytes that are read from the file itself.
struct Counted {
    file: File,
    bytes: Rc<Cell<u64>>,
}

impl Read for Counted {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.bytes.set(self.bytes.get() + read as u64);
        Ok(read)
    }
}

/// Standard input, if it is not a person at a terminal.
fn standard_input() -> io::Result<File> {
    let input = io::stdin();
    if input.is_terminal() {
        return Err(io::Error::other("standard input is a terminal"));
    }
    Ok(File::from(input.as_fd().try_clone_to_owned()?))
}

/// The lines of a file, one at a time, without an allocation a line.
pub(crate) struct LineSource {
    path: PathBuf,
    input: Box<dyn BufRead>,
    line: Vec<u8>,
    number: u64,
    bytes: Rc<Cell<u64>>,
    size: u64,
}

impl LineSource {
    /// Opens the file; whether it is compressed is seen from its first bytes.
    pub(crate) fn open(path: &Path, expected: &'static str) -> Result<Self, InputError> {
        let open = |source| InputError::Open { file: path.to_owned(), expected, source };
        let file = if path == Path::new(STANDARD_INPUT) { standard_input() } else { File::open(path) };
        let file = file.map_err(open)?;
        let metadata = file.metadata().map_err(open)?;
        if metadata.is_dir() {
            return Err(open(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let bytes = Rc::new(Cell::new(0));
        let mut raw = BufReader::with_capacity(BUFFER, Counted { file, bytes: Rc::clone(&bytes) });
        let head = raw.fill_buf().map_err(open)?;
        if let Some((_, expected)) = FOREIGN.iter().find(|(magic, _)| head.starts_with(magic)) {
            return Err(InputError::content(path, *expected));
        }
        let compressed = head.len() > 1 && head.iter().zip(&ZSTD_MAGIC).all(|(byte, magic)| byte == magic);
        let input: Box<dyn BufRead> =
            if compressed { Box::new(BufReader::with_capacity(BUFFER, Decompressed::new(raw))) } else { Box::new(raw) };
        Ok(Self { path: path.to_owned(), input, line: Vec::with_capacity(512), number: 0, bytes, size: metadata.len() })
    }

    /// The file's name.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the line that was read last, from 1.
    pub(crate) const fn number(&self) -> u64 {
        self.number
    }

    /// Bytes read so far, and bytes of the file.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.bytes.get(), self.size)
    }

    /// The next line without its end; `None` at the end of the file.
    pub(crate) fn next_line(&mut self) -> Result<Option<&[u8]>, InputError> {
        self.number += 1;
        match self.fill_line() {
            Ok(0) => {
                self.number -= 1;
                Ok(None)
            }
            Ok(_) => Ok(Some(self.line.strip_suffix(b"\n").unwrap_or(&self.line))),
            Err(source) => Err(self.failed(source)),
        }
    }

    fn failed(&self, source: io::Error) -> InputError {
        let expected = match source.kind() {
            io::ErrorKind::UnexpectedEof => "the rest of the compressed file, which is cut short",
            io::ErrorKind::InvalidData => "a line of at most 64 KiB",
            _ => "readable data",
        };
        InputError::Read { file: self.path.clone(), line: self.number, expected, source }
    }

    fn fill_line(&mut self) -> io::Result<usize> {
        self.line.clear();
        loop {
            let buffered = match self.input.fill_buf() {
                Ok(buffered) => buffered,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let end = memchr::memchr(b'\n', buffered);
            let used = end.map_or(buffered.len(), |end| end + 1);
            self.line.extend_from_slice(&buffered[..used]);
            self.input.consume(used);
            if end.is_some() || used == 0 {
                return Ok(self.line.len());
            }
            if self.line.len() > MAX_LINE {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the line is longer"));
            }
        }
    }
}

impl std::fmt::Debug for LineSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LineSource").field("path", &self.path).field("number", &self.number).finish_non_exhaustive()
    }
}
