//! Reports of firmware and boot loaders: raw regions, in bytes, in any order.

use core::fmt;
use core::ops::Range;

use pageblock_frame::{MAX_PFN, NodeId, PAGE_SHIFT, PhysAddr};

/// First byte that no frame number reaches: 16 TiB.
pub(crate) const LIMIT_BYTES: u64 = MAX_PFN << PAGE_SHIFT;

/// The bytes `start..end` of physical memory (the end is not in it).
///
/// ```
/// use pageblock_memmap::PhysRange;
/// let kernel = PhysRange::from(0x10_0000..0x18_0000);
/// assert_eq!(kernel.len(), 0x8_0000);
/// assert!(PhysRange::new(2.into(), 1.into()).is_inverted());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct PhysRange {
    /// First byte.
    pub start: PhysAddr,
    /// First byte after the range.
    pub end: PhysAddr,
}

impl PhysRange {
    /// The bytes from `start` up to but without `end`.
    #[must_use]
    pub const fn new(start: PhysAddr, end: PhysAddr) -> Self {
        Self { start, end }
    }

    /// Number of bytes; 0 if the range is inverted.
    #[must_use]
    pub const fn len(self) -> u64 {
        self.end.as_u64().saturating_sub(self.start.as_u64())
    }

    /// True if there is no byte in it.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// True if it ends before it starts: no range at all, but a mistake.
    #[must_use]
    pub const fn is_inverted(self) -> bool {
        self.end.as_u64() < self.start.as_u64()
    }
}

impl From<Range<u64>> for PhysRange {
    fn from(bytes: Range<u64>) -> Self {
        Self { start: PhysAddr::new(bytes.start), end: PhysAddr::new(bytes.end) }
    }
}

impl fmt::Display for PhysRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}..{:#x}", self.start.as_u64(), self.end.as_u64())
    }
}

/// Purpose of a region of the memory map.
///
/// Where regions overlap, every other kind wins over [`RegionKind::Usable`].
///
/// ```
/// use pageblock_memmap::RegionKind;
/// assert_eq!(RegionKind::from_e820(1), RegionKind::Usable);
/// assert_eq!(RegionKind::from_e820(3), RegionKind::Reclaimable); // ACPI tables
/// assert_eq!(RegionKind::from_e820(99), RegionKind::Reserved); // whatever it is, leave it alone
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum RegionKind {
    /// Memory that may be allocated.
    Usable,
    /// Memory that is in use now and can be added later: ACPI tables, the boot loader's own data.
    Reclaimable,
    /// Memory that holds something for good: kernel image, modules, initial ramdisk.
    Kernel,
    /// Not to be touched, and perhaps not memory at all: firmware, devices, bad memory.
    Reserved,
    /// Says only to which node the bytes belong (ACPI SRAT); neither adds memory nor takes any away.
    Affinity,
}

impl RegionKind {
    /// The kind of an e820 entry; multiboot 1 and 2 and PVH use the same numbers. Unknown types are
    /// [`RegionKind::Reserved`].
    #[must_use]
    pub const fn from_e820(kind: u32) -> Self {
        match kind {
            1 => Self::Usable,
            3 => Self::Reclaimable,
            _ => Self::Reserved,
        }
    }

    /// The kind of an entry of the Limine boot protocol's memory map.
    ///
    /// ```
    /// use pageblock_memmap::RegionKind;
    /// assert_eq!(RegionKind::from_limine(0), RegionKind::Usable);
    /// assert_eq!(RegionKind::from_limine(5), RegionKind::Reclaimable);
    /// assert_eq!(RegionKind::from_limine(6), RegionKind::Kernel);
    /// ```
    #[must_use]
    pub const fn from_limine(kind: u64) -> Self {
        match kind {
            0 => Self::Usable,
            2 | 5 => Self::Reclaimable,
            6 => Self::Kernel,
            _ => Self::Reserved,
        }
    }

    /// The kind of a UEFI memory descriptor after `ExitBootServices`. Boot-services memory is reclaimable rather than
    /// usable: the stack and the page tables of the caller may still be in it.
    ///
    /// ```
    /// use pageblock_memmap::RegionKind;
    /// assert_eq!(RegionKind::from_uefi(7), RegionKind::Usable); // conventional memory
    /// assert_eq!(RegionKind::from_uefi(4), RegionKind::Reclaimable); // boot services data
    /// assert_eq!(RegionKind::from_uefi(11), RegionKind::Reserved); // memory-mapped I/O
    /// ```
    #[must_use]
    pub const fn from_uefi(kind: u32) -> Self {
        match kind {
            7 => Self::Usable,
            1..=4 | 9 => Self::Reclaimable,
            _ => Self::Reserved,
        }
    }

    /// True for kinds that are certainly memory, allocatable or not.
    #[must_use]
    pub const fn is_ram(self) -> bool {
        matches!(self, Self::Usable | Self::Reclaimable | Self::Kernel)
    }
}

/// One entry of a raw memory map.
///
/// ```
/// use pageblock_memmap::{Region, RegionKind};
/// use pageblock_frame::{NodeId, PhysAddr};
///
/// let region = Region::new(0x10_0000u64, 0x20_0000u64, RegionKind::Usable).with_node(NodeId::new(1));
/// assert_eq!(region.len(), 0x10_0000);
/// // The same from (start, length, usable), as many boot loaders give it:
/// assert_eq!(Region::from((0x10_0000, 0x10_0000, true)).end, PhysAddr::new(0x20_0000));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Region {
    /// First byte.
    pub start: PhysAddr,
    /// First byte after the region. A region that ends before it starts is dropped and reported.
    pub end: PhysAddr,
    /// Its purpose.
    pub kind: RegionKind,
    /// The node that it belongs to; node 0 unless said otherwise.
    pub node: NodeId,
}

impl Region {
    /// The bytes `start..end`, on node 0.
    #[must_use]
    pub fn new(start: impl Into<PhysAddr>, end: impl Into<PhysAddr>, kind: RegionKind) -> Self {
        Self { start: start.into(), end: end.into(), kind, node: NodeId::new(0) }
    }

    /// Bytes that the allocator may have, on node 0.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// const RAM: Region = Region::usable(0x10_0000..0x800_0000);
    /// const IMAGE: Region = Region::reserved(0x10_0000..0x38_0000);
    /// assert_eq!((RAM.kind, IMAGE.kind), (RegionKind::Usable, RegionKind::Reserved));
    /// ```
    #[must_use]
    pub const fn usable(bytes: Range<u64>) -> Self {
        Self::of_kind(bytes, RegionKind::Usable)
    }

    /// Bytes that are in use, on node 0.
    #[must_use]
    pub const fn reserved(bytes: Range<u64>) -> Self {
        Self::of_kind(bytes, RegionKind::Reserved)
    }

    /// Memory that comes later, on node 0: it counts to the zones' spans, and `PageAllocator::add_memory` gives it to
    /// the allocator, whole or in parts.
    #[must_use]
    pub const fn later(bytes: Range<u64>) -> Self {
        Self::of_kind(bytes, RegionKind::Reclaimable)
    }

    const fn of_kind(bytes: Range<u64>, kind: RegionKind) -> Self {
        Self { start: PhysAddr::new(bytes.start), end: PhysAddr::new(bytes.end), kind, node: NodeId::new(0) }
    }

    /// An entry of an e820 map as raw e820, PVH and multiboot give it: base, length, type 1 to 5. An entry that would
    /// end beyond the address space ends with it.
    ///
    /// ```
    /// use pageblock_memmap::{Region, RegionKind};
    /// const LOW: Region = Region::from_e820(0, 0x9_fc00, 1);
    /// assert_eq!((LOW.len(), LOW.kind), (0x9_fc00, RegionKind::Usable));
    /// assert!(Region::from_e820(0, 0, 0).is_empty());
    /// ```
    #[must_use]
    pub const fn from_e820(base: u64, len: u64, kind: u32) -> Self {
        Self {
            start: PhysAddr::new(base),
            end: PhysAddr::new(base.saturating_add(len)),
            kind: RegionKind::from_e820(kind),
            node: NodeId::new(0),
        }
    }

    /// The same region on another node.
    #[must_use]
    pub const fn with_node(self, node: NodeId) -> Self {
        Self { node, ..self }
    }

    /// The bytes it covers.
    #[must_use]
    pub const fn range(&self) -> PhysRange {
        PhysRange::new(self.start, self.end)
    }

    /// Number of bytes; 0 if the region is inverted.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.range().len()
    }

    /// True if it covers no byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl From<(u64, u64, bool)> for Region {
    /// `(start, length, usable)`; a region that is not usable is reserved.
    fn from((start, len, usable): (u64, u64, bool)) -> Self {
        Self::from_e820(start, len, if usable { 1 } else { 2 })
    }
}
