//! A machine whose shape and configuration a seed decides, its tasks and its interrupts.

use std::cell::Cell;
use std::rc::Rc;

use pageblock::{
    CompactionConfig, Config, CpuId, Experiment, Gfp, MigrateMode, NodeId, Order, PageAllocator, PcpConfig, Pfn,
    PfnRange, Platform, Region, RegionKind, Violation, ZoneLimits,
};
use pageblock_testkit::host::Stored;
use pageblock_testkit::schedule::{
    CPUS, Interrupt, Plan, Services, become_cpu, progress, random, run, set_services, this_cpu,
};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::world::{Owner, Taken, Use, begin, end, world};

/// Tasks of a run: more than CPUs, so that they change CPUs.
const TASKS: usize = CPUS + 2;
/// Pieces in which memory is added later.
const PIECES: u64 = 4;

/// What one run did.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Operations on the allocator.
    pub(crate) calls: u64,
    pub(crate) points: u64,
    pub(crate) moved: u64,
    pub(crate) reclaimed: u64,
    pub(crate) refused: u64,
    pub(crate) interrupts: u64,
    pub(crate) unplugged: u64,
    pub(crate) added: u64,
    pub(crate) ranges: u64,
}

impl core::ops::AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.calls += other.calls;
        self.points += other.points;
        self.moved += other.moved;
        self.reclaimed += other.reclaimed;
        self.refused += other.refused;
        self.interrupts += other.interrupts;
        self.unplugged += other.unplugged;
        self.added += other.added;
        self.ranges += other.ranges;
    }
}

/// What a seed makes of the machine.
struct Shape {
    frames: u64,
    nodes: u64,
    config: Config,
}

impl Shape {
    fn new(seed: u64) -> Self {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let frames = [3000, 6 << 9, 9001, 17 << 10, 40_000, 140_000][random.random_range(0..6usize)];
        let nodes = 1 + u64::from(random.random_range(0..4u32) == 0);
        let (_, lists) = PcpConfig::PRESETS[[0, 1, 2, 3, 4, 5, 5, 5][random.random_range(0..8usize)]];
        let call_limit = [lists.call_limit, lists.call_limit, 3, 1][random.random_range(0..4usize)];
        let limits = match random.random_range(0..3u32) {
            0 => ZoneLimits { dma_end: Some(Pfn::new(1024)), dma32_end: Some(Pfn::new(2048)), ..ZoneLimits::single() },
            _ => ZoneLimits::single(),
        };
        let config = [Config::new(), Config::linux_6_1(), Config::linux_4_20(4)][random.random_range(0..6usize) / 2];
        let config = config
            .zones(limits)
            .cpus(CPUS)
            .movable_share([0, 0, 40][random.random_range(0..3usize)])
            .min_free_kbytes([None, Some(0)][random.random_range(0..2usize)])
            .per_cpu_lists(Some(PcpConfig { call_limit, ..lists }))
            .experiment(Experiment::Compaction(
                [CompactionConfig::new(), CompactionConfig::linux_6_1()][random.random_range(0..2usize)],
            ));
        Self { frames, nodes, config }
    }

    /// The last of each node's memory is added later.
    fn of_node(&self, node: u64) -> (u64, u64, u64) {
        let each = self.frames / self.nodes;
        (node * each, node * each + each - each / 8, (node + 1) * each)
    }

    fn map(&self) -> Vec<Region> {
        let region =
            |from: u64, to: u64, kind, node| Region::new(from << 12, to << 12, kind).with_node(NodeId::new(node as u8));
        (0..self.nodes)
            .flat_map(|node| {
                let (start, later, end) = self.of_node(node);
                [region(start, later, RegionKind::Usable, node), region(later, end, RegionKind::Reclaimable, node)]
            })
            .collect()
    }
}

/// The machine that tasks and interrupts share.
struct Scene<P: Platform> {
    frames: Stored<PageAllocator<P>>,
    shape: Shape,
    steps_left: Cell<u64>,
    added: Cell<u64>,
    /// Ranges that are being given back, and how many ever were.
    ranges: Cell<(u32, u64)>,
    /// A node's threads have one caller at a time.
    threads_busy: Cell<bool>,
    tally: Cell<Tally>,
}

/// An allocator over storage of its own.
pub(crate) fn allocator<P: Platform>(map: &[Region], config: &Config) -> Stored<PageAllocator<P>> {
    let bytes = PageAllocator::<P>::metadata_bytes(map.iter().copied(), config).unwrap();
    // SAFETY: nothing of the allocator is kept longer than it.
    unsafe {
        Stored::new(bytes, |raw| {
            let allocator = PageAllocator::new();
            allocator.init_simulated(map.iter().copied(), config, raw).unwrap();
            allocator
        })
    }
}

fn boot<P: Platform>(shape: Shape, steps: u64) -> Rc<Scene<P>> {
    set_services(Services { migrator: Some(&Owner), reclaimer: Some(&Owner), nodes: shape.nodes as usize });
    become_cpu(0);
    let frames = allocator(&shape.map(), &shape.config);
    Rc::new(Scene {
        frames,
        shape,
        steps_left: Cell::new(steps),
        added: Cell::new(0),
        ranges: Cell::default(),
        threads_busy: Cell::new(false),
        tally: Cell::default(),
    })
}

/// One run; fails where a frame has two owners, is lost, or a structure is not sound.
pub(crate) fn schedule<P: Platform>(seed: u64, steps: u64, choices: Vec<u8>) -> Tally {
    let shape = Shape::new(seed);
    let nodes = shape.nodes;
    let scene = boot::<P>(shape, steps);
    let way_back = Rc::downgrade(&scene);
    begin(scene.shape.frames as usize, move |taken| way_back.upgrade().expect("the run is under way").free(taken));
    for node in 0..nodes {
        let (start, later, _) = scene.shape.of_node(node);
        world(|world| world.manage(start as usize..later as usize));
    }
    let handler = scene.clone();
    let task = || {
        let scene = scene.clone();
        Box::new(move || scene.live()) as Box<dyn FnOnce()>
    };
    let tasks = (0..TASKS).map(|_| task()).collect();
    let points = run(Plan { seed, choices, tasks, interrupt: Rc::new(move |kind| handler.interrupt(kind)) }, || {
        scene.verify();
        pageblock_testkit::schedule::points()
    });
    end();
    let (moved, reclaimed, refused) = world(|world| (world.moved, world.reclaimed, world.bad_frees));
    Tally { points, moved, reclaimed, refused, ..scene.tally.get() }
}

fn kernel_or_movable() -> (Gfp, Use) {
    [
        (Gfp::KERNEL, Use::Kernel),
        (Gfp::KERNEL | Gfp::NORETRY, Use::Kernel),
        (Gfp::KERNEL | Gfp::RECLAIMABLE, Use::Kernel),
        (Gfp::ATOMIC, Use::Kernel),
        (Gfp::HIGHUSER_MOVABLE, Use::Movable),
        (Gfp::HIGHUSER_MOVABLE, Use::Cache),
        (Gfp::HIGHUSER_MOVABLE | Gfp::NORETRY, Use::Movable),
        (Gfp::HIGHUSER_MOVABLE - Gfp::RECLAIM, Use::Cache),
    ][random(8)]
}

fn some_order() -> Order {
    Order::saturating([0, 0, 0, 0, 0, 0, 1, 1, 2, 3, 3, 4, 6, 9, 9, 10][random(16)])
}

impl<P: Platform> Scene<P> {
    fn count(&self, change: impl FnOnce(&mut Tally)) {
        let mut tally = self.tally.get();
        change(&mut tally);
        self.tally.set(tally);
    }

    fn free(&self, Taken { pfn, order }: Taken) {
        // SAFETY: the block is out of the map, and nothing is behind the frames.
        let freed = unsafe { self.frames.free(pfn, order) };
        assert_eq!(freed, Ok(()), "{pfn} order {order}");
    }

    fn live(&self) {
        while self.steps_left.get() > 0 {
            self.steps_left.set(self.steps_left.get() - 1);
            self.step();
            progress();
        }
    }

    fn interrupt(&self, kind: Interrupt) {
        self.count(|tally| tally.interrupts += 1);
        if kind == Interrupt::Kick {
            return self.frames.cpus().handle_kick();
        }
        for _ in 0..random(4) {
            if random(2) == 0 {
                self.allocate(Order::saturating(random(3) as u8), Gfp::ATOMIC, Use::Kernel);
            } else {
                self.release();
            }
        }
    }

    fn allocate(&self, order: Order, gfp: Gfp, used: Use) {
        self.count(|tally| tally.calls += 1);
        if let Ok(frames) = self.frames.alloc_order(order, gfp) {
            let raw = frames.into_raw();
            world(|world| world.take(raw.pfn, raw.order, used));
        }
    }

    fn release(&self) {
        self.count(|tally| tally.calls += 1);
        let at = random(1 << 20);
        if let Some(taken) = world(|world| world.give_up(at)) {
            self.free(taken);
        }
    }

    /// Memory is full for a while, and then it is not.
    fn is_to_be_emptied(&self) -> bool {
        let left = self.steps_left.get();
        let share = [20, 50, 80, 100][(left / 500 % 4) as usize];
        world(|world| world.held * 100 > self.shape.frames * share)
    }

    fn step(&self) {
        self.count(|tally| tally.calls += 1);
        match random(400) {
            0..300 if self.is_to_be_emptied() => (0..8).for_each(|_| self.release()),
            0..150 => {
                let (gfp, used) = kernel_or_movable();
                self.allocate(some_order(), gfp, used);
            }
            150..310 => self.release(),
            310..330 => (0..random(self.burst())).for_each(|_| self.release()),
            330..350 => {
                let (gfp, used) = kernel_or_movable();
                (0..random(self.burst())).for_each(|_| self.allocate(Order::ZERO, gfp, used));
            }
            350..360 => self.bulk(),
            360..372 => self.wrong_frees(),
            372..376 => self.place(),
            376..379 => self.exact(),
            379 => self.contiguous(),
            380..388 => self.plug(),
            388..390 => drop(self.frames.drain()),
            390..392 => drop(self.frames.cpus().drain(CpuId::new(random(CPUS) as u32))),
            392..395 => self.threads(),
            395 => drop(self.frames.compaction().all()),
            396 => self.add(),
            397 => self.look(),
            _ => self.run_of_frames(),
        }
    }

    /// A look while others go on. Frames of a range are neither held nor free for a moment while it is given back, and
    /// the zone's total is compared with a sum that was made while others changed both.
    fn look(&self) {
        let before = self.ranges.get();
        let result = self.frames.check();
        let in_transit = before.0 > 0 || self.ranges.get() != before;
        let is_sound = match result {
            Ok(()) | Err(Violation::Total { what: "free frames of the zone", .. }) => true,
            Err(Violation::Lost { .. }) => in_transit,
            Err(_) => false,
        };
        assert!(is_sound, "{result:?}");
    }

    fn as_range<R>(&self, action: impl FnOnce() -> R) -> R {
        let change = |change: fn((u32, u64)) -> (u32, u64)| self.ranges.set(change(self.ranges.get()));
        change(|(now, ever)| (now + 1, ever + 1));
        let result = action();
        change(|(now, ever)| (now - 1, ever));
        result
    }

    /// Where memory is large enough for batches that change hands between CPUs, lists overflow and run dry.
    fn burst(&self) -> usize {
        if self.shape.frames > 30_000 { 1000 } else { 100 }
    }

    fn bulk(&self) {
        let mut out = [Pfn::new(0); 150];
        let (gfp, used) = kernel_or_movable();
        let wanted = random(150);
        let got = self.frames.alloc_bulk(gfp, &mut out[..wanted]).unwrap_or(0);
        world(|world| out[..got].iter().for_each(|&pfn| world.take(pfn, Order::ZERO, used)));
    }

    /// The wrong order, the middle of a block, no memory: named, and nothing else happens.
    fn wrong_frees(&self) {
        let at = random(1 << 20);
        let Some((Taken { pfn, order }, used)) = world(|world| world.lend_out(at)) else { return };
        let wrong = Order::saturating((order.as_u8() + 1 + random(10) as u8) % 11);
        let far = Pfn::new(self.shape.frames + random(1000) as u64);
        let tail = Pfn::new(pfn.as_u64() + order.frames() - 1);
        let attempts = [(pfn, wrong), (far, order), (tail, order)];
        let wrong_ones = attempts.into_iter().filter(|&attempt| attempt != (pfn, order));
        for (pfn, order) in wrong_ones {
            // Counted before, so that a concurrent look never finds more refusals than attempts.
            world(|world| world.bad_frees += 1);
            // SAFETY: nothing is behind the frames.
            assert!(unsafe { self.frames.free(pfn, order) }.is_err(), "{pfn} order {order}");
        }
        world(|world| world.take(pfn, order, used));
    }

    fn place(&self) {
        let order = Order::saturating(random(5) as u8);
        let pfn = Pfn::new(random(self.shape.frames as usize) as u64 & !(order.frames() - 1));
        if let Ok(frames) = self.frames.alloc_at(pfn, order) {
            let raw = frames.into_raw();
            world(|world| world.take(raw.pfn, raw.order, Use::Movable));
        }
    }

    fn exact(&self) {
        let (gfp, _) = kernel_or_movable();
        if let Ok(run) = self.as_range(|| self.frames.alloc_exact(1 + random(40) as u64, gfp)) {
            self.keep(run.into_raw());
        }
    }

    /// Frames that were allocated together are freed together, a while later.
    fn keep(&self, range: PfnRange) {
        world(|world| world.take_in_hand(range));
        (0..random(20)).for_each(|_| self.release());
        world(|world| world.drop_from_hand(range));
        // SAFETY: allocated by this task, and out of the map; nothing is behind the frames.
        assert_eq!(self.as_range(|| unsafe { self.frames.free_range(range) }), Ok(()), "{range:?}");
    }

    fn contiguous(&self) {
        let first = random(self.shape.frames as usize) as u64 & !511;
        let range = PfnRange::new(Pfn::new(first), Pfn::new(first + (1 << random(11)) as u64));
        let mode = [MigrateMode::Async, MigrateMode::Sync][random(2)];
        if let Ok(run) = self.as_range(|| self.frames.alloc_contig_range(range, mode)) {
            self.count(|tally| tally.ranges += 1);
            self.keep(run.into_raw());
        }
    }

    /// A block is split and freed as a range.
    fn run_of_frames(&self) {
        let order = some_order();
        let Ok(frames) = self.frames.alloc_order(order, Gfp::KERNEL) else { return };
        let parts = Order::saturating(random(usize::from(order.as_u8()) + 1) as u8);
        match frames.split(parts) {
            Ok(parts) => parts.for_each(|part| {
                let raw = part.into_raw();
                world(|world| world.take(raw.pfn, raw.order, Use::Movable));
            }),
            Err(whole) => self.keep({
                let pfns = whole.pfns();
                let _ = whole.into_raw();
                pfns
            }),
        }
    }

    fn plug(&self) {
        let cpu = CpuId::new(random(CPUS) as u32);
        match random(8) {
            0 => self.count(|tally| tally.unplugged += u64::from(self.frames.cpus().go_offline().is_ok())),
            1..4 => drop(self.frames.cpus().take_over(cpu)),
            _ => drop(self.frames.cpus().come_online()),
        }
    }

    fn threads(&self) {
        if self.threads_busy.replace(true) {
            return;
        }
        let node = NodeId::new(random(self.shape.nodes as usize) as u8);
        match random(3) {
            0 => drop(self.frames.reclaim().step(node)),
            1 => drop(self.frames.compaction().step(node)),
            _ => self.frames.compaction().wake(node, some_order()),
        }
        self.threads_busy.set(false);
    }

    /// The next piece of a node's memory that was held back.
    fn add(&self) {
        let piece = self.added.get();
        let (node, part) = (piece / PIECES, piece % PIECES);
        if node == self.shape.nodes {
            return;
        }
        self.added.set(piece + 1);
        let (_, later, end) = self.shape.of_node(node);
        let at = |part| later + (end - later) * part / PIECES;
        let (from, to) = (at(part), at(part + 1));
        world(|world| world.manage(from as usize..to as usize));
        let region = Region::usable(from << 12..to << 12).with_node(NodeId::new(node as u8));
        // SAFETY: nothing is behind the frames.
        assert_eq!(unsafe { self.frames.add_memory(region) }, Ok(to - from));
        self.count(|tally| tally.added += to - from);
    }

    /// All CPUs rest: nothing is lost, and everything can be had.
    fn verify(&self) {
        for cpu in 0..CPUS {
            become_cpu(cpu);
            let _ = self.frames.cpus().come_online();
            self.frames.cpus().handle_kick();
            assert_eq!(this_cpu(), cpu);
        }
        (0..CPUS).for_each(|cpu| {
            become_cpu(cpu);
            self.frames.drain();
        });
        self.frames.check().unwrap();
        self.frames.check_lists().unwrap();
        let stats = self.frames.stats();
        let held = world(|world| world.held);
        assert_eq!((stats.listed, stats.free + held), (0, stats.managed), "frames were lost: {stats:?}");
        assert_eq!(stats.bad_frees, world(|world| world.bad_frees));
        world(|world| world.each().for_each(|Taken { pfn, order }| assert_eq!(self.frames.order_of(pfn), Some(order))));
        while let Some(taken) = world(|world| world.give_up(0)) {
            self.free(taken);
        }
        assert_eq!(world(|world| world.blocks()), 0, "a block was lent for ever");
        self.frames.drain();
        assert_eq!(self.frames.stats().free, stats.managed);
        self.frames.check().unwrap();
        let withheld = self.frames.zones().any(|zone| zone.counts().frames() != zone.free_frames());
        assert!(!withheld, "an isolation has not ended");
    }
}
