//! The real body: headers beside the words that guard them, slots behind, all in one run of carved memory.

use core::cell::UnsafeCell;
use core::marker::PhantomData;
use core::ptr::NonNull;

use super::{Area, STACKS, View};
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, Ordering};
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
    top: AtomicU32,
    end: AtomicU32,
    first: u32,
    last: u32,
}

#[repr(C, align(64))]
struct Heads([Head; STACKS]);

#[repr(C)]
pub(super) struct Body<T> {
    states: NonNull<AtomicU8>,
    heads: Heads,
    value: UnsafeCell<T>,
}

impl<T> Body<T> {
    /// The state byte of a frame.
    ///
    /// # Safety
    /// The table has that frame.
    #[inline(always)]
    pub(super) unsafe fn state<'a>(&self, index: usize) -> &'a AtomicU8 {
        // SAFETY: in the table by the caller's promise; the table outlives the areas, whose store borrows it.
        unsafe { self.states.add(index).as_ref() }
    }
}

/// All areas, one every `stride` bytes.
#[derive(Debug)]
pub(super) struct Store<'m, T> {
    base: NonNull<Area<T>>,
    stride: usize,
    cpus: usize,
    borrows: PhantomData<(&'m AtomicU8, &'m mut T)>,
}

impl<'m, T: Copy> Store<'m, T> {
    const fn slots(capacities: &[u32; STACKS]) -> usize {
        let (mut slots, mut stack) = (0, 0);
        while stack < STACKS {
            // A slot for the sentinel.
            slots += capacities[stack] as usize + 1;
            stack += 1;
        }
        slots
    }

    const fn stride(capacities: &[u32; STACKS]) -> usize {
        let bytes = size_of::<Area<T>>() + Self::slots(capacities) * size_of::<u32>();
        bytes.next_multiple_of(align_of::<Area<T>>())
    }

    pub(super) const fn bytes(cpus: usize, capacities: &[u32; STACKS]) -> usize {
        cpus * Self::stride(capacities) + align_of::<Area<T>>()
    }

    pub(super) fn carve(
        cpus: usize,
        capacities: &[u32; STACKS],
        (states, value): (StateTable<'m>, T),
        carver: &mut Carver<'m>,
    ) -> Option<Self> {
        let frames = u32::try_from(states.len()).ok().filter(|&frames| frames < NOTHING)?;
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
                    busy: AtomicBool::new(false),
                    open: AtomicU32::new(frames),
                    signals: AtomicU32::new(0),
                    frames,
                    body: Body { states: states.start(), heads, value: UnsafeCell::new(value) },
                });
            }
        }
        Some(Self { base, stride, cpus, borrows: PhantomData })
    }

    /// Empties every slot of an area and says where each stack is.
    ///
    /// # Safety
    /// The memory behind the area is ours and holds the slots.
    unsafe fn write_slots(area: NonNull<Area<T>>, capacities: &[u32; STACKS]) -> Heads {
        // SAFETY: by the caller's promise.
        let slots = unsafe { area.add(1).cast::<u32>() };
        let mut next = 0;
        let heads = capacities.map(|capacity| {
            let first = next + 1;
            for slot in next..first + capacity {
                // SAFETY: there are as many slots as the capacities and one sentinel each ask for.
                unsafe { slots.add(slot as usize).write(NOTHING) };
            }
            next = first + capacity;
            Head { top: AtomicU32::new(first), end: AtomicU32::new(next), first, last: next }
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
    pub(super) fn view(&self, cpu: usize) -> Option<View<'_, T>> {
        (cpu < self.cpus).then(|| {
            // SAFETY: there are `cpus` areas, a stride apart.
            let area = unsafe { self.base.byte_add(cpu * self.stride) };
            View { area, lifetime: PhantomData }
        })
    }
}

// Slots are read and written as atomics by the two fast operations, so that they can never be a data race, and as slices
// by the slow ones, which is sound because only one at a time works in an area.
impl<T> View<'_, T> {
    #[inline(always)]
    fn head(&self, stack: usize) -> &Head {
        let heads = &self.area().body.heads.0;
        heads.get(stack).unwrap_or(&heads[STACKS - 1])
    }

    /// A slot.
    ///
    /// # Safety
    /// The area has that slot.
    #[inline(always)]
    unsafe fn slot(&self, number: u32) -> NonNull<u32> {
        // SAFETY: the slots lie behind the area, in the same carved run; the pointer was made from that run.
        unsafe { self.area.add(1).cast::<u32>().add(number as usize) }
    }

    /// Takes the frame that was pushed last, with its state byte. `None` if there is none, or a signal waits.
    #[inline(always)]
    pub fn pop(&self, stack: usize) -> Option<(u32, &AtomicU8)> {
        let head = self.head(stack);
        let top = head.top.load(Ordering::Relaxed);
        // SAFETY: `top >= first >= 1`, and at most the number of slots, so this is a slot, perhaps the sentinel.
        let index = unsafe { self.slot(top - 1).cast::<AtomicU32>().as_ref() }.load(Ordering::Relaxed);
        // The sentinel is not below any table's length, so an empty stack ends here and `top` stays at `first` or above.
        let state = self.frame(u64::from(index))?;
        head.top.store(top - 1, Ordering::Relaxed);
        Some((index, state))
    }

    /// As [`pop`](Self::pop), signal or not.
    #[inline]
    pub fn pop_always(&self, stack: usize) -> Option<(u32, &AtomicU8)> {
        let head = self.head(stack);
        let top = head.top.load(Ordering::Relaxed);
        if top == head.first {
            return None;
        }
        // SAFETY: `first < top <= last`, so the slot below `top` is one of the stack's.
        let index = unsafe { self.slot(top - 1).cast::<AtomicU32>().as_ref() }.load(Ordering::Relaxed);
        let state = self.frame_always(u64::from(index))?;
        head.top.store(top - 1, Ordering::Relaxed);
        Some((index, state))
    }

    /// Puts a frame on top. False, with nothing changed, if the stack is at its limit.
    #[inline(always)]
    pub fn push(&self, stack: usize, index: u32) -> bool {
        let head = self.head(stack);
        let top = head.top.load(Ordering::Relaxed);
        if top >= head.end.load(Ordering::Relaxed) {
            return false;
        }
        // SAFETY: `top < end <= last`, which is at most the number of slots.
        unsafe { self.slot(top).cast::<AtomicU32>().as_ref() }.store(index, Ordering::Relaxed);
        head.top.store(top + 1, Ordering::Relaxed);
        true
    }

    /// Frames on a stack.
    #[must_use]
    #[inline]
    pub fn len(&self, stack: usize) -> u32 {
        let head = self.head(stack);
        head.top.load(Ordering::Relaxed) - head.first
    }

    /// Frames that a stack may hold now.
    #[must_use]
    pub fn limit(&self, stack: usize) -> u32 {
        let head = self.head(stack);
        head.end.load(Ordering::Relaxed) - head.first
    }

    /// Most frames that a stack can hold.
    #[must_use]
    #[inline]
    pub fn capacity(&self, stack: usize) -> u32 {
        let head = self.head(stack);
        head.last - head.first
    }

    /// Lets [`push`](Self::push) fail from this many frames on; no more than the capacity.
    #[inline]
    pub fn set_limit(&self, stack: usize, frames: u32) {
        let head = self.head(stack);
        head.end.store(head.first + frames.min(head.last - head.first), Ordering::Relaxed);
    }

    /// Gives `fill` up to `most` empty slots above the top; what it says it has filled, from the start, is then on the
    /// stack. Returns how many.
    #[inline]
    pub fn fill(&mut self, stack: usize, most: u32, fill: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let (top, last) = (self.head(stack).top.load(Ordering::Relaxed), self.head(stack).last);
        let room = most.min(last - top);
        // SAFETY: 1. `top..top + room` are slots, because `top + room <= last`; they hold numbers since they were carved.
        // 2. Nobody else works in the area (see `CpuStacks`), and the view is borrowed exclusively.
        let slots = unsafe { core::slice::from_raw_parts_mut(self.slot(top).as_ptr(), room as usize) };
        let filled = (fill(slots) as u32).min(room);
        self.head(stack).top.store(top + filled, Ordering::Relaxed);
        filled
    }

    /// Takes up to `most` of the frames that were pushed first, and hands them to `take`. Returns how many.
    #[inline]
    pub fn take_oldest(&mut self, stack: usize, most: u32, take: impl FnOnce(&[u32])) -> u32 {
        let head = self.head(stack);
        let (top, first) = (head.top.load(Ordering::Relaxed), head.first);
        let held = top - first;
        let taken = most.min(held);
        // SAFETY: as in `fill`, for the slots `first..first + taken`, which lie below `top`.
        take(unsafe { core::slice::from_raw_parts(self.slot(first).as_ptr(), taken as usize) });
        if taken < held {
            // SAFETY: the slots from `first + taken` up to `top` move down to `first`, all of them the stack's.
            unsafe { self.slot(first + taken).copy_to(self.slot(first), (held - taken) as usize) };
        }
        self.head(stack).top.store(top - taken, Ordering::Relaxed);
        taken
    }

    /// The frames on a stack, the one that was pushed last at the end.
    #[must_use]
    pub fn frames_of(&mut self, stack: usize) -> &[u32] {
        let head = self.head(stack);
        let (top, first) = (head.top.load(Ordering::Relaxed), head.first);
        // SAFETY: as in `fill`, for the slots `first..top`.
        unsafe { core::slice::from_raw_parts(self.slot(first).as_ptr(), (top - first) as usize) }
    }

    /// The owner's value.
    #[inline]
    pub fn value(&mut self) -> &mut T {
        // SAFETY: nobody else works in the area, and the view is borrowed exclusively.
        unsafe { &mut *self.area().body.value.get() }
    }
}
