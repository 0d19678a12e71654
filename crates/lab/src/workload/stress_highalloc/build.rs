//! A serial build of a kernel tree: one compiler after another.
//!
//! Of the real builds every sixteenth compilation is simulated, for sixteen times as long: as much memory is held at
//! every moment, and the same files are read and written in all, but anonymous memory changes hands less often. Frames
//! are left out that a CPU's own list takes back and hands out again.

use std::cell::RefCell;
use std::rc::Rc;

use rand::RngExt;

use super::scale::Scale;
use super::tree::{Done, Tree};
use crate::machine::costs::SECOND;
use crate::machine::{Actor, FileId, Machine, Next, ProcessId, Stream, Time};

/// Compilations that one stands for.
const TOGETHER: u64 = 16;
/// Compilations of a build (`defconfig` of linux-3.0): about 1700.
const COMPILATIONS: u64 = 1_700;
/// CPU time of one: 640 s a build, by the series' user time for ten.
const CPU: u64 = 640 * SECOND / COMPILATIONS;
/// Pages that a compiler and its children have at most: 40 MiB.
const RESIDENT: u64 = 10_000;
/// Pages that `make` has for as long as a build lasts: 8 MiB.
const MAKE: u64 = 2_000;
/// Headers that one compilation reads.
const HEADERS: u64 = 250;
/// Pages of an object file: 60 KB.
const OBJECT: u32 = 15;
/// Page faults in a step at most; small compilers fault fewer at a time.
const FAULTS: u32 = 32;
/// Steps of a compiler at least.
const STEPS: u32 = 64;

/// All files that builds have made: to be deleted with the trees.
pub(super) type Made = Rc<RefCell<Vec<FileId>>>;

/// A build under way.
pub(super) struct Builder {
    tree: Tree,
    scale: Scale,
    left: u64,
    made: Made,
    /// Set from outside: `make` is killed.
    killed: Done,
    make: Option<ProcessId>,
    compiler: Option<Compiler>,
}

/// One compiler.
struct Compiler {
    process: ProcessId,
    pages: u32,
    faulted: u32,
    /// Page faults in a step.
    at_once: u32,
    /// Nanoseconds of CPU after each step.
    pause: u64,
}

impl Builder {
    pub(super) fn new(tree: Tree, scale: Scale, made: Made, killed: Done) -> Self {
        let left = scale.of(COMPILATIONS / TOGETHER);
        Self { tree, scale, left, made, killed, make: None, compiler: None }
    }

    /// `make` starts, and has memory of its own.
    fn begin(&self, machine: &Machine) -> ProcessId {
        let make = machine.start_process();
        for page in 0..self.scale.of(MAKE) as u32 {
            machine.fault(make, page);
        }
        make
    }

    /// Reads sources and headers, and starts the next compiler.
    fn next_compiler(&self, machine: &Machine) -> (Compiler, Option<Time>) {
        let mut until = None;
        let pick = |files: &[FileId]| files[machine.dice(|dice| dice.random_range(0..files.len()))];
        let sources = (0..TOGETHER).map(|_| pick(self.tree.sources()));
        let headers = (0..self.scale.of(HEADERS)).map(|_| {
            // Some headers are in everything, most in little.
            let headers = self.tree.headers();
            let skew: f64 = machine.dice(|dice| dice.random());
            headers[(skew.powi(3) * headers.len() as f64) as usize]
        });
        for file in sources.chain(headers) {
            machine.open(file);
            until = machine.read(file, 0, machine.file_pages(file), &mut Stream::default()).max(until);
        }
        let size = self.scale.of(RESIDENT);
        let pages = machine.dice(|dice| dice.random_range(size / 2..=size * 3 / 2)).max(1) as u32;
        let at_once = (pages / STEPS).clamp(1, FAULTS);
        let pause = CPU * TOGETHER / u64::from(pages.div_ceil(at_once));
        (Compiler { process: machine.start_process(), pages, faulted: 0, at_once, pause }, until)
    }

    /// Writes the object files, and lets the compiler go.
    fn finish(&mut self, machine: &Machine, compiler: &Compiler) -> Option<Time> {
        let mut until = None;
        for size in [OBJECT, 1].repeat(TOGETHER as usize) {
            let file = machine.create_file(size);
            machine.open(file);
            until = machine.write(file, 0, size).max(until);
            self.made.borrow_mut().push(file);
        }
        machine.end_process(compiler.process);
        self.left -= 1;
        until
    }

    fn end(&mut self, machine: &Machine) -> Next {
        if let Some(compiler) = self.compiler.take() {
            machine.end_process(compiler.process);
        }
        if let Some(make) = self.make.take() {
            machine.end_process(make);
        }
        Next::Exit
    }
}

impl Actor for Builder {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.killed.get() {
            return self.end(machine);
        }
        if self.make.is_none() {
            self.make = Some(self.begin(machine));
            return Next::Run;
        }
        let Some(mut compiler) = self.compiler.take() else {
            if self.left == 0 {
                return self.end(machine);
            }
            let (compiler, until) = self.next_compiler(machine);
            self.compiler = Some(compiler);
            return until.map_or(Next::Run, Next::Sleep);
        };
        if compiler.faulted >= compiler.pages {
            return self.finish(machine, &compiler).map_or(Next::Run, Next::Sleep);
        }
        let end = (compiler.faulted + compiler.at_once).min(compiler.pages);
        for page in compiler.faulted..end {
            machine.fault(compiler.process, page);
        }
        compiler.faulted = end;
        // The compiler looks back at its output.
        let back = machine.dice(|dice| dice.random_range(0..end));
        machine.fault(compiler.process, back);
        machine.think(compiler.pause);
        self.compiler = Some(compiler);
        Next::Run
    }
}
