//! Time of a stream's CPUs: each has a clock of its own, and the zone lock makes them meet.
//!
//! ```text
//! CPU 0  ──work──▶│ waits │ holds the lock ▏──work──▶
//! CPU 1  ──work──▶▏holds the lock │──work──▶
//! ```
//! A CPU that comes to the lock while another holds it waits until that one is done, and pays for the line that comes
//! from there. The clock that is behind runs next, so that events happen in the order of time.

use super::frames::MOST_CPUS;

/// One instruction at 3 GHz, one a cycle, in thousandths of a nanosecond.
const INSTRUCTION: u64 = 333;
/// A block from a list, and back to one: Linux 6.1 as measured (`benches`), 438 and 255 instructions for order 0.
const TAKE: u64 = 438;
const GIVE: u64 = 255;
/// Under the lock: a frame that a refill takes, and one that a drain gives back; the same measurement.
const REFILL: u64 = 202;
const DRAIN: u64 = 302;
/// To take and release a lock that no other CPU has.
const LOCK: u64 = 40;
/// A line of memory that another CPU of the socket wrote last, in thousandths of a nanosecond.
const LINE: u64 = 60_000;

/// What an operation of the allocator did under the zone lock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnderLock {
    pub(super) locks: u64,
    pub(super) refilled: u64,
    pub(super) drained: u64,
}

/// Clocks in thousandths of a nanosecond.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Clocks {
    at: [u64; MOST_CPUS],
    /// When the lock is free again, and the CPU that had it last.
    free_at: u64,
    last: u32,
    waited: u64,
}

impl Clocks {
    /// A CPU computes for so many nanoseconds.
    pub(super) fn spend(&mut self, cpu: u32, nanoseconds: u64) {
        self.at[cpu as usize] += 1000 * nanoseconds;
    }

    /// A CPU that was idle goes on at the time of another.
    pub(super) fn catch_up(&mut self, cpu: u32, with: u32) {
        self.at[cpu as usize] = self.at[cpu as usize].max(self.at[with as usize]);
    }

    /// A CPU's time.
    pub(super) fn of(&self, cpu: u32) -> u64 {
        self.at[cpu as usize]
    }

    /// A block was taken.
    pub(super) fn take(&mut self, cpu: u32, under: UnderLock) {
        self.operate(cpu, TAKE, under);
    }

    /// A block was given back.
    pub(super) fn give(&mut self, cpu: u32, under: UnderLock) {
        self.operate(cpu, GIVE, under);
    }

    fn operate(&mut self, cpu: u32, instructions: u64, under: UnderLock) {
        let mut now = self.at[cpu as usize] + instructions * INSTRUCTION;
        if under.locks > 0 {
            let moved = REFILL * under.refilled + DRAIN * under.drained;
            let line = if self.last == cpu { 0 } else { LINE };
            let hold = (LOCK * under.locks + moved) * INSTRUCTION + line;
            self.waited += self.free_at.saturating_sub(now);
            now = now.max(self.free_at) + hold;
            (self.free_at, self.last) = (now, cpu);
        }
        self.at[cpu as usize] = now;
    }

    /// Seconds until the last CPU was done.
    pub(super) fn seconds(&self) -> f64 {
        self.at.iter().copied().max().unwrap_or(0) as f64 / 1e12
    }

    /// Seconds that all CPUs together waited for the lock.
    pub(super) fn waited(&self) -> f64 {
        self.waited as f64 / 1e12
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_to_come_waits_until_the_first_is_done() {
        let mut clocks = Clocks::default();
        let refill = UnderLock { locks: 1, refilled: 31, drained: 0 };
        clocks.take(0, refill);
        let alone = clocks.of(0);
        assert_eq!(alone, (TAKE + LOCK + 31 * REFILL) * INSTRUCTION);
        clocks.take(1, refill);
        assert_eq!(clocks.of(1), alone + (LOCK + 31 * REFILL) * INSTRUCTION + LINE);
        assert!(clocks.waited() > 0.0 && clocks.seconds() > alone as f64 / 1e12);
        let before = clocks.of(2);
        clocks.give(2, UnderLock::default());
        assert_eq!(clocks.of(2), before + GIVE * INSTRUCTION, "a list hit meets no one");
    }
}
