//! Linux's files under `/proc`, for all zones.

use core::fmt::{self, Display};

use pageblock_buddy::{CmaColumn, PageTypeHeading, Zone};
use pageblock_frame::{MigrateType, Platform};

use crate::PageAllocator;

#[derive(Clone, Copy, Debug)]
enum File {
    BuddyInfo,
    PageTypeInfo,
    ZoneInfo,
    UnusableIndex,
    ExtfragIndex,
}

/// Displays as one of the files in which Linux describes its zones, byte for byte in its columns. Nothing is allocated;
/// a zone's lock is held while its free blocks are counted.
///
/// ```
/// # use pageblock::{Config, Gfp, Order, PageAllocator, Region};
/// # use pageblock::hosted::Simulated;
/// # let frames = PageAllocator::<Simulated>::new();
/// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
/// # frames.init_simulated([Region::from((0, 32 << 20, true))], &Config::new(), storage).unwrap();
/// let held = frames.alloc(Gfp::KERNEL).unwrap();
/// let text = frames.buddyinfo().to_string();
/// let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
/// assert_eq!(lines, [
///     "Node 0, zone      DMA      0      0      0      0      0      0      0      0      0      0      4",
///     "Node 0, zone    DMA32      1      1      1      1      1      1      1      1      1      1      3",
/// ]);
/// ```
pub struct Report<'a, P: Platform> {
    allocator: &'a PageAllocator<P>,
    file: File,
}

impl<P: Platform> PageAllocator<P> {
    const fn report(&self, file: File) -> Report<'_, P> {
        Report { allocator: self, file }
    }

    /// `/proc/buddyinfo`: free blocks by order.
    #[must_use]
    pub const fn buddyinfo(&self) -> Report<'_, P> {
        self.report(File::BuddyInfo)
    }

    /// `/proc/pagetypeinfo`: free blocks by order and migrate type, and pageblocks by type.
    #[must_use]
    pub const fn pagetypeinfo(&self) -> Report<'_, P> {
        self.report(File::PageTypeInfo)
    }

    /// `/proc/zoneinfo`: watermarks, sizes, lowmem reserves of the zones that have memory.
    #[must_use]
    pub const fn zoneinfo(&self) -> Report<'_, P> {
        self.report(File::ZoneInfo)
    }

    /// `extfrag/unusable_index` of debugfs: the part of free memory that cannot serve each order.
    #[must_use]
    pub const fn unusable_index(&self) -> Report<'_, P> {
        self.report(File::UnusableIndex)
    }

    /// `extfrag/extfrag_index` of debugfs: how far a failure at each order would be the fault of fragmentation.
    #[must_use]
    pub const fn extfrag_index(&self) -> Report<'_, P> {
        self.report(File::ExtfragIndex)
    }
}

impl<P: Platform> Display for Report<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zones = self.allocator.inner().map_or(&[][..], |inner| inner.zones);
        let mut each = |line: &dyn Fn(&Zone<'_>, &mut fmt::Formatter<'_>) -> fmt::Result| {
            zones.iter().try_for_each(|zone| line(zone, f))
        };
        match self.file {
            File::BuddyInfo => each(&|zone, f| zone.buddyinfo().fmt(f)),
            File::ZoneInfo => each(&|zone, f| zone.zoneinfo().fmt(f)),
            File::UnusableIndex => each(&|zone, f| zone.unusable_index().fmt(f)),
            File::ExtfragIndex => each(&|zone, f| zone.extfrag_index().fmt(f)),
            File::PageTypeInfo => zones.chunk_by(|a, b| a.node() == b.node()).try_for_each(|node| page_types(node, f)),
        }
    }
}

/// The two tables of one node.
fn page_types(zones: &[Zone<'_>], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Some(first) = zones.first() else { return Ok(()) };
    PageTypeHeading::free_counts(first.max_order()).fmt(f)?;
    for zone in zones {
        zone.pagetypeinfo().fmt(f)?;
    }
    let has_cma = |zone: &Zone<'_>| zone.counts().pageblocks[MigrateType::Cma.index()] > 0;
    let cma = if zones.iter().any(has_cma) { CmaColumn::Shown } else { CmaColumn::Absent };
    PageTypeHeading::block_counts(cma).fmt(f)?;
    for zone in zones {
        zone.blocktypeinfo().fmt(f)?;
    }
    Ok(())
}

impl<P: Platform> fmt::Debug for Report<'_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Report").field("file", &self.file).finish_non_exhaustive()
    }
}
