//! The simulated machine.
//!
//! * [`owner`]: who has each frame of its memory, and what follows from that: what can be moved, what can be given up.

#[expect(dead_code, unused_imports, reason = "the parts of the machine that use it are being added")]
pub(crate) mod owner;
