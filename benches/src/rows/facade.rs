//! Instructions of the facade's calls in loops, net of the loop's own.

use pageblock::{Gfp, Order};

use crate::allocators::{Nothing, refused};
use crate::loads::{self, Lifetimes, Load, Orders, Turns};
use crate::loops;
use crate::machine::{Emulated, Machine, become_cpu};
use crate::table::{Kind, Row};
use crate::tool::counted;
use crate::{Frames, POOL};

/// The facade on the platform that the loops use: two CPUs, each with a word for the allocator.
type Ours = Emulated<2>;
/// The platform of the first example: no word, and nothing that a platform need not have.
type Simple = Machine<2, false>;

/// Steps before and in the count.
const AGE: usize = 300_000;
const STEPS: usize = 200_000;
/// Pairs before and in the count.
const WARM: u64 = 1_000;
/// Instructions of a pair beyond which it is not counted longer: some allocators search.
const DEAR: u64 = 5_000;
const PAIRS: u64 = 20_000;
/// Frames that bulk loops take: nearly all, but none that a watermark keeps.
pub(super) const BULK: u64 = POOL / 16 * 15;

pub(super) fn rows() -> Vec<Row> {
    let mut rows = pairs_by_order::<Ours>("facade");
    rows.push(instructions("facade.raii", raii));
    rows.push(instructions("facade.default", any_pair));
    rows.push(instructions("pcp.hardened", pair::<Machine<2, true, true>, 0>));
    rows.extend(mixes::<Ours>("facade"));
    rows.extend(bulks::<Ours>("facade"));
    rows.extend(refusals::<2>());
    rows.extend(refusals::<64>());
    rows
}

/// Random loads at three occupancies.
pub(super) fn mixes<A: Frames + 'static>(allocator: &str) -> Vec<Row> {
    let mut rows = Vec::new();
    for (name, orders) in [("mix03", Orders::Small), ("mixlf", Orders::Folios)] {
        for percent in [50, 90, 98] {
            let row = format!("{allocator}.{name}.{percent}");
            let names = vec![row.clone(), format!("{row}.refused")];
            rows.push(Row::several(Kind::Instructions, names, move || mix::<A>(orders, percent)));
        }
    }
    rows
}

/// Many frames taken and given back, and frames that one CPU takes for another.
pub(super) fn bulks<A: Frames + 'static>(allocator: &str) -> Vec<Row> {
    let name = |row: &str| format!("{allocator}.{row}");
    vec![
        instructions(&name("bulk_alloc"), bulk_alloc::<A>),
        instructions(&name("free_order"), || bulk_free::<A>(Freeing::InOrder)),
        instructions(&name("free_reverse"), || bulk_free::<A>(Freeing::Reverse)),
        instructions(&name("free_random"), || bulk_free::<A>(Freeing::Random)),
        instructions(&name("pc"), produce_and_consume::<A>),
    ]
}

fn instructions(name: &str, run: impl Fn() -> f64 + 'static) -> Row {
    Row::one(Kind::Instructions, name, run)
}

/// Pairs of every order.
pub(super) fn pairs_by_order<A: Frames + 'static>(allocator: &str) -> Vec<Row> {
    let runs: [fn() -> f64; 11] = [
        pair::<A, 0>,
        pair::<A, 1>,
        pair::<A, 2>,
        pair::<A, 3>,
        pair::<A, 4>,
        pair::<A, 5>,
        pair::<A, 6>,
        pair::<A, 7>,
        pair::<A, 8>,
        pair::<A, 9>,
        pair::<A, 10>,
    ];
    let row = |(order, run)| instructions(&format!("{allocator}.pair.o{order}"), run);
    runs.into_iter().enumerate().map(row).collect()
}

/// An allocator that has been used: half occupied by single frames and small blocks that came and went.
fn used<A: Frames>() -> A {
    let mut allocator = A::new(POOL);
    let mut load = Load::new(Orders::Small, Lifetimes::Random, POOL, 50);
    load.fill(&mut allocator, Turns::ONE);
    load.work(&mut allocator, AGE, Turns::ONE);
    allocator
}

/// A pair of allocation and free.
fn pair<A: Frames, const ORDER: u8>() -> f64 {
    let mut allocator = used::<A>();
    let (first, ()) = counted(|| loops::pairs::<A, ORDER>(&mut allocator, WARM));
    if first > DEAR * WARM {
        // The loop's own instructions are nothing beside these.
        return first as f64 / WARM as f64;
    }
    let (ours, ()) = counted(|| loops::pairs::<A, ORDER>(&mut allocator, PAIRS));
    (ours - own_pairs()) as f64 / PAIRS as f64
}

fn own_pairs() -> u64 {
    counted(|| loops::pairs::<Nothing, 0>(&mut Nothing, PAIRS)).0
}

/// The same on the simple platform by a handle that is dropped.
fn raii() -> f64 {
    #[inline(never)]
    fn pairs(machine: &Simple, pairs: u64) {
        for _ in 0..pairs {
            match machine.allocator().alloc_order(Order::ZERO, Gfp::KERNEL) {
                Ok(frames) => drop(core::hint::black_box(frames)),
                Err(_) => refused(0),
            }
        }
    }
    let machine = used::<Simple>();
    pairs(&machine, WARM);
    let (ours, ()) = counted(|| pairs(&machine, PAIRS));
    (ours - own_pairs()) as f64 / PAIRS as f64
}

/// A pair on the simple platform, of an order and with flags that are known only when the program runs.
fn any_pair() -> f64 {
    #[inline(never)]
    fn pairs(machine: &Simple, order: u8, gfp: Gfp, pairs: u64) {
        for _ in 0..pairs {
            match machine.take(order, gfp) {
                Some(block) => machine.give(block, order),
                None => refused(order),
            }
        }
    }
    let machine = used::<Simple>();
    let (order, gfp) = core::hint::black_box((0, Gfp::KERNEL));
    pairs(&machine, order, gfp, WARM);
    let (ours, ()) = counted(|| pairs(&machine, order, gfp, PAIRS));
    (ours - own_pairs()) as f64 / PAIRS as f64
}

/// A step of a load, and how many were refused.
fn mix<A: Frames>(orders: Orders, percent: u64) -> Vec<f64> {
    let mut load = Load::new(orders, Lifetimes::Random, POOL, percent);
    let mut allocator = A::new(POOL);
    load.fill(&mut allocator, Turns::ONE);
    load.work(&mut allocator, AGE, Turns::ONE);
    load.take_refused();
    let mut net = 0;
    let mut nothing = Vec::new();
    load.work_by(STEPS, |blocks, steps| {
        nothing.resize(blocks.len(), 0);
        let (ours, refused) = counted(|| loads::run(&mut allocator, blocks, steps));
        let (own, _) = counted(|| loads::run(&mut Nothing, &mut nothing, steps));
        net += ours - own;
        refused
    });
    vec![net as f64 / STEPS as f64, load.take_refused() as f64]
}

fn bulk_alloc<A: Frames>() -> f64 {
    let mut allocator = A::new(POOL);
    let mut frames = loops::frame_numbers(BULK);
    let (ours, ()) = counted(|| loops::fill(&mut allocator, &mut frames));
    let (own, ()) = counted(|| loops::fill(&mut Nothing, &mut frames));
    (ours - own) as f64 / BULK as f64
}

#[derive(Clone, Copy)]
pub(super) enum Freeing {
    InOrder,
    Reverse,
    Random,
}

impl Freeing {
    pub(super) fn arrange(self, frames: &mut [u64]) {
        match self {
            Self::InOrder => {}
            Self::Reverse => frames.reverse(),
            Self::Random => loops::shuffle(frames),
        }
    }
}

fn bulk_free<A: Frames>(freeing: Freeing) -> f64 {
    let mut allocator = A::new(POOL);
    let mut frames = loops::frame_numbers(BULK);
    loops::fill(&mut allocator, &mut frames);
    freeing.arrange(&mut frames);
    let (ours, ()) = counted(|| loops::empty(&mut allocator, &frames));
    let (own, ()) = counted(|| loops::empty(&mut Nothing, &frames));
    (ours - own) as f64 / BULK as f64
}

/// A pair, allocated on one CPU, freed on another.
fn produce_and_consume<A: Frames>() -> f64 {
    const BATCHES: u64 = 512;
    let mut allocator = A::new(POOL);
    loops::produce_and_consume(&mut allocator, BATCHES);
    let (ours, ()) = counted(|| loops::produce_and_consume(&mut allocator, BATCHES));
    let (own, ()) = counted(|| loops::produce_and_consume(&mut Nothing, BATCHES));
    (ours - own) as f64 / (BATCHES * loops::BATCH as u64) as f64
}

fn refusals<const CPUS: usize>() -> Vec<Row> {
    [0, 9]
        .into_iter()
        .flat_map(|order| {
            let name = |kick: &str| format!("facade.refused.o{order}.{kick}.cpus{CPUS}");
            [
                instructions(&name("kick"), move || refused_request::<Emulated<CPUS>, CPUS>(order)),
                instructions(&name("nokick"), move || refused_request::<Machine<CPUS>, CPUS>(order)),
            ]
        })
        .collect()
}

/// Refused requests that are counted.
const REFUSALS: u64 = 64;

/// A request that cannot be served: the mean of some. For order 0 all memory down to the watermark is taken; for higher
/// ones every second frame is free, so that there is no larger block, and between two requests every CPU allocates a
/// frame and frees one.
fn refused_request<A: Frames, const CPUS: usize>(order: u8) -> f64 {
    let mut allocator = A::new(POOL);
    let mut held: Vec<u64> =
        if order == 0 { core::iter::from_fn(|| allocator.alloc(0)).collect() } else { allocator.exhaust() };
    held.sort_unstable();
    let mut total = 0;
    let every_second = held.iter().skip(1).step_by(2).filter(|_| order > 0);
    every_second.for_each(|&frame| allocator.free(frame, 0));
    let mut held: Vec<u64> = held.into_iter().step_by(2).collect();
    for _ in 0..REFUSALS {
        for cpu in (0..CPUS as u32).filter(|_| order > 0) {
            become_cpu(cpu);
            // In this order the CPU's list is left with frames of a refill.
            let (Some(new), Some(old)) = (allocator.alloc(0), held.pop()) else { refused(0) };
            allocator.free(old, 0);
            held.push(new);
        }
        become_cpu(0);
        let (ours, refusal) = counted(|| allocator.alloc(core::hint::black_box(order)));
        assert_eq!(refusal, None, "nothing of this order is left");
        total += ours;
    }
    total as f64 / REFUSALS as f64
}
