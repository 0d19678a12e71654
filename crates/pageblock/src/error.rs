//! Errors, one small enum an operation.

use pageblock_buddy::{AllocAtError, ZoneError};
use pageblock_compaction::ContigError;
use pageblock_frame::{GfpError, NodeId, Order, Pfn, PfnRange, ZoneKind};
use pageblock_memmap::{RegionError, ZoneLimitError};

use crate::config::MAX_RESERVATIONS;

pageblock_frame::errors! {
    /// A value of [`Config`](crate::Config) that is out of range.
    ///
    /// ```
    /// use pageblock::{Config, ConfigError};
    /// assert_eq!(Config::new().cpus(0).check(), Err(ConfigError::Cpus { given: 0 }));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum ConfigError {
        /// More ranges were reserved than there is room for.
        #[error("{given} ranges reserved, {} are possible", MAX_RESERVATIONS)]
        TooManyReservations {
            /// How many.
            given: usize,
        },
        /// The share of movable memory leaves nothing for the kernel.
        #[error("movable share of {given} %, at most 99 are possible")]
        MovableShare {
            /// Percent.
            given: u8,
        },
        /// No CPUs, or more than the platform has.
        #[error("{given} CPUs; the platform has at least one, and no more than its MAX_CPUS")]
        Cpus {
            /// How many.
            given: usize,
        },
        /// The largest order is below the pageblock order.
        #[error("max_order {given} is below the pageblock order")]
        MaxOrder {
            /// The order.
            given: Order,
        },
        /// `watermark_scale_factor` is not 1 to 3000.
        #[error("watermark_scale_factor {given} is not in 1..=3000")]
        WatermarkScaleFactor {
            /// The value.
            given: u64,
        },
        /// `min_free_kbytes` is beyond all memory.
        #[error("min_free_kbytes {given} does not fit 31 bits")]
        MinFreeKbytes {
            /// The value.
            given: u64,
        },
        /// `watermark_boost_factor` does not fit 31 bits.
        #[error("watermark_boost_factor {given} does not fit 31 bits")]
        WatermarkBoostFactor {
            /// The value.
            given: u64,
        },
        /// `fragment_stall_order` is beyond all orders.
        #[cfg(feature = "history")]
        #[error("fragment_stall_order {given} is not in 0..={most}")]
        FragmentStallOrder {
            /// The value.
            given: u8,
            /// One more than the largest order.
            most: u8,
        },
        /// A limit on dirty pages is no part of memory.
        #[error("a dirty limit of {given} percent is not in 1..=100")]
        DirtyLimit {
            /// Percent.
            given: u8,
        },
        /// A preset was asked for more patches than its series has.
        #[cfg(feature = "history")]
        #[error("{given} patches of the series of 2018; it has four")]
        Patches {
            /// How many.
            given: u8,
        },
        /// A `lowmem_reserve_ratio` does not fit 31 bits.
        #[error("lowmem_reserve_ratio {given} of zone {zone} does not fit 31 bits")]
        LowmemReserveRatio {
            /// Which kind of zone.
            zone: ZoneKind,
            /// The value.
            given: u64,
        },
        /// The table of distances is not square, too large, or has a node nearer to another than to itself.
        #[error("the table of node distances makes no sense")]
        Distances,
        /// Batch or high of the per-CPU lists.
        #[error(transparent)]
        PerCpuLists(#[from] pageblock_pcp::PcpError),
        /// The zones' boundaries.
        #[error(transparent)]
        Zones(#[from] ZoneLimitError),
    }
}

pageblock_frame::errors! {
    /// Why an allocator was not initialised. Nothing has changed, and another attempt may be made, except after
    /// [`InitError::AlreadyInitialised`].
    ///
    /// ```
    /// use pageblock::{Config, InitError, PageAllocator, Region};
    /// use pageblock::hosted::Simulated;
    /// let frames = PageAllocator::<Simulated>::new();
    /// let beyond = [Region::from((0, 0x1000, true)), Region::from((1 << 44, 0x1000, true))];
    /// let error = frames.init_simulated(beyond, &Config::new(), &mut []).unwrap_err();
    /// assert_eq!(error.to_string(), "region 1 is memory above the largest frame number");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum InitError {
        /// The allocator is in use already.
        #[error("initialised already")]
        AlreadyInitialised,
        /// Another CPU is initialising the allocator right now.
        #[error("being initialised by another CPU")]
        Busy,
        /// A value of the configuration is out of range.
        #[error(transparent)]
        Config(#[from] ConfigError),
        /// A region of the memory map, or a reservation; its index is inside.
        #[error(transparent)]
        Map(#[from] RegionError),
        /// There is no usable frame.
        #[error("the memory map has no usable frame")]
        NoMemory,
        /// No run of usable frames has room for the metadata.
        #[error("no usable run has room for {required} bytes of metadata")]
        MetadataWontFit {
            /// Bytes of metadata.
            required: usize,
        },
        /// The storage is too small for the metadata.
        #[error("{given} bytes of storage, {required} are needed")]
        StorageTooSmall {
            /// Bytes needed.
            required: usize,
            /// Bytes given.
            given: usize,
        },
        /// A zone could not be made.
        #[error(transparent)]
        Zone(#[from] ZoneError),
    }
}

impl From<ZoneLimitError> for InitError {
    fn from(error: ZoneLimitError) -> Self {
        Self::Config(ConfigError::Zones(error))
    }
}

pageblock_frame::errors! {
    /// Why no frames were handed out. Nothing has changed.
    ///
    /// ```
    /// use pageblock::{AllocError, Gfp, PageAllocator};
    /// use pageblock::hosted::Simulated;
    /// let frames = PageAllocator::<Simulated>::new();
    /// assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::NotInitialised);
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum AllocError {
        /// No zone that the request may use can serve it.
        #[error("out of memory")]
        OutOfMemory,
        /// The allocator was configured for smaller blocks, or no block is that large.
        #[error("larger than the largest order, {largest}")]
        OrderTooLarge {
            /// The largest order of this allocator.
            largest: Order,
        },
        /// An exact allocation of no frames.
        #[error("no frames asked for")]
        Empty,
        /// Memory is in more pieces than the caller's buffer has places.
        #[error("more blocks than the buffer has places")]
        TooManyBlocks,
        /// The flags of the request contradict one another.
        #[error(transparent)]
        BadFlags(#[from] GfpError),
        /// There is no such node.
        #[error("no node {0}")]
        NoSuchNode(NodeId),
        /// The place asked for cannot be had.
        #[error(transparent)]
        Place(#[from] AllocAtError),
        /// The range asked for cannot be emptied.
        #[error(transparent)]
        Contig(#[from] ContigError),
        /// The request needs memory to be moved, and there is no migrator, or compaction is switched off.
        #[error("nobody moves memory")]
        NoMigrator,
        /// The request was made in the middle of reclaim or compaction, and would have to reclaim or compact itself.
        #[error("reclaim was entered from reclaim")]
        Recursion,
        /// The allocator has not been initialised.
        #[error("not initialised")]
        NotInitialised,
    }
}

pageblock_frame::errors! {
    /// Why nothing was compacted.
    ///
    /// ```
    /// use pageblock::{CompactError, PageAllocator};
    /// use pageblock::hosted::Simulated;
    /// assert_eq!(PageAllocator::<Simulated>::new().compaction().all(), Err(CompactError::NotInitialised));
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum CompactError {
        /// The allocator has not been initialised.
        #[error("not initialised")]
        NotInitialised,
        /// The platform had no migrator when the allocator was initialised or has none now, or compaction is switched
        /// off.
        #[error("nobody moves memory")]
        NoMigrator,
        /// There is no such zone, or no such node.
        #[error("no such zone")]
        NoSuchZone,
        /// The call was made in the middle of reclaim or compaction.
        #[error("compaction was entered from reclaim")]
        Recursion,
    }
}

pageblock_frame::errors! {
    /// Why memory was not added. Nothing has changed.
    ///
    /// ```
    /// use pageblock::AddError;
    /// use pageblock_frame::{Pfn, PfnRange};
    /// let range = PfnRange::new(Pfn::new(16), Pfn::new(32));
    /// assert_eq!(AddError::OutsideZones(range).to_string(), "0x10..0x20 is not all inside zones of its node");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum AddError {
        /// The region has no whole frame.
        #[error("no whole frame")]
        Empty,
        /// Some of the frames are in no zone of the region's node.
        #[error("{0} is not all inside zones of its node")]
        OutsideZones(PfnRange),
        /// A frame belongs to the allocator already.
        #[error("{0} belongs to the allocator already")]
        Overlap(Pfn),
        /// The allocator has not been initialised.
        #[error("not initialised")]
        NotInitialised,
    }
}
