#![no_main]
//! `pageblock_fuzz::regions::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::regions::run(data));
