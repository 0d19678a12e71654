//! Request flags (`gfp_t`) and the values that follow from them: zone limit, migrate type, allocation flags.
//!
//! Bits and combinations are Linux 6.1's, so that a recorded trace can be read back. The mappings are pure functions.

use bitflags::bitflags;

use crate::{MigrateType, Order, ZoneKind};

bitflags! {
    /// Wishes and permissions of a request.
    ///
    /// ```
    /// use pageblock_frame::{Gfp, MigrateType, ZoneKind};
    /// assert_eq!(Gfp::KERNEL.migrate_type(), MigrateType::Unmovable);
    /// assert_eq!(Gfp::HIGHUSER_MOVABLE.migrate_type(), MigrateType::Movable);
    /// assert_eq!((Gfp::KERNEL | Gfp::DMA32).zone_limit(), Ok(ZoneKind::Dma32));
    /// assert!(!Gfp::ATOMIC.contains(Gfp::DIRECT_RECLAIM));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct Gfp: u32 {
        /// From the DMA zone (below 16 MiB).
        const DMA = 0x01;
        /// May come from high memory; on 64-bit machines no restriction. No effect here: for traces, which name it.
        const HIGHMEM = 0x02;
        /// From DMA32 or below (below 4 GiB).
        const DMA32 = 0x04;
        /// The owner can move the frames.
        const MOVABLE = 0x08;
        /// The owner can give the frames up.
        const RECLAIMABLE = 0x10;
        /// May use half of the minimum reserve (`__GFP_HIGH`).
        const HIGH = 0x20;
        /// Reclaim may start I/O.
        const IO = 0x40;
        /// Reclaim may call into file systems.
        const FS = 0x80;
        /// The frames are zeroed.
        const ZERO = 0x100;
        /// The caller cannot wait (`__GFP_ATOMIC`, up to 6.2).
        const ATOMIC_BIT = 0x200;
        /// The caller may be made to reclaim.
        const DIRECT_RECLAIM = 0x400;
        /// kswapd may be woken.
        const KSWAPD_RECLAIM = 0x800;
        /// The frames will be written soon (`__GFP_WRITE`): spread over zones by dirty limits.
        const WRITE = 0x1000;
        /// No warning on failure.
        const NOWARN = 0x2000;
        /// Try hard, but failing is acceptable.
        const RETRY_MAYFAIL = 0x4000;
        /// Must not fail: waits for as long as there is hope, which ends after some hundred rounds rather than never.
        const NOFAIL = 0x8000;
        /// Try once; fail early.
        const NORETRY = 0x1_0000;
        /// May use all reserves.
        const MEMALLOC = 0x2_0000;
        /// The block is one compound page. No effect here: for traces, which name it.
        const COMP = 0x4_0000;
        /// Must not use reserves, whatever the context.
        const NOMEMALLOC = 0x8_0000;
        /// Obey the memory policy strictly. No effect here: for traces, which name it.
        const HARDWALL = 0x10_0000;
        /// Only from the given node.
        const THISNODE = 0x20_0000;
        /// Account to a memory group. No effect here: for traces, which name it.
        const ACCOUNT = 0x40_0000;
        /// Zero memory tags too. No effect here: for traces, which name it.
        const ZEROTAGS = 0x80_0000;

        /// Both kinds of reclaim.
        const RECLAIM = Self::DIRECT_RECLAIM.bits() | Self::KSWAPD_RECLAIM.bits();
        /// From a context that cannot wait, with access to half of the reserve.
        const ATOMIC = Self::HIGH.bits() | Self::ATOMIC_BIT.bits() | Self::KSWAPD_RECLAIM.bits();
        /// The ordinary kernel allocation: may wait, do I/O, call file systems.
        const KERNEL = Self::RECLAIM.bits() | Self::IO.bits() | Self::FS.bits();
        /// Kernel allocation charged to a memory group.
        const KERNEL_ACCOUNT = Self::KERNEL.bits() | Self::ACCOUNT.bits();
        /// Cannot wait, no access to the reserve.
        const NOWAIT = Self::KSWAPD_RECLAIM.bits();
        /// May wait but not start I/O.
        const NOIO = Self::RECLAIM.bits();
        /// May wait and start I/O but not call file systems.
        const NOFS = Self::RECLAIM.bits() | Self::IO.bits();
        /// For user space, directly mapped by the kernel.
        const USER = Self::KERNEL.bits() | Self::HARDWALL.bits();
        /// For user space.
        const HIGHUSER = Self::USER.bits() | Self::HIGHMEM.bits();
        /// For user space, movable: anonymous and file pages.
        const HIGHUSER_MOVABLE = Self::HIGHUSER.bits() | Self::MOVABLE.bits();
        /// A transparent huge page without any reclaim.
        const TRANSHUGE_LIGHT = (Self::HIGHUSER_MOVABLE.bits() | Self::COMP.bits()
            | Self::NOMEMALLOC.bits() | Self::NOWARN.bits()) & !Self::RECLAIM.bits();
        /// A transparent huge page that may reclaim and compact.
        const TRANSHUGE = Self::TRANSHUGE_LIGHT.bits() | Self::DIRECT_RECLAIM.bits();
    }
}

crate::errors! {
    /// A combination of request flags that means nothing.
    ///
    /// ```
    /// use pageblock_frame::{Gfp, GfpError};
    /// assert_eq!((Gfp::DMA | Gfp::DMA32).zone_limit(), Err(GfpError::ZoneBits));
    /// assert_eq!((Gfp::MOVABLE | Gfp::RECLAIMABLE).check(), Err(GfpError::Mobility));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum GfpError {
        /// More than one address restriction.
        #[error("more than one of DMA, DMA32 and HIGHMEM")]
        ZoneBits,
        /// Both movable and reclaimable.
        #[error("both MOVABLE and RECLAIMABLE")]
        Mobility,
    }
}

/// Highest zone for each value of the four zone bits; `None` where Linux calls the combination bad.
const ZONE_TABLE: [Option<ZoneKind>; 16] = {
    use ZoneKind::{Dma, Dma32, Movable, Normal};
    let mut table = [None; 16];
    table[0x0] = Some(Normal);
    table[0x1] = Some(Dma);
    table[0x2] = Some(Normal);
    table[0x4] = Some(Dma32);
    table[0x8] = Some(Normal);
    table[0x9] = Some(Dma);
    table[0xA] = Some(Movable);
    table[0xC] = Some(Dma32);
    table
};

impl Gfp {
    /// The highest zone that may serve the request (`gfp_zone()`).
    ///
    /// # Errors
    /// [`GfpError::ZoneBits`] for two address restrictions at once.
    #[inline]
    pub const fn zone_limit(self) -> Result<ZoneKind, GfpError> {
        match ZONE_TABLE[(self.bits() & 0xf) as usize] {
            Some(kind) => Ok(kind),
            None => Err(GfpError::ZoneBits),
        }
    }

    /// The migrate type of the request (`gfp_migratetype()`). Movable wins where both mobility bits are set;
    /// [`Gfp::check`] refuses that.
    #[must_use]
    #[inline]
    pub const fn migrate_type(self) -> MigrateType {
        if self.contains(Self::MOVABLE) {
            MigrateType::Movable
        } else if self.contains(Self::RECLAIMABLE) {
            MigrateType::Reclaimable
        } else {
            MigrateType::Unmovable
        }
    }

    /// Refuses combinations that mean nothing.
    ///
    /// # Errors
    /// The first rule that is broken.
    pub const fn check(self) -> Result<(), GfpError> {
        if self.contains(Self::MOVABLE) && self.contains(Self::RECLAIMABLE) {
            return Err(GfpError::Mobility);
        }
        match self.zone_limit() {
            Ok(_) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Allocation flags of the first attempt (`ALLOC_WMARK_LOW`, before the slow path).
    #[must_use]
    #[inline]
    pub const fn fast_alloc_flags(self) -> AllocFlags {
        let mut flags = AllocFlags::WMARK_LOW.bits();
        if self.contains(Self::KSWAPD_RECLAIM) {
            flags |= AllocFlags::KSWAPD.bits();
        }
        if self.contains(Self::MOVABLE) {
            flags |= AllocFlags::CMA.bits();
        }
        AllocFlags::from_bits_retain(flags)
    }

    /// Allocation flags of the slow path for a block of `order` (`gfp_to_alloc_flags()`, late 6.1).
    #[must_use]
    pub const fn slow_alloc_flags(self, order: Order) -> AllocFlags {
        let mut flags = AllocFlags::WMARK_MIN.bits();
        if self.contains(Self::HIGH) {
            flags |= AllocFlags::MIN_RESERVE.bits();
        }
        if self.contains(Self::KSWAPD_RECLAIM) {
            flags |= AllocFlags::KSWAPD.bits();
        }
        if !self.contains(Self::DIRECT_RECLAIM) {
            if !self.contains(Self::NOMEMALLOC) {
                flags |= AllocFlags::NON_BLOCK.bits();
                if order.as_u8() > 0 && self.contains(Self::HIGH) {
                    flags |= AllocFlags::HIGHATOMIC.bits();
                }
            }
            if self.contains(Self::HIGH) {}
        }
        if self.contains(Self::MOVABLE) {
            flags |= AllocFlags::CMA.bits();
        }
        AllocFlags::from_bits_retain(flags)
    }
}

bitflags! {
    /// Permissions of one attempt inside the allocator (`ALLOC_*`, late 6.1).
    ///
    /// ```
    /// use pageblock_frame::{AllocFlags, Gfp, Order};
    /// let flags = Gfp::ATOMIC.slow_alloc_flags(Order::ZERO);
    /// assert!(flags.contains(AllocFlags::MIN_RESERVE | AllocFlags::NON_BLOCK));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct AllocFlags: u32 {
        /// Stop at the low watermark rather than at min.
        const WMARK_LOW = 0x1;
        /// Stop at the high watermark.
        const WMARK_HIGH = 0x2;
        /// Ignore watermarks altogether.
        const NO_WATERMARKS = 0x4;
        /// Victim of the out-of-memory rung: half of the rest of the reserve.
        const OOM = 0x8;
        /// The caller cannot block.
        const NON_BLOCK = 0x10;
        /// Half of the minimum reserve may be used.
        const MIN_RESERVE = 0x20;
        /// CMA pageblocks may serve.
        const CMA = 0x80;
        /// Do not mix migrate types within a pageblock (`ALLOC_NOFRAGMENT`).
        const NOFRAGMENT = 0x100;
        /// The high-order atomic reserve may serve.
        const HIGHATOMIC = 0x200;
        /// Obey the fair-zone batches (3.12 to 4.7).
        const FAIR = 0x400;
        /// kswapd may be woken.
        const KSWAPD = 0x800;
        /// Give up rather than mix below the stall order (*Fragmentation avoidance and stalls*; never merged).
        const FRAGMENT_STALL = 0x1000;
        /// Watermarks count without their boost: the last attempt of a request.
        const UNBOOSTED = 0x2000;
        /// Pass over zones that have their share of dirty pages (`spread_dirty_pages`).
        const DIRTY_LIMIT = 0x4000;

        /// Stop at the min watermark: the absence of the other kinds.
        const WMARK_MIN = 0;
        /// The flags that exempt a request from the high-order atomic subtraction.
        const RESERVES = Self::NON_BLOCK.bits() | Self::MIN_RESERVE.bits()
            | Self::HIGHATOMIC.bits() | Self::OOM.bits();
    }
}
