//! Requests to the owner of an area, and its answers.

use core::ops::BitOr;

use pageblock_frame::sync::{AtomicU32, Ordering, spin_hint};

use super::Area;
use super::busy::StoreTag;

/// Requests to the owner of an area. The two bits of the protocol itself have no name here, so that nothing outside can
/// set or clear them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Signals(u32);

impl Signals {
    /// Nothing.
    pub(crate) const NONE: Self = Self(0);
    /// Empty the lists.
    pub(crate) const DRAIN: Self = Self(1);
    /// Pageblocks of the zone are isolated: put nothing on a list.
    pub(crate) const ISOLATE: Self = Self(2);
    /// The sizes have changed.
    pub(crate) const RESIZE: Self = Self(4);
    /// All lists are counted together. Stays for ever.
    pub(crate) const ACCOUNT: Self = Self(8);

    /// True if one of these is set.
    #[inline]
    pub(crate) const fn has(self, signals: Self) -> bool {
        self.0 & signals.0 != 0
    }

    /// True if the owner has left for good.
    pub(crate) const fn is_offline(self) -> bool {
        self.0 & OFFLINE != 0
    }
}

impl BitOr for Signals {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The owner has left for good.
const OFFLINE: u32 = 1 << 31;
/// An [`OfflineGuard`](super::guard::OfflineGuard) is out.
const TAKEN: u32 = 1 << 30;

/// Outcome of an attempt to come back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ComeOnline {
    /// The CPU is online.
    Done,
    /// It was online before.
    WasOnline,
    /// Another CPU has not left the area yet.
    Taken,
}

impl Area {
    /// Sets signals: the owner fails every look at a frame until it has answered. Returns the signals that were set
    /// before.
    ///
    /// ```text
    /// signaller                            owner (answer)
    /// signals |= s     (AcqRel)            visible_frames = all
    /// visible_frames = 0                   signals &= !done   (AcqRel)
    ///                                      if others are left: visible_frames = 0
    /// ```
    /// Whichever read-modify-write is later sees the other. If it is the signaller's, its 0 comes after the owner's
    /// store and stays; if it is the owner's, the owner sees the bit and stores 0 itself.
    pub(super) fn signal(&self, signals: Signals) -> Signals {
        // Release: the owner that answers sees the caller's earlier writes. Acquire: an answer that came before has
        // ordered its store to `visible_frames` before the next line's.
        let before = self.signals.fetch_or(signals.0, Ordering::AcqRel);
        self.visible_frames.store(0, Ordering::Relaxed);
        Signals(before)
    }

    /// Withdraws signals. The owner notices at its next slow operation.
    pub(super) fn withdraw(&self, signals: Signals) {
        // Relaxed: an owner that still sees the signal keeps its promise a little longer.
        self.signals.fetch_and(!signals.0, Ordering::Relaxed);
    }

    /// The signals that wait. The owner's writes before its answer happened before this call returns without the
    /// signal.
    pub(super) fn waiting(&self) -> Signals {
        Signals(self.signals.load(Ordering::Acquire))
    }

    /// The owner, or the guard on an offline CPU's area, clears `done`, which has been carried out before this call,
    /// and makes `frames` frames visible unless other signals wait. Returns the former signals. See
    /// [`signal`](Self::signal).
    pub(super) fn answer(&self, done: Signals, frames: u32) -> Signals {
        self.visible_frames.store(frames, Ordering::Relaxed);
        // Release: a CPU that sees the signal gone sees the work done for it. Acquire: the caller sees the writes of
        // the signaller before it set the signal, as of sizes.
        let seen = self.signals.fetch_and(!done.0, Ordering::AcqRel);
        if seen & !done.0 != 0 {
            self.visible_frames.store(0, Ordering::Relaxed);
        }
        Signals(seen)
    }

    /// The owner, which is inside, leaves for good.
    pub(super) fn set_offline(&self) {
        // Release: the next taker sees all writes to the area.
        self.signals.fetch_or(OFFLINE, Ordering::Release);
    }

    /// The area of a CPU that will not run.
    pub(super) fn declare_offline(&self) {
        self.busy.set();
        self.set_offline();
    }

    /// Takes an offline area: true for one caller at a time.
    pub(super) fn take(&self) -> bool {
        change(&self.signals, |seen| (seen & (OFFLINE | TAKEN) == OFFLINE).then_some(seen | TAKEN))
    }

    /// Leaves an offline area.
    pub(super) fn give_up(&self) {
        // Release: the next taker, or the owner that comes back, sees all writes to the area.
        self.signals.fetch_and(!TAKEN, Ordering::Release);
    }

    /// The owner comes back; waits at most `spins` rounds for a taker to leave.
    pub(super) fn come_online(&self, tag: StoreTag, spins: u32) -> ComeOnline {
        for _ in 0..=spins {
            if change(&self.signals, |seen| (seen & (OFFLINE | TAKEN) == OFFLINE).then_some(seen & !OFFLINE)) {
                self.busy.clear(tag);
                return ComeOnline::Done;
            }
            if !self.waiting().is_offline() {
                return ComeOnline::WasOnline;
            }
            spin_hint();
        }
        ComeOnline::Taken
    }
}

/// Changes the word in one step, or not at all if `new` has no value for it.
fn change(word: &AtomicU32, new: impl Fn(u32) -> Option<u32>) -> bool {
    let mut seen = word.load(Ordering::Relaxed);
    while let Some(next) = new(seen) {
        // Acquire: earlier writes to the area by the owner and by takers happened before. Pairs with the releases in
        // `set_offline` and `give_up`.
        match word.compare_exchange(seen, next, Ordering::Acquire, Ordering::Relaxed) {
            Ok(_) => return true,
            Err(now) => seen = now,
        }
    }
    false
}
