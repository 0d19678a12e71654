#![no_main]
//! `pageblock_fuzz::trace::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::trace::run(data));
