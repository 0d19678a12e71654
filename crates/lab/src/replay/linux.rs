//! The recorded machine, frame by frame, as far as the start and the events tell.

use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, Pfn};

/// A frame by the events, in one word: one of the constants, or the number of a block of the trace plus
/// [`FIRST`].
pub(crate) type Owner = u32;

/// Free: in the buddy lists, or on a per-CPU list after a free in the trace.
pub(crate) const FREE: Owner = 0;
/// There is no such frame, or it is not the allocator's.
pub(crate) const ABSENT: Owner = 1;
/// Held since before the trace.
pub(crate) const START: Owner = 2;
/// Owner of the frames of block 0.
pub(crate) const FIRST: Owner = 3;

/// In a frame's kind: it had no type flag at the start, so it may have been on a per-CPU list.
pub(crate) const PLAIN: u8 = 0x10;

/// Every frame of the recorded machine.
#[derive(Debug)]
pub(crate) struct Linux {
    owners: Vec<Owner>,
    /// Migrate type plus 1 of the allocation that holds the frame, 0 for none; [`PLAIN`].
    kinds: Vec<u8>,
    /// Free frames of each pageblock.
    free_in_block: Vec<u16>,
    /// Frames of each pageblock that are the allocator's.
    managed_in_block: Vec<u16>,
    /// Type of each pageblock: as assigned at the start, and changed by fallbacks since.
    block_types: Vec<MigrateType>,
    free_blocks: u64,
}

impl Linux {
    /// Frames below `top`, all absent.
    pub(crate) fn new(top: Pfn) -> Self {
        let frames = top.as_u64() as usize;
        Self {
            owners: vec![ABSENT; frames],
            kinds: vec![0; frames],
            free_in_block: vec![0; frames.div_ceil(PAGEBLOCK_FRAMES as usize)],
            managed_in_block: vec![0; frames.div_ceil(PAGEBLOCK_FRAMES as usize)],
            block_types: vec![MigrateType::Movable; frames.div_ceil(PAGEBLOCK_FRAMES as usize)],
            free_blocks: 0,
        }
    }

    /// Holder of the frame; [`ABSENT`] beyond the last one.
    #[inline]
    pub(crate) fn owner(&self, pfn: u64) -> Owner {
        self.owners.get(pfn as usize).copied().unwrap_or(ABSENT)
    }

    /// The migrate type with which the frame was allocated, as its number plus 1; 0 if it is not.
    #[inline]
    pub(crate) fn kind(&self, pfn: u64) -> u8 {
        self.kinds.get(pfn as usize).map_or(0, |kind| kind & 7)
    }

    /// The frame had no type flag at the start.
    #[inline]
    pub(crate) fn was_plain(&self, pfn: u64) -> bool {
        self.kinds.get(pfn as usize).is_some_and(|kind| kind & PLAIN != 0)
    }

    /// Gives the frame a holder, or frees it.
    #[inline]
    pub(crate) fn set(&mut self, pfn: u64, owner: Owner, kind: u8) {
        let Some(slot) = self.owners.get_mut(pfn as usize) else { return };
        let before = std::mem::replace(slot, owner);
        self.kinds[pfn as usize] = kind;
        let managed = &mut self.managed_in_block[(pfn / PAGEBLOCK_FRAMES) as usize];
        *managed = *managed + u16::from(before == ABSENT) - u16::from(owner == ABSENT);
        let in_block = &mut self.free_in_block[(pfn / PAGEBLOCK_FRAMES) as usize];
        if before == FREE && owner != FREE {
            self.free_blocks -= u64::from(u64::from(*in_block) == PAGEBLOCK_FRAMES);
            *in_block -= 1;
        } else if before != FREE && owner == FREE {
            *in_block += 1;
            self.free_blocks += u64::from(u64::from(*in_block) == PAGEBLOCK_FRAMES);
        }
    }

    /// The type of a pageblock, by its number.
    pub(crate) fn block_type(&self, block: u64) -> MigrateType {
        self.block_types.get(block as usize).copied().unwrap_or_default()
    }

    /// Changes the type of a pageblock.
    pub(crate) fn set_block_type(&mut self, block: u64, migrate_type: MigrateType) {
        if let Some(slot) = self.block_types.get_mut(block as usize) {
            *slot = migrate_type;
        }
    }

    /// Number of frames, from 0.
    pub(crate) fn frames(&self) -> u64 {
        self.owners.len() as u64
    }

    /// Free frames of the pageblock with this number.
    pub(crate) fn free_in(&self, block: u64) -> u64 {
        self.free_in_block.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Frames of it that belong to the allocator.
    pub(crate) fn managed_in(&self, block: u64) -> u64 {
        self.managed_in_block.get(block as usize).copied().unwrap_or(0).into()
    }

    /// Free frames.
    pub(crate) fn free_frames(&self) -> u64 {
        self.free_in_block.iter().map(|&free| u64::from(free)).sum()
    }

    /// Pageblocks with every frame free.
    pub(crate) const fn free_pageblocks(&self) -> u64 {
        self.free_blocks
    }

    /// Free and movable frames of the pageblock with this number, and those that are held.
    pub(crate) fn block(&self, block: u64) -> BlockUse {
        let mut usage = BlockUse::default();
        let first = block * PAGEBLOCK_FRAMES;
        for pfn in first..first + PAGEBLOCK_FRAMES {
            match self.owner(pfn) {
                FREE => usage.free += 1,
                ABSENT => {}
                _ => {
                    usage.held += 1;
                    usage.by_type[usize::from(self.kind(pfn).saturating_sub(1)).min(5)] += 1;
                }
            }
        }
        usage
    }
}

/// How the frames of a pageblock are used.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct BlockUse {
    /// Free frames.
    pub(crate) free: u32,
    /// Frames that are held.
    pub(crate) held: u32,
    /// The same by the migrate type of the allocation.
    pub(crate) by_type: [u32; MigrateType::COUNT],
}

impl BlockUse {
    /// Both movable and other allocations are in it.
    pub(crate) const fn is_mixed(&self) -> bool {
        let movable = self.by_type[MigrateType::Movable.index()];
        movable > 0 && movable < self.held
    }
}

/// The kind of a frame that is held by an allocation of this type.
pub(crate) const fn kind_of(migrate_type: MigrateType) -> u8 {
    migrate_type.index() as u8 + 1
}

/// The migrate type behind a kind.
pub(crate) fn type_of(kind: u8) -> MigrateType {
    MigrateType::from_index((kind & 7).saturating_sub(1)).unwrap_or_default()
}
