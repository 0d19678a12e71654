//! Which list set a frame belongs to.

use pageblock_frame::{Descriptor, Pfn};

use crate::lru::Lru;

pageblock_frame::errors! {
    /// Why some list sets do not make one whole.
    ///
    /// ```
    /// use pageblock_frame::{Descriptor, Pfn};
    /// use pageblock_lru::{Lru, LruSetError, Lrus};
    /// let (a, b) = ([const { Descriptor::new() }; 4], [const { Descriptor::new() }; 4]);
    /// let overlapping = [Lru::new(Pfn::new(0), &a), Lru::new(Pfn::new(3), &b)];
    /// assert_eq!(Lrus::new(&overlapping).err(), Some(LruSetError::Overlap { first: 0, second: 1 }));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum LruSetError {
        /// Two of them cover the same frame.
        #[error("list sets {first} and {second} cover the same frame")]
        Overlap {
            /// Position of one.
            first: usize,
            /// Position of the other.
            second: usize,
        },
    }
}

/// All list sets of a machine: one a zone, or one a node.
///
/// ```
/// use pageblock_frame::{Descriptor, Pfn};
/// use pageblock_lru::{Lru, Lrus};
/// let (a, b) = ([const { Descriptor::new() }; 4], [const { Descriptor::new() }; 4]);
/// let nodes = [Lru::new(Pfn::new(0), &a), Lru::new(Pfn::new(100), &b)];
/// let lrus = Lrus::new(&nodes).unwrap();
/// assert_eq!(lrus.of(Pfn::new(102)).map(|lru| lru.start()), Some(Pfn::new(100)));
/// assert!(lrus.of(Pfn::new(50)).is_none());
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Lrus<'a, 'm> {
    sets: &'a [Lru<'m>],
}

impl<'a, 'm> Lrus<'a, 'm> {
    /// These list sets, which cover disjoint frames.
    ///
    /// # Errors
    /// [`LruSetError::Overlap`] if two cover the same frame.
    pub fn new(sets: &'a [Lru<'m>]) -> Result<Self, LruSetError> {
        for (second, after) in sets.iter().enumerate() {
            for (first, before) in sets.iter().enumerate().take(second) {
                if !before.span().intersect(after.span()).is_empty() {
                    return Err(LruSetError::Overlap { first, second });
                }
            }
        }
        Ok(Self { sets })
    }

    /// The list sets, in the order given.
    #[must_use]
    pub const fn all(self) -> &'a [Lru<'m>] {
        self.sets
    }

    /// The list set that covers a frame.
    #[must_use]
    #[inline]
    pub fn of(self, pfn: Pfn) -> Option<&'a Lru<'m>> {
        self.sets.iter().find(|lru| lru.index_of(pfn).is_some())
    }

    /// The descriptor of a frame.
    #[must_use]
    #[inline]
    pub fn page(self, pfn: Pfn) -> Option<&'m Descriptor> {
        self.sets.iter().find_map(|lru| lru.page(pfn))
    }

    /// `NR_MLOCK` over all of them.
    #[must_use]
    pub fn nr_mlock(self) -> i64 {
        self.sets.iter().map(|lru| lru.counters().nr_mlock()).sum()
    }

    /// An event's count over all of them.
    #[must_use]
    pub fn event(self, event: crate::LruEvent) -> u64 {
        self.sets.iter().map(|lru| lru.counters().event(event)).sum()
    }

    /// Gives a reference back; see [`Lru::release`]. False for a frame that none covers.
    #[must_use = "the last reference obliges the caller to free the frame"]
    pub fn release(self, pfn: Pfn) -> bool {
        self.of(pfn).is_some_and(|lru| lru.release(pfn))
    }
}
