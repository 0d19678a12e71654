//! How many frames are moved to make one free pageblock, by the default and by Linux's scanners, from the same state.

use std::cell::RefCell;

use pageblock_buddy::Zone;
use pageblock_compaction::{Compactor, Config, Priority, Request};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{AllocFlags, MigrateType, Order, PAGEBLOCK_ORDER, Pfn};
use pageblock_testkit::host::{Quiet, Stored};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::allocators::empty_zone;

/// Frames of the zone: 1 GiB.
const FRAMES: u64 = crate::POOL;
/// One frame of so many is the kernel's.
const KERNEL: u64 = 10;
/// Pageblocks made.
const WANTED: u64 = 32;

/// How half of the memory was freed before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// Frame by frame, at random: every pageblock is half full.
    Singly,
    /// In runs of 256 frames on average, as when a process ends: pageblocks differ.
    InRuns,
}

/// What it cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Pageblocks made.
    pub made: u64,
    /// Frames moved.
    pub moved: u64,
    /// Frames that both scanners looked at.
    pub scanned: u64,
}

impl Cost {
    /// Frames moved for each pageblock made.
    #[must_use]
    pub fn moves_each(&self) -> f64 {
        self.moved as f64 / self.made.max(1) as f64
    }
}

/// Owns single frames: whether it has them, and whether they are lent.
#[derive(Debug)]
struct Owner(RefCell<Vec<Option<bool>>>);

impl Owner {
    fn change(&self, pfn: Pfn, from: Option<bool>, to: Option<bool>) -> bool {
        let mut pages = self.0.borrow_mut();
        let Some(page) = pages.get_mut(pfn.as_u64() as usize) else { return false };
        let fits = *page == from;
        if fits {
            *page = to;
        }
        fits
    }
}

impl Migrate for Owner {
    fn isolate(&self, pfn: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> {
        if self.change(pfn, Some(false), Some(true)) { Ok(()) } else { Err(Refusal::Unknown) }
    }

    fn migrate(&self, from: Pfn, to: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> {
        let moved = self.change(from, Some(true), None) && self.change(to, None, Some(false));
        if moved { Ok(()) } else { Err(MoveError::Failed) }
    }

    fn put_back(&self, pfn: Pfn, _: Order) -> PutBack {
        self.change(pfn, Some(true), Some(false));
        PutBack::Kept
    }
}

/// A zone at half occupancy, one frame in ten of them the kernel's, and the owner of the others.
fn half_full(freed: Freed, seed: u64) -> HalfFull {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let stored = empty_zone(FRAMES);
    let zone: &Zone<'_> = &stored;
    assert_eq!(zone.release(zone.span()), Ok(FRAMES));
    let mut owned = vec![None; FRAMES as usize];
    let mut order_of_birth = Vec::with_capacity(FRAMES as usize);
    for number in 0.. {
        let kernel = number % KERNEL == 0;
        let kind = if kernel { MigrateType::Unmovable } else { MigrateType::Movable };
        let Some(pfn) = zone.alloc::<Quiet>(Order::ZERO, kind, AllocFlags::empty()) else { break };
        owned[pfn.as_u64() as usize] = (!kernel).then_some(false);
        order_of_birth.push(pfn);
    }
    let mut left = FRAMES / 2;
    let mut live: Vec<bool> = vec![true; order_of_birth.len()];
    while left > 0 {
        let run = if freed == Freed::Singly { 1 } else { random.random_range(1..512) };
        let start = random.random_range(0..order_of_birth.len());
        for place in (start..order_of_birth.len()).take(run) {
            if left > 0 && live[place] {
                let pfn = order_of_birth[place];
                assert_eq!(zone.free::<Quiet>(pfn, Order::ZERO), Ok(()));
                owned[pfn.as_u64() as usize] = None;
                live[place] = false;
                left -= 1;
            }
        }
    }
    // What is whole already is not to be made.
    while zone.alloc::<Quiet>(PAGEBLOCK_ORDER, MigrateType::Movable, AllocFlags::empty()).is_some() {}
    HalfFull { zone: stored, owner: Owner(RefCell::new(owned)) }
}

/// A zone of which half has been freed, none of its pageblocks whole, and who owns the rest.
#[derive(Debug)]
pub struct HalfFull {
    zone: Stored<Zone<'static>>,
    owner: Owner,
}

impl HalfFull {
    /// Such a zone.
    #[must_use]
    pub fn new(freed: Freed, seed: u64) -> Self {
        half_full(freed, seed)
    }

    /// Makes and holds pageblocks until there are so many, or a hundred attempts have been made.
    #[must_use]
    pub fn make(&self, config: Config, wanted: u64) -> Cost {
        let Self { zone, owner } = self;
        let compactor = Compactor::new(config);
        let request = Request::direct(PAGEBLOCK_ORDER, MigrateType::Movable, Priority::SyncLight);
        let mut made = 0;
        for _ in 0..100 {
            let outcome = compactor.run::<Quiet, _>(zone, owner, &request);
            let whole = || zone.alloc::<Quiet>(PAGEBLOCK_ORDER, MigrateType::Movable, AllocFlags::empty());
            let block = outcome.captured.or_else(whole);
            made += u64::from(block.is_some());
            if made == wanted {
                break;
            }
            if block.is_none() {
                compactor.reset_if_due::<Quiet>(zone);
            }
        }
        let stat = compactor.vmstat();
        Cost { made, moved: stat.migrate_success, scanned: stat.migrate_scanned + stat.free_scanned }
    }
}

/// Makes 32 pageblocks.
///
/// # Panics
/// If the zone no longer agrees with itself.
#[must_use]
pub fn make_pageblocks(config: Config, freed: Freed, seed: u64) -> Cost {
    let state = HalfFull::new(freed, seed);
    let cost = state.make(config, WANTED);
    assert_eq!(state.zone.check(), Ok(()));
    cost
}

#[cfg(test)]
mod tests {
    use super::*;
    use pageblock_compaction::Patches;

    #[test]
    fn the_default_moves_a_third_of_what_linux_does() {
        let ours = make_pageblocks(Config::default(), Freed::InRuns, 7);
        assert_eq!(ours.made, WANTED);
        for linux in [Config::linux_6_1(), Config::linux_3_13(Patches::ALL)] {
            let theirs = make_pageblocks(linux, Freed::InRuns, 7);
            assert!(ours.moves_each() <= 0.36 * theirs.moves_each(), "{ours:?}, {theirs:?}");
        }
    }

    #[test]
    fn where_all_pageblocks_are_alike_there_is_little_to_save() {
        // What is in the emptiest of 512 pageblocks, each frame of which is in use with probability 1/2, bounds it from below.
        let ours = make_pageblocks(Config::default(), Freed::Singly, 7);
        let theirs = make_pageblocks(Config::linux_6_1(), Freed::Singly, 7);
        assert_eq!(ours.made, WANTED);
        assert!(ours.moves_each() <= theirs.moves_each(), "{ours:?}, {theirs:?}");
    }
}
