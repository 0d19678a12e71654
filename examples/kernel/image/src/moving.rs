//! Frames moved by hand from under running processes: the work of compaction, without compaction.

use alloc::vec::Vec;
use core::sync::atomic::Ordering;

use pageblock_frame::migration::{Migrate, MigrateMode, Move, PutBack};
use pageblock_frame::{Gfp, Order, PAGE_SIZE, Pfn};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arch::cpu;
use crate::boot::pvh::BootInfo;
use crate::space::{SPACE, free};
use crate::{hammer, mm, println};

/// Pages of the processes: 8 MiB.
const PAGES: u64 = 2048;
/// Frames that are lent at once.
const BATCH: usize = 33;
/// Batches.
const ROUNDS: u64 = 100;

/// Fills a space, moves its frames, takes it down.
///
/// # Panics
/// A process does not find its own writes, or frames are missing in the end.
pub fn run(boot: &BootInfo) {
    let before = mm::free_frames();
    SPACE.open(PAGES, Pfn::new(boot.ram_end().div_ceil(PAGE_SIZE)));
    hammer::prepare(PAGES);
    for page in 0..PAGES {
        assert!(hammer::populate(page), "memory for the processes");
    }
    hammer::run(PAGES, || {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        for _ in 0..ROUNDS {
            move_batch(&mut random);
            hammer::wait(PAGES / 4);
        }
    });
    let shootdowns: u64 = cpu::online().map(|cpu| cpu.shootdowns.load(Ordering::Relaxed)).sum();
    println!(
        "migration: {} frames moved, {shootdowns} translations shot down on other CPUs",
        ROUNDS * (BATCH as u64 - 1)
    );
    hammer::discard(0..PAGES);
    hammer::release();
    SPACE.close();
    let after = mm::free_frames();
    assert!(before == after, "{before} frames were free before the migration, {after} are now");
    println!("migration: all {after} frames are back");
}

/// Moves the frames of one batch of pages.
fn move_batch(random: &mut Xoshiro256PlusPlus) {
    let mut moves = Vec::with_capacity(BATCH);
    while moves.len() < BATCH {
        let Some(from) = SPACE.frame(random.next_u64() % PAGES) else { continue };
        if SPACE.isolate(from, Order::ZERO, MigrateMode::Sync).is_err() {
            continue; // in the batch already
        }
        let to = mm::alloc(Order::ZERO, Gfp::HIGHUSER_MOVABLE).expect("memory for the new frame");
        moves.push(Move::new(from, to, Order::ZERO));
    }
    // One is lent and goes back unmoved.
    if let Some(Move { from, to, .. }) = moves.pop() {
        assert!(SPACE.put_back(from, Order::ZERO) == PutBack::Kept, "the page is still there");
        free(to);
    }
    SPACE.migrate_batch(&mut moves, MigrateMode::Sync);
    for one in moves {
        assert!(one.outcome == Some(Ok(())), "{one:?}");
        free(one.from);
    }
}
