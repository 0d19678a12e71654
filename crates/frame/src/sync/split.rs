//! 64-bit figures on targets with atomics of at most 32 bits: two halves, each an atomic of its own.
//!
//! `portable-atomic`'s default is no way out: it takes a lock with interrupts on, and an interrupt handler that counts
//! waits for ever for the code that it interrupted.
//!
//! # Promises
//! Additions and subtractions are never lost, whichever CPUs and interrupts make them. **The pair is not one atomic**:
//! while a change goes from one half into the other, another CPU may read the halves of two values. A figure that stays
//! below 2^32 (frames of a zone) has nothing in its upper half, and is always read whole. Event counters and times are
//! read wrongly, if at all, once, and by 2^32; nothing on which memory safety rests may be kept here.

#![cfg_attr(target_has_atomic = "64", expect(dead_code, unreachable_pub, reason = "here for its tests only"))]
#![expect(clippy::disallowed_types, reason = "the project's atomics live here and in `real`")]

use core::sync::atomic::{self, Ordering};

/// Order of the halves in memory is that of a plain integer: the owner of a figure may read a part of it in place.
#[derive(Debug, Default)]
#[repr(C, align(8))]
struct Halves {
    #[cfg(target_endian = "big")]
    high: atomic::AtomicU32,
    low: atomic::AtomicU32,
    #[cfg(target_endian = "little")]
    high: atomic::AtomicU32,
}

const fn low_of(value: u64) -> u32 {
    value as u32
}

const fn high_of(value: u64) -> u32 {
    (value >> 32) as u32
}

const fn join(low: u32, high: u32) -> u64 {
    (high as u64) << 32 | low as u64
}

impl Halves {
    const fn new(value: u64) -> Self {
        Self { low: atomic::AtomicU32::new(low_of(value)), high: atomic::AtomicU32::new(high_of(value)) }
    }

    fn load(&self, order: Ordering) -> u64 {
        join(self.low.load(order), self.high.load(order))
    }

    /// # Safety
    /// All writes are made by the caller's CPU, or happened before.
    unsafe fn load_own(&self) -> u64 {
        // SAFETY: no other thread writes, by the caller's promise; an interrupt's write is over before it returns.
        unsafe { join(*self.low.as_ptr(), *self.high.as_ptr()) }
    }

    fn store(&self, value: u64, order: Ordering) {
        self.high.store(high_of(value), order);
        self.low.store(low_of(value), order);
    }

    fn swap(&self, value: u64, order: Ordering) -> u64 {
        let high = self.high.swap(high_of(value), order);
        join(self.low.swap(low_of(value), order), high)
    }

    /// Decided by the lower half: two CPUs that expect the same value do not both succeed.
    fn compare_exchange(&self, current: u64, new: u64, orders: [Ordering; 2]) -> Result<u64, u64> {
        let seen = self.load(orders[1]);
        if seen != current {
            return Err(seen);
        }
        match self.low.compare_exchange(low_of(current), low_of(new), orders[0], orders[1]) {
            Ok(_) => {
                if high_of(current) != high_of(new) {
                    self.high.store(high_of(new), orders[0]);
                }
                Ok(current)
            }
            Err(low) => Err(join(low, high_of(seen))),
        }
    }

    fn fetch_add(&self, value: u64, order: Ordering) -> u64 {
        let low = self.low.fetch_add(low_of(value), order);
        // The carry belongs to the addition that made it, so that the sum of the halves is right once all have
        // returned. A subtraction within the lower half carries the amount that its upper half takes away: nothing is
        // written.
        let carry = u32::from(low.checked_add(low_of(value)).is_none());
        let rest = high_of(value).wrapping_add(carry);
        let high = if rest == 0 { self.high.load(order_of_load(order)) } else { self.high.fetch_add(rest, order) };
        join(low, high)
    }
}

/// The strongest ordering that a load can have where a read-modify-write has this one.
const fn order_of_load(order: Ordering) -> Ordering {
    match order {
        Ordering::Acquire | Ordering::AcqRel => Ordering::Acquire,
        Ordering::SeqCst => Ordering::SeqCst,
        _ => Ordering::Relaxed,
    }
}

macro_rules! split {
    ($($name:ident($value:ty);)*) => {$(
        /// A figure in two halves; the methods are those of `core::sync::atomic`, the promise is weaker (see the
        /// module).
        #[derive(Debug, Default)]
        #[repr(transparent)]
        pub struct $name(Halves);

        impl $name {
            /// A figure with this value.
            #[must_use]
            pub const fn new(value: $value) -> Self {
                Self(Halves::new(value as u64))
            }

            /// The value now.
            #[inline]
            pub fn load(&self, order: Ordering) -> $value {
                self.0.load(order) as $value
            }

            /// The value, read by the only CPU that writes it.
            ///
            /// # Safety
            /// All writes are made by the caller's CPU, or happened before.
            #[inline]
            pub unsafe fn load_own(&self) -> $value {
                // SAFETY: the caller's promise is passed on.
                unsafe { self.0.load_own() as $value }
            }

            /// Replaces the value.
            #[inline]
            pub fn store(&self, value: $value, order: Ordering) {
                self.0.store(value as u64, order);
            }

            /// Replaces the value and returns the old one.
            #[inline]
            pub fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value as u64, order) as $value
            }

            /// Replaces `current` by `new` if it is there.
            ///
            /// # Errors
            /// The value that was there instead.
            #[inline]
            pub fn compare_exchange(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                let done = self.0.compare_exchange(current as u64, new as u64, [success, failure]);
                done.map(|value| value as $value).map_err(|value| value as $value)
            }

            /// As [`Self::compare_exchange`].
            ///
            /// # Errors
            /// The value that was there.
            #[inline]
            pub fn compare_exchange_weak(
                &self, current: $value, new: $value, success: Ordering, failure: Ordering,
            ) -> Result<$value, $value> {
                self.compare_exchange(current, new, success, failure)
            }

            /// Adds; returns the old value.
            #[inline]
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add(value as u64, order) as $value
            }

            /// Subtracts; returns the old value.
            #[inline]
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                self.0.fetch_add((value as u64).wrapping_neg(), order) as $value
            }
        }
    )*};
}

split! {
    AtomicU64(u64);
    AtomicI64(i64);
}

#[cfg(test)]
mod tests {
    use super::*;
    use Ordering::Relaxed;
    use std::vec::Vec;

    /// Values on both sides of a carry.
    const EDGES: [u64; 7] = [0, 1, u32::MAX as u64, 1 << 32, (1 << 32) + 1, u64::MAX - 1, u64::MAX];

    #[test]
    fn one_cpu_computes_as_with_one_word() {
        for start in EDGES {
            for value in EDGES {
                let (split, whole) = (AtomicU64::new(start), atomic::AtomicU64::new(start));
                assert_eq!(split.fetch_add(value, Relaxed), whole.fetch_add(value, Relaxed));
                assert_eq!(split.load(Relaxed), whole.load(Relaxed), "{start} + {value}");
                assert_eq!(split.fetch_sub(start, Relaxed), whole.fetch_sub(start, Relaxed));
                assert_eq!(split.load(Relaxed), whole.load(Relaxed), "{start} + {value} - {start}");
                let orders = (Relaxed, Relaxed);
                assert_eq!(
                    split.compare_exchange(value, start, orders.0, orders.1),
                    whole.compare_exchange(value, start, orders.0, orders.1)
                );
                assert_eq!(
                    split.compare_exchange(7, 8, Relaxed, Relaxed),
                    whole.compare_exchange(7, 8, Relaxed, Relaxed)
                );
                assert_eq!(split.swap(value, Relaxed), whole.swap(value, Relaxed));
                split.store(start, Relaxed);
                // SAFETY: no other thread has it.
                assert_eq!((split.load(Relaxed), unsafe { split.load_own() }), (start, start));
            }
        }
    }

    #[test]
    fn signed_figures_go_below_zero() {
        let split = AtomicI64::new(1);
        split.fetch_sub(3, Relaxed);
        assert_eq!(split.load(Relaxed), -2);
        split.fetch_add(-(1 << 40), Relaxed);
        assert_eq!(split.load(Relaxed), -2 - (1 << 40));
    }

    #[test]
    fn threads_lose_no_carry() {
        let split = AtomicU64::new(u64::from(u32::MAX) - 100);
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        for _ in 0..10_000 {
                            split.fetch_add((1 << 31) + 1, Relaxed);
                            split.fetch_sub(1 << 30, Relaxed);
                        }
                    })
                })
                .collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap());
        });
        assert_eq!(split.load(Relaxed), u64::from(u32::MAX) - 100 + 40_000 * ((1 << 30) + 1));
    }

    #[test]
    fn the_lower_half_lies_where_the_lower_bytes_of_an_integer_lie() {
        let split = AtomicU64::new(0x1234_5678_9abc_def0);
        // SAFETY: no other thread has it, and its eight bytes are two integers.
        let bytes = unsafe { core::mem::transmute_copy::<AtomicU64, u64>(&split) };
        assert_eq!((bytes, align_of::<AtomicU64>()), (0x1234_5678_9abc_def0, 8));
    }
}
