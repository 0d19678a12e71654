//! The count of a shared block, in every interleaving: the last owner, and it alone, frees, and sees all that the
//! others did. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p pageblock --test loom --target-dir target/loom
//! ```
#![cfg(loom)]
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

use std::sync::atomic::{AtomicUsize, Ordering};

use loom::{sync::Arc, thread};
use pageblock::RefCount;
use pageblock_frame::sync::Slot;

/// A count with two owners, and memory that each of them writes. An access that nothing orders is reported as a race.
struct Shared {
    count: RefCount,
    written: [Slot; 2],
}

impl Shared {
    fn new() -> Arc<Self> {
        let shared = Self { count: RefCount::new(), written: [Slot::new(0), Slot::new(0)] };
        assert!(shared.count.model_begin());
        shared.count.model_join();
        Arc::new(shared)
    }

    /// The block is this owner's alone: it may read what all have written.
    fn read_all(&self) {
        let sum: u32 = self.written.iter().map(Slot::get).sum();
        assert!(sum > 0);
        assert_eq!(self.count.owners(), 0);
    }
}

#[test]
fn the_last_owner_sees_what_the_others_did() {
    static LAST: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    loom::model(|| {
        let shared = Shared::new();
        let leave = |shared: &Shared, owner: usize| {
            shared.written[owner].set(1);
            let last = shared.count.model_leave();
            if last {
                LAST[owner].fetch_add(1, Ordering::Relaxed);
                shared.read_all();
            }
            last
        };
        let other = {
            let shared = shared.clone();
            thread::spawn(move || leave(&shared, 1))
        };
        let first = leave(&shared, 0);
        assert_ne!(first, other.join().unwrap(), "one owner is the last");
    });
    assert!(LAST.iter().all(|times| times.load(Ordering::Relaxed) > 0), "either owner may be the last");
}

#[test]
fn a_block_is_unique_when_the_other_owner_has_gone() {
    static UNIQUE: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];
    loom::model(|| {
        let shared = Shared::new();
        let other = {
            let shared = shared.clone();
            thread::spawn(move || {
                shared.written[1].set(1);
                shared.count.model_leave()
            })
        };
        let unique = shared.count.model_end();
        UNIQUE[usize::from(unique)].fetch_add(1, Ordering::Relaxed);
        if unique {
            shared.read_all();
        }
        assert!(!other.join().unwrap(), "the other was not the last");
    });
    assert!(UNIQUE.iter().all(|times| times.load(Ordering::Relaxed) > 0), "the other owner is there, or has gone");
}
