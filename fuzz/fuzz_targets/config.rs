#![no_main]
//! `pageblock_fuzz::config::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::config::run(data));
