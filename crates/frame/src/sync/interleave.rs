//! Points between which a scheduler of the tests lets another CPU run: under `cfg(interleave)` before each access to an
//! atomic and each attempt to take a lock; in other builds there are none.

#[cfg(interleave)]
extern crate std;

#[cfg(interleave)]
std::thread_local! {
    static HOOK: core::cell::Cell<fn()> = const { core::cell::Cell::new(|| ()) };
}

/// Calls `hook` at each point that this thread comes to, from now on.
#[cfg(interleave)]
pub fn at_each_point(hook: fn()) {
    HOOK.set(hook);
}

#[cfg(interleave)]
#[inline]
pub(super) fn point() {
    HOOK.get()();
}

#[cfg(not(interleave))]
#[inline]
pub(super) const fn point() {}
