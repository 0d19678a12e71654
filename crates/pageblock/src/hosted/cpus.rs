//! Which thread is which CPU.

use std::cell::{Cell, RefCell};
use std::sync::{Mutex, PoisonError};
use std::thread_local;

use crate::{CpuId, PerCpuPtr};

/// CPUs that there can be.
pub(super) const MOST: u32 = 64;
/// The number of a thread that is no CPU yet.
const NONE: u32 = u32::MAX;

/// A bit a CPU that some thread is.
static TAKEN: Mutex<u64> = Mutex::new(0);

thread_local! {
    static CPU: Cell<u32> = const { Cell::new(NONE) };
    static WORD: Cell<PerCpuPtr> = const { Cell::new(PerCpuPtr::new()) };
    /// Gives the CPU up when the thread ends.
    static LEASE: RefCell<Option<Lease>> = const { RefCell::new(None) };
}

/// A CPU that is a thread's.
struct Lease(u32);

impl Drop for Lease {
    fn drop(&mut self) {
        // A destructor that runs later takes another CPU.
        CPU.set(NONE);
        WORD.set(PerCpuPtr::new());
        *TAKEN.lock().unwrap_or_else(PoisonError::into_inner) &= !(1 << self.0);
    }
}

/// The CPU that the thread is.
#[inline(always)]
pub(super) fn current() -> CpuId {
    let cpu = CPU.get();
    CpuId::new(if cpu == NONE { join() } else { cpu })
}

#[inline(always)]
pub(super) fn word() -> PerCpuPtr {
    WORD.get()
}

#[inline(always)]
pub(super) fn set_word(word: PerCpuPtr) {
    WORD.set(word);
}

/// The lowest CPU that no thread is becomes this thread.
#[cold]
fn join() -> u32 {
    let mut taken = TAKEN.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = taken.trailing_ones();
    assert!(cpu < MOST, "more than {MOST} threads use the allocator at once");
    *taken |= 1 << cpu;
    drop(taken);
    CPU.set(cpu);
    let mut lease = Some(Lease(cpu));
    // At the end of the thread, when its variables are gone, the CPU stays taken for ever.
    if LEASE.try_with(|kept| *kept.borrow_mut() = lease.take()).is_err() {
        core::mem::forget(lease);
    }
    cpu
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;
    use std::vec::Vec;

    #[test]
    fn threads_that_live_together_are_different_cpus_and_give_them_up() {
        let barrier = Barrier::new(8);
        let round = || {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..8)
                    .map(|_| {
                        scope.spawn(|| {
                            let cpu = current();
                            barrier.wait();
                            cpu.index()
                        })
                    })
                    .collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).fold(0u64, |mask, cpu| mask | 1 << cpu)
            })
        };
        for _ in 0..32 {
            assert_eq!(round().count_ones(), 8, "a CPU is one thread");
        }
        assert!(TAKEN.lock().unwrap().count_ones() < 32, "CPUs are given up");
    }
}
