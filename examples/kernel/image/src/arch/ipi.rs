//! Translation shoot-downs: one CPU at a time asks all others to drop their translations, and waits until they have.

use core::sync::atomic::Ordering;

use pageblock_frame::sync::{AtomicU32, AtomicU64, Lock};
use x86_64::VirtAddr;
use x86_64::instructions::{interrupts, tlb};

use super::idt::vector;
use super::{apic, cpu};

/// Held by the CPU that asks.
static SENDER: Lock<()> = Lock::new(());
/// The address to forget, or [`EVERYTHING`]; written by the sender before the interrupts, read by the receivers.
static ADDRESS: AtomicU64 = AtomicU64::new(0);
/// One bit for each CPU that has not answered yet.
static WAITING: AtomicU32 = AtomicU32::new(0);

/// No address: all translations are to be forgotten. Not canonical, so no page is there.
const EVERYTHING: u64 = 1 << 63;

/// Forgets the translation of `address` here and on every other CPU; see [`shootdown_all`].
pub fn shootdown(address: VirtAddr) {
    shoot(address.as_u64());
}

/// Forgets all translations here and on every other CPU: cheaper than several addresses one by one.
///
/// Call it with interrupts on: two CPUs that shoot at the same time answer each other while they wait, which [`serve`]
/// also does for a caller that has them off.
pub fn shootdown_all() {
    shoot(EVERYTHING);
}

fn forget(address: u64) {
    match address {
        EVERYTHING => tlb::flush_all(),
        address => tlb::flush(VirtAddr::new_truncate(address)),
    }
}

fn shoot(address: u64) {
    forget(address);
    let sender = loop {
        if let Some(guard) = SENDER.try_lock() {
            break guard;
        }
        serve();
        core::hint::spin_loop();
    };
    let me = cpu::current();
    let others = || cpu::online().filter(move |cpu| cpu.id() != me);
    let mask = others().fold(0, |mask, cpu| mask | 1 << cpu.id().index());
    if mask != 0 {
        ADDRESS.store(address, Ordering::Relaxed);
        // Release: a CPU that sees its bit sees the address.
        WAITING.store(mask, Ordering::Release);
        others().for_each(|cpu| apic::send(cpu, vector::SHOOTDOWN));
        // Acquire: pairs with the receivers' Release below; the flushes are over.
        while WAITING.load(Ordering::Acquire) != 0 {
            core::hint::spin_loop();
        }
    }
    drop(sender);
}

/// Answers a shoot-down that waits for this CPU. Not interruptible: the interrupt would answer in between, and this
/// answer then count for the next question.
pub fn serve() {
    let bit = 1 << cpu::current().index();
    interrupts::without_interrupts(|| {
        if WAITING.load(Ordering::Acquire) & bit != 0 {
            forget(ADDRESS.load(Ordering::Relaxed));
            cpu::this().shootdowns.fetch_add(1, Ordering::Relaxed);
            WAITING.fetch_and(!bit, Ordering::Release);
        }
    });
}
