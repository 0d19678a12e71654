#![cfg_attr(fuzzing, no_main)]
//! `pageblock_fuzz::tables::acpi` under libFuzzer, or on stable Rust under this crate's own driver.

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::tables::acpi(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    pageblock_fuzz::drive::main("acpi", pageblock_fuzz::tables::acpi)
}
