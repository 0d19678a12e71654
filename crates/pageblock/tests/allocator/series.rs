//! The series of 2018 (seed 002) under a load that fragments: page cache that streams through memory, and kernel objects of
//! two kinds that come, stay, and go at random. Each patch may only lower the number of mixings.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

use pageblock::{Config, Frames, Gfp, Region, Zone};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::machine::{Booted, GIB, MIB, boot_on, memory, order};
use crate::pressed::{self, Pressed};

type Held = Frames<'static, Pressed>;

/// The machine, its page cache in the order of its age, and kswapd over it.
struct Load {
    frames: &'static Booted<Pressed>,
    cache: Rc<RefCell<VecDeque<Held>>>,
    objects: Vec<Held>,
    /// Frames that kswapd has freed.
    freed: Rc<Cell<u64>>,
    random: Xoshiro256PlusPlus,
}

/// What kswapd does when it runs: it frees the oldest cache until each zone is above its high watermark and boost, and takes off
/// the boosts that it saw. Returns how many frames that were.
fn kswapd(frames: &Booted<Pressed>, cache: &RefCell<VecDeque<Held>>) -> u64 {
    let seen: Vec<u64> = frames.zones().iter().map(Zone::boost).collect();
    let target = |zone: &Zone<'_>, boost: &u64| zone.watermarks().high + boost;
    let mut freed = 0;
    while frames.zones().iter().zip(&seen).any(|(zone, boost)| zone.free_frames() < target(zone, boost)) {
        let Some(page) = cache.borrow_mut().pop_front() else { break };
        drop(page);
        freed += 1;
    }
    for (zone, boost) in frames.zones().iter().zip(seen) {
        zone.lower_boost(boost);
    }
    freed
}

impl Load {
    fn new(config: Config, seed: u64) -> Self {
        let map = [memory(96 * MIB)[0], Region::from((4 * GIB, 160 * MIB, true))];
        let frames: &'static _ = Box::leak(Box::new(boot_on::<Pressed>(&map, &config.per_cpu_lists(None)).unwrap()));
        let cache = Rc::new(RefCell::new(VecDeque::new()));
        let freed = Rc::new(Cell::new(0));
        let (pages, sum) = (Rc::clone(&cache), Rc::clone(&freed));
        pressed::meanwhile(move || {
            let freed = kswapd(frames, &pages);
            sum.set(sum.get() + freed);
            freed * 1_000 // a microsecond each
        });
        pressed::wakes();
        Self { frames, cache, objects: Vec::new(), freed, random: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    fn kswapd(&self) {
        self.freed.set(self.freed.get() + kswapd(self.frames, &self.cache));
    }

    /// Mostly cache; objects come in bursts of one kind.
    fn step(&mut self) {
        if self.random.random_ratio(1, 200) {
            let gfp = if self.random.random() { Gfp::KERNEL } else { Gfp::KERNEL | Gfp::RECLAIMABLE };
            for _ in 0..self.random.random_range(1..200) {
                let log2 = [0, 0, 0, 1, 2][self.random.random_range(0..5)];
                self.objects.extend(self.frames.alloc_order(order(log2), gfp));
            }
        }
        while self.objects.len() > 12_000 {
            let at = self.random.next_u64() as usize % self.objects.len();
            drop(self.objects.swap_remove(at));
        }
        if let Ok(page) = self.frames.alloc(Gfp::HIGHUSER_MOVABLE) {
            self.cache.borrow_mut().push_back(page);
        } else {
            self.kswapd();
        }
    }

    /// Mixings, and frames that kswapd freed.
    fn run(mut self, steps: u32) -> (u64, u64) {
        for step in 0..steps {
            self.step();
            // A woken thread runs a little later.
            if step % 32 == 0 && pressed::wakes() > 0 {
                self.kswapd();
            }
        }
        pressed::nothing_meanwhile();
        self.frames.check().unwrap();
        (self.frames.events().fragmenting(), self.freed.get())
    }
}

/// The sums over three runs.
fn run(config: Config) -> (u64, u64) {
    let runs = (1..=3).map(|seed| Load::new(config, seed).run(150_000));
    runs.fold((0, 0), |(events, freed), run| (events + run.0, freed + run.1))
}

#[test]
fn each_patch_lowers_the_number_of_mixings() {
    let events = [0, 1, 2, 3, 4].map(|patches| run(Config::linux_4_20(patches)).0);
    println!("events after 0 to 4 patches: {events:?}");
    assert!(events[0] > events[1], "zone spreading: {events:?}");
    assert_eq!(events[1], events[2], "accessors change nothing");
    assert!(events[2] > events[3], "boost: {events:?}");
    assert!(events[3] >= events[4], "stalls: {events:?}");
    // Of what the author measured, the least: 92 % less with patches 1 to 3.
    assert!(events[3] * 100 < events[0] * 8, "{events:?}");
}

#[test]
fn the_default_mixes_less_than_linux_for_little_more_reclaim() {
    let ((ours, reclaimed), (linux, linux_reclaimed)) = (run(Config::new()), run(Config::linux_6_1()));
    println!("{ours} mixings and {reclaimed} frames reclaimed; Linux 6.1: {linux} and {linux_reclaimed}");
    assert!(ours < linux, "{ours} against {linux}");
    assert!(reclaimed * 10 < linux_reclaimed * 11, "{reclaimed} against {linux_reclaimed}");
}
