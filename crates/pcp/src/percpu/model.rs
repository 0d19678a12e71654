//! The model checker's body: the same stacks in tracked cells, on the heap.

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;

use loom::cell::UnsafeCell;
use pageblock_frame::StateTable;
use pageblock_frame::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

use super::areas::Layout;
use super::busy::{BusyFlag, StoreTag};
use super::{Area, CpuLists, Frames};
use crate::list::{LISTS, List};
use crate::tune::Tune;

struct Stack {
    frames: Vec<u32>,
    capacity: u32,
    limit: u32,
}

struct Inner {
    stacks: Vec<Stack>,
    tune: Tune,
}

pub(super) struct Body {
    /// For each list the blocks that have been popped, read from afar.
    popped: Vec<AtomicU64>,
    inner: UnsafeCell<Inner>,
}

/// As in the real body.
#[derive(Debug)]
pub(super) struct Common {
    pub(super) frames: u32,
}

#[derive(Clone, Copy)]
pub(super) struct AreaTable<'a> {
    areas: &'a [Option<Box<Area>>],
    absent: NonNull<Area>,
    frames: NonNull<Frames>,
}

impl<'a> AreaTable<'a> {
    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn area(self, cpu: usize) -> NonNull<Area> {
        self.areas[cpu].as_ref().map_or(self.absent, |area| NonNull::from(&**area))
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn lists(self, area: NonNull<Area>) -> CpuLists<'a> {
        // SAFETY: the store keeps them.
        unsafe { CpuLists::new(area, self.frames, self.frames.as_ref().states) }
    }
}

pub(super) struct AreaTableRef(std::sync::OnceLock<(AreaTable<'static>, Option<StoreTag>)>);

impl AreaTableRef {
    pub(super) const fn new(_possible: usize) -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(super) fn set(&self, table: AreaTable<'static>, tag: Option<StoreTag>) {
        let _ = self.0.set((table, tag));
    }

    pub(super) fn get(&self, _possible: usize) -> Option<AreaTable<'static>> {
        self.0.get().map(|set| set.0)
    }

    pub(super) fn tag(&self) -> StoreTag {
        self.0.get().and_then(|set| set.1).unwrap_or(StoreTag::NONE)
    }

    pub(super) fn has_tag(&self) -> bool {
        self.0.get().is_some_and(|set| set.1.is_some())
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn lists_by(&self, area: NonNull<Area>, _tag: StoreTag) -> CpuLists<'_> {
        // SAFETY: as in the real body.
        unsafe { self.lists(area) }
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn lists(&self, area: NonNull<Area>) -> CpuLists<'_> {
        match self.get(0) {
            // SAFETY: as in the real body.
            Some(table) => unsafe { table.lists(area) },
            None => unreachable!("an area is there only when the table is"),
        }
    }
}

pub(super) struct Store<'m> {
    /// As many as the platform can have CPUs.
    areas: Vec<Option<Box<Area>>>,
    absent: Box<Area>,
    frames: Box<Frames>,
    _common: Box<Common>,
    cpus: usize,
    borrows: PhantomData<&'m AtomicU8>,
}

impl<'m> Store<'m> {
    pub(super) fn new(
        (layout, possible): (&Layout, usize),
        (origin, states): (u64, StateTable<'m>),
        (tune, tag): (Tune, StoreTag),
    ) -> Self {
        let length = states.len() as u32;
        let area = |busy| {
            let stack = |capacity: u16| Stack { frames: Vec::new(), capacity: capacity.into(), limit: capacity.into() };
            let stacks = layout.capacities.map(stack).into();
            Box::new(Area {
                busy,
                visible_frames: AtomicU32::new(length),
                signals: AtomicU32::new(0),
                body: Body {
                    popped: (0..LISTS).map(|_| AtomicU64::new(0)).collect(),
                    inner: UnsafeCell::new(Inner { stacks, tune }),
                },
            })
        };
        let areas = (0..possible).map(|cpu| (cpu < layout.cpus).then(|| area(BusyFlag::idle(tag)))).collect();
        let common = Box::new(Common { frames: length });
        let frames = Box::new(Frames { states: states.start(), origin, common: NonNull::from(&*common) });
        let absent = area(BusyFlag::always_busy());
        Self { areas, absent, frames, _common: common, cpus: layout.cpus, borrows: PhantomData }
    }

    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    pub(super) fn table(&self) -> Option<AreaTable<'_>> {
        let frames = NonNull::from(&*self.frames);
        Some(AreaTable { areas: &self.areas, absent: NonNull::from(&*self.absent), frames })
    }

    pub(super) fn tag(&self) -> StoreTag {
        StoreTag(self.frames.states.addr().get())
    }

    pub(super) fn area(&self, cpu: usize) -> Option<NonNull<Area>> {
        Some(NonNull::from(&**self.areas.get(cpu)?.as_ref()?))
    }

    pub(super) fn lists(&self, cpu: usize) -> Option<CpuLists<'_>> {
        let area = self.area(cpu)?;
        // SAFETY: area and frames are this store's.
        Some(unsafe { CpuLists::new(area, NonNull::from(&*self.frames), self.frames.states) })
    }
}

// As in the real body.
impl CpuLists<'_> {
    fn with<R>(&self, list: List, work: impl FnOnce(&mut Stack) -> R) -> R {
        // SAFETY: loom tracks the access and reports any that nothing orders; `work` does not come back here.
        self.area().body.inner.with_mut(|inner| work(unsafe { &mut (&mut *inner).stacks[list.index()] }))
    }

    fn count(&self, list: List) {
        let popped = &self.area().body.popped[list.index()];
        popped.store(popped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    pub(crate) fn popped(&self, list: List) -> u64 {
        self.area().body.popped[list.index()].load(Ordering::Relaxed)
    }

    pub(crate) fn pop(&self, list: List) -> Option<(u32, &AtomicU8)> {
        let index = self.with(list, |stack| stack.frames.last().copied())?;
        let state = self.frame(u64::from(index))?;
        self.with(list, |stack| stack.frames.pop());
        self.count(list);
        Some((index, state))
    }

    pub(crate) fn pop_always(&self, list: List) -> Option<(u32, &AtomicU8)> {
        let index = self.with(list, |stack| stack.frames.pop())?;
        self.count(list);
        Some((index, self.frame_always(u64::from(index))?))
    }

    pub(crate) fn push(&self, list: List, index: u32) -> bool {
        self.with(list, |stack| {
            let room = (stack.frames.len() as u32) < stack.limit;
            if room {
                stack.frames.push(index);
            }
            room
        })
    }

    pub(crate) fn len(&self, list: List) -> u32 {
        self.with(list, |stack| stack.frames.len() as u32)
    }

    pub(crate) fn frames_held(&self) -> u64 {
        List::places().map(|list| u64::from(self.len(list)) << list.order().as_u8()).sum()
    }

    pub(crate) fn limit(&self, list: List) -> u32 {
        self.with(list, |stack| stack.limit)
    }

    pub(crate) fn capacity(&self, list: List) -> u32 {
        self.with(list, |stack| stack.capacity)
    }

    pub(crate) fn set_limit(&self, list: List, blocks: u32) {
        self.with(list, |stack| stack.limit = blocks.min(stack.capacity));
    }

    pub(crate) fn fill(&mut self, list: List, most: u32, fill: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let room = self.with(list, |stack| most.min(stack.capacity - stack.frames.len() as u32));
        let mut slots = std::vec![u32::MAX; room as usize];
        let filled = fill(&mut slots).min(slots.len());
        self.with(list, |stack| stack.frames.extend_from_slice(&slots[..filled]));
        filled as u32
    }

    pub(crate) fn take_oldest(&mut self, list: List, most: u32, take: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let mut frames = self.with(list, |stack| stack.frames.clone());
        let shown = (most as usize).min(frames.len());
        let taken = take(&mut frames[..shown]).min(shown);
        self.with(list, |stack| stack.frames = frames.split_off(taken));
        taken as u32
    }

    pub(crate) fn frames_of(&mut self, list: List) -> &[u32] {
        // SAFETY: loom tracks the access; the lists are borrowed exclusively.
        self.area()
            .body
            .inner
            .with(|inner| unsafe { &*core::ptr::from_ref(&(&*inner).stacks[list.index()]) })
            .frames
            .as_slice()
    }

    pub(crate) fn tune(&mut self) -> &mut Tune {
        // SAFETY: loom tracks the access; the lists are borrowed exclusively.
        unsafe { &mut *self.area().body.inner.with_mut(|inner| &raw mut (*inner).tune) }
    }
}
