//! One phase: every thread goes through its file, or to random places of it.

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use anyhow::ensure;
use rand::RngExt;
use serde::Serialize;

use crate::machine::{Actor, FileId, Machine, Next, Stream, Time, costs};

/// What the threads do, in the order of a run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
pub(crate) enum Op {
    SeqWrite,
    RandWrite,
    SeqRead,
    RandRead,
}

impl Op {
    /// All of them, in the order of a run.
    pub(crate) const ALL: [Self; 4] = [Self::SeqWrite, Self::RandWrite, Self::SeqRead, Self::RandRead];

    /// For the tables.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::SeqWrite => "sequential write",
            Self::RandWrite => "random write",
            Self::SeqRead => "sequential read",
            Self::RandRead => "random read",
        }
    }

    const fn writes(self) -> bool {
        matches!(self, Self::SeqWrite | Self::RandWrite)
    }

    const fn is_random(self) -> bool {
        matches!(self, Self::RandWrite | Self::RandRead)
    }
}

/// Duration of a phase.
#[derive(Clone, Copy, Debug, Serialize)]
pub(crate) struct Figures {
    pub(crate) op: Op,
    pub(crate) threads: u32,
    /// Blocks of 4 KiB that were asked for.
    pub(crate) blocks: u64,
    pub(crate) seconds: f64,
    /// MiB a second.
    pub(crate) throughput: f64,
    /// Longest and mean time of one block, in milliseconds.
    pub(crate) max_latency_ms: f64,
    pub(crate) mean_latency_ms: f64,
    /// Pages that the disk read.
    pub(crate) disk_read: u64,
}

/// Where the threads of a phase meet. Only they change it.
#[derive(Debug, Default)]
struct Board {
    running: Cell<u32>,
    blocks: Cell<u64>,
    longest: Cell<u64>,
    sum: Cell<u64>,
}

impl Board {
    /// A block took so many nanoseconds.
    fn count(&self, took: u64) {
        self.blocks.set(self.blocks.get() + 1);
        self.longest.set(self.longest.get().max(took));
        self.sum.set(self.sum.get() + took);
    }
}

/// One of the threads.
struct Thread {
    op: Op,
    file: FileId,
    pages: u32,
    /// Blocks to come.
    left: u32,
    /// When the last one was asked for, if it is not counted yet.
    asked: Option<Time>,
    stream: RefCell<Stream>,
    board: Rc<Board>,
}

impl Actor for Thread {
    fn step(&mut self, machine: &Machine) -> Next {
        if let Some(began) = self.asked.take() {
            self.board.count(machine.now().since(began));
        }
        if self.left == 0 {
            self.board.running.set(self.board.running.get() - 1);
            return Next::Exit;
        }
        let page = if self.op.is_random() {
            machine.dice(|dice| dice.random_range(0..self.pages))
        } else {
            self.pages - self.left
        };
        self.asked = Some(machine.now());
        let done = if self.op.writes() {
            machine.write(self.file, page, 1)
        } else {
            machine.read(self.file, page, 1, &mut self.stream.borrow_mut())
        };
        self.left -= 1;
        done.map_or(Next::Run, Next::Sleep)
    }
}

/// Lets one thread a file do `blocks` blocks each, all of the file if that is random; after writing, waits until all is
/// on the disk.
pub(crate) fn run(machine: &Machine, op: Op, files: &[FileId], random_blocks: u32) -> anyhow::Result<Figures> {
    let board = Rc::new(Board::default());
    let began = machine.now();
    let read = machine.transferred().0;
    for file in files {
        let pages = machine.file_pages(*file);
        let left = if op.is_random() { random_blocks } else { pages };
        let stream = RefCell::default();
        machine.spawn(Thread { op, file: *file, pages, left, asked: None, stream, board: Rc::clone(&board) });
    }
    board.running.set(files.len() as u32);
    machine.run_while(Time::NEVER, &|| board.running.get() > 0);
    ensure!(board.running.get() == 0, "{}: {} threads hang", op.title(), board.running.get());
    if op.writes() && !machine.is_synced() {
        machine.start_sync();
        machine.run_while(Time::NEVER, &|| !machine.is_synced());
        ensure!(machine.is_synced(), "{}: dirty pages remain", op.title());
    }
    let seconds = machine.now().since(began) as f64 / costs::SECOND as f64;
    let blocks = board.blocks.get();
    let milliseconds = |nanoseconds: f64| nanoseconds / costs::MILLISECOND as f64;
    Ok(Figures {
        op,
        threads: files.len() as u32,
        blocks,
        seconds,
        throughput: blocks as f64 / 256.0 / seconds.max(1e-9),
        max_latency_ms: milliseconds(board.longest.get() as f64),
        mean_latency_ms: milliseconds(board.sum.get() as f64 / blocks.max(1) as f64),
        disk_read: machine.transferred().0 - read,
    })
}
