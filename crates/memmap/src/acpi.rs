//! Nodes and distances out of ACPI's tables, as the firmware has put them into memory: SRAT (which node has which
//! memory and which CPUs) and SLIT (how far nodes are from one another).
//!
//! The `acpi` crate and others find tables and map them; they hand over the table's bytes, and those are read
//! here. A node's number is its proximity domain's, so that both tables speak of the same nodes.

use pageblock_frame::NodeId;

use crate::adapt::{word32, word64};
use crate::{ListedCpu, Region, RegionKind};

/// Bytes of the header that all tables have.
const HEADER: usize = 36;
/// Where SRAT's entries begin: behind 12 reserved bytes.
const SRAT_ENTRIES: usize = HEADER + 12;
/// Where SLIT's distances begin: behind their number.
const SLIT_DISTANCES: usize = HEADER + 8;

pageblock_frame::errors! {
    /// Fault of an ACPI table.
    ///
    /// ```
    /// use pageblock_memmap::{AcpiTableError, Srat};
    /// assert_eq!(Srat::new(b"SRAT").unwrap_err(), AcpiTableError::TooShort { expected: 36, found: 4 });
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum AcpiTableError {
        /// Fewer bytes than the header says, or than a header has.
        #[error("{found} bytes of a table of {expected}")]
        TooShort {
            /// Bytes there should be.
            expected: usize,
            /// Bytes there are.
            found: usize,
        },
        /// It is another table.
        #[error("a table with the signature {found:x?}")]
        Signature {
            /// Its signature.
            found: [u8; 4],
        },
        /// The bytes do not add up to 0.
        #[error("wrong checksum")]
        Checksum,
        /// An entry is shorter than its kind, or reaches beyond the table.
        #[error("the entry at byte {offset} has a wrong length")]
        Entry {
            /// Place in the table.
            offset: usize,
        },
        /// The distances are not those between so many nodes.
        #[error("{localities} nodes with {distances} distances")]
        Localities {
            /// Nodes.
            localities: u64,
            /// Distances.
            distances: usize,
        },
    }
}

/// The bytes of a table with this signature, its header checked.
fn table<'a>(bytes: &'a [u8], signature: &[u8; 4]) -> Result<&'a [u8], AcpiTableError> {
    let found = bytes.len();
    let header: &[u8; HEADER] = bytes.first_chunk().ok_or(AcpiTableError::TooShort { expected: HEADER, found })?;
    let [a, b, c, d, ..] = *header;
    if [a, b, c, d] != *signature {
        return Err(AcpiTableError::Signature { found: [a, b, c, d] });
    }
    let expected = (word32(header, 4) as usize).max(HEADER);
    let table = bytes.get(..expected).ok_or(AcpiTableError::TooShort { expected, found })?;
    if table.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte)) != 0 {
        return Err(AcpiTableError::Checksum);
    }
    Ok(table)
}

/// A System Resource Affinity Table that has been checked.
///
/// ```
/// use pageblock_memmap::{MapOptions, Region, RegionMap, Srat};
/// # let bytes = include_bytes!("../tests/tables/srat-q35.bin");
/// let srat = Srat::new(bytes)?;
/// let e820 = [Region::from_e820(0, 0x1000_0000, 1)]; // 256 MiB
/// let map: RegionMap = RegionMap::build(e820.into_iter().chain(srat.regions()), &[], MapOptions::new()).unwrap();
/// let runs: Vec<_> = map.usable().map(|run| (run.range.len(), run.node.index())).collect();
/// assert_eq!(runs, [(0x8000, 0), (0x8000, 1)]);
/// # Ok::<(), pageblock_memmap::AcpiTableError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Srat<'a> {
    entries: &'a [u8],
}

impl<'a> Srat<'a> {
    /// Reads and checks a table; bytes behind it do not matter.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(bytes: &'a [u8]) -> Result<Self, AcpiTableError> {
        let entries = table(bytes, b"SRAT")?.get(SRAT_ENTRIES..).unwrap_or_default();
        let mut rest = entries;
        while !rest.is_empty() {
            let offset = SRAT_ENTRIES + entries.len() - rest.len();
            Entry::take(&mut rest).ok_or(AcpiTableError::Entry { offset })?;
        }
        Ok(Self { entries })
    }

    /// Which node has which memory: regions of kind [`RegionKind::Affinity`], to be fed in with the machine's memory
    /// map, which says whether there is memory. Memory that may be plugged in later is included.
    pub fn regions(self) -> impl Iterator<Item = Region> + Clone + 'a {
        self.entries().filter(|entry| entry.kind == Entry::MEMORY && word32(entry.bytes, 28) & 1 != 0).map(|entry| {
            let start = word64(entry.bytes, 8);
            let end = start.saturating_add(word64(entry.bytes, 16));
            Region::new(start, end, RegionKind::Affinity).with_node(node_id(word32(entry.bytes, 2)))
        })
    }

    /// The CPUs that can be used, with the number of their local APIC or, on Arm, their ACPI processor UID.
    pub fn cpus(self) -> impl Iterator<Item = ListedCpu> + Clone + 'a {
        self.entries().filter_map(|entry| {
            let word = |at| word32(entry.bytes, at);
            let (hardware, domain, flags) = match entry.kind {
                // The domain is in pieces: this entry was made for 256 of them.
                Entry::APIC => (word(2) >> 8 & 0xff, word(2) & 0xff | word(8) & !0xff, word(4)),
                Entry::X2APIC => (word(8), word(4), word(12)),
                Entry::GICC => (word(6), word(2), word(10)),
                _ => return None,
            };
            (flags & 1 != 0).then(|| ListedCpu { hardware: u64::from(hardware), node: node_id(domain) })
        })
    }

    fn entries(self) -> impl Iterator<Item = Entry<'a>> + Clone + 'a {
        let mut rest = self.entries;
        core::iter::from_fn(move || Entry::take(&mut rest))
    }
}

/// An entry of SRAT: kind, length, and the rest; all of it is in `bytes`.
#[derive(Clone, Copy, Debug)]
struct Entry<'a> {
    kind: u8,
    bytes: &'a [u8],
}

impl<'a> Entry<'a> {
    const APIC: u8 = 0;
    const MEMORY: u8 = 1;
    const X2APIC: u8 = 2;
    const GICC: u8 = 3;

    /// Takes the first of these entries off; `None`, with nothing taken, if there is none.
    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let [kind, len, ..] = **rest else { return None };
        let least = match kind {
            Self::APIC => 16,
            Self::MEMORY => 40,
            Self::X2APIC => 24,
            Self::GICC => 18,
            // Unknown kinds are stepped over.
            _ => 2,
        };
        if len < least {
            return None;
        }
        let (bytes, behind) = rest.split_at_checked(usize::from(len))?;
        *rest = behind;
        Some(Self { kind, bytes })
    }
}

/// A System Locality Information Table that has been checked.
///
/// ```
/// use pageblock_frame::NodeId;
/// use pageblock_memmap::Slit;
/// # let bytes = include_bytes!("../tests/tables/slit-q35.bin");
/// let slit = Slit::new(bytes)?;
/// assert_eq!(slit.distances(), [10, 21, 21, 10]); // two nodes, row by row
/// assert_eq!(slit.distance(NodeId::new(0), NodeId::new(1)), Some(21));
/// # Ok::<(), pageblock_memmap::AcpiTableError>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Slit<'a> {
    localities: usize,
    distances: &'a [u8],
}

impl<'a> Slit<'a> {
    /// Reads and checks a table; bytes behind it do not matter.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn new(bytes: &'a [u8]) -> Result<Self, AcpiTableError> {
        let table = table(bytes, b"SLIT")?;
        let rest = table.get(SLIT_DISTANCES..).unwrap_or_default();
        let localities = word64(table, HEADER);
        let square = usize::try_from(localities).ok().and_then(|nodes| nodes.checked_mul(nodes));
        match square.and_then(|square| rest.get(..square)) {
            Some(distances) if !distances.is_empty() => Ok(Self { localities: localities as usize, distances }),
            _ => Err(AcpiTableError::Localities { localities, distances: rest.len() }),
        }
    }

    /// The distances, row by row.
    #[must_use]
    pub const fn distances(self) -> &'a [u8] {
        self.distances
    }

    /// The distance between two nodes; `None` if the table does not have them.
    #[must_use]
    pub fn distance(self, from: NodeId, to: NodeId) -> Option<u8> {
        let known = from.index() < self.localities && to.index() < self.localities;
        self.distances.get(from.index() * self.localities + to.index()).filter(|_| known).copied()
    }
}

/// A number that is too large stays too large: the map's builder names the region.
fn node_id(domain: u32) -> NodeId {
    NodeId::new(u8::try_from(domain).unwrap_or(u8::MAX))
}
