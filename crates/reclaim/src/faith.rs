//! How long claims of progress are believed that the count of free frames does not bear out.

use pageblock_frame::const_unless_model;
use pageblock_frame::sync::{AtomicU32, Ordering};

/// Rounds in a row whose claim is believed although no more frames are free after them than before: others may have taken what was
/// freed. As many as Linux allows passes without progress.
pub(crate) const FAITH: u32 = 16;

/// Belief in an owner's claims.
///
/// | field | legal values | who may change it |
/// |---|---|---|
/// | `spent` | 0 to [`FAITH`] | whoever reclaims; a lost update lengthens or shortens belief by a round |
#[derive(Debug)]
pub(crate) struct Faith {
    spent: AtomicU32,
}

impl Faith {
    const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self { spent: AtomicU32::new(0) }
        }
    }

    /// The part of a claim that counts, for a round before and after which so many frames were free.
    pub(crate) fn believe(&self, claimed: u64, before: u64, after: u64) -> u64 {
        if after > before {
            self.spent.store(0, Ordering::Relaxed);
            return claimed;
        }
        if claimed == 0 {
            return 0;
        }
        let spent = self.spent.load(Ordering::Relaxed);
        if spent >= FAITH {
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
    fn a_liar_is_believed_for_a_while() {
        let faith = Faith::new();
        let believed = (0..100).filter(|_| faith.believe(7, 50, 50) > 0).count();
        assert_eq!(believed as u32, FAITH);
        assert_eq!(faith.believe(7, 50, 51), 7); // this one is true
        assert_eq!(faith.believe(7, 51, 51), 7); // and so the next is believed again
    }

    #[test]
    fn nothing_claimed_is_nothing_spent() {
        let faith = Faith::new();
        for _ in 0..100 {
            assert_eq!(faith.believe(0, 50, 40), 0);
        }
        assert_eq!(faith.believe(1, 50, 40), 1);
    }
}
