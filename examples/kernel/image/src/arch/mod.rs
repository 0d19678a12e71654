//! The processor and its surroundings: descriptor tables, traps, local interrupt controllers, clock, page tables, the
//! other CPUs.

pub mod acpi;
pub mod apic;
pub mod clock;
pub mod cpu;
pub mod gdt;
pub mod idt;
pub mod ipi;
pub mod paging;
pub mod smp;
