//! Many frames with one call, in as few blocks as memory allows.

use core::fmt;

use pageblock_frame::{Gfp, MigrateType, Order, Pfn, Platform};
use pageblock_pcp::BlockKind;

use crate::PageAllocator;
use crate::error::AllocError;
use crate::frames::RawFrames;

/// Single frames that are asked for at once when no larger block is left.
const BATCH: usize = 64;

impl RawFrames {
    /// A place for a block, to be filled by [`PageAllocator::alloc_many`].
    pub const EMPTY: Self = Self { pfn: Pfn::new(0), order: Order::ZERO };
}

/// Blocks that belong together, each as a number in the caller's buffer. Dropping this frees all of them.
#[must_use = "the blocks are freed when this is dropped"]
pub struct FrameSet<'a, 'b, P: Platform> {
    owner: &'a PageAllocator<P>,
    buffer: &'b mut [RawFrames],
    /// Blocks at the buffer's start that are held.
    held: usize,
    migrate_type: MigrateType,
}

impl<'b, P: Platform> FrameSet<'_, 'b, P> {
    /// The blocks, the largest first.
    #[must_use]
    pub fn blocks(&self) -> &[RawFrames] {
        self.buffer.get(..self.held).unwrap_or_default()
    }

    /// Number of frames.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.blocks().iter().map(|block| block.order.frames()).sum()
    }

    /// Gives the blocks up without freeing them; [`Frames::from_raw`](crate::Frames::from_raw) makes a handle of each.
    #[must_use = "the blocks are lost unless they are freed"]
    pub fn into_raw(mut self) -> &'b [RawFrames] {
        let held = core::mem::take(&mut self.held);
        let buffer = core::mem::take(&mut self.buffer);
        buffer.get(..held).unwrap_or_default()
    }

    /// Keeps a block that was just taken. False, with nothing kept, where the buffer is full.
    fn push(&mut self, block: RawFrames) -> bool {
        let Some(place) = self.buffer.get_mut(self.held) else { return false };
        *place = block;
        self.held += 1;
        true
    }
}

impl<P: Platform> Drop for FrameSet<'_, '_, P> {
    fn drop(&mut self) {
        /// Goes on with the next block should a hook unwind.
        struct Rest<'s, 'a, 'b, P: Platform>(&'s mut FrameSet<'a, 'b, P>);
        impl<P: Platform> Rest<'_, '_, '_, P> {
            fn give_back(&mut self) {
                let Self(set) = self;
                while let Some(last) = set.held.checked_sub(1) {
                    set.held = last;
                    let block = set.buffer.get(last).copied().unwrap_or(RawFrames::EMPTY);
                    set.owner.give_back(block, BlockKind::of(block.order, set.migrate_type));
                }
            }
        }
        impl<P: Platform> Drop for Rest<'_, '_, '_, P> {
            fn drop(&mut self) {
                self.give_back();
            }
        }
        Rest(self).give_back();
    }
}

impl<P: Platform> fmt::Debug for FrameSet<'_, '_, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameSet").field("blocks", &self.blocks()).finish_non_exhaustive()
    }
}

impl<P: Platform> PageAllocator<P> {
    /// Allocates so many frames in blocks that need not be neighbours: each the largest that is needed still and that
    /// can be had without reclaim, down to single frames, which may reclaim if `gfp` permits. All or nothing.
    ///
    /// # Errors
    /// [`AllocError`]; nothing is held. [`AllocError::TooManyBlocks`] if memory is in smaller pieces than `buffer` has
    /// places.
    ///
    /// ```
    /// # use pageblock::{Config, PageAllocator, Region};
    /// # use pageblock::hosted::Simulated;
    /// # let frames = PageAllocator::<Simulated>::new();
    /// # let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// # frames.init_simulated([Region::usable(0..64 << 20)], &Config::new(), storage).unwrap();
    /// use pageblock::{Gfp, RawFrames};
    /// let mut buffer = [RawFrames::EMPTY; 16];
    /// let set = frames.alloc_many(1300, Gfp::USER, &mut buffer)?;
    /// let orders: Vec<u8> = set.blocks().iter().map(|block| block.order.as_u8()).collect();
    /// assert_eq!(orders, [10, 8, 4, 2]); // 1024 + 256 + 16 + 4
    /// drop(set);
    /// assert_eq!(frames.stats().free, frames.stats().managed);
    /// # Ok::<(), pageblock::AllocError>(())
    /// ```
    #[cfg_attr(feature = "page_owner", track_caller)]
    pub fn alloc_many<'b>(
        &self,
        frames: u64,
        gfp: Gfp,
        buffer: &'b mut [RawFrames],
    ) -> Result<FrameSet<'_, 'b, P>, AllocError> {
        if frames == 0 {
            return Err(AllocError::Empty);
        }
        let largest = self.inner()?.max_order;
        // Its blocks go back on every error, when it is dropped.
        let mut set = FrameSet { owner: self, buffer, held: 0, migrate_type: gfp.migrate_type() };
        let (mut left, mut order) = (frames, largest);
        while left > 0 {
            let needed = Order::saturating(left.ilog2() as u8);
            order = order.min(needed);
            if order == Order::ZERO {
                left -= self.add_singles(left, gfp, &mut set)?;
                continue;
            }
            let patient = gfp.difference(Gfp::RECLAIM | Gfp::NOFAIL | Gfp::RETRY_MAYFAIL) | Gfp::NOWARN;
            match self.alloc_order(order, patient) {
                Ok(block) => {
                    if set.buffer.len() == set.held {
                        return Err(AllocError::TooManyBlocks);
                    }
                    set.push(block.into_raw());
                    left -= order.frames();
                }
                Err(AllocError::OutOfMemory) => order = Order::saturating(order.as_u8() - 1),
                Err(error) => return Err(error),
            }
        }
        Ok(set)
    }

    /// Adds a batch of single frames, and says how many.
    #[cfg_attr(feature = "page_owner", track_caller)]
    fn add_singles(&self, left: u64, gfp: Gfp, set: &mut FrameSet<'_, '_, P>) -> Result<u64, AllocError> {
        let room = set.buffer.len() - set.held;
        let wanted = room.min(BATCH).min(left as usize);
        if wanted == 0 {
            return Err(AllocError::TooManyBlocks);
        }
        let mut pfns = [Pfn::new(0); BATCH];
        let got = self.alloc_bulk(gfp, pfns.get_mut(..wanted).unwrap_or_default())?;
        for pfn in pfns.iter().take(got) {
            set.push(RawFrames { pfn: *pfn, order: Order::ZERO });
        }
        Ok(got as u64)
    }
}
