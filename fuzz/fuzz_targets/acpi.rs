#![no_main]
//! `pageblock_fuzz::tables::acpi` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::tables::acpi(data));
