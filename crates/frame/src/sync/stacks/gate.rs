//! Whether somebody is in an area, and the word by which a platform can lead its CPU there.

#[cfg(not(loom))]
use core::any::TypeId;
use core::ptr::NonNull;

#[cfg(not(loom))]
use super::super::Lock;
use super::super::{AtomicUsize, Ordering};
use crate::Platform;

/// What an area's gate holds while nobody is inside: where its store's state bytes begin, on platforms that keep [`CpuWord`]s, and
/// on others a constant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Key(pub(super) usize);

impl Key {
    /// Where nothing tells stores apart.
    const ANY: Self = Self(1);

    /// The key of areas whose state bytes begin here.
    #[inline(always)]
    pub(super) fn of<P: Platform>(states: NonNull<super::AtomicU8>) -> Self {
        if P::CPU_WORD { Self(states.addr().get()) } else { Self::ANY }
    }
}

/// The first word of an area.
///
/// | legal values | meaning | who may change it |
/// |---|---|---|
/// | the area's [`Key`] | nobody is inside | code pinned to the area's CPU; whoever declares the CPU offline |
/// | 0 | somebody is; an interrupt stays out | the one inside; the CPU that comes back online |
#[repr(transparent)]
#[derive(Debug)]
pub(super) struct Gate(AtomicUsize);

impl Gate {
    crate::const_unless_model! {
        /// With nobody inside.
        pub(super) const fn open(key: Key) -> Self {
            Self(AtomicUsize::new(key.0))
        }
    }

    crate::const_unless_model! {
        /// Of a CPU without an area: nobody ever gets in.
        pub(super) const fn closed() -> Self {
            Self(AtomicUsize::new(0))
        }
    }

    /// # Safety
    /// Only the caller's CPU writes the gate, or nobody does.
    #[inline(always)]
    unsafe fn load(&self) -> usize {
        #[cfg(not(loom))]
        // SAFETY: the caller's promise.
        return unsafe { self.0.load_own() };
        #[cfg(loom)]
        self.0.load(Ordering::Relaxed)
    }

    /// Marks the area, unless it is marked.
    ///
    /// # Safety
    /// The area is of the caller's CPU, to which it is pinned, or one that nobody enters.
    #[inline(always)]
    pub(super) unsafe fn enter(&self) -> bool {
        // SAFETY: only this CPU's code writes it, and an interrupt between the load and the store leaves it as it was.
        let free = unsafe { self.load() } != 0;
        if free {
            self.shut();
        }
        free
    }

    /// The same if the area's key is this one.
    ///
    /// # Safety
    /// As [`enter`](Self::enter).
    #[inline(always)]
    pub(super) unsafe fn enter_with(&self, key: Key) -> bool {
        // SAFETY: as above.
        let free = unsafe { self.load() } == key.0;
        if free {
            self.shut();
        }
        free
    }

    #[inline(always)]
    pub(super) fn leave(&self, key: Key) {
        self.0.store(key.0, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn shut(&self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// The gate of every CPU without an area, and what a new [`CpuWord`] leads to.
#[cfg(not(loom))]
pub(super) static ABSENT: Absent = Absent(Gate::closed());

/// Aligned as areas are.
#[cfg(not(loom))]
#[repr(C, align(128))]
#[derive(Debug)]
pub(super) struct Absent(Gate);

/// What a platform may keep for the allocator on each CPU: one word, opaque, the shortest way to what that CPU has of its own.
///
/// A kernel has a place for it among its per-CPU variables (at a fixed distance from GS base, `TPIDR_EL1` or `tp`), a hosted program
/// in a thread-local variable. See [`Platform::CPU_WORD`].
///
/// ```
/// use pageblock_frame::sync::CpuWord;
/// let word = CpuWord::new(); // what each CPU begins with
/// // SAFETY: it is what `into_raw` returned.
/// assert_eq!(unsafe { CpuWord::from_raw(word.into_raw()) }, word);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuWord(*mut ());

impl CpuWord {
    /// Leads nowhere. Never null, except under the model checker.
    #[must_use]
    pub const fn new() -> Self {
        #[cfg(not(loom))]
        return Self((&raw const ABSENT).cast_mut().cast());
        #[cfg(loom)]
        Self(core::ptr::null_mut())
    }

    /// The word as a pointer, to be kept where only a pointer can be kept.
    #[must_use]
    #[inline(always)]
    pub const fn into_raw(self) -> *mut () {
        self.0
    }

    /// The word that [`into_raw`](Self::into_raw) made this of.
    ///
    /// # Safety
    /// It did.
    #[must_use]
    #[inline(always)]
    pub const unsafe fn from_raw(raw: *mut ()) -> Self {
        Self(raw)
    }

    /// Leads to an area, of which the gate is the first word.
    pub(super) const fn to<T>(area: NonNull<super::Area<T>>) -> Self {
        Self(area.as_ptr().cast())
    }

    /// Enters the area that the word leads to if it has this key.
    ///
    /// # Safety
    /// The word is this CPU's, to which the caller is pinned. If the key is that of areas of `T`, none that are not have it.
    #[inline(always)]
    pub(super) unsafe fn enter<T>(self, key: Key) -> Option<NonNull<super::Area<T>>> {
        #[cfg(loom)]
        NonNull::new(self.0)?;
        // SAFETY: not null, by `new` and `to`.
        let area = unsafe { NonNull::new_unchecked(self.0) };
        // SAFETY: 1. it points to `ABSENT`, or to an area that lives for ever, since only such are given to words; both begin with a
        // gate. 2. The area is of the caller's CPU, whose word it was given to.
        unsafe { area.cast::<Gate>().as_ref().enter_with(key) }.then_some(area.cast())
    }
}

impl Default for CpuWord {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether areas with values of this type may be given to words. All that are so have one type, so that a word never leads to an area of
/// another; it is the first that asked.
#[cfg(not(loom))]
pub(super) fn may_have_words<T: 'static>() -> bool {
    static ONLY: Lock<Option<TypeId>> = Lock::new(None);
    *ONLY.lock().get_or_insert(TypeId::of::<T>()) == TypeId::of::<T>()
}

/// A model has stacks of one type.
#[cfg(loom)]
pub(super) fn may_have_words<T: 'static>() -> bool {
    true
}
