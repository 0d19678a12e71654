//! A driver for stable Rust: replays the corpus, then tries mutations of it for some time.
//!
//! `ops [--seconds N] [--seed S] [FILE…]`: with files, only those are replayed. Without, all of `corpus/ops`, then
//! mutations until the time is over. An input that fails is written to `artifacts/ops/`, and the exit status is not 0.
//! There is no coverage feedback: for long campaigns use cargo-fuzz.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Longest input that mutation makes.
const LONGEST: usize = 4096;

type Target = fn(&[u8]);

struct Arguments {
    seconds: u64,
    seed: u64,
    files: Vec<PathBuf>,
}

/// The program of a target.
pub fn main(name: &str, target: Target) -> ExitCode {
    match parse(std::env::args().skip(1)).and_then(|arguments| run(name, target, &arguments)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{name}: {error}");
            ExitCode::FAILURE
        }
    }
}

fn parse(mut words: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments { seconds: 10, seed: 1, files: Vec::new() };
    let number = |word: Option<String>| {
        let word = word.ok_or("a number is missing")?;
        word.parse().map_err(|_| format!("{word} is not a number"))
    };
    while let Some(word) = words.next() {
        match word.as_str() {
            "--seconds" => arguments.seconds = number(words.next())?,
            "--seed" => arguments.seed = number(words.next())?,
            _ if word.starts_with('-') => return Err(format!("no option {word}")),
            _ => arguments.files.push(word.into()),
        }
    }
    Ok(arguments)
}

fn run(name: &str, target: Target, arguments: &Arguments) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    if !arguments.files.is_empty() {
        for input in read_all(&arguments.files)? {
            target(&input);
        }
        println!("{name}: {} inputs replayed", arguments.files.len());
        return Ok(());
    }
    let directory = root.join("corpus").join(name);
    let entries = fs::read_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    files.sort();
    let corpus = read_all(&files)?;
    let fail = |input: &[u8], error: String| {
        let file = root.join("artifacts").join(name).join(format!("crash-{:016x}", hash(input)));
        let saved = fs::create_dir_all(file.parent().unwrap_or(root)).and_then(|()| fs::write(&file, input));
        format!("{error}; the input is {}", saved.map_or_else(|e| e.to_string(), |()| file.display().to_string()))
    };
    for input in &corpus {
        attempt(target, input).map_err(|error| fail(input, error))?;
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(arguments.seed);
    let (start, limit) = (Instant::now(), Duration::from_secs(arguments.seconds));
    let mut tried = 0u64;
    while start.elapsed() < limit {
        let input = mutate(&corpus, &mut random);
        attempt(target, &input).map_err(|error| fail(&input, error))?;
        tried += 1;
    }
    println!("{name}: {} inputs replayed, {tried} mutations tried, seed {}", corpus.len(), arguments.seed);
    Ok(())
}

fn read_all(files: &[PathBuf]) -> Result<Vec<Vec<u8>>, String> {
    files.iter().map(|file| fs::read(file).map_err(|error| format!("{}: {error}", file.display()))).collect()
}

fn attempt(target: Target, input: &[u8]) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| target(input))).map_err(|_| "an input fails (the panic is above)".to_string())
}

/// FNV-1a, to name an input.
fn hash(input: &[u8]) -> u64 {
    input.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// An input of the corpus (or a random one) with a few changes.
fn mutate(corpus: &[Vec<u8>], random: &mut Xoshiro256PlusPlus) -> Vec<u8> {
    let mut input = match corpus.len() {
        0 => Vec::new(),
        inputs => corpus[random.random_range(0..inputs)].clone(),
    };
    if random.random_range(0..8) == 0 {
        input = (0..random.random_range(0..LONGEST)).map(|_| random.random()).collect();
    }
    for _ in 0..random.random_range(1..=16) {
        change(&mut input, corpus, random);
    }
    input.truncate(LONGEST);
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], random: &mut Xoshiro256PlusPlus) {
    let at = random.random_range(0..=input.len());
    let len = random.random_range(0..=input.len() - at).min(64);
    match random.random_range(0..7) {
        0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        1 if at < input.len() => input[at] = random.random(),
        2 => drop(input.drain(at..at + len)),
        3 => {
            let copy = input[at..at + len].to_vec();
            let to = random.random_range(0..=input.len());
            input.splice(to..to, copy);
        }
        4 => {
            let fresh: Vec<u8> = (0..random.random_range(1..32)).map(|_| random.random()).collect();
            input.splice(at..at, fresh);
        }
        5 if at < input.len() => {
            input[at] = *[0, 1, 0x7f, 0x80, 0xff, b' ', b'=', b'0', b'\n'].get(len % 9).unwrap_or(&0)
        }
        6 if !corpus.is_empty() => {
            let other = &corpus[random.random_range(0..corpus.len())];
            let from = random.random_range(0..=other.len());
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => input.push(random.random()),
    }
}
