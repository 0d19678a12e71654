//! Two bare floors: what the least that could be called a per-CPU list costs in the same program.
//!
//! Each CPU has an array of frame numbers and its length, behind a pointer; with `STATE` there is one byte a frame, checked
//! and set. No lists by order and type, no interrupts, no signals, nothing to refill from: pop and push with a bounds check
//! each.

use core::cell::Cell;

use pageblock_frame::sync::{Ordering, compiler_fence};

use crate::allocators::refused;
use crate::machine::TwoCpus;
use crate::{Frames, POOL};

/// Frames that a stack has room for.
const ROOM: usize = 4 * POOL as usize;

/// A floor.
#[derive(Debug)]
pub struct Floor<const STATE: bool> {
    cpus: [Box<Stack>; 2],
    states: Box<[Cell<u8>; ROOM]>,
}

/// On lines of its own: two CPUs share none.
#[derive(Debug)]
#[repr(align(128))]
struct Stack {
    length: Cell<u32>,
    frames: Box<[Cell<u32>; ROOM]>,
}

/// An array too large for the program's stack.
fn array<T>(value: impl Fn(usize) -> T) -> Box<[Cell<T>; ROOM]> {
    let cells: Vec<Cell<T>> = (0..ROOM).map(|place| Cell::new(value(place))).collect();
    match cells.into_boxed_slice().try_into() {
        Ok(array) => array,
        Err(_) => unreachable!("it has {ROOM} cells"),
    }
}

impl<const STATE: bool> Floor<STATE> {
    #[inline(always)]
    fn stack(&self) -> &Stack {
        &self.cpus[TwoCpus::<false>::cpu() as usize & 1]
    }
}

impl<const STATE: bool> Frames for Floor<STATE> {
    fn new(frames: u64) -> Self {
        let length = (frames as u32).min(ROOM as u32);
        let stack = |_| Box::new(Stack { length: Cell::new(length), frames: array(|place| place as u32) });
        Self { cpus: [0, 1].map(stack), states: array(|_| 0) }
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> u64 {
        let stack = self.stack();
        let length = stack.length.get().wrapping_sub(1);
        let Some(frame) = stack.frames.get(length as usize).map(Cell::get) else { refused(order) };
        stack.length.set(length);
        if STATE {
            let Some(state) = self.states.get(frame as usize) else { refused(order) };
            state.set(1);
        }
        // Or the compiler takes a pair for one operation that changes nothing.
        compiler_fence(Ordering::SeqCst);
        u64::from(frame)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        if STATE {
            match self.states.get(block as usize) {
                Some(state) if state.get() == 1 => state.set(0),
                _ => refused(order),
            }
        }
        let stack = self.stack();
        let length = stack.length.get();
        let Some(slot) = stack.frames.get(length as usize) else { refused(order) };
        slot.set(block as u32);
        stack.length.set(length + 1);
        compiler_fence(Ordering::SeqCst);
    }
}
