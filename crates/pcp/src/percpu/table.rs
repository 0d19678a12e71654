//! The way to an area that every platform has: by the number of the CPU. And where the areas are.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;
use core::sync::atomic::AtomicPtr;

use pageblock_frame::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};
use pageblock_frame::{Carver, StateTable};

use super::areas::Layout;
use super::busy::{BusyFlag, StoreTag};
use super::stacks::{Body, Common};
use super::{Area, CpuLists, Frames};
use crate::tune::Tune;

/// The busy flag of every CPU without an area, aligned as areas are.
#[repr(C, align(128))]
#[derive(Debug)]
struct NoArea(BusyFlag);

static NO_AREA: NoArea = NoArea(BusyFlag::always_busy());

/// All areas of a zone.
#[derive(Debug)]
pub(super) struct Store<'m> {
    /// As many as the platform can have CPUs, if there are any areas.
    table: Option<NonNull<NonNull<Area>>>,
    frames: Frames,
    cpus: usize,
    borrows: PhantomData<(&'m AtomicU8, &'m mut Tune)>,
}

/// Writes an idle area, with its body to be set up. A function of its own, since the area is on its stack for a moment.
///
/// # Safety
/// The memory is the caller's, and has room for an area.
#[inline(never)]
unsafe fn write_area(area: NonNull<Area>, frames: u32, tag: StoreTag) {
    let (visible_frames, signals) = (AtomicU32::new(frames), AtomicU32::new(0));
    // SAFETY: by the caller's promise.
    unsafe { area.write(Area { busy: BusyFlag::idle(tag), visible_frames, signals, body: const { Body::new() } }) };
}

impl<'m> Store<'m> {
    pub(super) const fn bytes(layout: &Layout, possible: usize) -> usize {
        if layout.cpus == 0 {
            return 0;
        }
        let areas = layout.cpus * Body::stride(&layout.capacities) + align_of::<Area>();
        areas + (possible + 1) * size_of::<usize>() + size_of::<Common>() + align_of::<Common>()
    }

    pub(super) fn carve(
        (layout, possible): (&Layout, usize),
        (origin, states): (u64, StateTable<'m>),
        (tune, tag): (&Tune, StoreTag),
        carver: &mut Carver<'m>,
    ) -> Option<Self> {
        let Layout { cpus, capacities } = *layout;
        let store = |table, common| {
            let frames = Frames { states: states.start(), origin, common };
            Self { table, frames, cpus, borrows: PhantomData }
        };
        if cpus > possible || cpus == 0 {
            return (cpus == 0).then(|| store(None, NonNull::dangling()));
        }
        let length = u32::try_from(states.len()).ok()?;
        let common = Common::new(length, &capacities)?;
        let common = &*carver.place(common)?;
        let stride = Body::stride(&capacities);
        let bytes = carver.take_bytes(stride.checked_mul(cpus)?, align_of::<Area>())?;
        let base = NonNull::from(&mut *bytes).cast::<Area>();
        for cpu in 0..cpus {
            // SAFETY: 1. `bytes` is aligned for `Area` and is `cpus` strides long, and a stride is a multiple of that
            // alignment and holds an area and its slots. 2. The carver gave it to us exclusively for 'm.
            unsafe {
                let area = base.byte_add(cpu * stride);
                write_area(area, common.frames, tag);
                Body::set_up(area, &capacities, common, tune);
            }
        }
        let table = carver.take_with(possible, |cpu| {
            // SAFETY: there are `cpus` areas, a stride apart.
            let area = || unsafe { base.byte_add(cpu * stride) };
            Some(if cpu < cpus { area() } else { NonNull::from_ref(&NO_AREA).cast() })
        })?;
        Some(store(Some(NonNull::from(table).cast()), NonNull::from(common)))
    }

    #[inline(always)]
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    #[inline(always)]
    pub(super) fn table(&self) -> Option<AreaTable<'_>> {
        let frames = NonNull::from_ref(&self.frames);
        self.table.map(|areas| AreaTable { areas, frames, borrows: PhantomData })
    }

    /// The tag of its areas, on a platform that keeps words.
    pub(super) fn tag(&self) -> StoreTag {
        StoreTag(self.frames.states.addr().get())
    }

    #[inline]
    pub(super) fn area(&self, cpu: usize) -> Option<NonNull<Area>> {
        // SAFETY: there are `cpus` areas.
        (cpu < self.cpus).then_some(self.table()).flatten().map(|table| unsafe { table.area(cpu) })
    }

    #[inline]
    pub(super) fn lists(&self, cpu: usize) -> Option<CpuLists<'_>> {
        let area = self.area(cpu)?;
        // SAFETY: area and frames are this store's.
        Some(unsafe { CpuLists::new(area, NonNull::from_ref(&self.frames), self.frames.states) })
    }
}

/// For each CPU that the platform can have its area, or [`NO_AREA`], of which nothing but the busy flag may be read.
#[derive(Clone, Copy, Debug)]
pub(super) struct AreaTable<'a> {
    areas: NonNull<NonNull<Area>>,
    /// Not to be read for [`NO_AREA`].
    frames: NonNull<Frames>,
    borrows: PhantomData<&'a ()>,
}

impl<'a> AreaTable<'a> {
    /// A CPU's area, perhaps [`NO_AREA`].
    ///
    /// # Safety
    /// The platform can have that CPU.
    #[inline(always)]
    pub(super) unsafe fn area(self, cpu: usize) -> NonNull<Area> {
        // SAFETY: in the table, by the caller's promise; it is not written after it was made.
        unsafe { *self.areas.add(cpu).as_ref() }
    }

    /// The lists of a present area, which the caller has entered.
    ///
    /// # Safety
    /// The area is in the table, and not [`NO_AREA`].
    #[inline(always)]
    pub(super) unsafe fn lists(self, area: NonNull<Area>) -> CpuLists<'a> {
        // SAFETY: the area is there, so that the table has been set, and `frames` with it.
        unsafe { CpuLists::new(area, self.frames, self.frames.as_ref().states) }
    }
}

/// Most CPUs for which a table of absent areas is at hand.
const MAX_ABSENT: usize = 64;

/// Pointers to [`NO_AREA`].
#[repr(transparent)]
struct AbsentTable<const CPUS: usize>([NonNull<NoArea>; CPUS]);

// SAFETY: their target is a static with atomics in it.
unsafe impl<const CPUS: usize> Sync for AbsentTable<CPUS> {}

static NO_CPU: AbsentTable<1> = AbsentTable([NonNull::from_ref(&NO_AREA); 1]);
static NO_CPUS: AbsentTable<MAX_ABSENT> = AbsentTable([NonNull::from_ref(&NO_AREA); MAX_ABSENT]);

/// A table that is set once. Before, all areas are absent.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `areas` | a table of absent areas, null if they are too many for one; then a store's | the caller that has set `taken`, once |
/// | `frames` | anything; then the store's | the same, before `areas` and `tag` |
/// | `tag` | [`StoreTag::NONE`]; then the tag of the store's areas, if words may lead to them | the same |
/// | `taken` | – | [`set`](Self::set) |
#[derive(Debug)]
pub(super) struct AreaTableRef {
    areas: AtomicPtr<NonNull<Area>>,
    tag: AtomicUsize,
    frames: UnsafeCell<Frames>,
    taken: AtomicBool,
}

impl AreaTableRef {
    /// For so many CPUs that the platform can have: null only if they are more than [`MAX_ABSENT`].
    pub(super) const fn new(possible: usize) -> Self {
        let absent = match possible {
            0..=1 => (&raw const NO_CPU).cast_mut().cast(),
            2..=MAX_ABSENT => (&raw const NO_CPUS).cast_mut().cast(),
            _ => core::ptr::null_mut(),
        };
        let frames = Frames { states: NonNull::dangling(), origin: 0, common: NonNull::dangling() };
        Self {
            areas: AtomicPtr::new(absent),
            tag: AtomicUsize::new(StoreTag::NONE.0),
            frames: UnsafeCell::new(frames),
            taken: AtomicBool::new(false),
        }
    }

    /// Sets it; with `tag` words may lead to the areas of that tag.
    pub(super) fn set(&self, table: AreaTable<'static>, tag: Option<StoreTag>) {
        // Relaxed: it decides which call is first, and publishes nothing.
        if self.taken.swap(true, Ordering::Relaxed) {
            return;
        }
        // SAFETY: 1. this call is the only one ever to write. 2. Nothing is read before `areas` or `tag` is stored,
        // below. 3. The table's pointer is to data that its store keeps for 'static.
        let states = unsafe {
            *self.frames.get() = *table.frames.as_ref();
            table.frames.as_ref().states
        };
        // Release pairs with the acquire in `get`: a CPU that sees the pointer sees the table, the areas and `frames`.
        self.areas.store(table.areas.as_ptr(), Ordering::Release);
        if let Some(tag) = tag {
            // `lists_by` makes a pointer of the tag.
            let _ = states.as_ptr().expose_provenance();
            // Release pairs with the acquire in `tag`: a CPU that sees it sees `frames`.
            self.tag.store(tag.0, Ordering::Release);
        }
    }

    /// The table, for the number of CPUs that `new` was told.
    #[inline(always)]
    pub(super) fn get(&self, possible: usize) -> Option<AreaTable<'_>> {
        let table = self.areas.load(Ordering::Acquire);
        let areas = if possible <= MAX_ABSENT {
            // SAFETY: neither `new` nor `set` made it null.
            unsafe { NonNull::new_unchecked(table) }
        } else {
            NonNull::new(table)?
        };
        Some(AreaTable { areas, frames: self.frames(), borrows: PhantomData })
    }

    #[inline(always)]
    fn frames(&self) -> NonNull<Frames> {
        NonNull::from_ref(&self.frames).cast()
    }

    /// The tag by which a CPU's word may lead to one of the areas, or one that no area has.
    #[inline(always)]
    pub(super) fn tag(&self) -> StoreTag {
        StoreTag(self.tag.load(Ordering::Acquire))
    }

    /// Whether words may lead to the areas.
    pub(super) fn has_tag(&self) -> bool {
        self.tag() != StoreTag::NONE
    }

    /// The lists of a present area, which the caller has entered.
    ///
    /// # Safety
    /// The area is in the table.
    #[inline(always)]
    pub(super) unsafe fn lists(&self, area: NonNull<Area>) -> CpuLists<'_> {
        // SAFETY: an area is there, so that `set` has written `frames`.
        unsafe { CpuLists::new(area, self.frames(), (*self.frames.get()).states) }
    }

    /// The lists of the area to which a word has led.
    ///
    /// # Safety
    /// The area has this tag, which came from [`tag`](Self::tag).
    #[inline(always)]
    pub(super) unsafe fn lists_by(&self, area: NonNull<Area>, tag: StoreTag) -> CpuLists<'_> {
        // SAFETY: 1. the tag is not `NONE`, which no area has, so that it is where the state bytes begin; `set` has
        // exposed the pointer.
        // 2. `set` has written `frames` before it stored the tag.
        unsafe {
            let states = NonNull::new_unchecked(core::ptr::with_exposed_provenance_mut(tag.0));
            CpuLists::new(area, self.frames(), states)
        }
    }
}
