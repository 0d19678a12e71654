//! Small identifiers: CPUs, nodes, kinds of zone.

use core::fmt;

/// A CPU, numbered from 0 in the order in which the kernel brings them up.
///
/// ```
/// assert_eq!(pageblock_frame::CpuId::new(3).index(), 3);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct CpuId(u32);

impl CpuId {
    /// CPU number `number`.
    #[must_use]
    #[inline]
    pub const fn new(number: u32) -> Self {
        Self(number)
    }

    /// The number, as an array index.
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// Nodes are numbered below this.
pub const MAX_NODES: usize = 16;
/// The most zones that a machine can have: each kind on each node.
pub const MAX_ZONES: usize = MAX_NODES * ZoneKind::COUNT;

/// A memory node (NUMA), numbered from 0.
///
/// ```
/// assert_eq!(pageblock_frame::NodeId::default(), pageblock_frame::NodeId::new(0));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(transparent)]
pub struct NodeId(u8);

impl NodeId {
    /// Node number `number`.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number)
    }

    /// The number, as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.index(), f)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

/// The kinds of zone, from the most restricted up: which addresses a request accepts.
///
/// ```
/// use pageblock_frame::ZoneKind;
/// assert!(ZoneKind::Dma < ZoneKind::Normal);
/// assert_eq!(ZoneKind::Dma32.name(), "DMA32");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
#[repr(u8)]
pub enum ZoneKind {
    /// Below 16 MiB: old ISA devices.
    Dma = 0,
    /// Below 4 GiB: devices with 32 address bits.
    Dma32 = 1,
    /// Everything else.
    #[default]
    Normal = 2,
    /// Movable memory only, carved from the top of a node.
    Movable = 3,
}

impl ZoneKind {
    /// Number of kinds.
    pub const COUNT: usize = 4;
    /// All kinds, ascending.
    pub const ALL: [Self; Self::COUNT] = [Self::Dma, Self::Dma32, Self::Normal, Self::Movable];

    /// The number, as an array index below [`ZoneKind::COUNT`].
    #[must_use]
    #[inline]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// Linux's name in `/proc/zoneinfo`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Dma => "DMA",
            Self::Dma32 => "DMA32",
            Self::Normal => "Normal",
            Self::Movable => "Movable",
        }
    }
}

impl fmt::Display for ZoneKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
