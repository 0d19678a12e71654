//! Reports that Linux shows under `/proc` and debugfs, in exactly its columns, without allocation.

use core::fmt;

use pageblock_frame::runs::for_each_run;
use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, Pageblock};

use crate::fallback::movable_frames;
use crate::region::BLOCK_SHIFT;
use crate::{Zone, fragmentation};

/// Free blocks of a zone by order and type, and its pageblocks by type, at one moment.
///
/// ```
/// use pageblock_buddy::FreeCounts;
/// let counts = FreeCounts::default();
/// assert_eq!(counts.frames(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct FreeCounts {
    /// Maximal free blocks by order, of all types.
    pub by_order: [u64; Order::COUNT],
    /// The same by migrate type.
    pub by_type: [[u64; Order::COUNT]; MigrateType::COUNT],
    /// Pageblocks by type, counted where at least one frame belongs to the allocator.
    pub pageblocks: [u64; MigrateType::COUNT],
    /// Pageblocks with all 512 frames free.
    pub wholly_free: u64,
    /// Pageblocks that hold both movable and other allocations.
    pub mixed: u64,
}

impl FreeCounts {
    /// Free frames, isolated ones included.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.by_order.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
    }

    /// Counts a pageblock; its runs with others, if it is wholly free, are counted apart.
    fn add(&mut self, b: &Pageblock) {
        let of_type = &mut self.by_type[b.migrate_type().index()];
        if b.is_wholly_free() {
            self.wholly_free += 1;
        } else {
            for_each_run(b.map(), |order, runs| of_type[order as usize % Order::COUNT] += u64::from(runs));
        }
        self.pageblocks[b.migrate_type().index()] += u64::from(b.managed() > 0);
    }
}

impl<'m> Zone<'m> {
    /// Counts free blocks by order and type: each pageblock at another moment, so that interrupts are off for a moment
    /// only.
    #[must_use]
    pub fn counts(&self) -> FreeCounts {
        let mut counts = FreeCounts { by_order: self.free_blocks(), ..FreeCounts::default() };
        let blocks = (self.states().len() as u64).div_ceil(PAGEBLOCK_FRAMES) as u32;
        for first in (0..blocks).step_by(64) {
            self.locked(self.region_of(first << BLOCK_SHIFT), |region| {
                let word = (first - (region.offset >> BLOCK_SHIFT)) / 64;
                for t in MigrateType::ALL {
                    let of_type = &mut counts.by_type[t.index()];
                    region.whole_runs_in(t, word, |order, runs| of_type[order as usize % Order::COUNT] += runs);
                }
            });
            for block in first..(first + 64).min(blocks) {
                self.count_block(block, &mut counts);
            }
        }
        counts
    }

    fn count_block(&self, block: u32, counts: &mut FreeCounts) {
        let used = self.locked(self.region_of(block << BLOCK_SHIFT), |region| {
            let b = region.blocks.get(block - (region.offset >> BLOCK_SHIFT))?;
            counts.add(b);
            Some(u64::from(b.managed().saturating_sub(b.free())))
        });
        // Without the lock: the state bytes of others may change at any time.
        let used = used.flatten().unwrap_or(0);
        let movable = if used == 0 { 0 } else { movable_frames(self.states(), block) };
        counts.mixed += u64::from(movable > 0 && movable < used);
    }

    /// Free blocks by order, of all types (`nr_free`).
    #[must_use]
    pub fn free_blocks(&self) -> [u64; Order::COUNT] {
        let mut sum = [0; Order::COUNT];
        self.each_region(|region| sum.iter_mut().zip(region.nr_free).for_each(|(sum, blocks)| *sum += blocks));
        sum
    }

    /// The zone's line of `/proc/buddyinfo`.
    #[must_use]
    pub fn buddyinfo(&self) -> BuddyInfo<'_, 'm> {
        BuddyInfo { zone: self }
    }

    /// The zone's lines of the first table of `/proc/pagetypeinfo`, one a migrate type.
    #[must_use]
    pub fn pagetypeinfo(&self) -> PageTypeInfo<'_, 'm> {
        PageTypeInfo { zone: self }
    }

    /// The zone's line of the second table of `/proc/pagetypeinfo`: pageblocks by type.
    #[must_use]
    pub fn blocktypeinfo(&self) -> BlockTypeInfo<'_, 'm> {
        BlockTypeInfo { zone: self }
    }

    /// The zone's paragraph of `/proc/zoneinfo`, up to its protection line and the counter of free frames.
    #[must_use]
    pub fn zoneinfo(&self) -> ZoneInfo<'_, 'm> {
        ZoneInfo { zone: self }
    }

    /// The zone's line of debugfs' `extfrag/unusable_index`.
    #[must_use]
    pub fn unusable_index(&self) -> FragmentationLine<'_, 'm> {
        FragmentationLine { zone: self, width: 1, value: fragmentation::unusable_free_index }
    }

    /// The zone's line of debugfs' `extfrag/extfrag_index`.
    #[must_use]
    pub fn extfrag_index(&self) -> FragmentationLine<'_, 'm> {
        FragmentationLine { zone: self, width: 2, value: fragmentation::fragmentation_index }
    }
}

/// Displays as a line of `/proc/buddyinfo`; see [`Zone::buddyinfo`].
#[derive(Debug)]
pub struct BuddyInfo<'a, 'm> {
    zone: &'a Zone<'m>,
}

impl fmt::Display for BuddyInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node {}, zone {:>8} ", self.zone.node(), self.zone.kind().name())?;
        let counts = self.zone.free_blocks();
        for order in self.zone.max_order().up_to() {
            write!(f, "{:6} ", counts[order.index()])?;
        }
        writeln!(f)
    }
}

/// Migrate types that have a row: CMA only where there is any.
fn shown_types(counts: &FreeCounts) -> impl Iterator<Item = MigrateType> {
    let cma = counts.pageblocks[MigrateType::Cma.index()] > 0;
    MigrateType::ALL.into_iter().filter(move |t| *t != MigrateType::Cma || cma)
}

/// Displays as lines of the first table of `/proc/pagetypeinfo`; see [`Zone::pagetypeinfo`].
#[derive(Debug)]
pub struct PageTypeInfo<'a, 'm> {
    zone: &'a Zone<'m>,
}

impl fmt::Display for PageTypeInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.zone.counts();
        for t in shown_types(&counts) {
            write!(
                f,
                "Node {:4}, zone {:>8}, type {:>12} ",
                self.zone.node().index(),
                self.zone.kind().name(),
                t.name()
            )?;
            for order in self.zone.max_order().up_to() {
                // Linux stops counting at 100,000 and says so; there is nothing to walk here, but the format is its
                // own.
                let blocks = counts.by_type[t.index()][order.index()];
                let (flag, shown) = if blocks >= 100_000 { (">", 100_000) } else { ("", blocks) };
                write!(f, "{flag}{shown:6} ")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

/// Displays as a line of the second table of `/proc/pagetypeinfo`; see [`Zone::blocktypeinfo`].
#[derive(Debug)]
pub struct BlockTypeInfo<'a, 'm> {
    zone: &'a Zone<'m>,
}

impl fmt::Display for BlockTypeInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.zone.counts();
        write!(f, "Node {}, zone {:>8} ", self.zone.node(), self.zone.kind().name())?;
        for t in shown_types(&counts) {
            write!(f, "{:12} ", counts.pageblocks[t.index()])?;
        }
        writeln!(f)
    }
}

/// The headings of `/proc/pagetypeinfo`, for zones with blocks up to a given order.
///
/// ```
/// use pageblock_buddy::PageTypeHeading;
/// use pageblock_frame::Order;
/// let heading = PageTypeHeading::free_counts(Order::MAX).to_string();
/// assert!(heading.starts_with("Page block order: 9\nPages per block:  512\n\nFree pages count per migrate type at order "));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct PageTypeHeading {
    max_order: Option<Order>,
    cma: bool,
}

impl PageTypeHeading {
    /// The heading of the first table.
    #[must_use]
    pub const fn free_counts(max_order: Order) -> Self {
        Self { max_order: Some(max_order), cma: false }
    }

    /// The heading of the second table, with a column for CMA or without.
    #[must_use]
    pub const fn block_counts(cma: CmaColumn) -> Self {
        Self { max_order: None, cma: matches!(cma, CmaColumn::Shown) }
    }
}

/// Whether `/proc/pagetypeinfo` has a column for CMA.
///
/// ```
/// use pageblock_buddy::{CmaColumn, PageTypeHeading};
/// let with = PageTypeHeading::block_counts(CmaColumn::Shown).to_string();
/// assert!(with.contains("CMA"));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CmaColumn {
    /// Linux built with CMA.
    Shown,
    /// Linux built without.
    Absent,
}

impl fmt::Display for PageTypeHeading {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(max_order) = self.max_order {
            write!(f, "Page block order: 9\nPages per block:  512\n\n")?;
            write!(f, "{:<43} ", "Free pages count per migrate type at order")?;
            for order in max_order.up_to() {
                write!(f, "{:6} ", order.as_u8())?;
            }
            return writeln!(f);
        }
        write!(f, "\n{:<23}", "Number of blocks type ")?;
        for t in MigrateType::ALL.into_iter().filter(|t| *t != MigrateType::Cma || self.cma) {
            write!(f, "{:>12} ", t.name())?;
        }
        writeln!(f)
    }
}

/// Displays as a paragraph of `/proc/zoneinfo`; see [`Zone::zoneinfo`].
#[derive(Debug)]
pub struct ZoneInfo<'a, 'm> {
    zone: &'a Zone<'m>,
}

impl fmt::Display for ZoneInfo<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let zone = self.zone;
        let (marks, boost) = (zone.watermarks(), zone.boost());
        let (free, cma, present) = (zone.free_frames(), zone.free_cma(), zone.present());
        writeln!(f, "Node {}, zone {:>8}", zone.node(), zone.kind().name())?;
        writeln!(f, "  pages free     {free}")?;
        writeln!(f, "        boost    {boost}")?;
        writeln!(f, "        min      {}", marks.min.saturating_add(boost))?;
        writeln!(f, "        low      {}", marks.low.saturating_add(boost))?;
        writeln!(f, "        high     {}", marks.high.saturating_add(boost))?;
        writeln!(f, "        spanned  {}", zone.span().len())?;
        writeln!(f, "        present  {present}")?;
        writeln!(f, "        managed  {}", zone.managed())?;
        writeln!(f, "        cma      {}", zone.counts().pageblocks[MigrateType::Cma.index()] * 512)?;
        let [a, b, c, d] = zone.lowmem_reserve();
        writeln!(f, "        protection: ({a}, {b}, {c}, {d})")?;
        writeln!(f, "      {:<12} {free}", "nr_free_pages")?;
        writeln!(f, "      {:<12} {cma}", "nr_free_cma")?;
        writeln!(f, "  start_pfn:           {}", zone.span().start.as_u64())
    }
}

/// Displays as a line of debugfs' `extfrag` files; see [`Zone::unusable_index`] and [`Zone::extfrag_index`].
#[derive(Debug)]
pub struct FragmentationLine<'a, 'm> {
    zone: &'a Zone<'m>,
    width: usize,
    value: fn(&[u64], Order) -> i64,
}

impl fmt::Display for FragmentationLine<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node {}, zone {:>8} ", self.zone.node(), self.zone.kind().name())?;
        let counts = self.zone.free_blocks();
        for order in self.zone.max_order().up_to() {
            let value = (self.value)(&counts[..=self.zone.max_order().index()], order);
            // Linux prints quotient and remainder, which is awkward for negative fractions; so do we.
            write!(f, "{:width$}.{:03} ", value / 1000, value % 1000, width = self.width)?;
        }
        writeln!(f)
    }
}
