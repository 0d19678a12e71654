//! The structure block, token by token.

/// A token, its tag in the blob in brackets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Token<'a> {
    /// A node of this name begins (1).
    Begin(&'a [u8]),
    /// The innermost node ends (2).
    End,
    /// A property of the innermost node (3).
    Property {
        /// Its name.
        name: &'a [u8],
        /// Its bytes.
        value: &'a [u8],
    },
    /// The tree is complete (9).
    Stop,
}

/// A reader of tokens. A copy is a place to come back to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tokens<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
    offset: usize,
}

impl<'a> Tokens<'a> {
    pub(super) const fn new(structure: &'a [u8], strings: &'a [u8]) -> Self {
        Self { structure, strings, offset: 0 }
    }

    /// Where the next token begins.
    pub(super) const fn offset(&self) -> usize {
        self.offset
    }

    /// The next token; `None`, with nothing read, if there is none.
    pub(super) fn next_token(&mut self) -> Option<Token<'a>> {
        let mut at = self.offset;
        loop {
            let tag = be32(self.structure, at)?;
            let body = at + 4;
            let Measured { token, len } = match tag {
                1 => {
                    let name = until_zero(self.structure.get(body..)?)?;
                    Measured { token: Token::Begin(name), len: name.len() + 1 }
                }
                2 => Measured { token: Token::End, len: 0 },
                3 => self.property(body)?,
                // A hole where something was deleted in place.
                4 => {
                    at = body;
                    continue;
                }
                9 => Measured { token: Token::Stop, len: 0 },
                _ => return None,
            };
            self.offset = body.checked_add(len)?.checked_next_multiple_of(4)?;
            return Some(token);
        }
    }

    /// A property with its length at `at`.
    fn property(&self, at: usize) -> Option<Measured<'a>> {
        let len = be32(self.structure, at)? as usize;
        let name = until_zero(self.strings.get(be32(self.structure, at + 4)? as usize..)?)?;
        let value = self.structure.get(at + 8..)?.get(..len)?;
        Some(Measured { token: Token::Property { name, value }, len: 8 + len })
    }
}

/// A token, and how many bytes it takes behind its tag.
struct Measured<'a> {
    token: Token<'a>,
    len: usize,
}

fn until_zero(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(..bytes.iter().position(|byte| *byte == 0)?)
}

/// The big-endian word at this byte.
pub(super) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|word| u32::from_be_bytes(*word))
}

/// The big-endian double word at this byte.
pub(super) fn be64(bytes: &[u8], at: usize) -> Option<u64> {
    bytes.get(at..)?.first_chunk().map(|word| u64::from_be_bytes(*word))
}
