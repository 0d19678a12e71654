//! The kernel's work in an interrupt.

use core::sync::atomic::Ordering;

use crate::arch::cpu;
use crate::mm::FRAMES;
use crate::stress;

/// The timer ticked on this CPU.
pub fn on_tick() {
    let cpu = cpu::this();
    stress::on_tick(cpu.id().index(), cpu.ticks.load(Ordering::Relaxed));
}

/// Another CPU asks this one to give up its lists.
pub fn on_kick() {
    FRAMES.cpus().handle_kick();
}
