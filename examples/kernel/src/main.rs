//! Builds the kernel, boots it in QEMU, and says how it went.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use pageblock_kernel::{Image, Machine, PASS, Profile, build_image, find_qemu, sizes};

/// Work of the kernel after it has booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// Boot, report, check the hardware side, free everything.
    Report,
    /// All CPUs allocate and free, their timer interrupts as well.
    Stress,
    /// Memory filled to the last frame.
    Exhaust,
    /// Frames moved from under running processes.
    Migrate,
    /// Memory fragmented on purpose, and 2 MiB pages made of it under running processes.
    Compact,
    /// The same by the compaction thread, on a CPU of its own.
    Kcompactd,
    /// Memory filled by a page cache that gives way, to kswapd on a CPU of its own and to allocating tasks.
    Reclaim,
    /// An area locked in memory and unlocked, in each form of munlock; ticks are instructions with `--icount --cpus 1`.
    Mlock,
    /// Wrong frees, which have to be refused.
    Misuse,
    /// The smallest kernel: one CPU, 16 MiB, interrupts off; and the size of its code.
    Tiny,
    /// The cost of the operations in instructions, beside Linux 6.1; one CPU, 2 GiB.
    Icount,
    /// A prompt, for exploring by hand.
    Monitor,
}

impl Mode {
    fn word(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_string()).unwrap_or_default()
    }
}

/// Boots a small x86_64 kernel on the pageblock allocator in QEMU.
#[derive(Debug, Parser)]
struct Args {
    /// Work to do.
    #[arg(value_enum, default_value = "report")]
    mode: Mode,
    /// Memory, as QEMU writes it.
    #[arg(short, long)]
    memory: Option<String>,
    /// Number of CPUs.
    #[arg(short, long)]
    cpus: Option<u32>,
    /// QEMU's machine: pc, q35, microvm.
    #[arg(short = 'M', long, default_value = "q35")]
    machine: String,
    /// Count instructions instead of time.
    #[arg(long)]
    icount: bool,
    /// More words for the kernel's command line, key=value.
    #[arg(last = true)]
    words: Vec<String>,
}

impl Args {
    fn machine(&self) -> Machine {
        let mut words = vec![format!("mode={}", self.mode.word())];
        words.extend(self.words.iter().cloned());
        // The instruction count is compared with one that was taken on this machine.
        let counting = self.mode == Mode::Icount;
        let (memory, cpus) = match self.mode {
            Mode::Icount => ("2G", 1),
            Mode::Tiny => ("16M", 1),
            // The file is twice as large as memory, and the records of its pages have to fit in one block.
            Mode::Reclaim => ("256M", 4),
            _ => ("512M", 4),
        };
        Machine {
            memory: self.memory.clone().unwrap_or_else(|| memory.into()),
            cpus: self.cpus.unwrap_or(cpus),
            machine: self.machine.clone(),
            icount: self.icount || counting,
            append: words.join(" "),
        }
    }
}

fn run(args: &Args) -> Result<Option<i32>> {
    let qemu = find_qemu()?;
    let image = match args.mode {
        // It is about size, so that only the release build says something.
        Mode::Tiny => build_image(Image::Tiny, Profile::Release)?,
        _ => build_image(Image::Kernel, Profile::of_this_program())?,
    };
    if args.mode == Mode::Tiny {
        print!("{}", sizes(&image)?);
    }
    let mut command = args.machine().command(&qemu, &image);
    command.args(["-serial", "mon:stdio"]);
    Ok(command.status().context("cannot start QEMU")?.code())
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(Some(PASS)) => {
            println!("the kernel passed (QEMU's status {PASS})");
            ExitCode::SUCCESS
        }
        Ok(status) => {
            eprintln!("the kernel did not pass: QEMU's status {status:?}, {PASS} expected");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
