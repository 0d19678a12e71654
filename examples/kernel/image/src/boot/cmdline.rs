//! The kernel's command line: words, some of them `key=value`.

/// Longest command line that is kept, in bytes.
const MAX: usize = 512;

/// A copy of the command line.
#[derive(Debug)]
pub struct CmdLine {
    bytes: [u8; MAX],
    len: usize,
}

impl CmdLine {
    /// No words.
    pub const fn empty() -> Self {
        Self { bytes: [0; MAX], len: 0 }
    }

    /// Copies `bytes`, at most 512 of them.
    pub fn copy(bytes: &[u8]) -> Self {
        let mut line = Self::empty();
        line.len = bytes.len().min(MAX);
        line.bytes[..line.len].copy_from_slice(&bytes[..line.len]);
        line
    }

    /// The whole line; one that is not UTF-8 reads as empty.
    pub fn as_str(&self) -> &str {
        core::str::from_utf8(&self.bytes[..self.len]).unwrap_or("")
    }

    /// The value of the last word `key=value`.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.as_str().split_ascii_whitespace().rev().find_map(|word| word.strip_prefix(key)?.strip_prefix('='))
    }

    /// The value of `key` as a number, or `default`.
    pub fn number(&self, key: &str, default: u64) -> u64 {
        self.value(key).and_then(|value| value.parse().ok()).unwrap_or(default)
    }
}
