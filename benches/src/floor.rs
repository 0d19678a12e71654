//! Two bare floors: the cost of the least that could be called a per-CPU list in the same program.
//!
//! Each CPU has an array of frame numbers and its length, behind a pointer; with `STATE` there is one byte a frame,
//! checked and set. The pointer is found by the CPU's number or, with `WORD`, in a thread-local variable. No lists by
//! order and type, no interrupts, no signals, nothing to refill from: pop and push with a bounds check each.

use core::cell::Cell;

use pageblock_frame::sync::{Ordering, compiler_fence};

use crate::allocators::refused;
use crate::machine::current_cpu;
use crate::{Frames, POOL};

/// Frames that a stack has room for.
const ROOM: usize = 4 * POOL as usize;

thread_local! {
    /// The stack of the CPU that a thread is.
    static OWN: Cell<Option<&'static Stack>> = const { Cell::new(None) };
}

/// Forgets which stack the thread's CPU has.
pub fn forget() {
    OWN.set(None);
}

/// A floor. Its stacks live for ever, since threads refer to them.
#[derive(Debug)]
pub struct Floor<const STATE: bool, const WORD: bool = false> {
    cpus: [&'static Stack; 2],
    states: Box<[Cell<u8>; ROOM]>,
}

// SAFETY: a stack is used by the thread that is its CPU, and a thread forgets it before it becomes another.
#[expect(unsafe_code, reason = "threads refer to stacks that are theirs by agreement")]
unsafe impl<const STATE: bool, const WORD: bool> Send for Floor<STATE, WORD> {}

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

impl<const STATE: bool, const WORD: bool> Floor<STATE, WORD> {
    #[inline(always)]
    fn stack(&self) -> &Stack {
        if WORD {
            return OWN.get().unwrap_or_else(|| self.join());
        }
        self.cpus[current_cpu() as usize & 1]
    }

    #[cold]
    #[inline(never)]
    fn join(&self) -> &'static Stack {
        let own = self.cpus[current_cpu() as usize & 1];
        OWN.set(Some(own));
        own
    }
}

impl<const STATE: bool, const WORD: bool> Frames for Floor<STATE, WORD> {
    fn new(frames: u64) -> Self {
        let length = (frames as u32).min(ROOM as u32);
        let stack = |_| &*Box::leak(Box::new(Stack { length: Cell::new(length), frames: array(|place| place as u32) }));
        forget();
        Self { cpus: [0, 1].map(stack), states: array(|_| 0) }
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        let stack = self.stack();
        let length = stack.length.get().wrapping_sub(1);
        let frame = stack.frames.get(length as usize).map(Cell::get)?;
        stack.length.set(length);
        if STATE {
            let Some(state) = self.states.get(frame as usize) else { refused(order) };
            state.set(1);
        }
        // Or the compiler takes a pair for one operation that changes nothing.
        compiler_fence(Ordering::SeqCst);
        Some(u64::from(frame))
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
