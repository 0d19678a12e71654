#![no_main]
//! `pageblock_fuzz::cpus::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::cpus::run(data));
