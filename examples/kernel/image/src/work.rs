//! Joint work of the CPUs: one job at a time, run on all of them.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::{AtomicU32, AtomicUsize, Lock};
use x86_64::instructions::interrupts;

use crate::arch::idt::vector;
use crate::arch::{apic, cpu};

/// A job: called on every CPU with its number.
pub type Job = fn(usize);

static JOB: Lock<Option<Job>> = Lock::new(None);
/// Counts jobs; a CPU that has seen fewer has one to do.
static GENERATION: AtomicU32 = AtomicU32::new(0);
/// CPUs that still work on the current job.
static BUSY: AtomicUsize = AtomicUsize::new(0);

/// The life of every CPU but the first: sleep, and take part in jobs.
pub fn ap_main() -> ! {
    let mut seen = 0;
    loop {
        interrupts::disable();
        let generation = GENERATION.load(Ordering::Acquire);
        if generation == seen {
            // The interrupt that announces a job cannot fall between the test and the sleep.
            interrupts::enable_and_hlt();
            continue;
        }
        seen = generation;
        interrupts::enable();
        let job = *JOB.lock_irq::<crate::platform::Kernel>();
        if let Some(job) = job {
            job(cpu::current().index());
        }
        BUSY.fetch_sub(1, Ordering::Release);
    }
}

/// Runs `job` on every CPU, and waits until all are done.
pub fn run_on_all(job: Job) {
    let me = cpu::current();
    let others = || cpu::online().filter(move |cpu| cpu.id() != me);
    *JOB.lock_irq::<crate::platform::Kernel>() = Some(job);
    BUSY.store(others().count(), Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Release);
    others().for_each(|cpu| apic::send(cpu, vector::KICK));
    job(me.index());
    while BUSY.load(Ordering::Acquire) != 0 {
        core::hint::spin_loop();
    }
}
