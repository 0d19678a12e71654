//! Costs of the operations in instructions, beside Linux 6.1.
//!
//! Under `-icount shift=0` the time-stamp counter counts executed instructions exactly. One CPU, interrupts off. The
//! Linux figures were measured in the same way on the same virtual machine (Debian's 6.1.0-56-cloud-amd64, unmodified,
//! without init_on_alloc): a module between two readings of the counter.

use core::arch::asm;
use core::hint::black_box;

use pageblock_frame::{Gfp, Order, Pfn};
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::arch::paging::phys_ptr;
use crate::{mm, println};

/// Linux's instructions for an allocation and a free by order, GFP_KERNEL.
const LINUX_PAIR: [(u64, u64); 11] = [
    (438, 255),
    (492, 291),
    (478, 327),
    (482, 399),
    (828, 646),
    (1084, 934),
    (1596, 1499),
    (2704, 2727),
    (4668, 4955),
    (486, 9476),
    (16_956, 18_741),
];
/// Frames of the bulk run: 256 MiB.
const BULK: usize = 65_536;
/// Linux's means for the bulk run: allocation and free, in order, random, reverse.
const LINUX_BULK: [(u64, u64); 3] = [(619, 528), (601, 505), (601, 506)];
/// Operations of the mix.
const MIX: usize = 400_000;
/// Linux's means for the mix: orders 0 to 3, and order 0 alone.
const LINUX_MIX: [(u64, u64); 2] = [(466, 315), (435, 252)];

/// The counter, with everything before it finished and nothing after it begun, as far as the compiler goes.
#[inline(always)]
fn now() -> u64 {
    let (low, high): (u32, u32);
    // SAFETY: reads the counter. No `nomem`: memory accesses stay on their side.
    unsafe { asm!("rdtsc", out("eax") low, out("edx") high, options(nostack)) };
    u64::from(high) << 32 | u64::from(low)
}

/// Difference of two readings next to each other.
fn empty() -> u64 {
    (0..8).map(|_| (now(), now())).map(|(start, end)| end - start).min().unwrap_or(0)
}

/// A call's result, and the instructions between two readings around it, `overhead` less.
#[inline(always)]
fn timed<R>(overhead: u64, call: impl FnOnce() -> R) -> (R, u64) {
    let start = now();
    let result = call();
    let end = now();
    (result, end - start - overhead)
}

/// Sum, least, greatest of a series.
#[derive(Clone, Copy)]
struct Cost {
    sum: u64,
    count: u64,
    min: u64,
    max: u64,
}

impl Cost {
    const fn new() -> Self {
        Self { sum: 0, count: 0, min: u64::MAX, max: 0 }
    }

    #[inline(always)]
    fn add(&mut self, value: u64) {
        self.sum += value;
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    fn mean(&self) -> u64 {
        (self.sum + self.count / 2) / self.count.max(1)
    }
}

/// Measures, with the interrupts off, and prints.
///
/// # Panics
/// The memory does not suffice.
pub fn run() {
    let overhead = empty();
    println!("icount: two readings differ by {overhead} instructions, subtracted everywhere");
    x86_64::instructions::interrupts::without_interrupts(|| {
        pairs(overhead);
        bulk(overhead);
        mix(overhead);
    });
}

fn must_alloc(order: Order, gfp: Gfp) -> Pfn {
    mm::alloc(order, gfp).expect("memory for the measurement")
}

fn must_free(pfn: Pfn, order: Order) {
    mm::free(pfn, order).expect("the block was allocated with this order");
}

fn ratio(linux: u64, ours: u64) -> (u64, u64) {
    let tenths = linux * 10 / ours.max(1);
    (tenths / 10, tenths % 10)
}

fn pairs(overhead: u64) {
    println!("hot pair: instructions   alloc  min..max    free  min..max   loop |  Linux 6.1 alloc    free | ratio");
    for (number, (linux_alloc, linux_free)) in LINUX_PAIR.into_iter().enumerate() {
        let Some(order) = Order::new(number as u8) else { continue };
        let (alloc, free) = measure_pairs(order, overhead);
        let each = measure_loop(order, overhead);
        let (whole, tenth) = ratio(linux_alloc + linux_free, alloc.mean() + free.mean());
        println!(
            "  order {number:>2}             {:>7} {:>5}..{:<5} {:>5} {:>5}..{:<5} {each:>5} | {linux_alloc:>16} {linux_free:>7} | \
             {whole}.{tenth}",
            alloc.mean(),
            alloc.min,
            alloc.max,
            free.mean(),
            free.min,
            free.max
        );
    }
}

/// Allocation and free, each between two readings, after a warm-up.
fn measure_pairs(order: Order, overhead: u64) -> (Cost, Cost) {
    let (mut alloc, mut free) = (Cost::new(), Cost::new());
    for round in 0..2100 {
        let (pfn, taking) = timed(overhead, || mm::alloc(black_box(order), Gfp::KERNEL));
        let pfn = black_box(pfn).expect("memory for the measurement");
        let (freed, giving) = timed(overhead, || mm::free(pfn, black_box(order)));
        assert!(black_box(freed).is_ok());
        if round >= 100 {
            alloc.add(taking);
            free.add(giving);
        }
    }
    (alloc, free)
}

/// Pairs without readings in between.
fn measure_loop(order: Order, overhead: u64) -> u64 {
    const PAIRS: u64 = 2000;
    let start = now();
    for _ in 0..PAIRS {
        if let Some(pfn) = mm::alloc(black_box(order), Gfp::KERNEL) {
            let _ = black_box(mm::free(pfn, black_box(order)));
        }
    }
    (now() - start - overhead) / PAIRS
}

/// Memory for `len` words, as a slice: a block of the allocator's.
fn words(len: usize) -> (&'static mut [u64], Pfn, Order) {
    let frames = (len * 8).div_ceil(4096).next_power_of_two();
    let order = Order::new(frames.trailing_zeros() as u8).expect("not more than the largest block");
    let pfn = must_alloc(order, Gfp::KERNEL | Gfp::ZERO);
    // SAFETY: the block was just allocated, is at least this large, and is freed when the slice is out of use.
    let words = unsafe { core::slice::from_raw_parts_mut(phys_ptr(pfn.phys()), len) };
    words.fill(0);
    (words, pfn, order)
}

fn shuffle(words: &mut [u64], random: &mut Xoshiro256PlusPlus) {
    for last in (1..words.len()).rev() {
        words.swap(last, (random.next_u64() % (last as u64 + 1)) as usize);
    }
}

/// 65,536 frames one by one, then all freed; the fourth round counts.
fn bulk(overhead: u64) {
    let (frames, pfn, order) = words(BULK);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    heading("bulk: 65536 frames");
    for (kind, linux) in ["in order", "random", "reverse"].into_iter().zip(LINUX_BULK) {
        let mut last = (Series::new(), Series::new());
        for _ in 0..4 {
            last = bulk_round(frames, kind, &mut random, overhead);
        }
        row(kind, last, linux);
    }
    must_free(pfn, order);
}

fn bulk_round(frames: &mut [u64], kind: &str, random: &mut Xoshiro256PlusPlus, overhead: u64) -> (Series, Series) {
    let (mut alloc, mut free) = (Series::new(), Series::new());
    for slot in frames.iter_mut() {
        let (pfn, cost) = timed(overhead, || mm::alloc(Order::ZERO, Gfp::KERNEL));
        *slot = pfn.expect("memory for the measurement").as_u64();
        alloc.add(cost);
    }
    match kind {
        "random" => shuffle(frames, random),
        "reverse" => frames.reverse(),
        _ => {}
    }
    for slot in frames.iter() {
        let (freed, cost) = timed(overhead, || mm::free(Pfn::new(*slot), Order::ZERO));
        assert!(freed.is_ok());
        free.add(cost);
    }
    (alloc, free)
}

/// Costs with a histogram, for a percentile: 1 instruction a bin up to 4095, and one bin for the rest.
struct Series {
    cost: Cost,
    bins: [u32; 4096],
}

impl Series {
    const fn new() -> Self {
        Self { cost: Cost::new(), bins: [0; 4096] }
    }

    #[inline(always)]
    fn add(&mut self, value: u64) {
        self.cost.add(value);
        self.bins[(value as usize).min(4095)] += 1;
    }

    /// 99 of 100 cost at most this; the greatest where that is beyond the histogram.
    fn percentile_99(&mut self) -> u64 {
        let mut left = self.cost.count - self.cost.count / 100;
        for (value, count) in self.bins.iter().enumerate() {
            left = left.saturating_sub(u64::from(*count));
            if left == 0 {
                return if value == 4095 { self.cost.max } else { value as u64 };
            }
        }
        self.cost.max
    }
}

/// The heading of a table of [`row`]s.
fn heading(title: &str) {
    println!("{title:<22} alloc    p99    max    free    p99    max |  Linux 6.1 alloc    free | ratio");
}

/// One line: allocations and frees, beside Linux's.
fn row(name: &str, (mut alloc, mut free): (Series, Series), (linux_alloc, linux_free): (u64, u64)) {
    let (whole, tenth) = ratio(linux_alloc + linux_free, alloc.cost.mean() + free.cost.mean());
    println!(
        "  {name:<17} {:>8} {:>6} {:>6} {:>7} {:>6} {:>6} | {linux_alloc:>16} {linux_free:>7} | {whole}.{tenth}",
        alloc.cost.mean(),
        alloc.percentile_99(),
        alloc.cost.max,
        free.cost.mean(),
        free.percentile_99(),
        free.cost.max
    );
}

/// Random allocation and free around half occupancy.
fn mix(overhead: u64) {
    heading("mix at half occupancy");
    for ((name, orders), linux) in [("orders 0..3", 4), ("order 0", 1)].into_iter().zip(LINUX_MIX) {
        row(name, mix_run(orders, overhead), linux);
    }
}

/// Blocks that are held, in the words of one large block: frame number and order.
struct Pool {
    blocks: &'static mut [u64],
    len: usize,
    frames: u64,
}

impl Pool {
    fn push(&mut self, pfn: Pfn, order: Order) {
        self.blocks[self.len] = pfn.as_u64() << 4 | u64::from(order.as_u8());
        self.len += 1;
        self.frames += order.frames();
    }

    fn remove(&mut self, index: usize) -> (Pfn, Order) {
        let word = self.blocks[index];
        self.len -= 1;
        self.blocks[index] = self.blocks[self.len];
        let order = Order::new((word & 15) as u8).unwrap_or(Order::ZERO);
        self.frames -= order.frames();
        (Pfn::new(word >> 4), order)
    }
}

/// Fills half of the memory, replaces every block once on average, then counts.
fn mix_run(orders: u64, overhead: u64) -> (Series, Series) {
    let (blocks, pfn, order) = words(512 * 1024);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2);
    let mut pool = Pool { blocks, len: 0, frames: 0 };
    let half = mm::free_frames() / 2;
    let mut costs = (Series::new(), Series::new());
    while pool.frames < half {
        mix_alloc(&mut pool, random.next_u64() % orders, overhead);
    }
    let warm = pool.len;
    for round in 0..warm + MIX {
        if round == warm {
            costs = (Series::new(), Series::new());
        }
        // A fair coin, leaning back towards one half when 1% away from it.
        let drift = pool.frames.cast_signed() - half.cast_signed();
        let coin = random.next_u64();
        let grow = if drift.unsigned_abs() > half / 100 { drift < 0 } else { coin & 1 == 0 };
        if grow {
            let cost = mix_alloc(&mut pool, (coin >> 8) % orders, overhead);
            costs.0.add(cost);
        } else {
            let victim = (coin >> 8) as usize % pool.len;
            costs.1.add(mix_free(&mut pool, victim, overhead));
        }
    }
    while pool.len > 0 {
        let (pfn, order) = pool.remove(pool.len - 1);
        must_free(pfn, order);
    }
    must_free(pfn, order);
    costs
}

#[inline(never)]
fn mix_alloc(pool: &mut Pool, order: u64, overhead: u64) -> u64 {
    let order = Order::new(order as u8).unwrap_or(Order::ZERO);
    let (pfn, cost) = timed(overhead, || mm::alloc(black_box(order), Gfp::KERNEL));
    pool.push(pfn.expect("memory for the measurement"), order);
    cost
}

#[inline(never)]
fn mix_free(pool: &mut Pool, victim: usize, overhead: u64) -> u64 {
    let (pfn, order) = pool.remove(victim);
    let (freed, cost) = timed(overhead, || mm::free(pfn, black_box(order)));
    assert!(freed.is_ok());
    cost
}
