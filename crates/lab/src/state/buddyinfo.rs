//! `/proc/buddyinfo`: free blocks by zone and order.

use std::path::Path;

use pageblock_frame::Order;

use super::{each_line, each_text_line, node_and_zone};
use crate::trace::Words;
use crate::{InputError, ParseError};

/// One zone's free blocks.
///
/// ```
/// use pageblock_lab::state::Buddyinfo;
/// let info = Buddyinfo::parse("buddyinfo".as_ref(), "Node 0, zone    DMA32      3      0      5 \n").unwrap();
/// assert_eq!((info.rows[0].zone.as_str(), info.rows[0].frames()), ("DMA32", 3 + 5 * 4));
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BuddyRow {
    /// Node of the zone.
    pub node: u8,
    /// Name of the zone.
    pub zone: String,
    /// Free blocks of each order, from 0.
    pub free: Vec<u64>,
}

impl BuddyRow {
    /// Free frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.free.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
    }
}

/// The file.
///
/// ```
/// use pageblock_lab::state::Buddyinfo;
/// assert!(Buddyinfo::parse("b".as_ref(), "Node 0, zone DMA 1 2\nNode 0, zone Normal 1\n").is_err()); // ragged
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Buddyinfo {
    /// One row a populated zone.
    pub rows: Vec<BuddyRow>,
}

impl Buddyinfo {
    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// The first malformed line; no row at all.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let mut info = Self::default();
        each_text_line(path, text, |line| info.row(line))?;
        info.finish(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Buddyinfo::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let mut info = Self::default();
        each_line(path, "the machine's /proc/buddyinfo", |line| info.row(line))?;
        info.finish(path)
    }

    fn finish(self, path: &Path) -> Result<Self, InputError> {
        if self.rows.is_empty() { Err(InputError::content(path, "a row for at least one zone")) } else { Ok(self) }
    }

    fn row(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let mut words = Words::new(line);
        let (node, zone) = node_and_zone(&mut words)?;
        let mut free = Vec::with_capacity(Order::COUNT);
        while !words.rest().is_empty() {
            free.push(words.number("a number of free blocks")?);
        }
        let orders = self.rows.first().map_or(free.len(), |row| row.free.len());
        if free.is_empty() || free.len() > Order::COUNT || free.len() != orders {
            return Err(ParseError::syntax("a number of free blocks for each order, as many as in other rows", line));
        }
        self.rows.push(BuddyRow { node, zone, free });
        Ok(())
    }

    /// The row of a zone.
    #[must_use]
    pub fn zone(&self, node: u8, zone: &str) -> Option<&BuddyRow> {
        self.rows.iter().find(|row| row.node == node && row.zone == zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_named() {
        let refused = |text| Buddyinfo::parse("b".as_ref(), text).unwrap_err().to_string();
        assert_eq!(refused("Node 0, zone Normal 1 x\n"), "b:1: expected a number of free blocks, found `x`");
        assert_eq!(
            refused("\nNode zero, zone Normal 1\n"),
            "b:2: expected a node number below 256 and a comma, found `zero,`"
        );
        assert_eq!(refused("Zone 0\n"), "b:1: expected Node, found `Zone`");
        assert_eq!(refused(""), "b: expected a row for at least one zone");
    }
}
