#![cfg_attr(fuzzing, no_main)]
//! `pageblock_fuzz::trace::run` under libFuzzer, or on stable Rust under this crate's own driver.

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::trace::run(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    pageblock_fuzz::drive::main("trace", pageblock_fuzz::trace::run)
}
