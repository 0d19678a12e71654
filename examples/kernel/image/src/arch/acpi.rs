//! The ACPI tables, for one question: which CPUs are there?

use core::ptr::NonNull;

use acpi::madt::{Madt, MadtEntry};
use acpi::{AcpiError, AcpiHandler, AcpiTables, PhysicalMapping};

use super::paging::phys_ptr;

/// Tables are read through the direct map.
#[derive(Clone)]
struct DirectMap;

impl AcpiHandler for DirectMap {
    unsafe fn map_physical_region<T>(&self, address: usize, size: usize) -> PhysicalMapping<Self, T> {
        let pointer = NonNull::new(phys_ptr::<T>(address as u64)).expect("the direct map does not begin at 0");
        // SAFETY: the direct map has the tables, which the firmware put into the first 4 GiB, for good.
        unsafe { PhysicalMapping::new(address, pointer, size, size, Self) }
    }

    fn unmap_physical_region<T>(_: &PhysicalMapping<Self, T>) {}
}

/// Calls `visit` with the interrupt controller's number of every CPU that can be started.
///
/// # Errors
/// There is no root pointer at `rsdp`, or no table of CPUs behind it.
pub fn for_each_cpu(rsdp: u64, mut visit: impl FnMut(u32)) -> Result<(), AcpiError> {
    if rsdp == 0 {
        return Err(AcpiError::NoValidRsdp);
    }
    // SAFETY: the loader says that this is the root pointer; signature and checksum are tested.
    let tables = unsafe { AcpiTables::from_rsdp(DirectMap, rsdp as usize)? };
    let madt = tables.find_table::<Madt>()?;
    for entry in madt.get().entries() {
        if let MadtEntry::LocalApic(cpu) = entry {
            let (id, flags) = (cpu.apic_id, cpu.flags);
            if flags & 1 != 0 {
                visit(u32::from(id));
            }
        }
    }
    Ok(())
}
