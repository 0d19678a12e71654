//! Two CPUs free one block at the same instant: on a hardened machine exactly one is told, whichever way each free
//! goes.

use std::cell::Cell;

use pageblock::{Config, Gfp, Order, Pfn, PfnRange, Region, ZoneLimits};
use pageblock_testkit::schedule::{
    CPUS, Machine, Plan, Services, become_cpu, pass, progress, random, run, set_services,
};

use crate::machine::allocator;

type Hardened = Machine<false, true>;

/// Blocks that are freed twice in one run.
const BLOCKS: u32 = 200;

/// How the second of the two frees: by its lists, past them, or as a range, which it says is its own.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Second {
    List,
    Zone,
    Range,
}

/// The block of a round, and how often it was freed and refused.
#[derive(Default)]
struct Round {
    number: Cell<u32>,
    block: Cell<Option<(Pfn, Order)>>,
    tried: Cell<u32>,
    freed: Cell<u32>,
}

fn wait(is_over: impl Fn() -> bool) {
    while !is_over() {
        progress();
        pass();
    }
}

fn free_twice(seed: u64, by: Second) {
    set_services(Services::default());
    become_cpu(0);
    let config = Config::new().zones(ZoneLimits::single()).cpus(CPUS);
    let frames = allocator::<Hardened>(&[Region::usable(0..16 << 20)], &config);
    let round = Round::default();
    let free = |as_range: bool| {
        let (pfn, order) = round.block.get().unwrap();
        // Either may be the first, by little or much.
        (0..random(8)).for_each(|_| pass());
        // SAFETY: nothing is behind the frames.
        let freed = unsafe {
            if as_range { frames.free_range(PfnRange::from_len(pfn, order.frames())) } else { frames.free(pfn, order) }
        };
        round.freed.set(round.freed.get() + u32::from(freed.is_ok()));
        round.tried.set(round.tried.get() + 1);
    };
    let first = || {
        for number in 1..=BLOCKS {
            let raw = frames.alloc_order(Order::saturating(random(4) as u8), Gfp::KERNEL).unwrap().into_raw();
            round.block.set(Some((raw.pfn, raw.order)));
            round.tried.set(0);
            round.freed.set(0);
            round.number.set(number);
            free(false);
            wait(|| round.tried.get() == 2);
            assert_eq!(round.freed.get(), 1, "{raw:?} was freed twice, or not at all");
        }
    };
    let second = || {
        if by == Second::Zone {
            frames.cpus().go_offline().unwrap();
        }
        for number in 1..=BLOCKS {
            wait(|| round.number.get() == number);
            free(by == Second::Range);
        }
    };
    let tasks: Vec<Box<dyn FnOnce() + '_>> = vec![Box::new(first), Box::new(second), Box::new(|| ()), Box::new(|| ())];
    run(Plan { seed, choices: Vec::new(), tasks, interrupt: std::rc::Rc::new(|_| ()) }, || {
        assert_eq!(frames.stats().free, frames.stats().managed);
        frames.check().unwrap();
    });
}

#[test]
fn two_lists_accept_one_free() {
    (0..24).for_each(|seed| free_twice(seed, Second::List));
}

#[test]
fn a_list_and_the_zone_accept_one_free() {
    (0..24).for_each(|seed| free_twice(seed, Second::Zone));
}

#[test]
fn a_list_and_a_range_accept_one_free() {
    (0..24).for_each(|seed| free_twice(seed, Second::Range));
}
