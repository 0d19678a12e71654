//! The benchmark, phase by phase.

use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::rc::Rc;

use pageblock_frame::{Gfp, NodeId, Order, PAGEBLOCK_FRAMES};

use super::ThpfioscaleArgs;
use super::actors::{FILE_PAGES, Files, Going, Reader, Touched, Toucher, Writer};
use super::column::{Block, Column};
use super::measure::Run;
use super::mixing::Mixing;
use crate::machine::costs::{MILLISECOND, SECOND};
use crate::machine::{Machine, Time};

/// Writers, and readers.
const JOBS: u32 = 4;
/// Memory that the kernel takes at boot for good, in thousandths.
const KERNEL: u64 = 25;
/// Longest time that a phase may take, in simulated seconds: far more than any does.
const PATIENCE: u64 = 1_000_000;

/// A run under way.
struct Script {
    machine: Rc<Machine>,
    block: Block,
    /// By writer, and by the reader that follows it.
    files: [Files; JOBS as usize],
    going: Going,
}

/// One run, all of it.
pub(super) fn run(args: &ThpfioscaleArgs, block: Block, column: Column, seed: u64) -> anyhow::Result<Run> {
    let machine = Machine::boot(&block.setup(column, args, seed))?;
    let script = Script { machine, block, files: Default::default(), going: Rc::new(Cell::new(true)) };
    script.boot();
    let before = script.machine.tally();
    let began = script.machine.now();
    script.write();
    let after = script.machine.tally();
    let written = after.fragmenting - before.fragmenting;
    let took = script.machine.now().since(began);
    let after_writing = Mixing::of(&script.machine);
    script.read(took);
    let after_reading = Mixing::of(&script.machine);
    let warm = script.machine.tally().fragmenting - before.fragmenting - written;
    let touched = script.touch(args.memory.bytes);
    script.going.set(false);
    let machine = &*script.machine;
    let tally = machine.tally();
    let stalls = machine.memory().allocator().stalls();
    let events = machine.memory().allocator().events();
    Ok(Run {
        events: tally.fragmenting - before.fragmenting,
        events_by_phase: [written, warm, tally.fragmenting - before.fragmenting - written - warm],
        events_in_bursts: tally.in_bursts - before.in_bursts,
        requests_while_writing: std::array::from_fn(|place| after.typed_allocs[place] - before.typed_allocs[place]),
        pages_written: script.files.iter().map(|files| files.borrow().len() as u64 * u64::from(FILE_PAGES)).sum(),
        objects_scanned: tally.slabs_scanned - before.slabs_scanned,
        fallbacks: tally.fallbacks - before.fallbacks,
        fallbacks_by_type: events.by_type,
        fallbacks_by_order: events.fallbacks.to_vec(),
        claims: events.claims,
        mixing: [after_writing, after_reading, Mixing::of(machine)],
        allocs: tally.allocs - before.allocs,
        base_latency_us: mean_us(&touched.base),
        huge_latency_us: mean_us(&touched.huge),
        slots: (touched.base.len() + touched.huge.len()) as u64,
        huge_slots: touched.huge.len() as u64,
        failed: touched.failed,
        stalls: stalls.count,
        stalled_ns: stalls.total,
        longest_stall_ns: stalls.longest,
        stall_durations: stalls.durations,
        kswapd_wakes: tally.kswapd_wakes - before.kswapd_wakes,
        simulated_ns: machine.now().since(Time::START),
    })
}

fn mean_us(latencies: &[u64]) -> Option<f64> {
    let sum: u64 = latencies.iter().sum();
    (!latencies.is_empty()).then(|| sum as f64 / latencies.len() as f64 / 1000.0)
}

impl Script {
    /// Blocks that the kernel keeps for good, of different sizes.
    fn boot(&self) {
        let machine = &*self.machine;
        let kernel = machine.managed() * KERNEL / 1000;
        let mut taken = 0;
        while taken < kernel {
            let order = Order::saturating(machine.dice(|dice| rand::RngExt::random_range(dice, 0..=5)));
            if machine.kernel_block(order, Gfp::KERNEL).is_none() {
                break;
            }
            taken += order.frames();
        }
    }

    /// Phase A: files of 1.5 times the memory, and `sync`.
    fn write(&self) {
        let machine = &*self.machine;
        let files = machine.managed() * 3 / 2 / u64::from(FILE_PAGES * JOBS);
        let at_work = Rc::new(Cell::new(JOBS));
        for own in &self.files {
            let (own, at_work) = (Rc::clone(own), Rc::clone(&at_work));
            machine.spawn(Writer { files: own, count: files as u32, next: (0, 0), at_work });
        }
        self.wait(&|| at_work.get() == 0);
        machine.start_sync();
        self.wait(&|| machine.is_synced());
    }

    /// Phase B: the readers alone, for as long as writing took.
    fn read(&self, time: u64) {
        let machine = &*self.machine;
        for own in &self.files {
            let (files, going) = (Rc::clone(own), Rc::clone(&self.going));
            machine.spawn(Reader { files, going, open: HashSet::new(), file: None, reads: 0 });
        }
        machine.run_until(machine.now().after(time));
    }

    /// Phase C: the threads, once.
    fn touch(&self, memory: u64) -> Touched {
        let machine = &*self.machine;
        let allocator = machine.memory().allocator();
        let node: u64 = allocator.zones().filter(|z| z.node() == NodeId::new(0)).map(|z| z.managed()).sum();
        let node = node.min(memory >> 12);
        let threads = self.block.threads();
        // 3/4 of the node are mapped, and half of that is touched.
        let slots = (node * 3 / 4 / u64::from(threads) / PAGEBLOCK_FRAMES / 2) as u32;
        let gfp = if self.block.advised { Gfp::TRANSHUGE } else { Gfp::TRANSHUGE_LIGHT };
        let touched = Rc::new(RefCell::new(Touched::default()));
        let process = machine.start_process();
        for thread in 0..threads {
            let at = thread * slots * PAGEBLOCK_FRAMES as u32;
            let end = at + slots * PAGEBLOCK_FRAMES as u32;
            machine.spawn(Toucher { process, at, end, gfp, touched: Rc::clone(&touched) });
        }
        self.wait(&|| touched.borrow().ready == threads);
        touched.take()
    }

    fn wait(&self, done: &dyn Fn() -> bool) {
        let machine = &*self.machine;
        let limit = machine.now().after(PATIENCE * SECOND);
        while !done() && machine.now() < limit {
            let slice = machine.now().after(100 * MILLISECOND);
            machine.run_while(slice, &|| !done());
        }
    }
}
