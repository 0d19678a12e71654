//! The clock: the time-stamp counter, calibrated once against the old interval timer.

use core::arch::x86_64::_rdtsc;
use core::sync::atomic::Ordering;

use pageblock_frame::sync::AtomicU64;
use x86_64::instructions::port::Port;

/// Ticks of the interval timer a second.
const PIT_HZ: u64 = 1_193_182;
/// Ticks to calibrate over: 10 ms.
const PIT_COUNT: u16 = 11_932;
/// Reads of the timer's gate before it is taken for absent.
const PIT_PATIENCE: u32 = 10_000_000;

/// Time-stamp ticks a microsecond; the guess until [`calibrate`] is 1 GHz.
static TICKS_PER_US: AtomicU64 = AtomicU64::new(1000);

/// The time-stamp counter.
#[inline(always)]
pub fn ticks() -> u64 {
    // SAFETY: every x86_64 processor has the instruction, and ring 0 may use it.
    unsafe { _rdtsc() }
}

/// Nanoseconds since the machine started.
pub fn now_ns() -> u64 {
    let rate = TICKS_PER_US.load(Ordering::Relaxed);
    (u128::from(ticks()) * 1000 / u128::from(rate)) as u64
}

/// Time-stamp ticks a microsecond.
pub fn ticks_per_us() -> u64 {
    TICKS_PER_US.load(Ordering::Relaxed)
}

/// Waits.
pub fn delay_us(us: u64) {
    let end = ticks() + us * ticks_per_us();
    while ticks() < end {
        core::hint::spin_loop();
    }
}

/// Measures the counter's rate over 10 ms of channel 2 of the interval timer. Without one the guess stays.
pub fn calibrate() {
    let (mut gate, mut command, mut data) = (Port::<u8>::new(0x61), Port::<u8>::new(0x43), Port::<u8>::new(0x42));
    // SAFETY: the ports of the interval timer and of its gate; nothing else uses channel 2.
    let elapsed = unsafe {
        let saved = gate.read();
        gate.write((saved & !2) | 1);
        command.write(0b1011_0000); // channel 2, low then high byte, one shot
        data.write(PIT_COUNT as u8);
        data.write((PIT_COUNT >> 8) as u8);
        let start = ticks();
        // Without a timer the port reads as all ones: done before it began.
        let absent = gate.read() & 0x20 != 0;
        let done = !absent
            && (0..PIT_PATIENCE).any(|_| {
                core::hint::spin_loop();
                gate.read() & 0x20 != 0
            });
        gate.write(saved);
        done.then(|| ticks() - start)
    };
    if let Some(elapsed) = elapsed {
        let rate = elapsed * PIT_HZ / (u64::from(PIT_COUNT) * 1_000_000);
        TICKS_PER_US.store(rate.max(1), Ordering::Relaxed);
    }
}
