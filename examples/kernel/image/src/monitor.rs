//! The monitor: a prompt on the serial port, for exploring by hand.

use core::sync::atomic::Ordering;

use crate::arch::{apic, cpu};
use crate::boot::pvh::BootInfo;
use crate::console::try_read;
use crate::mm::FRAMES;
use crate::{compact, exhaust, holdings, mm, print, println};

/// Longest command line.
const MAX: usize = 120;
/// How often the keyboard is looked at: the timer's period in nanoseconds.
const POLL_NS: u32 = 1_000_000;

/// One command: its name, arguments and effect.
struct Command {
    name: &'static str,
    usage: &'static str,
    run: fn(&BootInfo, Words<'_>),
}

/// The words behind a command's name.
pub type Words<'a> = core::str::SplitAsciiWhitespace<'a>;

const COMMANDS: &[Command] = &[
    Command { name: "help", usage: "this list", run: |_, _| help() },
    Command { name: "memory", usage: "the firmware's memory map", run: |boot, _| crate::print_map(boot) },
    Command { name: "buddyinfo", usage: "free blocks by order", run: |_, _| print!("{}", FRAMES.buddyinfo()) },
    Command {
        name: "pagetypeinfo",
        usage: "free blocks by type and order",
        run: |_, _| print!("{}", FRAMES.pagetypeinfo()),
    },
    Command { name: "zoneinfo", usage: "the zones and their watermarks", run: |_, _| print!("{}", FRAMES.zoneinfo()) },
    Command {
        name: "alloc",
        usage: "ORDER [COUNT]: take blocks and hold them",
        run: |_, words| holdings::alloc(words),
    },
    Command {
        name: "free",
        usage: "[COUNT]: free held blocks, the latest first",
        run: |_, words| holdings::free(words),
    },
    Command { name: "frag", usage: "scatter memory; again: put it right", run: |boot, _| holdings::fragment(boot) },
    Command { name: "compact", usage: "move what is in the way", run: |_, _| compact::compact_memory() },
    Command { name: "vmstat", usage: "what has been counted", run: |_, _| print!("{}", FRAMES.vmstat()) },
    Command { name: "stress", usage: "[ROUNDS] [TICK_US]: all CPUs allocate and free", run: |_, words| stress(words) },
    Command { name: "exhaust", usage: "take the last frame, and give all back", run: |_, _| exhaust::run() },
    Command { name: "check", usage: "recompute everything from the free maps", run: |_, _| check() },
    Command { name: "drain", usage: "empty the per-CPU lists", run: |_, _| drain() },
    Command { name: "cpus", usage: "the CPUs and their interrupts", run: |_, _| print_cpus() },
];

fn help() {
    for command in COMMANDS {
        println!("{:<14} {}", command.name, command.usage);
    }
    println!("{:<14} end the machine", "exit");
}

/// The next word as a number, or `default`.
pub fn number(words: &mut Words<'_>, default: u64) -> u64 {
    words.next().and_then(|word| word.parse().ok()).unwrap_or(default)
}

fn stress(mut words: Words<'_>) {
    let rounds = number(&mut words, 20_000);
    crate::stress::run(rounds, number(&mut words, crate::stress::TICK_US));
    // The stress run had the timer to itself.
    apic::start_timer(POLL_NS);
}

fn drain() {
    let listed = mm::stats().listed;
    mm::drain();
    println!("{listed} frames were on per-CPU lists, {} are", mm::stats().listed);
}

fn check() {
    mm::check();
    println!("{}; nothing wrong", mm::stats());
}

/// One line a CPU.
pub fn print_cpus() {
    for cpu in cpu::online() {
        println!(
            "cpu {}: controller {}, {} ticks, {} kicks, {} shoot-downs",
            cpu.id().index(),
            cpu.apic_id.load(Ordering::Relaxed),
            cpu.ticks.load(Ordering::Relaxed),
            cpu.kicks.load(Ordering::Relaxed),
            cpu.shootdowns.load(Ordering::Relaxed)
        );
    }
}

/// Reads and carries out commands until `exit`.
pub fn run(boot: &BootInfo) {
    println!("the monitor: `help` lists the commands, `exit` ends the machine");
    apic::start_timer(POLL_NS);
    let mut line = [0; MAX];
    loop {
        print!("> ");
        let mut words = read_line(&mut line).split_ascii_whitespace();
        let Some(name) = words.next() else { continue };
        if name == "exit" {
            break;
        }
        match COMMANDS.iter().find(|command| command.name == name) {
            Some(command) => (command.run)(boot, words),
            None => println!("no command `{name}`; try `help`"),
        }
    }
    apic::stop_timer();
}

/// Reads one line, echoing it, with backspace.
fn read_line(line: &mut [u8; MAX]) -> &str {
    let mut len = 0;
    loop {
        match wait_byte() {
            b'\r' | b'\n' => break,
            8 | 127 if len > 0 => {
                len -= 1;
                print!("\u{8} \u{8}");
            }
            byte @ b' '..=b'~' if len < MAX => {
                line[len] = byte;
                len += 1;
                print!("{}", byte as char);
            }
            _ => {}
        }
    }
    println!();
    core::str::from_utf8(&line[..len]).unwrap_or("")
}

/// Sleeps between looks at the port.
fn wait_byte() -> u8 {
    loop {
        if let Some(byte) = try_read() {
            return byte;
        }
        x86_64::instructions::hlt();
    }
}
