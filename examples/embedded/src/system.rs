//! Symbols that the linker and the compiler need, and its one system call.

use core::arch::{asm, global_asm};
use core::panic::PanicInfo;

global_asm!(".globl _start", "_start:", "xor ebp, ebp", "and rsp, -16", "call program",);

/// Ends the program with this status.
pub(crate) fn exit(status: i32) -> ! {
    // SAFETY: exit_group (231) does not return, and there is nothing left that it could harm.
    unsafe { asm!("syscall", in("rax") 231, in("edi") status, options(noreturn)) }
}

#[panic_handler]
fn panic(_: &PanicInfo<'_>) -> ! {
    exit(101)
}

// The precompiled `core` unwinds and names this; nothing here does.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

/// Copies forward.
///
/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { asm!("rep movsb", inout("rcx") bytes => _, inout("rdi") to => _, inout("rsi") from => _) };
    to
}

/// Copies, whatever overlaps.
///
/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, bytes: usize) -> *mut u8 {
    if (to as usize).wrapping_sub(from as usize) >= bytes {
        // SAFETY: a forward copy reads each byte before it is overwritten.
        return unsafe { memcpy(to, from, bytes) };
    }
    let (last_to, last_from) = (to.wrapping_add(bytes).wrapping_sub(1), from.wrapping_add(bytes).wrapping_sub(1));
    // SAFETY: backwards, each byte is read before it is overwritten; the direction flag is put back.
    unsafe {
        asm!("std", "rep movsb", "cld", inout("rcx") bytes => _, inout("rdi") last_to => _, inout("rsi") last_from => _);
    }
    to
}

/// Fills.
///
/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, bytes: usize) -> *mut u8 {
    // SAFETY: the caller's promise.
    unsafe { asm!("rep stosb", inout("rcx") bytes => _, inout("rdi") to => _, in("al") byte as u8) };
    to
}

/// Compares.
///
/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    for i in 0..bytes {
        // SAFETY: the caller's promise; volatile, so that the loop is not taken for a call of this function.
        let (x, y) = unsafe { (a.add(i).read_volatile(), b.add(i).read_volatile()) };
        if x != y {
            return i32::from(x) - i32::from(y);
        }
    }
    0
}

/// Compares for equality.
///
/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, bytes: usize) -> i32 {
    // SAFETY: the caller's promise.
    unsafe { memcmp(a, b, bytes) }
}
