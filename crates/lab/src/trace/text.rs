//! Words and numbers of a line of bytes. Nothing here allocates, except to describe an error.

use crate::ParseError;

/// The words of a line, separated by blanks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Words<'a> {
    rest: &'a [u8],
}

impl<'a> Words<'a> {
    /// The words of these bytes.
    pub(crate) const fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// The rest after the words taken so far, without leading blanks.
    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest.trim_ascii()
    }

    /// The next word, or an error that names the expected one.
    pub(crate) fn expect(&mut self, expected: &'static str) -> Result<&'a [u8], ParseError> {
        self.next().ok_or_else(|| ParseError::syntax(expected, b""))
    }

    /// The next word, which must be this one.
    pub(crate) fn literal(&mut self, word: &'static str) -> Result<(), ParseError> {
        let found = self.expect(word)?;
        if found == word.as_bytes() { Ok(()) } else { Err(ParseError::syntax(word, found)) }
    }

    /// The next word, which must be a number.
    pub(crate) fn number(&mut self, expected: &'static str) -> Result<u64, ParseError> {
        let word = self.expect(expected)?;
        decimal(word).ok_or_else(|| ParseError::syntax(expected, word))
    }
}

impl<'a> Iterator for Words<'a> {
    type Item = &'a [u8];

    #[inline]
    fn next(&mut self) -> Option<&'a [u8]> {
        let start = self.rest.iter().position(|&byte| !is_blank(byte))?;
        let rest = &self.rest[start..];
        let end = rest.iter().position(|&byte| is_blank(byte)).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.rest = rest;
        Some(word)
    }
}

#[inline]
const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r')
}

/// A decimal number and nothing else.
#[inline]
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { value.checked_mul(10)?.checked_add(u64::from(digit)) }
    })
}

/// A hexadecimal number without prefix and nothing else.
#[inline]
pub(crate) fn hexadecimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() || text.len() > 16 {
        return None;
    }
    text.iter().try_fold(0u64, |value, &byte| {
        let digit = match byte {
            b'0'..=b'9' => byte - b'0',
            b'a'..=b'f' => byte - b'a' + 10,
            b'A'..=b'F' => byte - b'A' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

/// A number, hexadecimal after `0x`, decimal otherwise.
#[inline]
pub(crate) fn number(text: &[u8]) -> Option<u64> {
    match text {
        [b'0', b'x' | b'X', digits @ ..] => hexadecimal(digits),
        _ => decimal(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(number(b"0x1fF"), Some(0x1ff));
        assert_eq!(number(b"18446744073709551615"), Some(u64::MAX));
        for bad in [&b""[..], b"0x", b"18446744073709551616", b"0x11111111111111111", b"-1", b"1 ", b"12a"] {
            assert_eq!(number(bad), None, "{}", String::from_utf8_lossy(bad));
        }
    }

    #[test]
    fn words() {
        let mut words = Words::new(b"  zone \t DMA32  7 8 \r");
        assert_eq!(words.literal("zone"), Ok(()));
        assert_eq!(words.next(), Some(&b"DMA32"[..]));
        assert_eq!(words.number("a count"), Ok(7));
        assert_eq!(words.rest(), b"8");
        assert_eq!(words.literal("9"), Err(ParseError::syntax("9", b"8")));
        assert_eq!(words.number("a count"), Err(ParseError::syntax("a count", b"")));
    }
}
