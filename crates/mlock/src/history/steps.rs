//! The switches: one a patch of *munlock batching* (2013).

/// How `NR_MLOCK` is corrected for pages of a batch that cannot be isolated.
///
/// ```
/// assert_eq!(pageblock_mlock::Accounting::default(), pageblock_mlock::Accounting::Exact);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Accounting {
    /// One less for each page that lost `MLOCKED`, isolated or not.
    #[default]
    Exact,
    /// The fault of Linux 3.12 to 4.11 (CVE-2017-18221), with `batch_counter`: pages that could not be isolated stay
    /// counted for ever.
    Leaky,
}

/// Which version of the seventh patch.
///
/// ```
/// assert_eq!(pageblock_mlock::InPlace::default(), pageblock_mlock::InPlace::Posted);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum InPlace {
    /// As posted, and measured in the posting: the vector is filled under one hold of the table's lock, its first
    /// page too.
    #[default]
    Posted,
    /// As merged in Linux 3.12: the first page is found by a walk of its own, so two holds a vector.
    Merged,
}

/// How munlock works: the seven patches of *munlock batching*, and our own form.
///
/// With `runs` on (the default) the others mean nothing. Switches 4 to 7 work on the vector of switch 3, and do nothing
/// without it.
///
/// ```
/// use pageblock_mlock::Steps;
/// assert!(Steps::default().runs);
/// let before = Steps::first(0);
/// assert!(!before.lazy_base && !before.runs);
/// let first_three = Steps::first(3);
/// assert!(first_three.batch_isolate && !first_three.batch_counter);
/// assert_eq!(Steps::first(7), Steps::first(99));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Steps {
    /// 1: put-back computes the LRU's base type only where it is needed, not for every page.
    pub lazy_base: bool,
    /// 2: the CPU's pagevecs are drained once before a range, not before each page.
    pub drain_once: bool,
    /// 3: pages are collected in a vector of 14 and isolated under one hold of the LRU lock.
    pub batch_isolate: bool,
    /// 4: `NR_MLOCK` changes once a vector, not once a page.
    pub batch_counter: bool,
    /// 5: pages are put back through a vector on the stack, not through the CPU's pagevec.
    pub local_put_back: bool,
    /// 6: the reference from the page-table walk serves as the isolation's.
    pub one_reference: bool,
    /// 7: after the first page, further pages are taken from the same table under its lock, without a walk each.
    pub walk_in_place: bool,
    /// For `walk_in_place`.
    pub in_place: InPlace,
    /// Ours: a whole table at a time, one atomic operation a page, runs of list neighbours moved at once.
    pub runs: bool,
    /// For `batch_counter`.
    pub accounting: Accounting,
}

impl Steps {
    /// The first `patches` patches; 0 is Linux 3.11-rc3, 7 and more are the whole series as posted.
    #[must_use]
    pub const fn first(patches: u8) -> Self {
        Self {
            lazy_base: patches >= 1,
            drain_once: patches >= 2,
            batch_isolate: patches >= 3,
            batch_counter: patches >= 4,
            local_put_back: patches >= 5,
            one_reference: patches >= 6,
            walk_in_place: patches >= 7,
            in_place: InPlace::Posted,
            runs: false,
            accounting: Accounting::Exact,
        }
    }

    /// Linux 3.12: the series as merged, with its fault in the accounting if asked for.
    #[must_use]
    pub const fn linux_3_12(accounting: Accounting) -> Self {
        Self { in_place: InPlace::Merged, accounting, ..Self::first(7) }
    }
}

impl Default for Steps {
    /// The best known: our own form.
    fn default() -> Self {
        Self { runs: true, ..Self::first(7) }
    }
}
