//! The monitor: a prompt on the serial port, for exploring by hand.

use core::sync::atomic::Ordering;

use crate::arch::{apic, cpu};
use crate::boot::pvh::BootInfo;
use crate::console::try_read;
use crate::{print, println};

/// Longest command line.
const MAX: usize = 120;
/// How often the keyboard is looked at: the timer's period in nanoseconds.
const POLL_NS: u32 = 1_000_000;

/// One command: its name, what it takes, what it does.
struct Command {
    name: &'static str,
    usage: &'static str,
    run: fn(&BootInfo, Words<'_>),
}

type Words<'a> = core::str::SplitAsciiWhitespace<'a>;

const COMMANDS: &[Command] = &[
    Command { name: "help", usage: "this list", run: |_, _| help() },
    Command { name: "memory", usage: "the firmware's memory map", run: |boot, _| crate::print_map(boot) },
    Command { name: "cpus", usage: "the CPUs and their interrupts", run: |_, _| print_cpus() },
];

fn help() {
    for command in COMMANDS {
        println!("{:<14} {}", command.name, command.usage);
    }
    println!("{:<14} end the machine", "exit");
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
