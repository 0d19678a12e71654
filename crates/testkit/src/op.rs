//! One operation on an allocator under test.

use pageblock_frame::{AllocFlags, MigrateType, Order};

/// One operation, good or bad. Numbers that choose (a victim, a frame, a pageblock) are taken modulo the number of
/// candidates, so that every sequence means something.
///
/// ```
/// use pageblock_testkit::Op;
/// assert_ne!(Op::Free { victim: 1 }, Op::DoubleFree { victim: 1 });
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    /// Allocate a block.
    Alloc {
        /// Size of the block.
        order: Order,
        /// Its purpose.
        migrate_type: MigrateType,
        /// Permissions of the attempt.
        flags: AllocFlags,
    },
    /// Free a live block as it was allocated.
    Free {
        /// Which of the live blocks.
        victim: u32,
    },
    /// Free a live block with an order of its own choice (which may be the right one).
    FreeWrongOrder {
        /// Which of the live blocks.
        victim: u32,
        /// The order that is claimed.
        order: Order,
    },
    /// Free a block again that was freed a while ago; its frames may have a new owner by now.
    DoubleFree {
        /// Which of the blocks that were freed last.
        victim: u32,
    },
    /// Free a frame that may be free, live, inside a block, or reserved.
    FreeForeign {
        /// Which frame of the span.
        frame: u32,
        /// The order that is claimed.
        order: Order,
    },
    /// Free a frame outside the allocator's span.
    FreeOutOfRange {
        /// Distance from the end of the span, in frames.
        distance: u32,
        /// The order that is claimed.
        order: Order,
    },
    /// Free a frame inside a live block that is not its head.
    FreeTail {
        /// Which of the live blocks.
        victim: u32,
        /// Which frame of it.
        offset: u32,
    },
    /// Allocate a block at a given place.
    AllocAt {
        /// Which frame of the span, before alignment to the order.
        frame: u32,
        /// Size of the block.
        order: Order,
    },
    /// Allocate a number of frames that need not be a power of two.
    AllocExact {
        /// Number of contiguous frames, 0 included.
        frames: u32,
        /// Their purpose.
        migrate_type: MigrateType,
    },
    /// Make smaller blocks out of a live one.
    Split {
        /// Which of the live blocks.
        victim: u32,
        /// Order of the pieces; larger than the block is an error.
        order: Order,
    },
    /// Free a run of frames that begins in a live block, keeping the rest of it. The run may go on past its end, where
    /// there may be anything.
    FreePart {
        /// Which of the live blocks.
        victim: u32,
        /// First frame of the run within the block.
        offset: u32,
        /// Number of frames.
        frames: u32,
    },
    /// Allocate several blocks with one call, for a per-CPU list.
    BulkAlloc {
        /// Size of each block.
        order: Order,
        /// Number of blocks.
        count: u8,
        /// Their purpose.
        migrate_type: MigrateType,
    },
    /// Free several listed blocks of one order with one call.
    BulkFree {
        /// Which listed block is the first; those of the same order that come after it follow.
        victim: u32,
        /// At most this many.
        count: u8,
    },
    /// Withhold a pageblock from allocation.
    Isolate {
        /// Which pageblock of the span.
        block: u32,
    },
    /// End an isolation.
    Unisolate {
        /// Which of the isolated pageblocks.
        block: u32,
    },
    /// Give a pageblock to a migrate type.
    Retype {
        /// Which pageblock of the span.
        block: u32,
        /// Its purpose from now on.
        migrate_type: MigrateType,
    },
    /// Put a pageblock into the high-order atomic reserve.
    Reserve {
        /// Which pageblock of the span.
        block: u32,
    },
    /// Take a pageblock out of the high-order atomic reserve.
    Unreserve {
        /// The CPU that wants it.
        migrate_type: MigrateType,
    },
    /// Give the allocator another run of frames.
    AddMemory {
        /// Which of the runs that are still held back.
        piece: u8,
    },
}

impl Op {
    /// Flags that matter to a zone, each alone and the usual combinations.
    pub const FLAGS: [AllocFlags; 6] = [
        AllocFlags::empty(),
        AllocFlags::NOFRAGMENT,
        AllocFlags::HIGHATOMIC,
        AllocFlags::CMA,
        AllocFlags::NON_BLOCK,
        AllocFlags::OOM,
    ];
}
