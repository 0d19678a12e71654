//! Regions, nodes and CPUs out of a flattened device tree: how Arm, RISC-V and LoongArch machines describe themselves.
//!
//! The blob is a header, a list of reservations, a block of tokens (a node begins, a property, a node ends) and a block
//! with the properties' names. [`DeviceTree::new`] walks all of it once and names the first fault; later calls
//! cannot fail. Names are not judged: trees of real machines have longer ones than the specification allows.

mod nodes;
mod regions;
mod tokens;

use pageblock_frame::{NodeId, PhysAddr};

use crate::{PhysRange, Region};
use nodes::{Node, Nodes, Status};
use regions::Regions;
use tokens::{Token, Tokens, be32, be64};

/// Bytes of a header of version 17.
const HEADER: usize = 40;
/// First word of every blob.
const MAGIC: u32 = 0xd00d_feed;
/// The version of the format, unchanged since 2007, that newer ones must be compatible with.
const VERSION: u32 = 17;

pageblock_frame::errors! {
    /// Fault of a device tree.
    ///
    /// ```
    /// use pageblock_memmap::{DeviceTree, DeviceTreeError};
    /// assert_eq!(DeviceTree::new(&[0; 64]).unwrap_err(), DeviceTreeError::Magic { found: 0 });
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum DeviceTreeError {
        /// Fewer bytes than the header says, or than a header has.
        #[error("{found} bytes of a device tree of {expected}")]
        TooShort {
            /// Bytes there should be.
            expected: usize,
            /// Bytes there are.
            found: usize,
        },
        /// It does not begin as a device tree does.
        #[error("{found:#x} is not how a device tree begins")]
        Magic {
            /// The first word.
            found: u32,
        },
        /// It is of a version that cannot be read as version 17.
        #[error("version {found}, readable from version {compatible} on")]
        Version {
            /// The version.
            found: u32,
            /// The oldest version that a reader may be of.
            compatible: u32,
        },
        /// The header places a block outside the blob.
        #[error("the block at {offset} is outside the blob")]
        Block {
            /// Where the header says that it is.
            offset: usize,
        },
        /// The list of memory reservations does not end.
        #[error("the list of reservations does not end")]
        Reservations,
        /// The structure block breaks off or has an unknown token at this byte.
        #[error("no token at byte {offset} of the structure")]
        Token {
            /// Place in the structure block.
            offset: usize,
        },
        /// A node ends that did not begin, or does not end.
        #[error("nodes do not match at byte {offset} of the structure")]
        Nesting {
            /// Place in the structure block.
            offset: usize,
        },
        /// A node gives addresses or sizes of no or of more than two words.
        #[error("addresses or sizes of {cells} words")]
        Cells {
            /// The number of words.
            cells: u32,
        },
        /// A memory or reserved-memory node's `reg` is not a whole number of entries.
        #[error("a `reg` of {bytes} bytes with entries of {entry}")]
        Reg {
            /// Bytes of the property.
            bytes: usize,
            /// Bytes of an entry.
            entry: usize,
        },
    }
}

/// Ranges that the boot loader has filled before the allocator starts, and that no table mentions.
///
/// ```
/// use pageblock_memmap::{Loaded, PhysRange};
/// let loaded = Loaded { blob: 0x87e0_0000.into(), kernel: PhysRange::from(0x8020_0000..0x8040_0000) };
/// assert_eq!(loaded.kernel.len(), 0x20_0000);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loaded {
    /// Physical address of the device tree, or of another protocol's information.
    pub blob: PhysAddr,
    /// The kernel's image, bss and boot stacks included.
    pub kernel: PhysRange,
}

/// A CPU that a device tree lists.
///
/// ```
/// # let blob = include_bytes!("../tests/tables/riscv64-numa.dtb");
/// let tree = pageblock_memmap::DeviceTree::new(blob).unwrap();
/// let cpus: Vec<_> = tree.cpus().map(|cpu| (cpu.hardware, cpu.node.index())).collect();
/// assert_eq!(cpus, [(0, 0), (1, 0), (2, 1), (3, 1)]);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ListedCpu {
    /// Its `reg`: hart id, MPIDR.
    pub hardware: u64,
    /// Its memory node.
    pub node: NodeId,
}

/// How far two nodes are from each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NodeDistance {
    /// From this node.
    pub from: NodeId,
    /// To that node.
    pub to: NodeId,
    /// 10 for a node's own memory.
    pub distance: u32,
}

/// A device tree that has been checked.
///
/// ```
/// use pageblock_memmap::{DeviceTree, Loaded, MapOptions, PhysRange, RegionMap};
/// # let blob = include_bytes!("../tests/tables/riscv64-virt.dtb");
/// let tree = DeviceTree::new(blob)?;
/// let loaded = Loaded { blob: 0x8200_0000.into(), kernel: PhysRange::from(0x8020_0000..0x8021_0000) };
/// let map: RegionMap = RegionMap::build(tree.regions(loaded), &[], MapOptions::new()).unwrap();
/// let taken = 0x10 + (blob.len() as u64).div_ceil(4096);
/// assert_eq!(map.usable_frames(), (1 << 30) / 4096 - taken);
/// # Ok::<(), pageblock_memmap::DeviceTreeError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct DeviceTree<'a> {
    structure: &'a [u8],
    strings: &'a [u8],
    /// Pairs of address and size, without the one that ends the list.
    reservations: &'a [u8],
    len: usize,
}

/// Words of an address and of a size below some node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Cells {
    address: u32,
    size: u32,
}

impl<'a> DeviceTree<'a> {
    /// Bytes of the blob that begins with these eight bytes: a kernel that has only an address must read them first.
    ///
    /// # Errors
    /// [`DeviceTreeError::Magic`] if it is no device tree.
    pub const fn blob_len(start: &[u8; 8]) -> Result<usize, DeviceTreeError> {
        let [a, b, c, d, length @ ..] = *start;
        match u32::from_be_bytes([a, b, c, d]) {
            MAGIC => Ok(u32::from_be_bytes(length) as usize),
            found => Err(DeviceTreeError::Magic { found }),
        }
    }

    /// Reads and checks a tree; bytes behind it do not matter.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(blob: &'a [u8]) -> Result<Self, DeviceTreeError> {
        let header = |word: usize| be32(blob, word * 4).unwrap_or(0);
        if blob.len() < HEADER {
            return Err(DeviceTreeError::TooShort { expected: HEADER, found: blob.len() });
        }
        if header(0) != MAGIC {
            return Err(DeviceTreeError::Magic { found: header(0) });
        }
        let len = header(1) as usize;
        let blob = blob.get(..len).ok_or(DeviceTreeError::TooShort { expected: len, found: blob.len() })?;
        if header(5) < VERSION || header(6) > VERSION {
            return Err(DeviceTreeError::Version { found: header(5), compatible: header(6) });
        }
        let block = |offset: u32, bytes: u32| {
            let (offset, bytes) = (offset as usize, bytes as usize);
            let block = offset.checked_add(bytes).and_then(|end| blob.get(offset..end));
            block.ok_or(DeviceTreeError::Block { offset })
        };
        let (structure, strings) = (block(header(2), header(9))?, block(header(3), header(8))?);
        let list = block(header(4), (len as u32).saturating_sub(header(4)))?;
        let tree = Self { structure, strings, reservations: reservations(list)?, len };
        tree.check_nesting()?;
        tree.check_entries()?;
        Ok(tree)
    }

    /// Bytes of the blob.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Never: a tree has at least a header.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The memory map: memory nodes with their node numbers; and out of it whatever is in use: static reservations of
    /// both kinds, initial ramdisk, the blob itself and the kernel's image. Disabled nodes are left out, reservations
    /// without an address (`size` and `alloc-ranges`) are the kernel's to place.
    pub fn regions(self, loaded: Loaded) -> impl Iterator<Item = Region> + Clone + 'a {
        Regions::new(self, loaded)
    }

    /// The initial ramdisk.
    #[must_use]
    pub fn initrd(self) -> Option<PhysRange> {
        let chosen = self.nodes().find(|node| node.depth == 1 && node.name == b"chosen")?;
        let address = |name: &[u8]| number(chosen.property(name)?);
        let (start, end) = (address(b"linux,initrd-start")?, address(b"linux,initrd-end")?);
        Some(PhysRange::from(start..end))
    }

    /// The CPUs that are not disabled, in the tree's order.
    pub fn cpus(self) -> impl Iterator<Item = ListedCpu> + Clone + 'a {
        let cpus = self.nodes().filter(|node| node.depth == 2 && node.top == b"cpus" && node.is_of(b"cpu", b"cpu"));
        let enabled = cpus.filter(|node| node.status() == Status::Okay);
        enabled.filter_map(|node| Some(ListedCpu { hardware: number(node.property(b"reg")?)?, node: node.numa() }))
    }

    /// The distances that the tree gives (`numa-distance-map-v1`). A pair that it gives in one direction holds for
    /// both.
    pub fn distances(self) -> impl Iterator<Item = NodeDistance> + Clone + 'a {
        let map = self.nodes().find(|node| node.depth == 1 && node.name == b"distance-map");
        let matrix = map.and_then(|node| node.property(b"distance-matrix")).unwrap_or_default();
        matrix.chunks_exact(12).filter_map(|entry| {
            let word = |at| be32(entry, at);
            let (from, to) = (nodes::node_id(word(0)?), nodes::node_id(word(4)?));
            Some(NodeDistance { from, to, distance: word(8)? })
        })
    }

    fn nodes(self) -> Nodes<'a> {
        Nodes::new(Tokens::new(self.structure, self.strings))
    }

    fn memory_nodes(self) -> impl Iterator<Item = Node<'a>> {
        self.nodes().filter(|node| is_memory(node) && node.status() == Status::Okay)
    }

    fn reserved_nodes(self) -> impl Iterator<Item = Node<'a>> {
        self.nodes().filter(|node| is_reserved(node) && node.status() == Status::Okay)
    }

    fn memory_cells(self) -> Cells {
        self.cells(|node| node.depth == 0)
    }

    fn reserved_cells(self) -> Cells {
        self.cells(|node| node.depth == 1 && node.name == b"reserved-memory")
    }

    /// How the first node that is meant writes its children's addresses.
    fn cells(self, meant: impl Fn(&Node<'a>) -> bool) -> Cells {
        let node = self.nodes().find(meant);
        let word = |name: &[u8]| node.and_then(|node| be32(node.property(name)?, 0));
        Cells { address: word(b"#address-cells").unwrap_or(2), size: word(b"#size-cells").unwrap_or(1) }
    }

    /// All tokens are known, and each node that begins ends, in one root.
    fn check_nesting(&self) -> Result<(), DeviceTreeError> {
        let mut tokens = Tokens::new(self.structure, self.strings);
        let (mut depth, mut roots) = (0u32, 0u32);
        loop {
            let offset = tokens.offset();
            match tokens.next_token().ok_or(DeviceTreeError::Token { offset })? {
                Token::Begin(_) if depth == 0 && roots > 0 => return Err(DeviceTreeError::Nesting { offset }),
                Token::Begin(_) => (depth, roots) = (depth + 1, roots + u32::from(depth == 0)),
                Token::End if depth == 0 => return Err(DeviceTreeError::Nesting { offset }),
                Token::End => depth -= 1,
                Token::Property { .. } if depth == 0 => return Err(DeviceTreeError::Nesting { offset }),
                Token::Property { .. } => {}
                Token::Stop if depth > 0 || roots == 0 => return Err(DeviceTreeError::Nesting { offset }),
                Token::Stop => return Ok(()),
            }
        }
    }

    /// The `reg` properties that become regions are whole numbers of entries.
    fn check_entries(&self) -> Result<(), DeviceTreeError> {
        check_reg(self.memory_nodes(), self.memory_cells())?;
        check_reg(self.reserved_nodes(), self.reserved_cells())
    }
}

fn check_reg<'a>(nodes: impl Iterator<Item = Node<'a>>, cells: Cells) -> Result<(), DeviceTreeError> {
    for reg in nodes.filter_map(|node| node.property(b"reg")) {
        if let Some(cells) = [cells.address, cells.size].into_iter().find(|cells| !(1..=2).contains(cells)) {
            return Err(DeviceTreeError::Cells { cells });
        }
        let entry = (cells.address + cells.size) as usize * 4;
        if reg.len() % entry != 0 {
            return Err(DeviceTreeError::Reg { bytes: reg.len(), entry });
        }
    }
    Ok(())
}

/// The entries of the list up to the one that is all zero.
fn reservations(list: &[u8]) -> Result<&[u8], DeviceTreeError> {
    let end = list.chunks_exact(16).position(|entry| entry.iter().all(|byte| *byte == 0));
    end.and_then(|end| list.get(..end * 16)).ok_or(DeviceTreeError::Reservations)
}

/// Memory below the root: the specification's `device_type`, or the name where a tree has only that.
fn is_memory(node: &Node<'_>) -> bool {
    node.depth == 1 && node.is_of(b"memory", b"memory")
}

fn is_reserved(node: &Node<'_>) -> bool {
    node.depth == 2 && node.top == b"reserved-memory"
}

/// A number of one or two words.
fn number(value: &[u8]) -> Option<u64> {
    match value.len() {
        4 => be32(value, 0).map(u64::from),
        8 => be64(value, 0),
        _ => None,
    }
}
