#![no_main]
//! `pageblock_fuzz::compaction::run` under libFuzzer.

libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::compaction::run(data));
