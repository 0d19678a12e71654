//! How long claims of progress are accepted that the count of free frames does not bear out.

use pageblock_frame::const_unless_model;
use pageblock_frame::sync::{AtomicU32, Ordering};

/// Rounds in a row that may claim progress although no more frames are free after them than before: others may have
/// taken the frames freed. As many as Linux allows passes without progress.
pub(crate) const MAX_UNCONFIRMED_ROUNDS: u32 = 16;

/// Claims of progress, and how many of them in a row were not borne out.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `spent` | 0 to [`MAX_UNCONFIRMED_ROUNDS`] | a round; a lost update costs or saves a round |
#[derive(Debug)]
pub(crate) struct UnconfirmedProgress {
    spent: AtomicU32,
}

impl UnconfirmedProgress {
    const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self { spent: AtomicU32::new(0) }
        }
    }

    /// The part of a claim that counts, for a round before and after which so many frames were free.
    pub(crate) fn accept(&self, claimed: u64, before: u64, after: u64) -> u64 {
        if after > before {
            self.spent.store(0, Ordering::Relaxed);
            return claimed;
        }
        if claimed == 0 {
            return 0;
        }
        let spent = self.spent.load(Ordering::Relaxed);
        if spent >= MAX_UNCONFIRMED_ROUNDS {
            return 0;
        }
        self.spent.store(spent + 1, Ordering::Relaxed);
        claimed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_are_accepted_for_a_while() {
        let unconfirmed = UnconfirmedProgress::new();
        let accepted = (0..100).filter(|_| unconfirmed.accept(7, 50, 50) > 0).count();
        assert_eq!(accepted as u32, MAX_UNCONFIRMED_ROUNDS);
        assert_eq!(unconfirmed.accept(7, 50, 51), 7); // this one is true
        assert_eq!(unconfirmed.accept(7, 51, 51), 7); // and so the next is accepted again
    }

    #[test]
    fn nothing_claimed_is_nothing_spent() {
        let unconfirmed = UnconfirmedProgress::new();
        for _ in 0..100 {
            assert_eq!(unconfirmed.accept(0, 50, 40), 0);
        }
        assert_eq!(unconfirmed.accept(1, 50, 40), 1);
    }
}
