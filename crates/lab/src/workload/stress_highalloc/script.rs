//! The script of the benchmark, step by step, as the series' version of mmtests had it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock::WatermarkRule;
use pageblock_buddy::Reserves;
use pageblock_frame::{Gfp, Order};

use rand::RngExt;

use super::build::{Builder, Made};
use super::column::Column;
use super::phase::{Flags, Found, Module};
use super::scale::{BUILDS, Scale};
use super::tree::{Copier, Deleter, Done, Tree};
use crate::machine::costs::{MILLISECOND, SECOND};
use crate::machine::{Actor, Fault, FileId, Machine, Next, Setup, Stream};

/// Memory that the kernel takes at boot for good, in thousandths: tables by the size of memory, drivers, needs of the
/// first processes. By the series' numbers 14 percent of the huge pages cannot be had on an idle machine, of which 5
/// are not asked for.
const KERNEL: u64 = 25;
/// Pages of programs that run all the time (daemons, the shell, the monitors of the benchmark): 60 MiB.
const RESIDENT: u64 = 15_000;
/// Longest time that a part of the script may take, in simulated seconds: far more than any does.
const PATIENCE: u64 = 100_000;

/// A run under way.
pub(super) struct Script {
    machine: Rc<Machine>,
    scale: Scale,
    flags: Flags,
    column: Column,
    made: Made,
    killed: Done,
    /// Looks at the machine when a phase begins (0), has all its blocks (1), and is over (2).
    pub(super) watch: Watch,
}

/// Observer: gets the machine, the number of the phase from 1, and the moment.
pub(super) type Watch = Rc<RefCell<Box<dyn FnMut(&Machine, usize, Moment)>>>;

/// Moments of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Moment {
    /// Before the first attempt.
    Before,
    /// After the last, before the blocks are freed.
    After,
}

impl Script {
    pub(super) fn new(setup: &Setup, column: Column, flags: Flags, scale: Scale) -> anyhow::Result<Self> {
        let machine = Machine::boot(setup)?;
        let watch: Watch = Rc::new(RefCell::new(Box::new(|_: &Machine, _, _| {})));
        Ok(Self { machine, scale, flags, column, made: Made::default(), killed: Done::default(), watch })
    }

    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// All of it. Successes by phase.
    pub(super) fn run(&self) -> [Found; 3] {
        self.boot();
        let trees = self.build_trees();
        self.pause(self.scale.wait(300));
        let first = self.phase(1);
        self.pause(5 * SECOND);
        let second = self.phase(2);
        self.pause(5 * SECOND);
        self.pause(self.scale.wait(180));
        self.clean_up(trees);
        self.fill_with_file();
        self.set_min_free(self.scale.low_min_free());
        [first, second, self.phase(3)]
    }

    /// Memory in use before anything begins.
    fn boot(&self) {
        let machine = &*self.machine;
        let kernel = machine.managed() * KERNEL / 1000;
        let mut taken = 0;
        while taken < kernel {
            // Of different sizes, as drivers want them.
            let order = Order::saturating(machine.dice(|dice| dice.random_range(0..=5)));
            if machine.kernel_block(order, Gfp::KERNEL).is_none() {
                break;
            }
            taken += order.frames();
        }
        machine.spawn(Daemons::new(machine, self.scale));
        let daemons = machine.start_process();
        for page in 0..self.scale.of(RESIDENT) as u32 {
            machine.fault(daemons, page);
        }
    }

    /// Unpacks, copies, and starts the builds one after the other.
    fn build_trees(&self) -> Vec<Tree> {
        let machine = &*self.machine;
        let primary = Tree::unpacked(machine, self.scale);
        self.copy(None, primary.clone());
        let mut trees = Vec::new();
        for _ in 1..BUILDS {
            let copy = primary.like(machine);
            self.copy(Some(primary.clone()), copy.clone());
            self.start_build(copy.clone());
            trees.push(copy);
        }
        self.start_build(primary.clone());
        trees.push(primary);
        trees
    }

    fn copy(&self, from: Option<Tree>, to: Tree) {
        let done = Done::default();
        self.await_actor(Copier { from, to, at: 0, done: Rc::clone(&done) }, &done);
    }

    fn start_build(&self, tree: Tree) {
        self.machine.spawn(Builder::new(tree, self.scale, Rc::clone(&self.made), Rc::clone(&self.killed)));
    }

    fn phase(&self, number: usize) -> Found {
        (self.watch.borrow_mut())(&self.machine, number, Moment::Before);
        let (found, done) = (Rc::new(Cell::default()), Done::default());
        let watch = Rc::clone(&self.watch);
        let full = move |machine: &Machine| (watch.borrow_mut())(machine, number, Moment::After);
        let module = Module {
            flags: self.flags,
            left: self.scale.attempts(self.machine.managed()),
            taken: Vec::new(),
            found: Rc::clone(&found),
            full: Rc::new(RefCell::new(full)),
            done: Rc::clone(&done),
        };
        self.await_actor(module, &done);
        found.get()
    }

    /// `make` and the compilers are killed, and everything they worked on is deleted.
    fn clean_up(&self, trees: Vec<Tree>) {
        self.killed.set(true);
        self.pause(SECOND);
        let mut files: Vec<FileId> = trees.into_iter().flat_map(|tree| tree.files).collect();
        files.append(&mut self.made.borrow_mut());
        let done = Done::default();
        self.await_actor(Deleter { files, done: Rc::clone(&done) }, &done);
    }

    /// A file as large as memory is written, read, and deleted; then all caches are dropped.
    fn fill_with_file(&self) {
        let machine = &*self.machine;
        let file = machine.create_file(self.machine.managed() as u32);
        let done = Done::default();
        let filler = Filler { file, at: 0, reading: None, done: Rc::clone(&done) };
        self.await_actor(filler, &done);
        machine.delete_file(file);
        machine.drop_caches();
    }

    fn set_min_free(&self, kbytes: u64) {
        let ours = self.column.is_ours();
        let mut reserves = Reserves { min_free_kbytes: Some(kbytes), ..Reserves::new() };
        if !ours {
            reserves.rule = WatermarkRule::Fixed;
            reserves.lowmem_reserve_ratio = [256, 256, 32, 32];
        }
        reserves.apply(self.machine.memory().zones());
    }

    fn pause(&self, nanoseconds: u64) {
        self.machine.run_until(self.machine.now().after(nanoseconds));
    }

    fn await_actor(&self, actor: impl Actor + 'static, done: &Done) {
        self.machine.spawn(actor);
        let limit = self.machine.now().after(PATIENCE * SECOND);
        self.machine.run_while(limit, &|| !done.get());
    }
}

/// Work that runs all the time, using pages of its programs now and then.
struct Daemons {
    files: Vec<FileId>,
}

/// Programs and libraries in use: 300 files of 200 KiB, 60 MiB.
const PROGRAMS: u64 = 300;
/// Pages of each.
const PROGRAM: u32 = 50;
/// Time between two uses.
const USE: u64 = 50 * MILLISECOND;

impl Daemons {
    fn new(machine: &Machine, scale: Scale) -> Self {
        Self { files: (0..scale.of(PROGRAMS)).map(|_| machine.map_file(PROGRAM)).collect() }
    }
}

impl Actor for Daemons {
    fn step(&mut self, machine: &Machine) -> Next {
        // Some programs are used all the time, most hardly ever.
        let (skew, page) = machine.dice(|dice| (dice.random::<f64>(), dice.random_range(0..PROGRAM)));
        let file = self.files[(skew.powi(3) * self.files.len() as f64) as usize];
        let again = machine.now().after(USE);
        match machine.use_mapped(file, page) {
            Fault::Major(done) => Next::Sleep(done.max(again)),
            _ => Next::Sleep(again),
        }
    }
}

/// Writes a large file from one end to the other and reads it.
struct Filler {
    file: FileId,
    at: u32,
    reading: Option<Stream>,
    done: Done,
}

/// Pages of one call of `dd`: 64 KiB.
const CALL: u32 = 16;

impl Actor for Filler {
    fn step(&mut self, machine: &Machine) -> Next {
        let pages = machine.file_pages(self.file);
        if self.at == 0 {
            machine.open(self.file);
        }
        let first = self.at;
        self.at = (self.at + CALL).min(pages);
        let until = match &mut self.reading {
            None => machine.write(self.file, first, CALL),
            Some(stream) => machine.read(self.file, first, CALL, stream),
        };
        if self.at == pages {
            if self.reading.is_some() {
                self.done.set(true);
                return Next::Exit;
            }
            (self.at, self.reading) = (0, Some(Stream::default()));
        }
        until.map_or(Next::Run, Next::Sleep)
    }
}
