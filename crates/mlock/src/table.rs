//! Seams that the kernel fills: its page tables, and its knowledge of areas and pages.

use pageblock_frame::Pfn;

use crate::area::{AreaState, LockedArea};
use crate::span::{Levels, Span, Vpn};

/// Mapping of a page-table entry of the lowest level.
///
/// ```
/// use pageblock_frame::Pfn;
/// use pageblock_mlock::Entry;
/// assert_ne!(Entry::Page(Pfn::new(0)), Entry::Absent);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entry {
    /// Nothing: never touched, swapped out, or being migrated.
    Absent,
    /// Something without a descriptor: device memory, the zero page.
    Special,
    /// A page.
    Page(Pfn),
}

/// A page table of the lowest level, locked: as long as this value lives its entries do not change.
pub trait Table {
    /// The entry for `at`, which lies in this table.
    fn entry(&self, at: Vpn) -> Entry;
}

/// Where a walk ended; the table's lock is held.
///
/// ```
/// use pageblock_mlock::{PageTable, SoftTable, Vpn, Walk};
/// assert!(matches!(SoftTable::new().walk(Vpn::new(7)), Walk::Absent(next) if next == Vpn::new(1 << 27)));
/// ```
#[derive(Debug)]
pub enum Walk<T> {
    /// No table; nothing is mapped before this page.
    Absent(Vpn),
    /// A table of base entries.
    Table(T),
    /// A huge entry that maps the huge page with this head; locked as a table is.
    Huge(T, Pfn),
}

/// A page table with a lock for each table (`pte_offset_map_lock()`, `pmd_lock()`).
///
/// # Contract
/// While a page is mapped by an entry, that entry holds one reference to it; a page with the flag `FILE` has one more,
/// the page cache's. To change or remove an entry takes the table's lock. Migration and splitting replace all entries
/// of a page before they touch its flags, and afterwards lock or unlock the page as its area then says.
pub trait PageTable {
    /// The shape of the table.
    const LEVELS: Levels = Levels::X86_64;
    /// A locked table.
    type Table<'a>: Table
    where
        Self: 'a;

    /// Walks from the root to the entry that maps `at`, and locks it.
    fn walk(&self, at: Vpn) -> Walk<Self::Table<'_>>;
}

pageblock_frame::errors! {
    /// Why an area could not be marked.
    ///
    /// ```
    /// assert_eq!(pageblock_mlock::MarkError::Limit.to_string(), "the limit on locked memory is reached");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum MarkError {
        /// Splitting the area would make too many areas (`ENOMEM`).
        #[error("there are too many areas")]
        TooManyAreas,
        /// More may not be locked (`RLIMIT_MEMLOCK`).
        #[error("the limit on locked memory is reached")]
        Limit,
    }
}

pageblock_frame::errors! {
    /// Why a page could not be brought in.
    ///
    /// ```
    /// assert_eq!(pageblock_mlock::FaultError::NoMemory.to_string(), "no memory");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum FaultError {
        /// No memory (`EAGAIN` from `mlock(2)`).
        #[error("no memory")]
        NoMemory,
        /// The access is not allowed, or lies beyond the end of the file (`ENOMEM` from `mlock(2)`).
        #[error("there is nothing to bring in")]
        Nothing,
    }
}

/// An address space: a page table and the areas that it maps. The caller of [`mlock`](crate::mlock()) and
/// [`munlock`](crate::munlock()) keeps other changes of the areas away (`mmap_lock`, for writing).
pub trait AddressSpace: PageTable {
    /// The area that `at` lies in, or `None` for a hole.
    fn area(&self, at: Vpn) -> Option<LockedArea>;

    /// Marks part of one area as locked or not, splitting the area, and a huge mapping that is cut by the part's ends,
    /// as needed. Ordered with [`locked_by_any`](Self::locked_by_any) on every CPU by one lock, or by full barriers on
    /// both sides: of two areas that are unlocked at the same time, at least one must see the other unlocked.
    ///
    /// # Errors
    /// [`MarkError`]; nothing has changed then.
    fn mark(&self, part: Span, state: AreaState) -> Result<(), MarkError>;

    /// Maps the absent page `at`. The page may wait in a pagevec, and need not be `MLOCKED`.
    ///
    /// # Errors
    /// [`FaultError`]; nothing has changed then.
    fn fault_in(&self, at: Vpn) -> Result<(), FaultError>;

    /// True if an area that is marked locked, of any address space, maps the page. Called without page-table and LRU
    /// locks held; takes its own.
    fn locked_by_any(&self, pfn: Pfn) -> bool;

    /// Receives a frame that lost its last reference while it was in hand here. Called without locks held.
    fn free(&self, pfn: Pfn);
}
