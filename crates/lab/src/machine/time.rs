//! A moment of simulated time.

use std::fmt;

use super::costs::SECOND;

/// Nanoseconds since the machine was started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) struct Time(u64);

impl Time {
    /// When the machine was started.
    pub(crate) const START: Self = Self(0);
    /// When the disk is done with the actor's request; that time is not known yet. Later than all that is
    /// known.
    pub(crate) const DISK: Self = Self(u64::MAX - 1);
    /// Later than everything.
    pub(crate) const NEVER: Self = Self(u64::MAX);

    /// From nanoseconds.
    pub(crate) const fn new(nanoseconds: u64) -> Self {
        Self(nanoseconds)
    }

    /// In nanoseconds.
    pub(crate) const fn nanoseconds(self) -> u64 {
        self.0
    }

    /// So many nanoseconds later.
    pub(crate) const fn after(self, nanoseconds: u64) -> Self {
        Self(self.0.saturating_add(nanoseconds))
    }

    /// Nanoseconds since an earlier moment; 0 if it is not earlier.
    pub(crate) const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} s", self.0 as f64 / SECOND as f64)
    }
}
