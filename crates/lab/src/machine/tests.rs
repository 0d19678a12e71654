//! The machine as a whole, without pressure.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use pageblock_reclaim::ShrinkConfig;

use super::owner::LruScope;
use super::process::Fault;
use super::*;

const MEMORY: u64 = 64 << 20;

fn machine(cpus: u32) -> Rc<Machine> {
    let allocator = pageblock::Config::linux_3_13().zones(zones_of(MEMORY, 680));
    Machine::boot(&Setup::new(MEMORY, cpus, allocator, LruScope::Zone).seed(3)).unwrap()
}

type Log = Rc<RefCell<Vec<(u32, u64)>>>;

/// Computes for a while, a few times, and logs when.
struct Worker {
    name: u32,
    steps: u32,
    log: Log,
}

impl Actor for Worker {
    fn step(&mut self, machine: &Machine) -> Next {
        self.log.borrow_mut().push((self.name, machine.now().nanoseconds() / costs::MILLISECOND));
        machine.compute(10 * costs::MILLISECOND);
        self.steps -= 1;
        if self.steps == 0 { Next::Exit } else { Next::Run }
    }
}

fn work(cpus: u32, workers: u32) -> Vec<(u32, u64)> {
    let machine = machine(cpus);
    let log = Log::default();
    for name in 0..workers {
        machine.spawn(Worker { name, steps: 3, log: Rc::clone(&log) });
    }
    machine.run_until(Time::new(costs::SECOND));
    assert_eq!(machine.now(), Time::new(costs::SECOND));
    log.take()
}

#[test]
fn actors_share_the_cpus() {
    assert_eq!(work(1, 1), [(0, 0), (0, 10), (0, 20)]);
    assert_eq!(work(2, 2), [(0, 0), (1, 0), (0, 10), (1, 10), (0, 20), (1, 20)]);
    let shared = work(1, 2);
    assert!(shared.iter().all(|(_, at)| *at <= 40) && shared.last().unwrap().1 > 20, "{shared:?}");
}

#[test]
fn what_waits_inside_a_step_lets_others_act() {
    struct Waits(Log);
    impl Actor for Waits {
        fn step(&mut self, machine: &Machine) -> Next {
            self.0.borrow_mut().push((100, machine.now().nanoseconds() / costs::MILLISECOND));
            let deadline = machine.now().after(15 * costs::MILLISECOND).nanoseconds();
            pageblock::Hooks::wait_until(&super::owner::Sim, pageblock::NodeId::new(0), deadline);
            self.0.borrow_mut().push((101, machine.now().nanoseconds() / costs::MILLISECOND));
            Next::Exit
        }
    }
    let machine = machine(2);
    let log = Log::default();
    machine.spawn(Waits(Rc::clone(&log)));
    machine.spawn(Worker { name: 0, steps: 3, log: Rc::clone(&log) });
    machine.run_until(Time::new(costs::SECOND));
    assert_eq!(log.take(), [(100, 0), (0, 0), (0, 10), (101, 15), (0, 20)]);
    assert_eq!((machine.tally().waits, machine.tally().waited), (1, 15 * costs::MILLISECOND));
}

/// Writes a file, waits until it is on the disk, and reads it twice.
struct Copier {
    file: FileId,
    stage: u32,
    log: Log,
}

impl Actor for Copier {
    fn step(&mut self, machine: &Machine) -> Next {
        self.stage += 1;
        let (read, written) = machine.transferred();
        self.log.borrow_mut().push((read as u32, written));
        match self.stage {
            1 => {
                machine.open(self.file);
                assert_eq!(machine.write(self.file, 0, 100), None);
                assert_eq!(machine.dirty_pages(), (100, 0));
                machine.start_sync();
                Next::Sleep(machine.now().after(costs::SECOND))
            }
            2 => {
                assert!(machine.is_synced());
                machine.drop_caches();
                assert_eq!(machine.cached(self.file), 0);
                let done = machine.read(self.file, 0, 100, &mut Stream::default());
                Next::Sleep(done.unwrap())
            }
            3 => {
                assert_eq!(machine.cached(self.file), 100);
                assert_eq!(machine.read(self.file, 0, 100, &mut Stream::default()), None);
                machine.delete_file(self.file);
                Next::Run
            }
            _ => Next::Exit,
        }
    }
}

#[test]
fn files_go_to_the_disk_and_come_back() {
    let machine = machine(2);
    let log = Log::default();
    let file = machine.create_file(100);
    machine.spawn(Copier { file, stage: 0, log: Rc::clone(&log) });
    machine.run_until(Time::new(10 * costs::SECOND));
    assert_eq!(log.take(), [(0, 0), (0, 100), (100, 100), (100, 100)]);
    // Slabs of the file's objects: empty, and kept.
    let slabs = Kind::ALL.map(|kind| machine.slab_usage(kind));
    assert!(slabs.iter().all(|(objects, _)| *objects == 0));
    assert_eq!(machine.memory().counts().total(), slabs.iter().map(|(_, frames)| frames).sum::<u64>());
    machine.memory().check().unwrap();
}

#[test]
fn a_process_leaves_nothing_behind() {
    let machine = machine(2);
    let process = machine.start_process();
    for page in 0..1000 {
        assert_eq!(machine.fault(process, page), Fault::Minor);
    }
    assert_eq!(machine.fault(process, 0), Fault::Present);
    assert!(machine.fault_huge(process, 1024, pageblock::Gfp::TRANSHUGE));
    let counts = machine.memory().counts();
    assert_eq!((counts.anon, machine.tally().minor_faults), (1512, 1001));
    // Two frames of stack, three upper tables and three lower ones, and slabs.
    assert_eq!(counts.kernel, 2 + 6 + machine.slab_usage(Kind::Process).1);
    machine.end_process(process);
    let (objects, slabs) = machine.slab_usage(Kind::Process);
    assert_eq!((objects, machine.memory().counts().total()), (0, slabs), "empty slabs are kept");
    machine.memory().check().unwrap();
    assert_eq!(machine.start_process(), process, "numbers are used again");
}

/// Reads files from start to end, one after the other; pages that came from the disk, for each.
fn misses(machine: &Rc<Machine>, files: &[FileId]) -> Vec<u64> {
    let read = |file: &FileId| {
        let before = machine.transferred().0;
        let done = Rc::new(Cell::new(false));
        machine.spawn(Scan { file: *file, at: 0, stream: Stream::default(), done: Rc::clone(&done) });
        machine.run_while(Time::NEVER, &|| !done.get());
        machine.transferred().0 - before
    };
    files.iter().map(read).collect()
}

struct Scan {
    file: FileId,
    at: u32,
    stream: Stream,
    done: Rc<Cell<bool>>,
}

impl Actor for Scan {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.at == machine.file_pages(self.file) {
            self.done.set(true);
            return Next::Exit;
        }
        self.at += 1;
        machine.read(self.file, self.at - 1, 1, &mut self.stream).map_or(Next::Run, Next::Sleep)
    }
}

fn scanner(shrink: ShrinkConfig) -> Rc<Machine> {
    let setup = Setup::new(128 << 20, 2, pageblock::Config::new(), LruScope::Node);
    Machine::boot(&Setup { shrink, ..setup }).unwrap()
}

/// A file twice as large as memory, again and again: nothing of it is there when it is needed, but for the part that
/// our default keeps.
#[test]
fn a_stream_in_a_circle_finds_what_is_kept_of_it() {
    let passes = |shrink| {
        let machine = scanner(shrink);
        let file = machine.create_file(2 * machine.managed() as u32);
        let passes = misses(&machine, &[file; 6]);
        machine.memory().check().unwrap();
        passes.into_iter().map(|misses| misses * 100 / u64::from(machine.file_pages(file))).collect::<Vec<_>>()
    };
    let (linux, ours) = (passes(ShrinkConfig::linux_6_1()), passes(ShrinkConfig::default()));
    assert!(linux.iter().all(|percent| *percent >= 95), "{linux:?}");
    assert!(ours[1..].iter().all(|percent| *percent <= 90), "{ours:?}");
}

/// Kept pages give way: a file that fits is in memory after some rounds, whatever was there before, and however
/// often it was read.
#[test]
fn what_nobody_reads_any_more_gives_way() {
    for (before, shrink) in [1, 3]
        .into_iter()
        .flat_map(|times| [ShrinkConfig::default(), ShrinkConfig::linux_6_1()].map(|shrink| (times, shrink)))
    {
        let machine = scanner(shrink);
        let pages = (machine.managed() * 3 / 4) as u32;
        let (old, new) = (machine.create_file(pages), machine.create_file(pages));
        misses(&machine, &[new]);
        misses(&machine, &vec![old; before]);
        let passes = misses(&machine, &[new; 8]);
        assert!(passes[7] * 50 <= u64::from(pages), "{passes:?} of {pages}, the other was read {before} times");
    }
}
