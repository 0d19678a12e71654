//! The size of the experiment. A smaller machine gets less of everything for a shorter time at the same rates, so that
//! it comes to the same shares of memory.

use pageblock_frame::{PAGE_SIZE, PAGEBLOCK_FRAMES};

use crate::machine::costs::{MILLISECOND, SECOND};

/// The machine of the work: 4 GB, of which the kernel's own code and tables took about 5 percent.
pub(crate) const WHOLE: u64 = 4 << 30;

/// Work for a machine of some size.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scale {
    memory: u64,
}

/// Trees of kernel source, each with a build of its own (MemTotal in MB / 400, and the one they are copied from).
pub(crate) const BUILDS: u32 = 10;
/// CPUs: more than four by the series' times of CPU; eight is the likely number.
pub(crate) const CPUS: u32 = 8;
/// Time from the start of one attempt to that of the next: 2 MiB at 16 MB a second.
pub(crate) const PACE: u64 = 125 * MILLISECOND;
/// Percent of memory that each phase asks for.
const PERCENT: u64 = 95;

impl Scale {
    /// For a machine with so many bytes.
    pub(crate) const fn new(memory: u64) -> Self {
        Self { memory }
    }

    /// Bytes of memory.
    pub(crate) const fn memory(self) -> u64 {
        self.memory
    }

    /// This much of the whole machine's share, and 1 at least.
    pub(crate) const fn of(self, whole: u64) -> u64 {
        let part = (whole as u128 * self.memory as u128 / WHOLE as u128) as u64;
        if part == 0 { 1 } else { part }
    }

    /// So many seconds of the script's waiting.
    pub(crate) const fn wait(self, seconds: u64) -> u64 {
        self.of(seconds * SECOND)
    }

    /// Attempts of a phase on a machine that manages so many frames.
    pub(crate) const fn attempts(self, managed: u64) -> u64 {
        managed / PAGEBLOCK_FRAMES * PERCENT / 100
    }

    /// `min_free_kbytes` as khugepaged raises it: two pageblocks and nine for migrate types, for each of three zones.
    pub(crate) const fn raised_min_free(self) -> u64 {
        self.of((2 + 9) * 3 * PAGEBLOCK_FRAMES * PAGE_SIZE / 1024)
    }

    /// `min_free_kbytes` in phase 3.
    pub(crate) const fn low_min_free(self) -> u64 {
        self.of(1024)
    }
}
