//! The kernel's own lock inside the allocator: a ticket lock, which serves CPUs in the order in which they came.
//!
//! `cargo test` in this folder, where `.cargo/config.toml` has the flag that a kernel's own configuration needs as well.

// ANCHOR: lock
use core::sync::atomic::{AtomicUsize, Ordering};
use pageblock::sync::KernelLock;

/// The next ticket in the upper half of the word, the one that is served in the lower.
pub struct Ticket;

const HALF: u32 = usize::BITS / 2;
const ONE: usize = 1 << HALF;

// SAFETY: 1. Tickets are handed out once each, and one is served at a time. 2. A holder's `Release` is what the next
// `Acquire` reads. 3. They call nothing.
unsafe impl KernelLock for Ticket {
    fn lock(word: &AtomicUsize) {
        let mine = word.fetch_add(ONE, Ordering::Relaxed) >> HALF;
        while word.load(Ordering::Acquire) & (ONE - 1) != mine {
            core::hint::spin_loop();
        }
    }

    fn try_lock(word: &AtomicUsize) -> bool {
        let seen = word.load(Ordering::Relaxed);
        seen >> HALF == seen & (ONE - 1)
            && word.compare_exchange(seen, seen.wrapping_add(ONE), Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    unsafe fn unlock(word: &AtomicUsize) {
        // The halves wrap, each for itself: only the holder changes the lower one.
        let next = |word: usize| word & !(ONE - 1) | (word.wrapping_add(1) & (ONE - 1));
        let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, |word| Some(next(word)));
    }
}

#[cfg(not(test))]
pageblock::kernel_lock!(Ticket);
// ANCHOR_END: lock

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock::{Gfp, Order, hosted};

    /// The same lock, whose calls are counted.
    struct Counted;

    static TAKEN: AtomicUsize = AtomicUsize::new(0);
    static GIVEN_UP: AtomicUsize = AtomicUsize::new(0);

    // SAFETY: that of `Ticket`, to which these calls go.
    unsafe impl KernelLock for Counted {
        fn lock(word: &AtomicUsize) {
            Ticket::lock(word);
            TAKEN.fetch_add(1, Ordering::Relaxed);
        }

        fn try_lock(word: &AtomicUsize) -> bool {
            let taken = Ticket::try_lock(word);
            TAKEN.fetch_add(usize::from(taken), Ordering::Relaxed);
            taken
        }

        unsafe fn unlock(word: &AtomicUsize) {
            GIVEN_UP.fetch_add(1, Ordering::Relaxed);
            // SAFETY: the caller's promise is passed on.
            unsafe { Ticket::unlock(word) };
        }
    }

    pageblock::kernel_lock!(Counted);

    #[test]
    fn one_ticket_is_served_at_a_time_also_where_the_halves_wrap() {
        let last = ONE - 1;
        let word = AtomicUsize::new(last << HALF | last);
        Ticket::lock(&word);
        assert!(!Ticket::try_lock(&word));
        // SAFETY: taken above.
        unsafe { Ticket::unlock(&word) };
        assert_eq!(word.load(Ordering::Relaxed), 0);
        assert!(Ticket::try_lock(&word));
    }

    #[test]
    fn the_allocator_takes_this_lock_and_no_other() {
        let frames = hosted::boot(64 << 20);
        let before = TAKEN.load(Ordering::Relaxed);
        std::thread::scope(|scope| {
            for thread in 0..2u32 {
                scope.spawn(move || {
                    for step in 0..20_000 {
                        // Blocks of every order, so that the zone is asked, and not only the lists.
                        let order = Order::saturating(((step + thread) % 11) as u8);
                        drop(frames.alloc_order(order, Gfp::KERNEL));
                    }
                });
            }
        });
        frames.drain();
        frames.check().unwrap();
        assert_eq!(frames.stats().free, frames.stats().managed);
        let taken = TAKEN.load(Ordering::Relaxed);
        assert!(taken > before, "no call has taken it");
        assert_eq!(taken, GIVEN_UP.load(Ordering::Relaxed), "one is still held");
    }
}
