//! hackbench: groups of 20 senders and 20 receivers, every sender sending to every receiver of its group.
//!
//! Through pipes a message lies in a page that holds 40 of them; through sockets it is two slab objects, the buffer's
//! head and its data. A task is made by the parent on CPU 0 (stack, descriptors, page tables, the pages that it writes
//! to), runs wherever the scheduler puts it, and ends there.

use pageblock::MigrateType;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::collections::VecDeque;

use super::frames::{Block, Frames};
use super::slab::{Object, Slab};

/// Groups, as in the published table.
pub(super) const GROUPS: [u32; 6] = [1, 3, 5, 7, 12, 16];
/// Senders of a group, and receivers.
const TASKS: u32 = 20;
/// Messages of 100 bytes in a page of a pipe.
const PER_PAGE: u32 = 40;
/// Pages of a pipe.
const PIPE_PAGES: usize = 16;
/// Messages in a socket before the sender waits: 212,992 bytes, each counted as 768.
const SOCKET_MESSAGES: usize = 277;

/// Nanoseconds that a message takes at one of its ends: a system call and a copy, about 2,500 instructions. Chosen by
/// the published time with 16 groups, 1.75 microseconds of CPU for both ends: absolute seconds there are no result.
const MESSAGE: u64 = 850;
/// Nanoseconds from one task to the next, and of a look at a task that sleeps.
const SWITCH: u64 = 1_500;
const ASLEEP: u64 = 200;
/// Nanoseconds of a fork and of an exit beside the memory.
const FORK: u64 = 60_000;
const EXIT: u64 = 30_000;

/// Channel of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Through {
    Pipes,
    Sockets,
}

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hackbench {
    pub(super) groups: u32,
    pub(super) through: Through,
    /// Messages from each sender to each receiver.
    pub(super) loops: u32,
    pub(super) cpus: u32,
    pub(super) seed: u64,
}

/// Slab objects of each task: size, number.
const TASK_OBJECTS: [(u32, u32); 7] = [(5888, 1), (1088, 1), (2112, 1), (704, 1), (2048, 1), (200, 20), (80, 20)];
/// The stack's order; page-table pages; pages that the task writes to.
const STACK: u8 = 2;
const TABLES: u32 = 12;
const WRITTEN: u32 = 60;

/// Holdings of a task.
#[derive(Debug)]
struct Task {
    cpu: u32,
    blocks: Vec<Block>,
    objects: Vec<(usize, Object)>,
    /// Messages to be sent or received.
    left: u32,
    /// Position among its group's senders, or receivers.
    place: Place,
}

#[derive(Clone, Copy, Debug)]
enum Place {
    Sender { group: u32, next: u32 },
    Receiver { channel: usize },
}

/// Source of a receiver.
#[derive(Debug)]
enum Channel {
    /// Each page with the messages written to it and those left to be read.
    Pipe(VecDeque<(Block, u32, u32)>),
    /// Heads and data.
    Socket(VecDeque<(Object, Object)>),
}

/// The whole of a run.
struct Run<'a, F> {
    frames: &'a mut F,
    config: Hackbench,
    random: Xoshiro256PlusPlus,
    task_slabs: Vec<Slab>,
    heads: Slab,
    data: Slab,
    channels: Vec<Channel>,
    tasks: Vec<Option<Task>>,
}

impl Hackbench {
    /// Messages of the run.
    pub(super) fn messages(&self) -> u64 {
        u64::from(self.groups * TASKS * TASKS) * u64::from(self.loops)
    }

    /// Does it. Returns how many frames are still held: none.
    pub(super) fn run<F: Frames>(self, frames: &mut F) -> u64 {
        let slab = |size| Slab::new(size, self.cpus, MigrateType::Unmovable);
        let channel = |_| match self.through {
            Through::Pipes => Channel::Pipe(VecDeque::new()),
            Through::Sockets => Channel::Socket(VecDeque::new()),
        };
        let mut run = Run {
            frames,
            config: self,
            random: Xoshiro256PlusPlus::seed_from_u64(self.seed),
            task_slabs: TASK_OBJECTS.iter().map(|&(size, _)| slab(size)).collect(),
            heads: slab(256),
            data: slab(512),
            channels: (0..self.groups * TASKS).map(channel).collect(),
            tasks: Vec::new(),
        };
        run.fork_all();
        run.schedule();
        let mut held = 0;
        for slab in run.task_slabs.iter_mut().chain([&mut run.heads, &mut run.data]) {
            held += slab.shrink(run.frames, 0);
        }
        held
    }
}

impl<F: Frames> Run<'_, F> {
    fn fork_all(&mut self) {
        for number in 0..self.config.groups * TASKS {
            let (group, loops) = (number / TASKS, self.config.loops);
            self.fork(Place::Receiver { channel: number as usize }, loops * TASKS);
            self.fork(Place::Sender { group, next: 0 }, loops * TASKS);
        }
    }

    /// The parent, on CPU 0, makes a task; its writes to the task are made on its own CPU.
    fn fork(&mut self, place: Place, left: u32) {
        let cpu = self.tasks.len() as u32 % self.config.cpus;
        self.frames.clocks().spend(0, FORK);
        let mut blocks = vec![self.frames.take(0, STACK, MigrateType::Unmovable)];
        let mut objects = Vec::new();
        for (slab, &(_, count)) in TASK_OBJECTS.iter().enumerate() {
            objects.extend((0..count).map(|_| (slab, self.task_slabs[slab].alloc(self.frames, 0))));
        }
        blocks.extend((0..TABLES).map(|_| self.frames.take(0, 0, MigrateType::Unmovable)));
        blocks.extend((0..WRITTEN).map(|_| self.frames.take(cpu, 0, MigrateType::Movable)));
        self.tasks.push(Some(Task { cpu, blocks, objects, left, place }));
    }

    fn exit(&mut self, task: Task) {
        self.frames.clocks().spend(task.cpu, EXIT);
        for block in task.blocks.into_iter().rev() {
            self.frames.give(task.cpu, block);
        }
        for (slab, object) in task.objects {
            self.task_slabs[slab].free(self.frames, task.cpu, object);
        }
    }

    /// Runs tasks until all have ended: on the CPU whose clock is behind, one of its tasks at random. Now and then one
    /// is moved to another CPU; a CPU without tasks pulls one from the longest queue.
    fn schedule(&mut self) {
        let mut queues: Vec<Vec<usize>> = vec![Vec::new(); self.config.cpus as usize];
        for (number, task) in self.tasks.iter().enumerate().filter_map(|(number, task)| Some((number, task.as_ref()?)))
        {
            queues[task.cpu as usize].push(number);
        }
        loop {
            self.pull(&mut queues);
            let busy = (0..self.config.cpus).filter(|cpu| !queues[*cpu as usize].is_empty());
            let Some(cpu) = busy.min_by_key(|cpu| self.frames.clocks().of(*cpu)) else { return };
            let queue = &mut queues[cpu as usize];
            let number = queue.swap_remove(self.random.random_range(0..queue.len()));
            let Some(mut task) = self.tasks[number].take() else { continue };
            if self.random.random_range(0..64u32) == 0 {
                task.cpu = self.random.random_range(0..self.config.cpus);
            }
            let quantum = self.random.random_range(1..=64u32).min(task.left);
            let done = self.turn(&mut task, quantum);
            let work = if done == 0 { ASLEEP } else { SWITCH + u64::from(done) * MESSAGE };
            self.frames.clocks().spend(task.cpu, work);
            if task.left == 0 {
                self.exit(task);
            } else {
                queues[task.cpu as usize].push(number);
                self.tasks[number] = Some(task);
            }
        }
    }

    /// Each CPU without tasks takes one from the longest queue, if that has another.
    fn pull(&mut self, queues: &mut [Vec<usize>]) {
        for idle in 0..queues.len() {
            if !queues[idle].is_empty() {
                continue;
            }
            let Some(from) = (0..queues.len()).max_by_key(|from| queues[*from].len()) else { return };
            if queues[from].len() < 2 {
                return;
            }
            let number = queues[from].swap_remove(0);
            self.frames.clocks().catch_up(idle as u32, from as u32);
            self.frames.clocks().spend(idle as u32, SWITCH);
            if let Some(task) = &mut self.tasks[number] {
                task.cpu = idle as u32;
            }
            queues[idle].push(number);
        }
    }

    /// A task sends or receives so many messages, or as many as it can; the answer is how many.
    fn turn(&mut self, task: &mut Task, quantum: u32) -> u32 {
        for turn in 0..quantum {
            let done = match &mut task.place {
                Place::Receiver { channel } => self.receive(task.cpu, *channel),
                Place::Sender { group, next } => {
                    let sent = self.send(task.cpu, (*group * TASKS + *next) as usize);
                    *next = (*next + u32::from(sent)) % TASKS;
                    sent
                }
            };
            if !done {
                return turn;
            }
            task.left -= 1;
        }
        quantum
    }

    fn send(&mut self, cpu: u32, channel: usize) -> bool {
        match &mut self.channels[channel] {
            Channel::Pipe(pages) => {
                let full = pages.len() == PIPE_PAGES;
                match pages.back_mut() {
                    Some((_, written, _)) if *written < PER_PAGE => *written += 1,
                    _ if full => return false,
                    _ => pages.push_back((self.frames.take(cpu, 0, MigrateType::Unmovable), 1, 0)),
                }
                true
            }
            Channel::Socket(messages) if messages.len() == SOCKET_MESSAGES => false,
            Channel::Socket(messages) => {
                messages.push_back((self.heads.alloc(self.frames, cpu), self.data.alloc(self.frames, cpu)));
                true
            }
        }
    }

    fn receive(&mut self, cpu: u32, channel: usize) -> bool {
        match &mut self.channels[channel] {
            Channel::Pipe(pages) => {
                let Some((block, written, read)) = pages.front_mut() else { return false };
                *read += 1;
                if read == written {
                    self.frames.give(cpu, *block);
                    pages.pop_front();
                }
                true
            }
            Channel::Socket(messages) => {
                let Some((head, data)) = messages.pop_front() else { return false };
                self.data.free(self.frames, cpu, data);
                self.heads.free(self.frames, cpu, head);
                true
            }
        }
    }
}
