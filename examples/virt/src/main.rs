//! A kernel for QEMU's `virt` boards, to show `pageblock` on machines that are not x86-64: riscv64 (supervisor mode
//! above OpenSBI), riscv32 (machine mode, no firmware) and aarch64 (EL1, PSCI, MMU on), with four CPUs and the memory
//! map of the device tree.
//!
//! One module a machine has the differences: the way in, interrupts and their timer, starting other CPUs, output, the
//! way out. The rest is the same everywhere: [`memory`] is the seam to the allocator, [`work`] the load of all CPUs
//! while their timers interrupt them, [`compact`] moves real pages once, [`stack`] measures how deep initialisation
//! goes.

#![no_std]
#![no_main]

#[cfg(target_arch = "aarch64")]
#[path = "aarch64/mod.rs"]
mod machine;
#[cfg(any(target_arch = "riscv32", target_arch = "riscv64"))]
#[path = "riscv/mod.rs"]
mod machine;

mod compact;
mod console;
mod memory;
mod stack;
mod work;

use core::fmt::Display;

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use memory::FRAMES;
use pageblock::CpuId;

/// CPUs that are used.
const CPUS: usize = 4;
/// The exit status of a run in which all was well. Not 0: QEMU returns that for a machine that has reset
/// itself.
const PASS: u32 = 33;
const FAIL: u32 = 35;

/// CPUs that have begun the work, and that have ended it.
static STARTED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicUsize = AtomicUsize::new(0);

/// Initialisation may take so many bytes of stack, whatever the compiler's options.
const MOST_STACK: usize = 8 << 10;
/// Set once the way in has been taken.
static ENTERED: AtomicBool = AtomicBool::new(false);

/// Where the way in arrives on the first CPU: on the boot stack, interrupts off.
extern "C" fn boot_main(hardware: usize, blob: usize) -> ! {
    // A CPU that faults before it has a trap handler may be sent here again.
    assert!(!ENTERED.swap(true, Ordering::AcqRel), "boots again: a0 {hardware:#x}, a1 {blob:#x}");
    let tree = memory::device_tree(blob);
    let depth = stack::depth_of(|| memory::init(&tree, blob));
    println!("{}: {}", machine::NAME, FRAMES.stats());
    println!("init: {depth} bytes of stack");
    assert!(depth <= MOST_STACK, "init has taken more than {MOST_STACK} bytes of stack");
    machine::on_stack(stack::first_top(), first_main, [hardware, blob])
}

/// The first CPU, on the stack that it keeps.
extern "C" fn first_main(hardware: usize, blob: usize) -> ! {
    let tree = memory::device_tree(blob);
    let free = FRAMES.stats().free;
    let others = tree.cpus().filter(|cpu| cpu.hardware != hardware as u64).take(CPUS - 1);
    let started = others.zip(1..).filter(|(cpu, number)| machine::start_cpu(cpu.hardware, *number)).count();
    let outcome = share();
    while ENDED.load(Ordering::Acquire) <= started {
        core::hint::spin_loop();
    }
    work::empty_mailboxes();
    let listed = FRAMES.stats().listed; // of CPUs that are offline by now
    println!("work: {} CPUs, {outcome}; {listed} frames on lists", ENDED.load(Ordering::Relaxed));
    assert!(listed > 0, "the CPUs had no lists");
    println!("compaction: {}", compact::run());
    finish(free);
    println!("{}", FRAMES.stats());
    machine::exit(if work::faults() == 0 && started + 1 == CPUS { PASS } else { FAIL })
}

/// Where it arrives on the others.
extern "C" fn other_main() -> ! {
    share();
    machine::sleep()
}

/// A CPU's part of the work, begun together with the others'.
fn share() -> impl Display {
    STARTED.fetch_add(1, Ordering::AcqRel);
    machine::start_timer();
    work::run(memory::this_cpu());
    machine::stop_timer();
    must("a CPU goes offline", FRAMES.cpus().go_offline());
    ENDED.fetch_add(1, Ordering::AcqRel);
    work::Totals
}

/// Every frame is back, and every structure agrees with its bits.
fn finish(free: u64) {
    (0..CPUS as u32)
        .for_each(|cpu| must("an offline CPU's lists are taken over", FRAMES.cpus().take_over(CpuId::new(cpu))));
    FRAMES.drain();
    must("check", FRAMES.check());
    must("check of the lists", FRAMES.check_lists());
    let left = FRAMES.stats();
    assert!(left.free == free && left.bad_frees == 0, "{free} frames were free: {left}");
}

fn must<T, E: Display>(step: &str, result: Result<T, E>) -> T {
    result.unwrap_or_else(|error| panic!("{step}: {error}"))
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    println!("PANIC on CPU {}: {info}", memory::this_cpu().index());
    machine::exit(FAIL)
}
