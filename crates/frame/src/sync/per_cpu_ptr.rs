//! The word by which a platform leads its CPU to the allocator's data of that CPU.

#[cfg(not(loom))]
use super::AtomicUsize;

/// Word that a platform may keep for the allocator on each CPU: opaque, the shortest way to that CPU's data.
///
/// A kernel has a place for it among its per-CPU variables (at a fixed distance from GS base, `TPIDR_EL1` or `tp`), a
/// hosted program in a thread-local variable. See [`Platform::CPU_WORD`](crate::Platform::CPU_WORD).
///
/// ```
/// use pageblock_frame::sync::PerCpuPtr;
/// let word = PerCpuPtr::new(); // the first word of each CPU
/// // SAFETY: `into_raw` returned it.
/// assert_eq!(unsafe { PerCpuPtr::from_raw(word.into_raw()) }, word);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PerCpuPtr(*mut ());

/// Target of a new [`PerCpuPtr`]: a word that is 0 for ever, aligned as the allocator's data.
#[cfg(not(loom))]
#[repr(align(128))]
struct Nowhere {
    _word: AtomicUsize,
}

#[cfg(not(loom))]
static NOWHERE: Nowhere = Nowhere { _word: AtomicUsize::new(0) };

impl PerCpuPtr {
    /// Leads to a word that is 0. Never null, except under the model checker.
    #[must_use]
    pub const fn new() -> Self {
        #[cfg(not(loom))]
        return Self((&raw const NOWHERE).cast_mut().cast());
        #[cfg(loom)]
        Self(core::ptr::null_mut())
    }

    /// The word as a pointer, to be kept where only a pointer can be kept.
    #[must_use]
    #[inline]
    pub const fn into_raw(self) -> *mut () {
        self.0
    }

    /// The word that [`into_raw`](Self::into_raw) made this of.
    ///
    /// # Safety
    /// It did; or the caller is the allocator's per-CPU lists, and it points to an aligned word that lives for ever.
    #[must_use]
    #[inline]
    pub const unsafe fn from_raw(raw: *mut ()) -> Self {
        Self(raw)
    }
}

impl Default for PerCpuPtr {
    fn default() -> Self {
        Self::new()
    }
}
