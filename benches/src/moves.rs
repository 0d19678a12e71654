//! How many frames are moved to make one free pageblock, by the default and by Linux's scanners, from the same state.

use pageblock_testkit::simulated::SimulatedZone;
use std::cell::RefCell;

use pageblock_buddy::{Patience, Zone};
use pageblock_compaction::{CompactionConfig, Compactor, Priority, Request};
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::{AllocFlags, MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, Pfn};
use pageblock_testkit::host::{Quiet, Stored};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::allocators::empty_zone;

/// Frames of the zone: 1 GiB.
const FRAMES: u64 = crate::POOL;
/// One frame of so many is the kernel's.
const KERNEL: u64 = 10;
/// Times its frames that objects are born in a zone before it counts as aged.
const AGE: u64 = 10;
/// Pageblocks made.
const WANTED: u64 = 32;

/// How half of the memory was freed before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Freed {
    /// Frame by frame, at random: every pageblock is half full.
    Singly,
    /// In runs of so many frames on average; with many, as when a process ends, pageblocks differ.
    InRuns(u16),
    /// Objects of 1 to 64 frames came and went at random, the zone being all but full, for ten times its frames; then
    /// half went.
    Objects,
}

impl Freed {
    /// From all alike to very different.
    pub const ALL: [Self; 6] =
        [Self::Singly, Self::InRuns(4), Self::InRuns(16), Self::InRuns(64), Self::InRuns(256), Self::Objects];

    /// For a table.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::Singly => "singly".to_owned(),
            Self::InRuns(frames) => format!("runs_of_{frames}"),
            Self::Objects => "objects".to_owned(),
        }
    }
}

/// Its cost.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// Pageblocks made.
    pub made: u64,
    /// Frames moved.
    pub moved: u64,
    /// Frames that both scanners looked at.
    pub scanned: u64,
    /// Frames that had to be moved for so many with full knowledge: those in use in the emptiest pageblocks that can
    /// be emptied.
    pub least: u64,
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

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: a block is moved in the table under the same borrow in which `Ok` is decided; nothing is behind the frames.
unsafe impl Migrate for Owner {
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

/// A zone that is being filled and emptied, and the holders of its frames: none or the kernel (`None`), or the owner.
struct Filling {
    zone: Stored<Zone<'static>>,
    owned: Vec<Option<bool>>,
    random: Xoshiro256PlusPlus,
}

impl Filling {
    fn new(seed: u64) -> Self {
        let zone = empty_zone(FRAMES);
        assert_eq!(zone.release_simulated::<Quiet>(zone.span()), Ok(FRAMES));
        Self { zone, owned: vec![None; FRAMES as usize], random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn take(&mut self, kernel: bool) -> Option<Pfn> {
        let kind = if kernel { MigrateType::Unmovable } else { MigrateType::Movable };
        let pfn = self.zone.alloc::<Quiet>(Order::ZERO, kind, AllocFlags::empty())?;
        self.owned[pfn.as_u64() as usize] = (!kernel).then_some(false);
        Some(pfn)
    }

    fn free(&mut self, pfn: Pfn) {
        assert_eq!(self.zone.free_simulated::<Quiet>(pfn, Order::ZERO), Ok(()));
        self.owned[pfn.as_u64() as usize] = None;
    }

    /// Fills the zone, one frame in ten being the kernel's, and frees half in runs.
    fn runs(&mut self, most: usize) {
        let mut order_of_birth = Vec::with_capacity(FRAMES as usize);
        while let Some(pfn) = self.take((order_of_birth.len() as u64).is_multiple_of(KERNEL)) {
            order_of_birth.push(pfn);
        }
        let mut left = FRAMES / 2;
        let mut live: Vec<bool> = vec![true; order_of_birth.len()];
        while left > 0 {
            let run = if most == 1 { 1 } else { self.random.random_range(1..most) };
            let start = self.random.random_range(0..order_of_birth.len());
            for place in (start..order_of_birth.len()).take(run) {
                if left > 0 && live[place] {
                    self.free(order_of_birth[place]);
                    live[place] = false;
                    left -= 1;
                }
            }
        }
    }

    /// Objects of 1 to 64 frames, one in ten the kernel's, come and go in a zone of which a twentieth is free; then
    /// half of it is freed.
    fn objects(&mut self) {
        let mut objects: Vec<Vec<Pfn>> = Vec::new();
        let mut born = 0;
        while born < AGE * FRAMES {
            while self.zone.free_frames() < FRAMES / 20 {
                self.end_one(&mut objects);
            }
            let (frames, kernel) = (self.random.random_range(1..=64), self.random.random_range(0..KERNEL) == 0);
            objects.push((0..frames).map_while(|_| self.take(kernel)).collect());
            born += frames;
        }
        while self.zone.free_frames() < FRAMES / 2 {
            self.end_one(&mut objects);
        }
    }

    fn end_one(&mut self, objects: &mut Vec<Vec<Pfn>>) {
        let one = objects.swap_remove(self.random.random_range(0..objects.len()));
        one.into_iter().for_each(|pfn| self.free(pfn));
    }
}

/// A zone at half occupancy, one frame in ten of them the kernel's, and the owner of the others.
fn half_full(freed: Freed, seed: u64) -> HalfFull {
    let mut filling = Filling::new(seed);
    match freed {
        Freed::Singly => filling.runs(1),
        Freed::InRuns(frames) => filling.runs(2 * usize::from(frames)),
        Freed::Objects => filling.objects(),
    }
    let Filling { zone, owned, .. } = filling;
    // Pageblocks that are whole already are not to be made.
    while zone.alloc::<Quiet>(PAGEBLOCK_ORDER, MigrateType::Movable, AllocFlags::empty()).is_some() {}
    HalfFull { zone, owner: Owner(RefCell::new(owned)) }
}

/// A zone of which half has been freed, none of its pageblocks whole, and the owners of the rest.
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
    pub fn make(&self, config: CompactionConfig, wanted: u64) -> Cost {
        let Self { zone, owner } = self;
        let in_use = self.in_use();
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
        Cost {
            made,
            moved: stat.migrate_success,
            scanned: stat.migrate_scanned + stat.free_scanned,
            least: in_use.iter().take(made as usize).sum(),
        }
    }

    /// Frames in use in each pageblock that can be emptied, the emptiest first. No method can make `n` of them free
    /// with fewer moves than the first `n` have frames in use together: each of those must leave, and nothing that
    /// moves makes another pageblock emptier than it was.
    fn in_use(&self) -> Vec<u64> {
        let owned = self.owner.0.borrow();
        let mut all: Vec<u64> = (0u32..)
            .zip(owned.chunks(PAGEBLOCK_FRAMES as usize))
            .filter_map(|(block, frames)| {
                let view = self.zone.scan::<Quiet>(Patience::Wait).view(block)?;
                let movable = frames.iter().filter(|frame| frame.is_some()).count() as u64;
                (movable > 0 && movable == u64::from(view.used())).then_some(movable)
            })
            .collect();
        all.sort_unstable();
        all
    }
}

/// Makes 32 pageblocks.
///
/// # Panics
/// If the zone no longer agrees with itself.
#[must_use]
pub fn make_pageblocks(config: CompactionConfig, freed: Freed, seed: u64) -> Cost {
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
        let freed = Freed::InRuns(256);
        let ours = make_pageblocks(CompactionConfig::default(), freed, 7);
        assert_eq!(ours.made, WANTED);
        for linux in [CompactionConfig::linux_6_1(), CompactionConfig::linux_3_13(Patches::ALL)] {
            let theirs = make_pageblocks(linux, freed, 7);
            assert!(ours.moves_each() <= 0.36 * theirs.moves_each(), "{ours:?}, {theirs:?}");
        }
    }

    #[test]
    fn the_default_moves_little_more_than_must_be_moved() {
        for freed in Freed::ALL {
            let ours = make_pageblocks(CompactionConfig::default(), freed, 7);
            assert_eq!(ours.made, WANTED, "{freed:?}");
            assert!(ours.least > 0 && ours.moved >= ours.least, "{freed:?}: {ours:?}");
            assert!(ours.moved * 100 <= ours.least * 101, "{freed:?}: {ours:?}");
            let theirs = make_pageblocks(CompactionConfig::linux_6_1(), freed, 7);
            assert!(theirs.moved >= theirs.least && ours.moves_each() <= theirs.moves_each(), "{freed:?}: {theirs:?}");
        }
    }
}
