//! `/proc/pagetypeinfo`: free blocks by zone, migrate type and order, and pageblocks by type.

use std::path::Path;

use pageblock_frame::{MigrateType, Order};

use super::{each_line, each_text_line, node_and_zone};
use crate::trace::Words;
use crate::{InputError, ParseError};

/// Free blocks of one type in one zone.
///
/// ```
/// use pageblock_lab::state::TypeRow;
/// let row = TypeRow { node: 0, zone: "DMA".into(), kind: pageblock_frame::MigrateType::Movable, free: vec![1, 2], capped: false };
/// assert_eq!(row.frames(), 5);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TypeRow {
    /// Node of the zone.
    pub node: u8,
    /// Name of the zone.
    pub zone: String,
    /// Migrate type.
    pub kind: MigrateType,
    /// Free blocks of each order, from 0.
    pub free: Vec<u64>,
    /// Linux stopped counting somewhere in the row (`>100000`).
    pub capped: bool,
}

impl TypeRow {
    /// Free frames, at least.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.free.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
    }
}

/// Pageblocks of one zone.
///
/// ```
/// use pageblock_frame::MigrateType;
/// let row = pageblock_lab::state::BlockRow { node: 0, zone: "DMA".into(), blocks: [1, 7, 0, 0, 0, 0] };
/// assert_eq!(row.blocks[MigrateType::Movable.index()], 7);
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BlockRow {
    /// Node of the zone.
    pub node: u8,
    /// Name of the zone.
    pub zone: String,
    /// Pageblocks by migrate type.
    pub blocks: [u64; MigrateType::COUNT],
}

/// The file.
///
/// ```
/// use pageblock_lab::state::Pagetypeinfo;
/// let text = "Page block order: 9\nPages per block:  512\n\n\
///     Free pages count per migrate type at order 0 1\n\
///     Node    0, zone      DMA, type      Movable      4     >100000\n\n\
///     Number of blocks type      Movable\nNode 0, zone      DMA            8\n";
/// let info = Pagetypeinfo::parse("pagetypeinfo".as_ref(), text).unwrap();
/// assert_eq!((info.block_order, info.free[0].capped, info.blocks[0].blocks[1]), (9, true, 8));
/// ```
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pagetypeinfo {
    /// Order of a pageblock on that machine.
    pub block_order: u8,
    /// One row a zone and type.
    pub free: Vec<TypeRow>,
    /// One row a zone.
    pub blocks: Vec<BlockRow>,
}

/// Where in the file a line is.
#[derive(Default)]
struct Parser {
    info: Pagetypeinfo,
    columns: Vec<MigrateType>,
    section: Section,
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Section {
    #[default]
    Head,
    Free,
    Blocks,
    /// A table that is there only with page owner tracking.
    Mixed,
}

impl Pagetypeinfo {
    /// Reads the text of a file called `path`.
    ///
    /// # Errors
    /// The first malformed line; a table that is missing.
    pub fn parse(path: &Path, text: &str) -> Result<Self, InputError> {
        let mut parser = Parser::default();
        each_text_line(path, text, |line| parser.line(line))?;
        parser.finish(path)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// As [`Pagetypeinfo::parse`], and if the file cannot be read.
    pub fn load(path: &Path) -> Result<Self, InputError> {
        let mut parser = Parser::default();
        each_line(path, "the machine's /proc/pagetypeinfo", |line| parser.line(line))?;
        parser.finish(path)
    }

    /// Pageblocks of a zone by type.
    #[must_use]
    pub fn blocks(&self, node: u8, zone: &str) -> Option<&BlockRow> {
        self.blocks.iter().find(|row| row.node == node && row.zone == zone)
    }

    /// The rows of a zone, one a type.
    pub fn types<'a>(&'a self, node: u8, zone: &'a str) -> impl Iterator<Item = &'a TypeRow> {
        self.free.iter().filter(move |row| row.node == node && row.zone == zone)
    }
}

impl Parser {
    fn line(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let text = line.trim_ascii();
        if let Some(order) = text.strip_prefix(b"Page block order:") {
            let order = Words::new(order).number("the order of a pageblock")?;
            self.info.block_order = u8::try_from(order).unwrap_or(u8::MAX);
        } else if text.starts_with(b"Pages per block:") {
        } else if text.starts_with(b"Free pages count per migrate type at order") {
            self.section = Section::Free;
        } else if let Some(names) = text.strip_prefix(b"Number of blocks type") {
            self.section = Section::Blocks;
            self.columns = Words::new(names).map(migrate_type).collect::<Result<_, _>>()?;
        } else if text.starts_with(b"Number of mixed blocks") {
            self.section = Section::Mixed;
        } else {
            match self.section {
                Section::Head => return Err(ParseError::syntax("`Page block order: N`", text)),
                Section::Free => self.free(text)?,
                Section::Blocks => self.blocks(text)?,
                Section::Mixed => {}
            }
        }
        Ok(())
    }

    fn free(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let mut words = Words::new(line);
        let (node, zone) = node_and_zone(&mut words)?;
        words.literal("type")?;
        let kind = migrate_type(words.expect("a migrate type")?)?;
        let (mut free, mut capped) = (Vec::with_capacity(Order::COUNT), false);
        for word in words {
            let digits = word.strip_prefix(b">").unwrap_or(word);
            capped |= digits.len() != word.len();
            free.push(Words::new(digits).number("a number of free blocks")?);
        }
        if free.is_empty() || free.len() > Order::COUNT {
            return Err(ParseError::syntax("a number of free blocks for each order", line));
        }
        self.info.free.push(TypeRow { node, zone, kind, free, capped });
        Ok(())
    }

    fn blocks(&mut self, line: &[u8]) -> Result<(), ParseError> {
        let mut words = Words::new(line);
        let (node, zone) = node_and_zone(&mut words)?;
        let mut blocks = [0; MigrateType::COUNT];
        for kind in &self.columns {
            blocks[kind.index()] = words.number("a number of pageblocks for each type")?;
        }
        if !words.rest().is_empty() {
            return Err(ParseError::syntax("the end of the row", words.rest()));
        }
        self.info.blocks.push(BlockRow { node, zone, blocks });
        Ok(())
    }

    fn finish(self, path: &Path) -> Result<Pagetypeinfo, InputError> {
        if self.info.free.is_empty() {
            return Err(InputError::content(path, "the table `Free pages count per migrate type at order`"));
        }
        if self.info.blocks.is_empty() {
            return Err(InputError::content(path, "the table `Number of blocks type`"));
        }
        Ok(self.info)
    }
}

/// A type by its name; 4.4 replaced `Reserve` by `HighAtomic`.
fn migrate_type(name: &[u8]) -> Result<MigrateType, ParseError> {
    if name == b"Reserve" {
        return Ok(MigrateType::HighAtomic);
    }
    let known = MigrateType::ALL.into_iter().find(|kind| kind.name().as_bytes() == name);
    known.ok_or_else(|| ParseError::syntax("the name of a migrate type", name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order 0\n";

    #[test]
    fn faults_are_named() {
        let refused = |text: &str| Pagetypeinfo::parse("p".as_ref(), text).unwrap_err().to_string();
        assert_eq!(refused("what\n"), "p:1: expected `Page block order: N`, found `what`");
        assert_eq!(refused(HEAD), "p: expected the table `Free pages count per migrate type at order`");
        let row = format!("{HEAD}Node    0, zone      DMA, type      Moveable      4\n");
        assert_eq!(refused(&row), "p:5: expected the name of a migrate type, found `Moveable`");
        let row = format!("{HEAD}Node    0, zone      DMA, type      Movable      4\n");
        assert_eq!(refused(&row), "p: expected the table `Number of blocks type`");
        let blocks = format!("{row}\nNumber of blocks type  Unmovable Movable\nNode 0, zone DMA 3\n");
        assert_eq!(refused(&blocks), "p:8: expected a number of pageblocks for each type, found the end of the line");
    }
}
