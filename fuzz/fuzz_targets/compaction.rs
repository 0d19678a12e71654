#![cfg_attr(fuzzing, no_main)]
//! `pageblock_fuzz::compaction::run` under libFuzzer, or on stable Rust under this crate's own driver, which fails if mutations were
//! tried and nothing was ever moved.

#[cfg(fuzzing)]
libfuzzer_sys::fuzz_target!(|data: &[u8]| pageblock_fuzz::compaction::run(data));

#[cfg(not(fuzzing))]
fn main() -> std::process::ExitCode {
    let end = pageblock_fuzz::drive::main("compaction", pageblock_fuzz::compaction::run);
    let (runs, moved) = pageblock_fuzz::compaction::take_counts();
    println!("compaction: {runs} runs moved {moved} frames");
    let replays = std::env::args().skip(1).any(|word| !word.starts_with('-') && word.parse::<u64>().is_err());
    if moved == 0 && !replays {
        eprintln!("compaction: nothing was moved, so nothing was tried");
        return std::process::ExitCode::FAILURE;
    }
    end
}
