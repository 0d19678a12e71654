//! A page table in ordinary memory: four levels of 512 entries, a lock for each lowest table.

use alloc::vec::Vec;

use pageblock_frame::Pfn;
use pageblock_frame::sync::{Lock, LockGuard};
use pageblock_lru::HUGE_FRAMES;

use crate::span::{Levels, Vpn};
use crate::table::{Entry, PageTable, Table, Walk};

/// Entries in a table.
const ENTRIES: usize = 512;
/// Bits of a page number that one level takes.
const BITS: u32 = 9;

/// Mapping at a page of a [`SoftTable`].
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_mlock::Mapping;
/// assert_ne!(Mapping::Base(Pfn::new(512)), Mapping::Huge(Pfn::new(512)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mapping {
    /// Nothing, but make the tables.
    Nothing,
    /// A page.
    Base(Pfn),
    /// A huge page with this head, at the page aligned to its size.
    Huge(Pfn),
    /// Something without a descriptor.
    Special,
}

/// The lowest table, or the place of one where a huge page is mapped.
#[derive(Debug)]
struct Leaf {
    huge: Option<Pfn>,
    entries: [u64; ENTRIES],
}

/// A page table for tests, benches and simulations. Tables are made with exclusive access; entries change under the
/// lock.
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_mlock::{Entry, Mapping, PageTable, SoftTable, Table, Vpn, Walk};
/// let mut space = SoftTable::new();
/// space.map(Vpn::new(0x1_2345), Mapping::Base(Pfn::new(7)));
/// let Walk::Table(table) = space.walk(Vpn::new(0x1_2345)) else { panic!() };
/// assert_eq!(table.entry(Vpn::new(0x1_2345)), Entry::Page(Pfn::new(7)));
/// assert_eq!(table.entry(Vpn::new(0x1_2346)), Entry::Absent);
/// ```
#[derive(Debug)]
pub struct SoftTable {
    /// Upper tables; the first is the root. An entry is 0, or a table's number plus 1.
    uppers: Vec<[u32; ENTRIES]>,
    leaves: Vec<Lock<Leaf>>,
}

impl Default for SoftTable {
    fn default() -> Self {
        Self::new()
    }
}

impl SoftTable {
    /// Nothing mapped.
    #[must_use]
    pub fn new() -> Self {
        Self { uppers: alloc::vec![[0; ENTRIES]], leaves: Vec::new() }
    }

    /// Maps a page, making tables as needed. Panics if `at` is 2³⁶ or more.
    pub fn map(&mut self, at: Vpn, mapping: Mapping) {
        assert!(at.as_u64() >> (4 * BITS) == 0, "beyond the address space");
        let mut table = 0;
        for level in [3, 2] {
            let slot = Self::slot(at, level);
            if self.uppers[table][slot] == 0 {
                self.uppers.push([0; ENTRIES]);
                self.uppers[table][slot] = self.uppers.len() as u32;
            }
            table = self.uppers[table][slot] as usize - 1;
        }
        let slot = Self::slot(at, 1);
        if self.uppers[table][slot] == 0 {
            self.leaves.push(Lock::new(Leaf { huge: None, entries: [0; ENTRIES] }));
            self.uppers[table][slot] = self.leaves.len() as u32;
        }
        self.set(at, mapping);
    }

    /// Replaces the mapping at `at`, under the table's lock. True if there is a table to hold it.
    pub fn set(&self, at: Vpn, mapping: Mapping) -> bool {
        let Ok(leaf) = self.find(at) else { return false };
        let mut leaf = leaf.lock();
        let raw = match mapping {
            Mapping::Nothing => 0,
            Mapping::Base(pfn) => pfn.as_u64() << 12 | 1,
            Mapping::Special => 3,
            Mapping::Huge(head) => {
                leaf.huge = Some(head);
                return true;
            }
        };
        leaf.huge = None;
        leaf.entries[Self::slot(at, 0)] = raw;
        true
    }

    /// Replaces the huge entry over `at` by 512 base entries for its parts, after `prepare` has made them pages of
    /// their own under the table's lock. True if there was one.
    pub fn split(&self, at: Vpn, prepare: impl FnOnce(Pfn)) -> bool {
        let Ok(leaf) = self.find(at) else { return false };
        let mut leaf = leaf.lock();
        let Some(head) = leaf.huge.take() else { return false };
        prepare(head);
        for (part, entry) in (0..HUGE_FRAMES).zip(leaf.entries.iter_mut()) {
            *entry = head.add(part).as_u64() << 12 | 1;
        }
        true
    }

    fn slot(at: Vpn, level: u32) -> usize {
        (at.as_u64() >> (BITS * level)) as usize % ENTRIES
    }

    /// The lowest table for `at`, or the first page that another could map.
    #[inline]
    fn find(&self, at: Vpn) -> Result<&Lock<Leaf>, Vpn> {
        if at.as_u64() >> (4 * BITS) != 0 {
            return Err(Vpn::new(u64::MAX));
        }
        let after = |level: u32| {
            let pages = 1_u64 << (BITS * level);
            Err(Vpn::new((at.as_u64() | (pages - 1)) + 1))
        };
        let mut table = 0;
        for level in [3, 2] {
            let Some(upper) = self.uppers.get(table) else { return after(level) };
            match upper[Self::slot(at, level)] {
                0 => return after(level),
                next => table = next as usize - 1,
            }
        }
        let Some(upper) = self.uppers.get(table) else { return after(1) };
        let leaf = (upper[Self::slot(at, 1)] as usize).wrapping_sub(1);
        self.leaves.get(leaf).map_or_else(|| after(1), Ok)
    }
}

/// A locked table of a [`SoftTable`].
///
/// ```
/// use pageblock_mlock::{Mapping, PageTable, SoftTable, SoftTableGuard, Vpn, Walk};
/// let mut space = SoftTable::new();
/// space.map(Vpn::new(0), Mapping::Nothing);
/// let walk: Walk<SoftTableGuard<'_>> = space.walk(Vpn::new(0));
/// assert!(matches!(walk, Walk::Table(_)));
/// ```
#[derive(Debug)]
pub struct SoftTableGuard<'a>(LockGuard<'a, Leaf>);

impl Table for SoftTableGuard<'_> {
    #[inline]
    fn entry(&self, at: Vpn) -> Entry {
        let raw = self.0.entries[SoftTable::slot(at, 0)];
        match raw & 3 {
            1 => Entry::Page(Pfn::new(raw >> 12)),
            0 => Entry::Absent,
            _ => Entry::Special,
        }
    }
}

impl PageTable for SoftTable {
    const LEVELS: Levels = Levels::X86_64;
    type Table<'a> = SoftTableGuard<'a>;

    #[inline]
    fn walk(&self, at: Vpn) -> Walk<SoftTableGuard<'_>> {
        match self.find(at) {
            Err(next) => Walk::Absent(next),
            Ok(leaf) => {
                let leaf = leaf.lock();
                match leaf.huge {
                    Some(head) => Walk::Huge(SoftTableGuard(leaf), head),
                    None => Walk::Table(SoftTableGuard(leaf)),
                }
            }
        }
    }
}
