//! Whether code works in an area.

use core::ptr::NonNull;

use pageblock_frame::Platform;
use pageblock_frame::sync::{AtomicU8, AtomicUsize, Ordering, PerCpuPtr};

use super::Area;

/// Value of an idle area's busy flag: the address of its zone's first state byte, on platforms that keep a
/// [`PerCpuPtr`], and on others a constant. It tells the areas of one zone from those of another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct StoreTag(pub(super) usize);

impl StoreTag {
    /// Where nothing has to tell zones apart.
    const ANY: Self = Self(1);
    /// The tag of no area: a tag is an address of a byte, or 1.
    pub(super) const NONE: Self = Self(usize::MAX);

    /// The tag of areas with state bytes from here on.
    #[inline(always)]
    pub(super) fn of<P: Platform>(states: NonNull<AtomicU8>) -> Self {
        if P::CPU_WORD { Self(states.addr().get()) } else { Self::ANY }
    }
}

/// The first word of an area.
///
/// | legal values | meaning | changed by |
/// |---|---|---|
/// | the area's [`StoreTag`] | idle | code pinned to the area's CPU; the caller that declares the CPU offline |
/// | 0 | busy; an interrupt stays out | the code that set it; the CPU that comes back online |
#[repr(transparent)]
#[derive(Debug)]
pub(super) struct BusyFlag(AtomicUsize);

impl BusyFlag {
    pageblock_frame::const_unless_model! {
        pub(super) const fn idle(tag: StoreTag) -> Self {
            Self(AtomicUsize::new(tag.0))
        }
    }

    pageblock_frame::const_unless_model! {
        /// Of a CPU without an area: never idle.
        pub(super) const fn always_busy() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// # Safety
    /// Only the caller's CPU writes the flag, or none does.
    #[inline(always)]
    unsafe fn load(&self) -> usize {
        #[cfg(not(loom))]
        // SAFETY: the caller's promise.
        return unsafe { self.0.load_own() };
        #[cfg(loom)]
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag, unless it is set.
    ///
    /// # Safety
    /// The area is of the caller's CPU, to which it is pinned, or one with a flag that is always set.
    #[inline(always)]
    pub(super) unsafe fn enter(&self) -> bool {
        // SAFETY: only this CPU's code writes the flag, and an interrupt between the load and the store leaves it as it
        // was.
        let idle = unsafe { self.load() } != 0;
        if idle {
            self.set();
        }
        idle
    }

    /// The same if the area's tag is this one.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    #[inline(always)]
    unsafe fn enter_with(&self, tag: StoreTag) -> bool {
        // SAFETY: as above.
        let idle = unsafe { self.load() } == tag.0;
        if idle {
            self.set();
        }
        idle
    }

    #[inline(always)]
    pub(super) fn clear(&self, tag: StoreTag) {
        self.0.store(tag.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn set(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The word that leads to an area: its first word is its busy flag.
pub(super) fn word_to(area: NonNull<Area>) -> PerCpuPtr {
    // SAFETY: an area that lives for ever (`AreaRef::set_for_words` asks for such), and its first word is one.
    unsafe { PerCpuPtr::from_raw(area.as_ptr().cast()) }
}

/// Enters the area that this CPU's word leads to, if it has this tag.
///
/// # Safety
/// The word is this CPU's, to which the caller is pinned.
#[inline(always)]
pub(super) unsafe fn enter_by_word(word: PerCpuPtr, tag: StoreTag) -> Option<NonNull<Area>> {
    #[cfg(loom)]
    NonNull::new(word.into_raw())?;
    // SAFETY: a word is not null, by `PerCpuPtr::new` and `word_to`.
    let area = unsafe { NonNull::new_unchecked(word.into_raw()) };
    // SAFETY: 1. it points to a word that is 0 for ever, or to an area that lives for ever, since only such are given
    // to words; an area begins with its flag. 2. The area is of the caller's CPU, to the word of which it was given.
    unsafe { area.cast::<BusyFlag>().as_ref().enter_with(tag) }.then_some(area.cast())
}
