//! Errors, one small enum an operation.

use pageblock_frame::{Order, Pfn, PfnRange};

pageblock_frame::errors! {
    /// Why a block was not taken back. Nothing has changed.
    ///
    /// ```
    /// use pageblock_buddy::FreeError;
    /// use pageblock_frame::Pfn;
    /// assert_eq!(FreeError::NotHead { head: Pfn::new(8) }.to_string(), "inside the block that starts at pfn 0x8");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum FreeError {
        /// The frame is in no zone of this allocator.
        #[error("not a frame of this allocator")]
        OutOfRange,
        /// The frame is free already: freed twice, or never allocated.
        #[error("free already")]
        NotAllocated,
        /// The frame is inside an allocated block, not its first.
        #[error("inside the block that starts at pfn {head}")]
        NotHead {
            /// First frame of the block.
            head: Pfn,
        },
        /// The block is allocated, but with another order.
        #[error("allocated with order {allocated}")]
        OrderMismatch {
            /// Order with which it was allocated.
            allocated: Order,
        },
        /// The block is free already and waits on a per-CPU list: freed twice.
        #[error("free already, on a per-CPU list")]
        OnList,
        /// The frame was never the allocator's: firmware, kernel image, metadata, or a hole.
        #[error("reserved, or no memory at all")]
        Reserved,
        /// A scanner has taken the frame out.
        #[error("isolated")]
        Isolated,
    }
}

pageblock_frame::errors! {
    /// Why a zone could not be made, or memory not be added to it. Nothing has changed.
    ///
    /// ```
    /// use pageblock_buddy::ZoneError;
    /// assert_eq!(ZoneError::EmptySpan.to_string(), "the zone spans no frame");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum ZoneError {
        /// The zone spans no frame.
        #[error("the zone spans no frame")]
        EmptySpan,
        /// The span ends above the largest frame number, or has more frames than numbers of 32 bits tell apart with the
        /// ends of blocks.
        #[error("frame numbers above 2^32, or too many frames for one zone")]
        TooHigh,
        /// The storage was made for another span.
        #[error("the storage does not fit the span")]
        Storage,
        /// The largest order is below the pageblock order.
        #[error("the largest order is below the pageblock order")]
        MaxOrder,
        /// The range is not inside the zone.
        #[error("{0} is not inside the zone")]
        OutOfRange(PfnRange),
        /// A frame of the range belongs to the allocator already.
        #[error("{0} belongs to the allocator already")]
        Overlap(Pfn),
    }
}

pageblock_frame::errors! {
    /// Why the frames at a given place were not handed out. Nothing has changed.
    ///
    /// ```
    /// use pageblock_buddy::AllocAtError;
    /// assert_eq!(AllocAtError::Busy.to_string(), "not all of its frames are free");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum AllocAtError {
        /// Some of the frames are in no zone of this allocator.
        #[error("not frames of this allocator")]
        OutOfRange,
        /// The frame number is not a multiple of the block's size.
        #[error("not aligned to the order")]
        Misaligned,
        /// Not all of its frames are free.
        #[error("not all of its frames are free")]
        Busy,
    }
}

pageblock_frame::errors! {
    /// Why a pageblock was not isolated or given back. Nothing has changed.
    ///
    /// ```
    /// use pageblock_buddy::IsolateError;
    /// assert_eq!(IsolateError::AlreadyIsolated.to_string(), "isolated already");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum IsolateError {
        /// No frame of that pageblock belongs to the zone.
        #[error("not a pageblock of this zone")]
        OutOfRange,
        /// Another caller isolated it.
        #[error("isolated already")]
        AlreadyIsolated,
        /// It is not isolated.
        #[error("not isolated")]
        NotIsolated,
    }
}

pageblock_frame::errors! {
    /// Why an allocated block could not be split. Nothing has changed.
    ///
    /// ```
    /// use pageblock_buddy::SplitError;
    /// assert_eq!(SplitError::Order.to_string(), "the parts are not smaller than the block");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum SplitError {
        /// The block is not held as the caller says.
        #[error(transparent)]
        Block(#[from] FreeError),
        /// The parts are not smaller than the block.
        #[error("the parts are not smaller than the block")]
        Order,
    }
}
