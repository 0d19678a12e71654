#![no_main]
//! `pageblock_fuzz::tables::fdt` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::tables::fdt(data));
