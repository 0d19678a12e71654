//! From the firmware to `kmain`: assembly entry, the data of the boot protocol, memory primitives, the command
//! line.

pub mod cmdline;
mod mem;
pub mod pvh;

core::arch::global_asm!(include_str!("boot.s"), options(att_syntax));
