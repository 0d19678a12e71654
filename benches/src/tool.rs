//! The program's side of the valgrind tool in `tool/lines.c`: its counts are read while the program runs, so that a
//! single call can be counted. Without the tool every question is answered with 0.

use pageblock_frame::sync::{Ordering, compiler_fence};

/// Accesses that count in [`Figures`].
const CPU: u64 = 0x4C4E_0001;
const COUNT: u64 = CPU + 1;
const RESET: u64 = CPU + 2;
const READ: u64 = CPU + 3;
const EXCEPT: u64 = CPU + 4;
const PRESENT: u64 = CPU + 5;
const INSTRUCTIONS: u64 = CPU + 7;

/// Asks the tool; 0 where there is none.
#[inline(always)]
#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "valgrind's request sequence")]
fn request(code: u64, first: u64, second: u64) -> u64 {
    let arguments = [code, first, second, 0, 0, 0];
    let mut answer = 0_u64;
    // SAFETY: rotations that add up to nothing and an exchange of a register with itself, in which valgrind sees a
    // request; it writes `answer`, and the target that the request names: a `Figures` that its caller lends.
    unsafe {
        core::arch::asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") answer,
            in("rax") arguments.as_ptr(),
            options(nostack),
        );
    }
    answer
}

#[cfg(not(target_arch = "x86_64"))]
fn request(_: u64, _: u64, _: u64) -> u64 {
    0
}

/// The program runs under the tool.
#[must_use]
pub fn is_present() -> bool {
    request(PRESENT, 0, 0) > 0
}

/// Instructions executed so far.
#[must_use]
#[inline(always)]
pub fn instructions() -> u64 {
    compiler_fence(Ordering::SeqCst);
    let now = request(INSTRUCTIONS, 0, 0);
    compiler_fence(Ordering::SeqCst);
    now
}

/// Instructions that `work` executes, without those of asking.
#[inline(always)]
pub fn counted<R>(work: impl FnOnce() -> R) -> (u64, R) {
    let start = instructions();
    let result = work();
    let end = instructions();
    ((end - start).saturating_sub(asking()), result)
}

/// Instructions from one reading to the next with nothing between.
#[inline(always)]
fn asking() -> u64 {
    let start = instructions();
    instructions() - start
}

/// From now on the program is this virtual CPU.
pub fn become_cpu(cpu: u32) {
    request(CPU, u64::from(cpu), 0);
}

/// Lines and locks are counted while `work` runs.
#[inline(always)]
pub fn watched<R>(work: impl FnOnce() -> R) -> R {
    request(COUNT, 1, 0);
    compiler_fence(Ordering::SeqCst);
    let result = work();
    compiler_fence(Ordering::SeqCst);
    request(COUNT, 0, 0);
    result
}

/// Sets the counts to zero. Lines stay with the CPUs that have them.
pub fn reset() {
    request(RESET, 0, 0);
}

/// A range of addresses that never counts: the harness's own.
pub fn except(start: usize, end: usize) {
    request(EXCEPT, start as u64, end as u64);
}

/// Counts in [`watched`] calls since the [`reset`].
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct Figures {
    /// Lines that moved because a CPU read after another's write.
    pub moved_by_reads: u64,
    /// Lines that moved because a CPU wrote a line that others had.
    pub moved_by_writes: u64,
    /// Atomic read-modify-writes.
    pub read_modify_writes: u64,
    /// Accesses of memory.
    pub accesses: u64,
    /// Instructions, those of the requests included.
    pub instructions: u64,
    /// Address of the line that moved most.
    pub busiest_line: u64,
    /// How often it moved.
    pub moves_of_busiest_line: u64,
    /// Address of the lock that was held longest.
    pub busiest_lock: u64,
    /// Instructions for which it was held.
    pub held_by_busiest_lock: u64,
    /// The same of all locks.
    pub held_by_all_locks: u64,
    /// How often any lock was taken.
    pub acquisitions: u64,
}

/// The counts.
#[must_use]
pub fn figures() -> Figures {
    let mut figures = Figures::default();
    request(READ, core::ptr::from_mut(&mut figures).expose_provenance() as u64, 0);
    compiler_fence(Ordering::SeqCst);
    figures
}
