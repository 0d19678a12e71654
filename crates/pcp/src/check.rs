//! The blocks on the lists, counted and checked.

use pageblock_frame::{CpuId, FrameState, Order, Platform};

use crate::list::List;
use crate::lists::PcpLists;
use crate::percpu::CpuLists;

/// Blocks on a zone's lists, all CPUs together.
///
/// ```
/// let counts = pageblock_pcp::PcpCounts::default();
/// assert_eq!(counts.frames(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PcpCounts {
    /// Blocks by order.
    pub by_order: [u64; Order::COUNT],
}

impl PcpCounts {
    /// Frames in all of them.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.by_order.iter().enumerate().map(|(order, blocks)| blocks << order).sum()
    }
}

pageblock_frame::errors! {
    /// Fault that [`PcpLists::check`] finds.
    ///
    /// ```
    /// use pageblock_pcp::PcpViolation;
    /// let found = PcpViolation::Total { order: 0, on_lists: 3, marked: 2 };
    /// assert_eq!(found.to_string(), "order 0: 3 blocks on lists, 2 marked as listed");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum PcpViolation {
        /// A frame on a list is not marked as listed with the list's order, or is not aligned to it.
        #[error("frame {index} is on a list of order {order}, and its state is {state:#04x}")]
        State {
            /// Zone-relative index.
            index: u32,
            /// The list's order.
            order: u8,
            /// The state byte.
            state: u8,
        },
        /// More or fewer blocks are on lists than are marked as such: a list had two owners, or a block is on two
        /// lists.
        #[error("order {order}: {on_lists} blocks on lists, {marked} marked as listed")]
        Total {
            /// The order.
            order: u8,
            /// On lists.
            on_lists: u64,
            /// Marked.
            marked: u64,
        },
    }
}

impl<P: Platform> PcpLists<'_, P> {
    /// Blocks on the lists and in the depot, as of a moment ago; exact when no CPU works with them.
    #[must_use]
    pub fn counts(&self) -> PcpCounts {
        let mut counts = PcpCounts::default();
        for cpu in 0..self.areas.cpus() as u32 {
            for list in List::all(self.config.set) {
                counts.by_order[list.order().index()] += u64::from(self.areas.len(CpuId::new(cpu), list));
            }
        }
        for list in List::all(self.config.set) {
            counts.by_order[list.order().index()] += u64::from(self.depot.blocks(list));
        }
        counts
    }

    /// Frames on one CPU's lists, as of a moment ago.
    #[must_use]
    pub fn frames_on(&self, cpu: CpuId) -> u64 {
        self.areas.frames_held(cpu)
    }

    /// Batches of the depot that hold blocks, or are a CPU's next one: 0 only if the depot holds nothing. One look,
    /// where [`frames_in_depot`](Self::frames_in_depot) looks at every list.
    #[must_use]
    pub fn batches_in_use(&self) -> u32 {
        self.depot.in_use()
    }

    /// Frames that batches in the depot hold, of no CPU in particular.
    #[must_use]
    pub fn frames_in_depot(&self) -> u64 {
        if self.depot.in_use() == 0 {
            return 0;
        }
        List::all(self.config.set).map(|list| u64::from(self.depot.blocks(list)) << list.order().as_u8()).sum()
    }

    /// Frames on the lists; see [`counts`](Self::counts).
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.counts().frames()
    }

    /// Compares the lists with the state bytes of the zone, while no CPU works with either: the number of blocks on all
    /// lists, and every block in the depot and on the lists of this CPU and of offline ones.
    ///
    /// # Errors
    /// The first [`PcpViolation`].
    pub fn check(&self) -> Result<(), PcpViolation> {
        if let Some(mut guard) = self.areas.enter() {
            self.check_cpu(guard.lists_mut())?;
        }
        for cpu in 0..self.areas.cpus() as u32 {
            if let Some(mut guard) = self.areas.take_over(CpuId::new(cpu)) {
                self.check_cpu(guard.lists_mut())?;
            }
        }
        for list in List::all(self.config.set) {
            self.depot.look(list, |blocks| self.check_blocks(list.order(), blocks))?;
        }
        let mut marked = PcpCounts::default();
        let states = self.zone.states();
        for index in 0..states.len() as u32 {
            if let FrameState::Listed(order, _) = states.get(index).decode() {
                marked.by_order[order.index()] += 1;
            }
        }
        let on_lists = self.counts();
        for (order, (&on_lists, &marked)) in on_lists.by_order.iter().zip(&marked.by_order).enumerate() {
            if on_lists != marked {
                return Err(PcpViolation::Total { order: order as u8, on_lists, marked });
            }
        }
        Ok(())
    }

    fn check_cpu(&self, lists: &mut CpuLists<'_>) -> Result<(), PcpViolation> {
        List::places().try_for_each(|list| self.check_blocks(list.order(), lists.frames_of(list)))
    }

    /// Blocks of one order that are on a list.
    fn check_blocks(&self, order: Order, blocks: &[u32]) -> Result<(), PcpViolation> {
        for &index in blocks {
            let state = self.zone.states().get(index);
            let aligned = self.zone.pfn_of(index).is_aligned(order);
            if !state.is_listed() || state.order() != order || !aligned {
                return Err(PcpViolation::State { index, order: order.as_u8(), state: state.raw() });
            }
        }
        Ok(())
    }
}
