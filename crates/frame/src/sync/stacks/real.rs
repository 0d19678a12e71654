//! The real body: headers beside the words that guard them, slots behind, all in one run of carved memory.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::gate::{ABSENT, Gate, Key};
use super::table::Table;
use super::{Area, STACKS, StackId, View};
use crate::sync::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use crate::{Carver, StateTable};

/// What no frame number is: lies below each stack's first slot, so that popping an empty stack fails the frame check.
const NOTHING: u32 = u32::MAX;

/// One stack: slot numbers, counted from the area's first slot.
///
/// # Invariants
/// `1 <= first <= top <= last`, `end <= last`, and `last` is at most the number of slots. Slot `first - 1` holds
/// [`NOTHING`]. `first` and `last` never change; `top` and `end` are written by whoever may work in the area.
#[repr(C)]
struct Head {
    /// The top in the low [`TOP_BITS`] bits, and above them the number of blocks that have been popped: to count costs nothing then. The
    /// number begins anew after 2^48.
    top: AtomicU64,
    end: AtomicU32,
    first: u16,
    last: u16,
}

/// Bits of a slot number.
const TOP_BITS: u32 = 16;
const TOP: u64 = (1 << TOP_BITS) - 1;
/// What popping adds to a head's `top`: one block more, one slot less.
const POPPED: u64 = (1 << TOP_BITS) - 1;

impl Head {
    /// The top, for whoever may work in the area: the two bytes alone, which index a slot as they are.
    ///
    /// # Safety
    /// Nobody else works in the area.
    #[inline(always)]
    unsafe fn own_top(&self) -> u32 {
        const LOW: usize = if cfg!(target_endian = "little") { 0 } else { 3 };
        // SAFETY: two aligned bytes of the eight; nobody else writes them, by the caller's promise.
        u32::from(unsafe { *(&raw const self.top).cast::<u16>().add(LOW) })
    }

    #[inline(always)]
    fn top(&self) -> u32 {
        u32::from(self.top.load(Ordering::Relaxed) as u16)
    }

    #[inline(always)]
    fn first(&self) -> u32 {
        u32::from(self.first)
    }

    #[inline(always)]
    fn last(&self) -> u32 {
        u32::from(self.last)
    }

    /// Adds to `top`. By whoever may work in the area, so that it takes no read-modify-write that others could see.
    #[inline(always)]
    fn add(&self, change: u64) {
        // Read again, so that the compiler makes one instruction of it.
        self.top.store(self.top.load(Ordering::Relaxed).wrapping_add(change), Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<Head>() == StackId::UNIT as usize);

#[repr(C, align(64))]
struct Heads([Head; STACKS]);

#[repr(C)]
pub(super) struct Body<T> {
    heads: Heads,
    value: UnsafeCell<T>,
}

/// What all areas of a store have in common. It never changes, and is kept where the pointer to the areas is kept: so that the way to it
/// does not lead through the area, whose address is known last of all.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frames {
    /// State bytes, as many as the areas' `frames`.
    pub(super) states: NonNull<AtomicU8>,
    /// Number of the frame with index 0.
    pub(super) origin: u64,
}

/// Number of CPUs with areas, number of CPUs that the platform can have, capacities of the stacks.
pub(super) type Shape<'a> = (usize, usize, &'a [u32; STACKS]);

/// All areas.
#[derive(Debug)]
pub(super) struct Store<'m, T> {
    /// As many as the platform can have CPUs, if there are any areas.
    areas: Option<NonNull<NonNull<Area<T>>>>,
    frames: Frames,
    cpus: usize,
    borrows: PhantomData<(&'m AtomicU8, &'m mut T)>,
}

impl<'m, T: Copy> Store<'m, T> {
    /// Slots of all stacks, a sentinel below each; those without room share the first.
    const fn slots(capacities: &[u32; STACKS]) -> usize {
        let (mut slots, mut stack) = (1, 0);
        while stack < STACKS {
            if capacities[stack] > 0 {
                slots += capacities[stack] as usize + 1;
            }
            stack += 1;
        }
        slots
    }

    const fn stride(capacities: &[u32; STACKS]) -> usize {
        let bytes = size_of::<Area<T>>() + Self::slots(capacities) * size_of::<u32>();
        bytes.next_multiple_of(align_of::<Area<T>>())
    }

    pub(super) const fn bytes((cpus, possible, capacities): Shape<'_>) -> usize {
        if cpus == 0 {
            return 0;
        }
        let table = (possible + 1) * size_of::<usize>();
        cpus * Self::stride(capacities) + align_of::<Area<T>>() + table
    }

    pub(super) fn carve(
        (cpus, possible, capacities): Shape<'_>,
        (origin, states): (u64, StateTable<'m>),
        (value, key): (T, Key),
        carver: &mut Carver<'m>,
    ) -> Option<Self> {
        let frames = u32::try_from(states.len()).ok().filter(|&frames| frames < NOTHING)?;
        u16::try_from(Self::slots(capacities)).ok()?;
        let common = Frames { states: states.start(), origin };
        if cpus > possible || cpus == 0 {
            return (cpus == 0).then_some(Self { areas: None, frames: common, cpus, borrows: PhantomData });
        }
        let stride = Self::stride(capacities);
        let bytes = carver.take_bytes(stride.checked_mul(cpus)?, align_of::<Area<T>>())?;
        let base = NonNull::from(&mut *bytes).cast::<Area<T>>();
        for cpu in 0..cpus {
            // SAFETY: 1. `bytes` is aligned for `Area<T>` and is `cpus` strides long, and a stride is a multiple of that
            // alignment and holds an area and its slots. 2. The carver gave it to us exclusively for 'm.
            unsafe {
                let area = base.byte_add(cpu * stride);
                let heads = Self::write_slots(area, capacities);
                area.write(Area {
                    gate: Gate::open(key),
                    open: AtomicU32::new(frames),
                    signals: AtomicU32::new(0),
                    frames,
                    body: Body { heads, value: UnsafeCell::new(value) },
                });
            }
        }
        let table = carver.take_with(possible, |cpu| {
            // SAFETY: there are `cpus` areas, a stride apart.
            let area = || unsafe { base.byte_add(cpu * stride) };
            Some(if cpu < cpus { area() } else { NonNull::from_ref(&ABSENT).cast() })
        })?;
        Some(Self { areas: Some(NonNull::from(table).cast()), frames: common, cpus, borrows: PhantomData })
    }

    /// Empties every slot of an area and says where each stack is.
    ///
    /// # Safety
    /// The memory behind the area is ours and holds the slots.
    unsafe fn write_slots(area: NonNull<Area<T>>, capacities: &[u32; STACKS]) -> Heads {
        // SAFETY: by the caller's promise.
        let slots = unsafe { area.add(1).cast::<u32>() };
        for slot in 0..Self::slots(capacities) {
            // SAFETY: there are as many slots.
            unsafe { slots.add(slot).write(NOTHING) };
        }
        let mut next = 1;
        let heads = capacities.map(|capacity| {
            let first = if capacity > 0 { next + 1 } else { 1 };
            let last = first + capacity;
            next = next.max(last);
            // As many slots have numbers, as `carve` has seen to.
            let (top, end) = (AtomicU64::new(u64::from(first)), AtomicU32::new(last));
            Head { top, end, first: first as u16, last: last as u16 }
        });
        Heads(heads)
    }
}

impl<T> Store<'_, T> {
    #[inline(always)]
    pub(super) fn cpus(&self) -> usize {
        self.cpus
    }

    #[inline(always)]
    pub(super) fn table(&self) -> Option<Table<'_, T>> {
        let frames = NonNull::from_ref(&self.frames);
        self.areas.map(|areas| Table::new(areas, frames))
    }

    /// The key of its areas, on a platform that keeps words.
    pub(super) fn key(&self) -> Key {
        Key(self.frames.states.addr().get())
    }

    #[inline]
    pub(super) fn view(&self, cpu: usize) -> Option<View<'_, T>> {
        // SAFETY: there are `cpus` areas.
        let area = (cpu < self.cpus).then_some(self.table()).flatten().map(|table| unsafe { table.area(cpu) });
        area.map(|area| View::new(area, NonNull::from_ref(&self.frames), self.frames.states))
    }
}

// `top` and `end` are atomics for the sake of those who count from afar; slots are nobody's but the worker's.
impl<T> View<'_, T> {
    #[inline(always)]
    fn head(&self, stack: StackId) -> &Head {
        let heads = NonNull::from_ref(&self.area().body.heads).cast::<Head>();
        // SAFETY: the offset is a multiple of a head's size, below the size of all heads.
        unsafe { heads.byte_add(stack.offset as usize).as_ref() }
    }

    /// A slot.
    ///
    /// # Safety
    /// The area has that slot.
    #[inline(always)]
    unsafe fn slot(&self, number: usize) -> NonNull<u32> {
        // SAFETY: the slots lie behind the area, in the same carved run; the pointer was made from that run.
        unsafe { self.area.add(1).cast::<u32>().add(number) }
    }

    /// Takes the frame that was pushed last, with its state byte, and counts its block as handed out. `None` if there is none, or a
    /// signal waits.
    #[inline(always)]
    pub fn pop(&self, stack: StackId) -> Option<(u32, &AtomicU8)> {
        let head = self.head(stack);
        // SAFETY: 1. nobody else works in the area, so that `top` and the slot are ours. 2. `top >= first >= 1`, and at most the
        // number of slots, so the one below is a slot, perhaps the sentinel.
        let index = unsafe { *self.slot(head.own_top() as usize).sub(1).as_ref() };
        // The sentinel is not below any table's length, so an empty stack ends here and `top` stays at `first` or above.
        let state = self.frame(u64::from(index))?;
        head.add(POPPED);
        Some((index, state))
    }

    /// As [`pop`](Self::pop), signal or not.
    #[inline]
    pub fn pop_always(&self, stack: StackId) -> Option<(u32, &AtomicU8)> {
        let head = self.head(stack);
        let top = head.top();
        if top == head.first() {
            return None;
        }
        // SAFETY: `first < top <= last`, so the slot below `top` is one of the stack's.
        let index = unsafe { *self.slot(top as usize - 1).as_ref() };
        let state = self.frame_always(u64::from(index))?;
        head.add(POPPED);
        Some((index, state))
    }

    /// Puts a frame on top. False, with nothing changed, if the stack is at its limit.
    #[inline(always)]
    pub fn push(&self, stack: StackId, index: u32) -> bool {
        let head = self.head(stack);
        // SAFETY: 1. nobody else works in the area. 2. `top < end <= last`, which is at most the number of slots.
        unsafe {
            let top = head.own_top();
            if top >= head.end.load_own() {
                return false;
            }
            *self.slot(top as usize).as_ptr() = index;
        }
        head.add(1);
        true
    }

    /// The same with two instructions more and one access to memory less: `top` is loaded once and stored once, where adding to it in place
    /// loads it again. It pays where nothing has to be waited for before.
    #[inline(always)]
    pub(super) fn push_quickly(&self, stack: StackId, index: u32) -> bool {
        let head = self.head(stack);
        // SAFETY: nobody else works in the area.
        let (top, end) = unsafe { (head.top.load_own(), head.end.load_own()) };
        let place = (top & TOP) as usize;
        if place as u32 >= end {
            return false;
        }
        // SAFETY: `top < end <= last`, which is at most the number of slots.
        unsafe { *self.slot(place).as_ptr() = index };
        head.top.store(top + 1, Ordering::Relaxed);
        true
    }

    /// Frames on a stack.
    #[must_use]
    #[inline]
    pub fn len(&self, stack: StackId) -> u32 {
        let head = self.head(stack);
        head.top() - head.first()
    }

    /// Frames that a stack may hold now.
    #[must_use]
    pub fn limit(&self, stack: StackId) -> u32 {
        let head = self.head(stack);
        head.end.load(Ordering::Relaxed) - head.first()
    }

    /// Most frames that a stack can hold.
    #[must_use]
    #[inline]
    pub fn capacity(&self, stack: StackId) -> u32 {
        let head = self.head(stack);
        head.last() - head.first()
    }

    /// Lets [`push`](Self::push) fail from this many frames on; no more than the capacity.
    #[inline]
    pub fn set_limit(&self, stack: StackId, frames: u32) {
        let head = self.head(stack);
        head.end.store(head.first() + frames.min(head.last() - head.first()), Ordering::Relaxed);
    }

    /// Blocks that have been popped off a stack.
    #[must_use]
    #[inline]
    pub fn popped(&self, stack: StackId) -> u64 {
        self.head(stack).top.load(Ordering::Relaxed) >> TOP_BITS
    }

    /// Gives `fill` up to `most` empty slots above the top; what it says it has filled, from the start, is then on the
    /// stack. Returns how many.
    #[inline]
    pub fn fill(&mut self, stack: StackId, most: u32, fill: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let (top, last) = (self.head(stack).top(), self.head(stack).last());
        let room = most.min(last - top);
        // SAFETY: 1. `top..top + room` are slots, because `top + room <= last`; they hold numbers since they were carved.
        // 2. Nobody else works in the area (see `CpuStacks`), and the view is borrowed exclusively.
        let slots = unsafe { core::slice::from_raw_parts_mut(self.slot(top as usize).as_ptr(), room as usize) };
        let filled = (fill(slots) as u32).min(room);
        self.head(stack).add(u64::from(filled));
        filled
    }

    /// Shows up to `most` of the frames that were pushed first to `take`, and takes as many of them off as it says, from the first on.
    /// Returns how many.
    #[inline]
    pub fn take_oldest(&mut self, stack: StackId, most: u32, take: impl FnOnce(&[u32]) -> usize) -> u32 {
        let head = self.head(stack);
        let first = head.first();
        let held = head.top() - first;
        let shown = most.min(held);
        // SAFETY: as in `fill`, for the slots `first..first + shown`, which lie below `top`.
        let oldest = unsafe { core::slice::from_raw_parts(self.slot(first as usize).as_ptr(), shown as usize) };
        let taken = (take(oldest) as u32).min(shown);
        if taken < held {
            // SAFETY: the slots from `first + taken` up to `top` move down to `first`, all of them the stack's.
            unsafe { self.slot((first + taken) as usize).copy_to(self.slot(first as usize), (held - taken) as usize) };
        }
        self.head(stack).add(u64::from(taken).wrapping_neg());
        taken
    }

    /// The frames on a stack, the one that was pushed last at the end.
    #[must_use]
    pub fn frames_of(&mut self, stack: StackId) -> &[u32] {
        let head = self.head(stack);
        let (top, first) = (head.top(), head.first());
        // SAFETY: as in `fill`, for the slots `first..top`.
        unsafe { core::slice::from_raw_parts(self.slot(first as usize).as_ptr(), (top - first) as usize) }
    }

    /// The owner's value.
    #[inline]
    pub fn value(&mut self) -> &mut T {
        // SAFETY: nobody else works in the area, and the view is borrowed exclusively.
        unsafe { &mut *self.area().body.value.get() }
    }
}
