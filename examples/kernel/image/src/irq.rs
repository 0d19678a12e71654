//! What the kernel does in an interrupt.

/// The timer ticked on this CPU.
pub fn on_tick() {}

/// Another CPU asks this one to give up its lists.
pub fn on_kick() {}
