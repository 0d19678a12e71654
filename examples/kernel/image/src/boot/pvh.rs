//! The PVH start information: memory map, command line, ACPI root pointer.
//!
//! The loader leaves it in memory that the allocator will hand out, so all of it is copied.

use super::cmdline::CmdLine;
use crate::arch::paging::phys_ptr;

/// Most entries of a memory map that are kept.
const MAX_ENTRIES: usize = 64;
const MAGIC: u32 = 0x336e_c578;

/// `struct hvm_start_info`, version 1.
#[repr(C)]
#[derive(Clone, Copy)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    nr_modules: u32,
    modlist: u64,
    cmdline: u64,
    rsdp: u64,
    memmap: u64,
    memmap_entries: u32,
    reserved: u32,
}

/// `struct hvm_memmap_table_entry`: one row of the firmware's map, with the type numbers of E820.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct MapEntry {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
    /// 1 is usable memory; the rest is not for us.
    pub kind: u32,
    reserved: u32,
}

impl MapEntry {
    /// Whether this is memory, as far as the firmware is concerned.
    pub fn is_ram(&self) -> bool {
        self.kind == 1 && self.len > 0
    }

    /// First byte behind.
    pub fn end(&self) -> u64 {
        self.base.saturating_add(self.len)
    }

    /// The name of the type.
    pub fn kind_name(&self) -> &'static str {
        match self.kind {
            1 => "usable",
            2 => "reserved",
            3 => "ACPI tables",
            4 => "ACPI NVS",
            5 => "bad",
            _ => "unknown",
        }
    }
}

/// Why the start information could not be used.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    /// The register did not point to a `hvm_start_info`.
    #[error("no start information: magic number {0:#x}")]
    Magic(u32),
    /// A version without a memory map.
    #[error("start information of version {0} has no memory map")]
    Version(u32),
}

/// The loader's data.
#[derive(Debug)]
pub struct BootInfo {
    /// The command line.
    pub cmdline: CmdLine,
    /// Physical address of the ACPI root pointer; 0 where there is none.
    pub rsdp: u64,
    map: [MapEntry; MAX_ENTRIES],
    entries: usize,
}

impl BootInfo {
    /// The firmware's memory map, in its order.
    pub fn map(&self) -> &[MapEntry] {
        &self.map[..self.entries]
    }

    /// First byte above all memory.
    pub fn ram_end(&self) -> u64 {
        self.map().iter().filter(|entry| entry.is_ram()).map(MapEntry::end).max().unwrap_or(0)
    }
}

/// Copies the loader's structure at physical address `start_info`.
///
/// # Errors
/// [`BootError`] where this is not PVH start information with a memory map.
///
/// # Safety
/// the loader passed `start_info`, and the first 4 GiB are mapped.
pub unsafe fn read(start_info: u64) -> Result<BootInfo, BootError> {
    // SAFETY: the caller's promise; the structure is only read where its magic number and version fit.
    let info = unsafe { phys_ptr::<StartInfo>(start_info).read_unaligned() };
    if info.magic != MAGIC {
        return Err(BootError::Magic(info.magic));
    }
    if info.version < 1 {
        return Err(BootError::Version(info.version));
    }
    let entries = (info.memmap_entries as usize).min(MAX_ENTRIES);
    let mut map = [MapEntry::default(); MAX_ENTRIES];
    for (index, slot) in map.iter_mut().enumerate().take(entries) {
        // SAFETY: the loader promises `memmap_entries` entries at `memmap`.
        *slot = unsafe { phys_ptr::<MapEntry>(info.memmap).add(index).read_unaligned() };
    }
    // SAFETY: the loader promises a string that ends with a zero byte.
    let cmdline = unsafe { read_cmdline(info.cmdline) };
    Ok(BootInfo { cmdline, rsdp: info.rsdp, map, entries })
}

/// # Safety
/// `phys` is 0 or the address of a string that ends with a zero byte, in mapped memory.
unsafe fn read_cmdline(phys: u64) -> CmdLine {
    if phys == 0 {
        return CmdLine::empty();
    }
    let start = phys_ptr::<u8>(phys);
    // SAFETY: the caller's promise.
    let bytes = unsafe { core::ffi::CStr::from_ptr(start.cast()).to_bytes() };
    CmdLine::copy(bytes)
}
