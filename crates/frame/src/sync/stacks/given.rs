//! How much a CPU has handed out: counted where it happens, read from anywhere.

use super::{CpuStacks, STACKS, StackId};
use crate::{CpuId, Order, Platform};

impl StackId {
    /// Order of the blocks on the stack.
    const fn order(self) -> Order {
        Order::saturating((self.index() / 4) as u8)
    }
}

impl<T: Copy, P: Platform> CpuStacks<'_, T, P> {
    /// Frames that a CPU has popped since boot, as they were a moment ago; 0 for one without an area.
    #[must_use]
    pub fn given(&self, cpu: CpuId) -> u64 {
        let Some(view) = self.store.view(cpu.index()) else { return 0 };
        let stacks = (0..STACKS).filter_map(StackId::new);
        stacks.fold(0, |sum: u64, stack| sum.wrapping_add(view.popped(stack) << stack.order().as_u8()))
    }
}
