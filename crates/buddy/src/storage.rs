//! The memory that a zone's metadata lives in.

use pageblock_frame::sync::Lock;
use pageblock_frame::{Carver, Order, PAGEBLOCK_FRAMES, Pageblocks, Pfn, PfnRange, Slots, StateTable};

use crate::free_area::{self, FreeArea};
use crate::region::{Region, RegionStorage};
use crate::reservations::CpuReservations;
use crate::summary::{MOST_REGIONS, Summary};

/// Rows of 64 pageblocks in a region at least. A batch that is given back meets fewer locks where regions are large,
/// and CPUs meet each other less where they are small.
const LEAST_ROWS: usize = 4;

/// A zone's metadata: a [`Pageblock`](pageblock_frame::Pageblock) for each 512 frames, a state byte a frame, and for
/// each region its lock, its skip bits and its `FreeArea`.
///
/// ```
/// use core::mem::MaybeUninit;
/// use pageblock_buddy::ZoneStorage;
/// use pageblock_frame::{Carver, Pfn, PfnRange, Order};
/// let span = PfnRange::new(Pfn::new(0), Pfn::new(1 << 18));
/// let bytes = ZoneStorage::bytes(span, Order::MAX);
/// assert!(bytes < (1 << 18) * 13 / 10); // 1.3 bytes a frame
/// let mut raw = vec![MaybeUninit::uninit(); bytes];
/// let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(&mut raw));
/// assert!(storage.is_some());
/// ```
#[derive(Debug)]
pub struct ZoneStorage<'m> {
    pub(crate) span: PfnRange,
    pub(crate) max_order: Order,
    pub(crate) states: StateTable<'m>,
    pub(crate) regions: &'m [Lock<Region<'m>>],
    pub(crate) summary: &'m Summary,
    pub(crate) reservations: CpuReservations<'m>,
}

/// The first frame that metadata for a span describes: its start rounded down to the largest block.
pub(crate) const fn base_of(span: PfnRange, max_order: Order) -> Pfn {
    let unit = if max_order.frames() > PAGEBLOCK_FRAMES { max_order.frames() } else { PAGEBLOCK_FRAMES };
    Pfn::new(span.start.as_u64() & !(unit - 1))
}

/// How a zone's pageblocks are divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) blocks: usize,
    /// State bytes: frames from the base to the end of the span.
    states: usize,
    /// Pageblocks of each region but the last: 64 times a power of two, and as few as can be where a model has to have
    /// two regions.
    region_blocks: usize,
}

impl Shape {
    pub(crate) const fn of(span: PfnRange, max_order: Order) -> Self {
        let states = if span.is_empty() { 0 } else { (span.end.as_u64() - base_of(span, max_order).as_u64()) as usize };
        let blocks = states.div_ceil(PAGEBLOCK_FRAMES as usize);
        let rows = blocks.div_ceil(64).div_ceil(MOST_REGIONS).next_power_of_two();
        let rows = if rows < LEAST_ROWS { LEAST_ROWS } else { rows };
        let region_blocks = if cfg!(loom) { (max_order.frames() / PAGEBLOCK_FRAMES) as usize } else { 64 * rows };
        Self { blocks, states, region_blocks }
    }

    /// log2 of the frames in a region.
    pub(crate) const fn region_shift(&self) -> u32 {
        (self.region_blocks * PAGEBLOCK_FRAMES as usize).trailing_zeros()
    }

    const fn regions(&self) -> usize {
        self.blocks.div_ceil(self.region_blocks)
    }

    /// Words of skip bits, and rows of the free areas: those of all regions, of which only the last may be smaller.
    const fn words(&self) -> usize {
        const fn of(blocks: usize) -> usize {
            blocks.div_ceil(64) + free_area::rows_needed(blocks) * free_area::ROW
        }
        self.blocks / self.region_blocks * of(self.region_blocks) + of(self.blocks % self.region_blocks)
    }
}

impl<'m> ZoneStorage<'m> {
    /// Bytes that [`carve`](Self::carve) takes at most, whatever the alignment of the bytes it takes from.
    #[must_use]
    pub const fn bytes(span: PfnRange, max_order: Order) -> usize {
        let shape = Shape::of(span, max_order);
        Pageblocks::bytes(shape.blocks, shape.states)
            + shape.regions() * size_of::<Lock<Region<'static>>>()
            + size_of::<Summary>()
            + CpuReservations::bytes(shape.blocks)
            + shape.words() * size_of::<u64>()
            + align_of::<Lock<Region<'static>>>()
            + size_of::<u64>()
    }

    /// Cuts the metadata of a zone with this span off raw bytes; `None`, with nothing lost but alignment, if they do
    /// not suffice.
    pub fn carve(span: PfnRange, max_order: Order, carver: &mut Carver<'m>) -> Option<Self> {
        if carver.remaining() < Self::bytes(span, max_order) {
            return None;
        }
        let shape = Shape::of(span, max_order);
        let blocks = Pageblocks::carve(shape.blocks, shape.states, carver)?;
        let states = blocks.states();
        let words = carver.take::<u64>(shape.words())?;
        let mut rest = Rest { blocks, words, base: base_of(span, max_order), max_order };
        let mut regions = carver.slots(shape.regions())?;
        for number in 0..shape.regions() {
            rest.set_up(add_region(&mut regions)?, number, &shape)?;
        }
        let summary = add_summary(carver)?;
        let reservations = CpuReservations::carve(shape.blocks, carver)?;
        Some(Self { span, max_order, states, regions: regions.filled(), summary, reservations })
    }
}

/// A function of its own: the summary is on its stack for a moment.
fn add_summary<'m>(carver: &mut Carver<'m>) -> Option<&'m Summary> {
    carver.place(Summary::new()).map(|summary| &*summary)
}

/// Puts an empty region there: a constant, so that no stack holds one while it is made.
#[inline(never)]
fn add_region<'m, 's>(regions: &'s mut Slots<'m, Lock<Region<'m>>>) -> Option<&'s mut Region<'m>> {
    #[cfg(not(loom))]
    let empty = const { Lock::new(Region::empty()) };
    #[cfg(loom)]
    let empty = Lock::new(Region::empty());
    Some(regions.push(empty)?.get_mut())
}

/// Rest of a zone's storage after some regions.
struct Rest<'m> {
    blocks: Pageblocks<'m>,
    words: &'m mut [u64],
    base: Pfn,
    max_order: Order,
}

impl<'m> Rest<'m> {
    /// Cuts off the next region, which has this number.
    fn set_up(&mut self, region: &mut Region<'m>, number: usize, shape: &Shape) -> Option<()> {
        let blocks = self.blocks.cut(shape.region_blocks);
        let skip = self.words(blocks.len().div_ceil(64))?;
        let (rows, _) = self.words(free_area::rows_needed(blocks.len()) * free_area::ROW)?.as_chunks_mut();
        let offset = number << shape.region_shift();
        let free_area = FreeArea::new(rows, blocks.len());
        let storage = RegionStorage { blocks, skip, free_area };
        region.set_up(storage, self.base.add(offset as u64), offset as u32, self.max_order);
        Some(())
    }

    fn words(&mut self, count: usize) -> Option<&'m mut [u64]> {
        let (words, rest) = core::mem::take(&mut self.words).split_at_mut_checked(count)?;
        self.words = rest;
        Some(words)
    }
}
