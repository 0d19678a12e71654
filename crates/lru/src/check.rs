//! Recomputing the lists from their links and the pages' flags.

use pageblock_frame::{DescFlags, Pfn};

use crate::list::{LruList, frames_of};
use crate::lru::Lru;

pageblock_frame::errors! {
    /// A broken invariant of an [`Lru`].
    ///
    /// ```
    /// use pageblock_frame::{DescFlags, Descriptor, Pfn};
    /// use pageblock_lru::{Lru, LruViolation};
    /// let table = [const { Descriptor::new() }; 1];
    /// let lru = Lru::new(Pfn::new(9), &table);
    /// table[0].set_flags(DescFlags::LRU); // a lie
    /// assert_eq!(lru.check(), Err(LruViolation::NotLinked { linked: 0, flagged: 1 }));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum LruViolation {
        /// A link leads out of the table, or back to a page already passed.
        #[error("the links of {list} do not end")]
        Links {
            /// The list.
            list: LruList,
        },
        /// A page's `prev` is not the page before it.
        #[error("frame {pfn} on {list} does not point back")]
        BackLink {
            /// The list.
            list: LruList,
            /// The page.
            pfn: Pfn,
        },
        /// A page's flags do not name the list that it is on, or lack `LRU`.
        #[error("frame {pfn} is on {list} with flags {flags:?}")]
        Flags {
            /// The list.
            list: LruList,
            /// The page.
            pfn: Pfn,
            /// Its flags.
            flags: DescFlags,
        },
        /// A list's number of pages or frames is wrong.
        #[error("{list} counts {counted} frames and holds {found}")]
        Count {
            /// The list.
            list: LruList,
            /// Frames by its counter.
            counted: u64,
            /// Frames found.
            found: u64,
        },
        /// A list's tail is not its last page.
        #[error("the tail of {list} is not its last page")]
        Tail {
            /// The list.
            list: LruList,
        },
        /// More or fewer pages have the flag `LRU` than are on the lists.
        #[error("{linked} pages are on the lists, {flagged} have the flag")]
        NotLinked {
            /// Pages on the lists.
            linked: u64,
            /// Pages with the flag.
            flagged: u64,
        },
        /// `NR_MLOCK` is not the number of frames of pages with `MLOCKED`.
        #[error("NR_MLOCK is {counted}, {found} frames are locked")]
        Mlocked {
            /// By the counter.
            counted: i64,
            /// By the flags.
            found: i64,
        },
    }
}

impl Lru<'_> {
    /// Recomputes every list, count and flag; takes time proportional to the frames. The caller sees to it that no
    /// operation is under way.
    ///
    /// # Errors
    /// The first [`LruViolation`] found.
    pub fn check(&self) -> Result<(), LruViolation> {
        let held = self.hold();
        let mut linked = 0;
        for list in LruList::ALL {
            linked += if held.lists.counted(list) {
                u64::from(held.lists.get(list).entries)
            } else {
                self.check_list(&held, list)?
            };
        }
        let (mut flagged, mut locked, mut unevictable) = (0, 0, 0);
        for flags in self.table().iter().map(pageblock_frame::Descriptor::flags) {
            flagged += u64::from(flags.contains(DescFlags::LRU));
            locked += if flags.contains(DescFlags::MLOCKED) { frames_of(flags) as i64 } else { 0 };
            let stays = flags.contains(DescFlags::LRU | DescFlags::UNEVICTABLE);
            unevictable += if stays { frames_of(flags) } else { 0 };
        }
        if linked != flagged {
            return Err(LruViolation::NotLinked { linked, flagged });
        }
        let counted = held.lists.get(LruList::Unevictable).frames;
        if counted != unevictable {
            return Err(LruViolation::Count { list: LruList::Unevictable, counted, found: unevictable });
        }
        let counted = self.counters().nr_mlock();
        if counted != locked { Err(LruViolation::Mlocked { counted, found: locked }) } else { Ok(()) }
    }

    /// Walks one list; returns its number of pages.
    fn check_list(&self, held: &crate::LruGuard<'_, '_>, list: LruList) -> Result<u64, LruViolation> {
        let this = *held.lists.get(list);
        let (mut entries, mut frames) = (0_u64, 0);
        let (mut before, mut at) = (pageblock_frame::NO_FRAME, this.head);
        while at != pageblock_frame::NO_FRAME {
            let page = self.table().get(at as usize).ok_or(LruViolation::Links { list })?;
            let (pfn, flags) = (self.pfn_of(at), page.flags());
            if page.prev.get() != before {
                return Err(LruViolation::BackLink { list, pfn });
            }
            if !flags.contains(DescFlags::LRU) || LruList::of(flags) != list {
                return Err(LruViolation::Flags { list, pfn, flags });
            }
            entries += 1;
            frames += frames_of(flags);
            if entries > self.table().len() as u64 {
                return Err(LruViolation::Links { list });
            }
            (before, at) = (at, page.next.get());
        }
        if before != this.tail {
            return Err(LruViolation::Tail { list });
        }
        if frames != this.frames || entries != u64::from(this.entries) {
            return Err(LruViolation::Count { list, counted: this.frames, found: frames });
        }
        Ok(entries)
    }
}
