//! The model checker's body: the same stacks in tracked cells, on the heap.

use core::marker::PhantomData;
use core::ptr::NonNull;
use std::boxed::Box;
use std::vec::Vec;

use loom::cell::UnsafeCell;

use super::gate::{Gate, Key};
use super::{Area, STACKS, StackId, View};
use crate::StateTable;
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};

struct Stack {
    frames: Vec<u32>,
    capacity: u32,
    limit: u32,
}

struct Inner<T> {
    stacks: Vec<Stack>,
    value: T,
}

pub(super) struct Body<T> {
    /// For each stack the blocks that have been popped, read from afar.
    popped: Vec<AtomicU64>,
    inner: UnsafeCell<Inner<T>>,
}

/// As in the real body.
#[derive(Clone, Copy)]
pub(super) struct Frames {
    pub(super) states: NonNull<AtomicU8>,
    pub(super) origin: u64,
}

pub(super) type Shape<'a> = (usize, usize, &'a [u32; STACKS]);

pub(super) struct Table<'a, T> {
    areas: &'a [Option<Box<Area<T>>>],
    absent: NonNull<Area<T>>,
    frames: NonNull<Frames>,
}

impl<T> Clone for Table<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Table<'_, T> {}

impl<'a, T> Table<'a, T> {
    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn area(self, cpu: usize) -> NonNull<Area<T>> {
        self.areas[cpu].as_ref().map_or(self.absent, |area| NonNull::from(&**area))
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn view(self, area: NonNull<Area<T>>) -> View<'a, T> {
        // SAFETY: the store keeps them.
        View::new(area, self.frames, unsafe { self.frames.as_ref() }.states)
    }
}

pub(super) struct TableRef<T: 'static>(std::sync::OnceLock<(Table<'static, T>, Option<Key>)>);

impl<T> TableRef<T> {
    pub(super) const fn new(_possible: usize) -> Self {
        Self(std::sync::OnceLock::new())
    }

    pub(super) fn set(&self, table: Table<'static, T>, key: Option<Key>) {
        let _ = self.0.set((table, key));
    }

    pub(super) fn get(&self, _possible: usize) -> Option<Table<'static, T>> {
        self.0.get().map(|set| set.0)
    }

    pub(super) fn key(&self) -> Key {
        self.0.get().and_then(|set| set.1).unwrap_or(Key(usize::MAX))
    }

    pub(super) fn has_key(&self) -> bool {
        self.0.get().is_some_and(|set| set.1.is_some())
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn view_by(&self, area: NonNull<Area<T>>, _key: Key) -> View<'_, T> {
        // SAFETY: as in the real body.
        unsafe { self.view(area) }
    }

    /// # Safety
    /// As in the real body.
    pub(super) unsafe fn view(&self, area: NonNull<Area<T>>) -> View<'_, T> {
        match self.get(0) {
            // SAFETY: as in the real body.
            Some(table) => unsafe { table.view(area) },
            None => unreachable!("an area is there only when the table is"),
        }
    }
}

pub(super) struct Store<'m, T> {
    /// As many as the platform can have CPUs.
    areas: Vec<Option<Box<Area<T>>>>,
    absent: Box<Area<T>>,
    frames: Frames,
    cpus: usize,
    borrows: PhantomData<&'m AtomicU8>,
}

impl<'m, T: Copy> Store<'m, T> {
    pub(super) fn new(
        (cpus, possible, capacities): Shape<'_>,
        (origin, states): (u64, StateTable<'m>),
        (value, key): (T, Key),
    ) -> Self {
        let frames = states.len() as u32;
        let area = |gate| {
            let stacks = capacities.map(|capacity| Stack { frames: Vec::new(), capacity, limit: capacity }).into();
            Box::new(Area {
                gate,
                open: AtomicU32::new(frames),
                signals: AtomicU32::new(0),
                frames,
                body: Body {
                    popped: (0..STACKS).map(|_| AtomicU64::new(0)).collect(),
                    inner: UnsafeCell::new(Inner { stacks, value }),
                },
            })
        };
        let areas = (0..possible).map(|cpu| (cpu < cpus).then(|| area(Gate::open(key)))).collect();
        let common = Frames { states: states.start(), origin };
        Self { areas, absent: area(Gate::closed()), frames: common, cpus, borrows: PhantomData }
    }
}

impl<T> Store<'_, T> {
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    pub(super) fn table(&self) -> Option<Table<'_, T>> {
        let frames = NonNull::from(&self.frames);
        Some(Table { areas: &self.areas, absent: NonNull::from(&*self.absent), frames })
    }

    pub(super) fn key(&self) -> Key {
        Key(self.frames.states.addr().get())
    }

    pub(super) fn view(&self, cpu: usize) -> Option<View<'_, T>> {
        let area = self.areas.get(cpu)?.as_ref()?;
        Some(View::new(NonNull::from(&**area), NonNull::from(&self.frames), self.frames.states))
    }
}

#[expect(missing_docs, reason = "the interface is documented where it is real")]
impl<T> View<'_, T> {
    fn with<R>(&self, stack: StackId, work: impl FnOnce(&mut Stack) -> R) -> R {
        // SAFETY: loom tracks the access and reports any that nothing orders; `work` does not come back here.
        self.area().body.inner.with_mut(|inner| work(unsafe { &mut (&mut *inner).stacks[stack.index()] }))
    }

    fn count(&self, stack: StackId) {
        let popped = &self.area().body.popped[stack.index()];
        popped.store(popped.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Blocks that have been popped off a stack.
    #[must_use]
    pub fn popped(&self, stack: StackId) -> u64 {
        self.area().body.popped[stack.index()].load(Ordering::Relaxed)
    }

    pub fn pop(&self, stack: StackId) -> Option<(u32, &AtomicU8)> {
        let index = self.with(stack, |stack| stack.frames.last().copied())?;
        let state = self.frame(u64::from(index))?;
        self.with(stack, |stack| stack.frames.pop());
        self.count(stack);
        Some((index, state))
    }

    pub fn pop_always(&self, stack: StackId) -> Option<(u32, &AtomicU8)> {
        let index = self.with(stack, |stack| stack.frames.pop())?;
        self.count(stack);
        Some((index, self.frame_always(u64::from(index))?))
    }

    pub fn push(&self, stack: StackId, index: u32) -> bool {
        self.with(stack, |stack| {
            let room = (stack.frames.len() as u32) < stack.limit;
            if room {
                stack.frames.push(index);
            }
            room
        })
    }

    pub(super) fn push_quickly(&self, stack: StackId, index: u32) -> bool {
        self.push(stack, index)
    }

    #[must_use]
    pub fn len(&self, stack: StackId) -> u32 {
        self.with(stack, |stack| stack.frames.len() as u32)
    }

    #[must_use]
    pub fn limit(&self, stack: StackId) -> u32 {
        self.with(stack, |stack| stack.limit)
    }

    #[must_use]
    pub fn capacity(&self, stack: StackId) -> u32 {
        self.with(stack, |stack| stack.capacity)
    }

    pub fn set_limit(&self, stack: StackId, frames: u32) {
        self.with(stack, |stack| stack.limit = frames.min(stack.capacity));
    }

    pub fn fill(&mut self, stack: StackId, most: u32, fill: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let room = self.with(stack, |stack| most.min(stack.capacity - stack.frames.len() as u32));
        let mut slots = std::vec![u32::MAX; room as usize];
        let filled = fill(&mut slots).min(slots.len());
        self.with(stack, |stack| stack.frames.extend_from_slice(&slots[..filled]));
        filled as u32
    }

    pub fn take_oldest(&mut self, stack: StackId, most: u32, take: impl FnOnce(&[u32]) -> usize) -> u32 {
        let frames = self.with(stack, |stack| stack.frames.clone());
        let shown = (most as usize).min(frames.len());
        let taken = take(&frames[..shown]).min(shown);
        self.with(stack, |stack| stack.frames.drain(..taken).count() as u32)
    }

    #[must_use]
    pub fn frames_of(&mut self, stack: StackId) -> &[u32] {
        // SAFETY: loom tracks the access; the view is borrowed exclusively.
        self.area()
            .body
            .inner
            .with(|inner| unsafe { &*core::ptr::from_ref(&(&*inner).stacks[stack.index()]) })
            .frames
            .as_slice()
    }

    pub fn value(&mut self) -> &mut T {
        // SAFETY: loom tracks the access; the view is borrowed exclusively.
        unsafe { &mut *self.area().body.inner.with_mut(|inner| &raw mut (*inner).value) }
    }
}
