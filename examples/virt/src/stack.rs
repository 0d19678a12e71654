//! How deep a call goes: the free part of the stack is painted before, and looked at after.

use core::cell::UnsafeCell;

use crate::CPUS;

/// Bytes of a CPU's stack, a power of two.
pub const BYTES: usize = 256 << 10;
/// A byte that no call is likely to leave behind in a row.
const PAINT: u8 = 0xa5;
/// Bytes below this function's own frame that stay unpainted: it uses them itself.
const OWN: usize = 1024;

#[repr(C, align(4096))]
pub struct Stacks(UnsafeCell<[[u8; BYTES]; CPUS]>);

// SAFETY: each CPU uses its own part, through its stack pointer.
unsafe impl Sync for Stacks {}

/// The stacks of all CPUs, the first CPU's first.
pub static STACKS: Stacks = Stacks(UnsafeCell::new([[0; BYTES]; CPUS]));

/// Bytes of stack that the call needs, on the first CPU.
#[inline(never)]
pub fn depth_of(call: impl FnOnce()) -> usize {
    let bottom = STACKS.0.get().cast::<u8>();
    let here = (&raw const bottom).addr();
    let free = here - bottom.addr() - OWN;
    // SAFETY: this CPU's stack, below everything that is on it now; interrupts are off.
    (0..free).for_each(|at| unsafe { bottom.add(at).write_volatile(PAINT) });
    call();
    // SAFETY: as above.
    let untouched = (0..free).take_while(|at| unsafe { bottom.add(*at).read_volatile() } == PAINT).count();
    assert!(untouched > 0, "the stack is too small to measure");
    here - bottom.addr() - untouched
}
