//! Memory maps and tables of firmware, as they come on bad days.

mod acpi;
mod edges;
mod fdt;
mod nasty_maps;
