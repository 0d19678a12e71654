#![no_main]
//! `pageblock_fuzz::ops::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::ops::run(data));
