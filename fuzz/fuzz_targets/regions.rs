//! Any bytes as a memory map: the normaliser gives exactly the usable frames, or names the region at fault.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| pageblock_testkit::regions::check(bytes));
