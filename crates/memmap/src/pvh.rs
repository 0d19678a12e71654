//! PVH, the direct boot protocol of Xen, QEMU and Firecracker: the start-of-day structure (`hvm_start_info`).

use pageblock_frame::PhysAddr;

use crate::adapt::{word32, word64};
use crate::region::{PhysRange, Region, RegionKind};

const MAGIC: u32 = 0x336e_c578;
/// Bytes of an entry of the memory map, and of the list of modules.
const MAP_ENTRY: u64 = 24;
const MODULE: u64 = 32;

/// Where a PVH loader has put its tables. Each range is physical memory that the kernel reads through its own mapping,
/// and that the memory map calls usable: the kernel reserves it, or reads it before it starts the allocator.
///
/// ```
/// use pageblock_memmap::{PvhError, PvhInfo, Region};
/// let mut bytes = [0u8; PvhInfo::BYTES];
/// bytes[..4].copy_from_slice(&0x336e_c578u32.to_le_bytes());
/// (bytes[4], bytes[12]) = (1, 1); // version 1, one module
/// bytes[17] = 0x50; // with its entry at 0x5000
/// (bytes[41], bytes[48]) = (0x60, 3); // three regions at 0x6000
/// let info = PvhInfo::read(&bytes)?;
/// assert_eq!((info.memory_map.start.as_u64(), info.memory_map.len()), (0x6000, 72));
/// assert_eq!((info.modules.start.as_u64(), info.modules.len()), (0x5000, 32));
/// // With the memory behind the ranges as slices: Region::e820_table(map, 24).chain(Region::pvh_modules(modules))
/// assert_eq!(PvhInfo::read(&bytes[..40]), Err(PvhError::TooShort { given: 40 }));
/// # Ok::<(), PvhError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct PvhInfo {
    /// The memory map, for [`Region::e820_table`] with entries of 24 bytes.
    pub memory_map: PhysRange,
    /// The list of modules, for [`Region::pvh_modules`]; empty if there are none.
    pub modules: PhysRange,
    /// ACPI's root pointer; 0 if there is none.
    pub rsdp: PhysAddr,
}

pageblock_frame::errors! {
    /// Why a PVH structure cannot be read.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum PvhError {
        /// There are fewer bytes than the structure has.
        #[error("{given} bytes of a PVH structure, which has 56")]
        TooShort {
            /// How many there are.
            given: usize,
        },
        /// It is something else.
        #[error("{0:#x} is not PVH's magic number")]
        Magic(u32),
        /// The first version has no memory map.
        #[error("version 0 of the PVH structure has no memory map")]
        NoMemoryMap,
        /// A table reaches beyond the end of the address space.
        #[error("a table of the PVH structure has {entries} entries at {start:#x}")]
        OutOfRange {
            /// Where it begins.
            start: u64,
            /// How many entries it is said to have.
            entries: u32,
        },
    }
}

impl PvhInfo {
    /// Bytes of the structure.
    pub const BYTES: usize = 56;

    /// Reads the structure. The loader has put its address into `ebx`.
    ///
    /// # Errors
    /// [`PvhError`].
    pub fn read(bytes: &[u8]) -> Result<Self, PvhError> {
        if bytes.len() < Self::BYTES {
            return Err(PvhError::TooShort { given: bytes.len() });
        }
        if word32(bytes, 0) != MAGIC {
            return Err(PvhError::Magic(word32(bytes, 0)));
        }
        if word32(bytes, 4) == 0 {
            return Err(PvhError::NoMemoryMap);
        }
        Ok(Self {
            memory_map: table(word64(bytes, 40), word32(bytes, 48), MAP_ENTRY)?,
            modules: table(word64(bytes, 16), word32(bytes, 12), MODULE)?,
            rsdp: PhysAddr::new(word64(bytes, 32)),
        })
    }
}

/// The bytes of a table of so many entries.
fn table(start: u64, entries: u32, size: u64) -> Result<PhysRange, PvhError> {
    let end = start.checked_add(u64::from(entries) * size).ok_or(PvhError::OutOfRange { start, entries })?;
    Ok(PhysRange::new(PhysAddr::new(start), PhysAddr::new(end)))
}

impl Region {
    /// Ranges of the modules of a PVH loader, the initial ramdisk among them: memory that holds something for good.
    pub fn pvh_modules(list: &[u8]) -> impl Iterator<Item = Self> + Clone + '_ {
        list.chunks_exact(MODULE as usize).map(|module| {
            let start = word64(module, 0);
            Self::new(start, start.saturating_add(word64(module, 8)), RegionKind::Kernel)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn info() -> [u8; PvhInfo::BYTES] {
        let mut bytes = [0; PvhInfo::BYTES];
        bytes[..4].copy_from_slice(&MAGIC.to_le_bytes());
        bytes[4] = 1;
        bytes
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let mut bytes = info();
        assert_eq!(PvhInfo::read(&bytes).map(|info| info.modules.len()), Ok(0));
        bytes[0] ^= 1;
        assert_eq!(PvhInfo::read(&bytes), Err(PvhError::Magic(MAGIC ^ 1)));
        bytes = info();
        bytes[4] = 0;
        assert_eq!(PvhInfo::read(&bytes), Err(PvhError::NoMemoryMap));
        bytes = info();
        bytes[40..52].fill(0xff);
        assert_eq!(PvhInfo::read(&bytes), Err(PvhError::OutOfRange { start: u64::MAX, entries: u32::MAX }));
    }

    #[test]
    fn modules_are_kept() {
        let mut list = [0u8; 32 + 31];
        (list[2], list[9]) = (0x10, 0x20);
        let regions: Vec<_> = Region::pvh_modules(&list).collect();
        assert_eq!(regions, [Region::new(0x10_0000u64, 0x10_2000u64, RegionKind::Kernel)]);
        list[..16].fill(0xff);
        assert_eq!(Region::pvh_modules(&list).next().map(|region| region.end.as_u64()), Some(u64::MAX));
    }
}
