//! The stacks of an area: headers in it, slots behind it, all in one run of carved memory.
//!
//! ```text
//! area     | busy visible signals | tops, ends of the lists | the CPU's memory |
//! slots    | NOTHING | NOTHING | list 0 ... | NOTHING | list 1 ... |
//!                                      ^first  ^bottom  ^top  ^end  ^last
//! ```
//! Blocks lie from `bottom` to `top`. Taking the oldest moves `bottom` up; blocks move down to `first` where the limit
//! would not fit any more. Slot `bottom - 1` of each list holds [`NOTHING`], so that popping an empty list fails the
//! comparison of its frame number with `visible_frames`, which is made anyway. Lists without room share one empty
//! stack.

use core::cell::UnsafeCell;
use core::ptr::NonNull;

use pageblock_frame::sync::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use super::top::Top;
use super::{Area, CpuLists};
use crate::list::{LISTS, List, TYPES};
use crate::sizing::Sizes;
use crate::tune::Tune;

/// No frame number.
const NOTHING: u32 = u32::MAX;

/// Where a list's slots are.
#[derive(Clone, Copy, Debug)]
struct Place {
    first: u16,
    last: u16,
}

/// Common data of the areas of one store. Never changes.
#[derive(Debug)]
pub(super) struct Common {
    /// State bytes of the zone.
    pub(super) frames: u32,
    places: [Place; LISTS],
}

/// # Invariants
/// For each list `1 <= first <= bottom <= top <= last` and `bottom <= end <= last`, and `last` is at most the number of
/// slots. Slot `first - 1` is never written. `frames_below` is the sum of the bottoms, each times the frames of one of
/// the list's blocks. Bottoms, their sum, tops and ends are written by the code that may work in the area; other CPUs
/// read them to count.
#[repr(C)]
#[derive(Debug)]
pub(super) struct Body {
    tops: [Top; LISTS],
    bottoms: [AtomicU16; LISTS],
    /// So that few words tell how much the lists hold.
    frames_below: AtomicU32,
    /// The slots from which on a push fails.
    ends: [AtomicU16; LISTS],
    tune: UnsafeCell<Tune>,
}

impl Common {
    /// For stacks with room for so many blocks; `None` if slots run out of numbers.
    pub(super) fn new(frames: u32, capacities: &[u16; LISTS]) -> Option<Self> {
        u16::try_from(slots(capacities)).ok()?;
        let mut next = 1;
        let places = capacities.map(|capacity| {
            let first = if capacity > 0 { next + 1 } else { 1 };
            let last = first + capacity;
            next = next.max(last);
            Place { first, last }
        });
        (frames < NOTHING).then_some(Self { frames, places })
    }
}

/// Slots of all stacks, a sentinel below each; those without room share the first.
const fn slots(capacities: &[u16; LISTS]) -> usize {
    let (mut slots, mut list) = (1, 0);
    while list < LISTS {
        if capacities[list] > 0 {
            slots += capacities[list] as usize + 1;
        }
        list += 1;
    }
    slots
}

impl Body {
    /// Bytes from one area to the next.
    pub(super) const fn stride(capacities: &[u16; LISTS]) -> usize {
        let bytes = size_of::<Area>() + slots(capacities) * size_of::<u32>();
        bytes.next_multiple_of(align_of::<Area>())
    }

    /// A body to be set up.
    pub(super) const fn new() -> Self {
        Self {
            tops: [const { Top::new(0) }; LISTS],
            bottoms: [const { AtomicU16::new(0) }; LISTS],
            frames_below: AtomicU32::new(0),
            ends: [const { AtomicU16::new(0) }; LISTS],
            tune: UnsafeCell::new(Tune::new(Sizes { batch: 0, high: 0, high_max: 0 })),
        }
    }

    /// Sets the body of an area up, where it is, and empties the slots behind the area.
    ///
    /// # Safety
    /// The area and the memory behind it are the caller's, and hold the slots for these capacities, of which `common`
    /// was made.
    #[inline(never)]
    pub(super) unsafe fn set_up(area: NonNull<Area>, capacities: &[u16; LISTS], common: &Common, tune: &Tune) {
        // SAFETY: by the caller's promise.
        let first = unsafe { area.add(1).cast::<u32>() };
        for slot in 0..slots(capacities) {
            // SAFETY: there are as many slots.
            unsafe { first.add(slot).write(NOTHING) };
        }
        // SAFETY: by the caller's promise.
        let body = unsafe { &mut (*area.as_ptr()).body };
        for (((top, bottom), end), place) in body.tops.iter().zip(&body.bottoms).zip(&body.ends).zip(&common.places) {
            top.add(place.first);
            bottom.store(place.first, Ordering::Relaxed);
            end.store(place.last, Ordering::Relaxed);
        }
        let below = |list: List| u32::from(common.places[list.index() % LISTS].first) << list.order().as_u8();
        body.frames_below.store(List::places().map(below).sum(), Ordering::Relaxed);
        *body.tune.get_mut() = *tune;
    }
}

// Only the worker touches the slots; tops and ends are atomics, since other CPUs count from afar.
impl CpuLists<'_> {
    #[inline(always)]
    fn top(&self, list: List) -> &Top {
        // SAFETY: a list's index is below `LISTS`.
        unsafe { self.area().body.tops.get_unchecked(list.index()) }
    }

    #[inline(always)]
    fn end(&self, list: List) -> &AtomicU16 {
        // SAFETY: a list's index is below `LISTS`.
        unsafe { self.area().body.ends.get_unchecked(list.index()) }
    }

    #[inline(always)]
    fn bottom(&self, list: List) -> u16 {
        self.area().body.bottoms[list.index() % LISTS].load(Ordering::Relaxed)
    }

    #[inline(always)]
    fn set_bottom(&self, list: List, bottom: u16) {
        let Body { bottoms, frames_below, .. } = &self.area().body;
        let frames = |blocks: u16| u32::from(blocks) << list.order().as_u8();
        let rest = frames_below.load(Ordering::Relaxed).wrapping_sub(frames(self.bottom(list)));
        frames_below.store(rest.wrapping_add(frames(bottom)), Ordering::Relaxed);
        bottoms[list.index() % LISTS].store(bottom, Ordering::Relaxed);
    }

    #[inline(always)]
    fn place(&self, list: List) -> Place {
        self.common().places[list.index() % LISTS]
    }

    /// A slot.
    ///
    /// # Safety
    /// The area has that slot.
    #[inline(always)]
    unsafe fn slot(&self, number: u16) -> NonNull<u32> {
        // SAFETY: the slots lie behind the area, in the same carved run; the pointer was made from that run.
        unsafe { self.area_ptr().add(1).cast::<u32>().add(number.into()) }
    }

    /// Takes the frame that was pushed last, with its state byte, and counts its block as handed out. `None` if there
    /// is none, or a signal waits.
    #[inline(always)]
    pub(crate) fn pop(&self, list: List) -> Option<(u32, &AtomicU8)> {
        let top = self.top(list);
        // SAFETY: 1. no other code works in the area, so that `top` and the slot are ours. 2. `top >= bottom >= 1`, and
        // at most the number of slots, so the one below is a slot, perhaps the sentinel.
        let index = unsafe { *self.slot(top.own()).sub(1).as_ref() };
        // The sentinel is not below any table's length, so an empty list ends here and `top` stays at `bottom` or
        // above.
        let state = self.frame(u64::from(index))?;
        top.pop();
        Some((index, state))
    }

    /// As [`pop`](Self::pop), signal or not.
    #[inline]
    pub(crate) fn pop_always(&self, list: List) -> Option<(u32, &AtomicU8)> {
        if self.len(list) == 0 {
            return None;
        }
        let top = self.top(list);
        // SAFETY: `bottom < top <= last`, so the slot below `top` is one of the list's.
        let index = unsafe { *self.slot(top.get()).sub(1).as_ref() };
        let state = self.frame_always(u64::from(index))?;
        top.pop();
        Some((index, state))
    }

    /// Puts a frame on top. False, with nothing changed, if the list is at its limit.
    #[inline(always)]
    pub(crate) fn push(&self, list: List, index: u32) -> bool {
        // SAFETY: no other code works in the area.
        let top = unsafe { self.top(list).own() };
        // SAFETY: as above.
        if top >= unsafe { self.end(list).load_own() } {
            return false;
        }
        // SAFETY: `top < end <= last`, which is at most the number of slots.
        unsafe { *self.slot(top).as_ptr() = index };
        self.top(list).add(1);
        true
    }

    /// Blocks on a list. Seen from another CPU, that may be in the middle of a change, about so many.
    #[inline]
    pub(crate) fn len(&self, list: List) -> u32 {
        u32::from(self.top(list).get().saturating_sub(self.bottom(list)))
    }

    /// Frames on all lists. Seen from another CPU, about so many.
    pub(crate) fn frames_held(&self) -> u64 {
        let Body { tops, frames_below, .. } = &self.area().body;
        // From the largest order down: what a larger one holds counts twice as much with each step.
        let up_to_top = tops.as_chunks::<TYPES>().0.iter().rev().fold(0u32, |larger, tops| {
            tops.iter().fold(larger.wrapping_add(larger), |sum, top| sum.wrapping_add(top.get().into()))
        });
        let frames = up_to_top.wrapping_sub(frames_below.load(Ordering::Relaxed)) as i32;
        // Below 0 only where another CPU is in the middle of a change.
        frames.max(0) as u64
    }

    /// Blocks that a list may hold now.
    pub(crate) fn limit(&self, list: List) -> u32 {
        u32::from(self.end(list).load(Ordering::Relaxed) - self.bottom(list))
    }

    /// Most blocks that a list can hold.
    #[inline]
    pub(crate) fn capacity(&self, list: List) -> u32 {
        let Place { first, last } = self.place(list);
        u32::from(last - first)
    }

    /// Lets [`push`](Self::push) fail from this many blocks on; no more than the capacity.
    #[inline]
    pub(crate) fn set_limit(&self, list: List, blocks: u32) {
        let limit = blocks.min(self.capacity(list)) as u16;
        if self.bottom(list) + limit > self.place(list).last {
            self.move_down(list);
        }
        self.end(list).store(self.bottom(list) + limit, Ordering::Relaxed);
    }

    /// Blocks that have been popped off a list.
    #[inline]
    pub(crate) fn popped(&self, list: List) -> u64 {
        self.top(list).popped()
    }

    /// Moves the blocks down to the first slot. The limit stays.
    ///
    /// ```text
    /// before  NOTHING x x NOTHING a b c        after  NOTHING a b c . . .
    ///                             ^bottom                     ^first = bottom
    /// ```
    fn move_down(&self, list: List) {
        let (first, bottom) = (self.place(list).first, self.bottom(list));
        if bottom == first {
            return;
        }
        // SAFETY: 1. the slots from `bottom` up to `top` move down to `first`, all of them the list's. 2. No other code
        // works in the area.
        unsafe { self.slot(bottom).copy_to(self.slot(first), self.len(list) as usize) };
        let limit = self.limit(list) as u16;
        self.top(list).sub(bottom - first);
        self.set_bottom(list, first);
        self.end(list).store(first + limit, Ordering::Relaxed);
    }

    /// Gives `fill` up to `most` empty slots above the top; the slots that it reports as filled, from the start, are
    /// then on the list. Returns how many.
    #[inline]
    pub(crate) fn fill(&mut self, list: List, most: u32, fill: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        self.move_down(list);
        let (top, last) = (self.top(list).get(), self.place(list).last);
        let room = most.min(u32::from(last - top));
        // SAFETY: 1. `top..top + room` are slots, because `top + room <= last`; they hold numbers since they were
        // carved. 2. No other code works in the area, and the lists are borrowed exclusively.
        let slots = unsafe { core::slice::from_raw_parts_mut(self.slot(top).as_ptr(), room as usize) };
        let filled = (fill(slots) as u32).min(room);
        self.top(list).add(filled as u16);
        filled
    }

    /// Shows up to `most` of the frames that were pushed first to `take`, and takes as many of them off as it says,
    /// from the first on. Returns how many.
    #[inline]
    pub(crate) fn take_oldest(&mut self, list: List, most: u32, take: impl FnOnce(&mut [u32]) -> usize) -> u32 {
        let shown = most.min(self.len(list));
        // SAFETY: as in `fill`, for the slots from `bottom` on, of which there are so many below `top`.
        let oldest = unsafe { core::slice::from_raw_parts_mut(self.slot(self.bottom(list)).as_ptr(), shown as usize) };
        let taken = (take(oldest) as u32).min(shown);
        if taken == 0 {
            return 0;
        }
        let (limit, bottom) = (self.limit(list), self.bottom(list) + taken as u16);
        // SAFETY: the slot was the list's oldest block's, or one of the next that were taken with it.
        unsafe { *self.slot(bottom - 1).as_ptr() = NOTHING };
        self.set_bottom(list, bottom);
        // The end may lie below the bottom for a moment: nothing pushes meanwhile.
        self.end(list).store(bottom, Ordering::Relaxed);
        self.set_limit(list, limit);
        taken
    }

    /// The frames on a list, the one that was pushed last at the end.
    pub(crate) fn frames_of(&mut self, list: List) -> &[u32] {
        // SAFETY: as in `fill`, for the slots `bottom..top`.
        unsafe { core::slice::from_raw_parts(self.slot(self.bottom(list)).as_ptr(), self.len(list) as usize) }
    }

    /// The CPU's memory.
    #[inline]
    pub(crate) fn tune(&mut self) -> &mut Tune {
        // SAFETY: no other code works in the area, and the lists are borrowed exclusively.
        unsafe { &mut *self.area().body.tune.get() }
    }
}
