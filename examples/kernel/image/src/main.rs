//! A small x86_64 kernel that boots in QEMU, to show the page allocator at work in a real one.
//!
//! It is a `no_std` program, built by stable cargo for the host's own target and linked at its own addresses (build.rs,
//! linker.ld). Entered by PVH ([`boot`]), it takes the firmware's memory map and list of CPUs, starts them all
//! ([`arch`]), and gives the memory to the allocator; [`platform`] is the seam between the two.
//!
//! The address space: a direct map of all memory at [`arch::paging::DIRECT_MAP`], the kernel in the top 2 GiB, the
//! lower half free. Traps run on stacks of their own ([`arch::gdt`]), all CPUs share one table of gates, and each finds
//! its data through GS ([`arch::cpu`]). There are no threads: CPUs run jobs ([`work`]).

#![no_std]
#![no_main]

extern crate alloc;

mod arch;
mod boot;
mod cache;
mod compact;
mod console;
mod demo;
mod exhaust;
mod hammer;
mod heap;
mod held;
mod holdings;
mod icount;
mod irq;
mod misuse;
mod mlocked;
mod mm;
mod monitor;
mod moving;
mod owners;
mod platform;
mod process;
mod qemu;
mod reclaim;
mod space;
mod stamp;
mod stress;
mod work;

use core::sync::atomic::Ordering;

use arch::{apic, clock, cpu, ipi, paging, smp};
use boot::pvh::{self, BootInfo};
use compact::Compaction;
use console::print_emergency;
use mm::FRAMES;
use qemu::{Exit, exit};
use x86_64::VirtAddr;
use x86_64::structures::paging::Translate;

/// Where the boot code arrives: the boot CPU, interrupts off, on its stack.
#[unsafe(no_mangle)]
extern "C" fn kmain(start_info: u64) -> ! {
    console::init();
    smp::init_boot_cpu();
    // SAFETY: the loader passed the argument.
    let boot = match unsafe { pvh::read(start_info) } {
        Ok(boot) => boot,
        Err(error) => panic!("not booted by PVH: {error}"),
    };
    print_map(&boot);
    let kernel = paging::map_all_memory(&boot);
    println!("kernel: {:#x}..{:#x}", kernel.start, kernel.end);
    let cpus = smp::count(&boot, boot.cmdline.number("cpus", cpu::MAX_CPUS as u64) as usize);
    mm::init(&boot, &kernel, cpus);
    heap::init();
    apic::mask_legacy();
    apic::enable();
    clock::calibrate();
    smp::boot_cpu_online();
    x86_64::instructions::interrupts::enable();
    let cpus = smp::start_others(&boot, cpus);
    paging::drop_identity();
    work::run_on_all(|_| paging::reload());
    println!("smp: {cpus} CPUs, {} MHz", clock::ticks_per_us());
    match boot.cmdline.value("mode").unwrap_or("report") {
        "report" => {
            hardware_check();
            print!("{}{}", FRAMES.buddyinfo(), FRAMES.zoneinfo());
            demo::page_tables();
            demo::heap();
        }
        "stress" => {
            let line = &boot.cmdline;
            stress::run(line.number("rounds", 20_000), line.number("tick_us", stress::TICK_US));
        }
        "exhaust" => exhaust::run(),
        "migrate" => {
            space::SPACE.shoot.store(boot.cmdline.number("shoot", 1) != 0, Ordering::Relaxed);
            moving::run(&boot);
        }
        "compact" => compact::run(&boot, Compaction::Direct),
        "kcompactd" => compact::run(&boot, Compaction::Thread),
        "reclaim" => reclaim::run(&boot, boot.cmdline.number("rounds", 20_000)),
        "mlock" => mlocked::run(),
        "misuse" => misuse::run(),
        "icount" => icount::run(),
        "monitor" => monitor::run(&boot),
        other => panic!("no mode `{other}`"),
    }
    exit(Exit::Pass)
}

fn print_map(boot: &BootInfo) {
    println!("pageblock-kernel: {}", boot.cmdline.as_str());
    for entry in boot.map().iter().filter(|entry| entry.len > 0) {
        println!("memory: {:#014x}..{:#014x} {}", entry.base, entry.end(), entry.kind_name());
    }
}

/// Timer interrupts on every CPU, and shoot-downs among them.
fn hardware_check() {
    work::run_on_all(|_| {
        apic::start_timer(100_000);
        let cpu = cpu::this();
        let want = cpu.ticks.load(Ordering::Relaxed) + 10;
        while cpu.ticks.load(Ordering::Relaxed) < want {
            ipi::shootdown(VirtAddr::new(0x1000));
        }
        apic::stop_timer();
    });
    monitor::print_cpus();
    // SAFETY: no other mapper is in use.
    let mapper = unsafe { paging::mapper() };
    let here = kmain as *const () as u64;
    let phys = mapper.translate_addr(VirtAddr::new(here)).map(|phys| phys.as_u64());
    assert!(phys.is_some_and(|phys| paging::image().contains(&phys)), "the kernel is mapped to {phys:?}");
}

#[panic_handler]
fn panic(info: &core::panic::PanicInfo<'_>) -> ! {
    print_emergency(format_args!("\nPANIC: {info}\n"));
    exit(Exit::Fail)
}
