//! Page owner (`mm/page_owner`, Linux 4.3): where each held block was allocated, which call sites hold most, and which
//! blocks have leaked.

use core::fmt;
use core::panic::Location;

use pageblock_frame::sync::{AtomicU32, AtomicU64, Lock, OnceRef, Ordering};
use pageblock_frame::{FrameState, Hooks, Order, Pfn, PfnRange, Platform, const_unless_model};

use crate::PageAllocator;
use crate::table::FrameTable;

/// Different places in the kernel's source that allocate. Later places are counted together, without a place.
const SITES: usize = 1024;
/// Places of the table that are tried for one site.
const PROBES: usize = 16;

/// Record of a block, in the slot of its first frame: eight bytes.
#[derive(Debug, Default)]
pub struct OwnerMark {
    /// The site's number in the high half, the epoch in the low one.
    site: AtomicU32,
    /// Milliseconds since boot, if the kernel has a clock.
    time: AtomicU32,
}

/// A place in the source that allocates.
#[derive(Debug)]
struct Site {
    location: OnceRef<Location<'static>>,
    /// For the report that is being made, under the lock.
    frames: AtomicU64,
    blocks: AtomicU64,
}

impl Site {
    const_unless_model! {
        const fn new() -> Self {
            Self { location: OnceRef::new(), frames: AtomicU64::new(0), blocks: AtomicU64::new(0) }
        }
    }
}

/// The memory of page owner, in a static of the kernel's. Feature `page_owner`.
///
/// ```
/// # use pageblock::{Config, FrameTable, Gfp, Order, PageAllocator, Region};
/// # use pageblock::hosted::Simulated;
/// use pageblock::{OwnerMark, PageOwners, SiteUsage};
/// static OWNERS: PageOwners = PageOwners::new();
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::usable(0..16 << 20)], &Config::new(), storage).unwrap();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); FrameTable::<OwnerMark>::bytes(frames.span())].leak();
/// # let table = Box::leak(Box::new(FrameTable::in_storage(frames.span(), storage, |_| OwnerMark::default()).unwrap()));
/// // In a kernel the table is `FRAMES.frame_table(|_| OwnerMark::default())`, kept in a static.
/// assert!(frames.track_owners(&OWNERS, table));
///
/// let before = OWNERS.mark();
/// let leaked = frames.alloc_order(Order::new(3).unwrap(), Gfp::KERNEL).unwrap().into_raw();
/// drop(frames.alloc(Gfp::KERNEL).unwrap());
/// let after = OWNERS.mark();
///
/// let mut leaks = Vec::new();
/// frames.held_since(before, after, |block| leaks.push(block.pfn));
/// assert_eq!(leaks, [leaked.pfn]); // allocated between the marks, and held still
/// let mut top = [SiteUsage::default(); 4];
/// let sites = frames.top_sites(&mut top);
/// assert_eq!((sites, top[0].frames, top[0].location.unwrap().file()), (1, 8, file!()));
/// ```
#[derive(Debug)]
pub struct PageOwners {
    sites: [Site; SITES],
    /// Marks made so far; the low half is noted with each block.
    epoch: AtomicU32,
    report: Lock<()>,
}

/// A moment, between two of which blocks are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OwnerEpoch(u16);

/// A held block, and where and when it was allocated.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OwnedBlock {
    /// The first frame.
    pub pfn: Pfn,
    /// The order.
    pub order: Order,
    /// The line that allocated it; `None` for a block from before tracking, or beyond the sites that there is room for.
    pub location: Option<&'static Location<'static>>,
    /// Milliseconds since boot when it was allocated, modulo 2^32; 0 without a clock.
    pub time: u32,
}

/// Blocks that one line of the kernel's source holds.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct SiteUsage {
    /// The line; `None` for all that is not known.
    pub location: Option<&'static Location<'static>>,
    /// Blocks held.
    pub blocks: u64,
    /// Frames in them.
    pub frames: u64,
}

impl fmt::Display for SiteUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.location {
            Some(location) => write!(f, "{} frames in {} blocks, {location}", self.frames, self.blocks),
            None => write!(f, "{} frames in {} blocks, place unknown", self.frames, self.blocks),
        }
    }
}

impl PageOwners {
    const_unless_model! {
        /// Nothing is remembered yet.
        #[must_use]
        pub const fn new() -> Self {
            Self {
                #[cfg(not(loom))]
                sites: [const { Site::new() }; SITES],
                #[cfg(loom)]
                sites: core::array::from_fn(|_| Site::new()),
                epoch: AtomicU32::new(1),
                report: Lock::new(()),
            }
        }
    }

    /// Ends an epoch: blocks that are allocated from now on can be told from earlier ones, for the next 65,535 marks.
    pub fn mark(&self) -> OwnerEpoch {
        OwnerEpoch(self.epoch.fetch_add(1, Ordering::Relaxed) as u16)
    }

    /// The number of a site, from 1 on; 0 if there is no room for it.
    fn number_of(&self, location: &'static Location<'static>) -> u32 {
        let hash = core::ptr::from_ref(location).addr() / align_of::<Location<'_>>();
        for probe in 0..PROBES {
            let number = hash.wrapping_add(probe) % SITES;
            let Some(site) = self.sites.get(number) else { return 0 };
            let kept = match site.location.get() {
                Some(kept) => kept,
                // Another CPU may be faster; then its location is looked at.
                None => match site.location.set(location) {
                    Ok(()) => location,
                    Err(_) => site.location.get().unwrap_or(location),
                },
            };
            if kept == location {
                return number as u32 + 1;
            }
        }
        0
    }

    fn site(&self, mark: &OwnerMark) -> Option<&Site> {
        let number = mark.site.load(Ordering::Relaxed) >> 16;
        self.sites.get((number as usize).checked_sub(1)?)
    }
}

impl Default for PageOwners {
    fn default() -> Self {
        Self::new()
    }
}

/// Both halves of page owner, as an allocator knows them.
#[derive(Debug)]
pub(crate) struct Tracking {
    owners: OnceRef<PageOwners>,
    marks: OnceRef<FrameTable<OwnerMark>>,
}

impl Tracking {
    const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self { owners: OnceRef::new(), marks: OnceRef::new() }
        }
    }

    /// Notes that the caller's line has allocated a block.
    #[track_caller]
    pub(crate) fn note<P: Platform>(&self, pfn: Pfn) {
        let (Some(owners), Some(marks)) = (self.owners.get(), self.marks.get()) else { return };
        let Some(mark) = marks.get(pfn) else { return };
        let epoch = owners.epoch.load(Ordering::Relaxed) & 0xffff;
        // The block is the caller's alone, so that no other CPU writes this slot.
        mark.site.store(owners.number_of(Location::caller()) << 16 | epoch, Ordering::Relaxed);
        mark.time.store((P::hooks().now() / 1_000_000) as u32, Ordering::Relaxed);
    }

    /// Copies a block's record to each of its parts.
    pub(crate) fn copy(&self, from: Pfn, to: PfnRange) {
        let Some(marks) = self.marks.get() else { return };
        let Some(known) = marks.get(from) else { return };
        for pfn in to.start.as_u64()..to.end.as_u64() {
            let Some(mark) = marks.get(Pfn::new(pfn)) else { return };
            mark.site.store(known.site.load(Ordering::Relaxed), Ordering::Relaxed);
            mark.time.store(known.time.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
}

impl<P: Platform> PageAllocator<P> {
    /// Remembers from now on where blocks are allocated. False, with nothing changed, if that is done already.
    pub fn track_owners(&self, owners: &'static PageOwners, marks: &'static FrameTable<OwnerMark>) -> bool {
        self.diagnosis.tracking.marks.set(marks).is_ok() && self.diagnosis.tracking.owners.set(owners).is_ok()
    }

    /// Shows each held block. Blocks come and go meanwhile: a block that is freed while it is looked at may be shown.
    pub fn for_each_held(&self, mut visit: impl FnMut(OwnedBlock)) {
        self.for_each_mark(|pfn, order, mark| {
            visit(self.owned(pfn, order, mark));
        });
    }

    /// Shows each block that is held and was allocated after the one mark and before the other: the leaks of a test or
    /// a driver's life.
    pub fn held_since(&self, after: OwnerEpoch, before: OwnerEpoch, mut visit: impl FnMut(OwnedBlock)) {
        let span = before.0.wrapping_sub(after.0);
        self.for_each_mark(|pfn, order, mark| {
            let Some(mark) = mark else { return };
            let epoch = (mark.site.load(Ordering::Relaxed) as u16).wrapping_sub(after.0);
            if (1..=span).contains(&epoch) {
                visit(self.owned(pfn, order, Some(mark)));
            }
        });
    }

    /// Fills `out` with the lines that hold most frames, the first holds most; says how many there are.
    pub fn top_sites(&self, out: &mut [SiteUsage]) -> usize {
        let Some(owners) = self.diagnosis.tracking.owners.get() else { return 0 };
        let _report = owners.report.lock();
        for site in &owners.sites {
            site.frames.store(0, Ordering::Relaxed);
            site.blocks.store(0, Ordering::Relaxed);
        }
        let mut unknown = SiteUsage::default();
        self.for_each_mark(|_, order, mark| match mark.and_then(|mark| owners.site(mark)) {
            Some(site) => {
                site.frames.fetch_add(order.frames(), Ordering::Relaxed);
                site.blocks.fetch_add(1, Ordering::Relaxed);
            }
            None => {
                unknown.frames += order.frames();
                unknown.blocks += 1;
            }
        });
        let known = owners.sites.iter().map(|site| SiteUsage {
            location: site.location.get(),
            blocks: site.blocks.load(Ordering::Relaxed),
            frames: site.frames.load(Ordering::Relaxed),
        });
        let mut found = 0;
        for usage in known.chain([unknown]).filter(|usage| usage.blocks > 0) {
            found = insert(out, found, usage);
        }
        found
    }

    fn owned(&self, pfn: Pfn, order: Order, mark: Option<&OwnerMark>) -> OwnedBlock {
        let location = mark.and_then(|mark| self.diagnosis.tracking.owners.get()?.site(mark)?.location.get());
        OwnedBlock { pfn, order, location, time: mark.map_or(0, |mark| mark.time.load(Ordering::Relaxed)) }
    }

    fn for_each_mark(&self, mut visit: impl FnMut(Pfn, Order, Option<&'static OwnerMark>)) {
        for zone in self.zones() {
            let mut pfn = zone.span().start;
            while pfn < zone.span().end {
                match zone.state_of(pfn) {
                    Some(FrameState::Allocated(order, _)) => {
                        visit(pfn, order, self.diagnosis.tracking.marks.get().and_then(|marks| marks.get(pfn)));
                        pfn = pfn.add(order.frames());
                    }
                    _ => pfn = pfn.add(1),
                }
            }
        }
    }
}

/// Puts a line in its place among the first `held`, the most frames first. Returns how many there are then.
fn insert(out: &mut [SiteUsage], held: usize, usage: SiteUsage) -> usize {
    let place = out.iter().take(held).position(|other| other.frames < usage.frames).unwrap_or(held);
    let held = (held + 1).min(out.len());
    if let Some(tail) = out.get_mut(place..held).filter(|tail| !tail.is_empty()) {
        tail.rotate_right(1);
        tail.iter_mut().take(1).for_each(|slot| *slot = usage);
    }
    held
}
