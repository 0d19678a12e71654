//! Stacks, and how deep a call goes on the one that the machine boots on: it is painted before, and looked at after.

use core::cell::UnsafeCell;

use crate::CPUS;

/// Bytes of the stack on which the first CPU boots: no more than a usual loader gives.
pub const BOOT_BYTES: usize = 16 << 10;
/// Bytes of a CPU's stack for all later work, a power of two.
pub const BYTES: usize = 256 << 10;
/// A byte that no call is likely to leave behind in a row.
const PAINT: u8 = 0xa5;
/// Bytes below this function's own frame that stay unpainted: it uses them itself.
const OWN: usize = 1024;

/// Room for stacks, aligned to pages.
#[repr(C, align(4096))]
pub struct Stacks<T>(UnsafeCell<T>);

// SAFETY: each CPU uses its own part, through its stack pointer.
unsafe impl<T> Sync for Stacks<T> {}

/// The stack on which the first CPU boots.
pub static BOOT_STACK: Stacks<[u8; BOOT_BYTES]> = Stacks(UnsafeCell::new([0; BOOT_BYTES]));
/// The stacks of all CPUs, the first CPU's first.
pub static STACKS: Stacks<[[u8; BYTES]; CPUS]> = Stacks(UnsafeCell::new([[0; BYTES]; CPUS]));

/// The end of the first CPU's stack.
pub fn first_top() -> usize {
    STACKS.0.get().addr() + BYTES
}

/// Bytes of stack that the call needs, on the stack on which the first CPU boots.
#[inline(never)]
pub fn depth_of(call: impl FnOnce()) -> usize {
    let bottom = BOOT_STACK.0.get().cast::<u8>();
    let here = (&raw const bottom).addr();
    let free = here - bottom.addr() - OWN;
    let mut at = 0;
    while at < free {
        // SAFETY: this CPU's stack, below everything that is on it now; interrupts are off.
        unsafe { bottom.add(at).write_volatile(PAINT) };
        at += 1;
    }
    call();
    let mut untouched = 0;
    // SAFETY: as above.
    while untouched < free && unsafe { bottom.add(untouched).read_volatile() } == PAINT {
        untouched += 1;
    }
    assert!(untouched > 0, "the stack is too small to measure");
    here - bottom.addr() - untouched
}
