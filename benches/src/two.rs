//! Two threads on one allocator: each is a CPU, and does the same as the other.
//!
//! What is measured is always the thread that is CPU 0, alone or beside CPU 1 at the same work.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use frame_alloc::{CpuId, DepotAllocator, PageSize, SummaryBuddyAllocator};
use pageblock_frame::PAGE_SHIFT;
use pageblock_frame::sync::{AtomicBool, AtomicU64, Lock, Ordering};
use pageblock_testkit::conformance::peers::{Exposed, Flavour, FrameAlloc, Summary};

use crate::floor::Floor;
use crate::machine::{GFP, Machine, become_cpu, current_cpu};
use crate::{Frames, POOL};

/// Frames of an allocator that two threads use: more than both need.
pub const ROOM: u64 = 4 * POOL;

/// An allocator, or what stands for one, from which each thread has a handle.
pub trait Shared {
    /// A thread's handle.
    type Handle: Frames + Send;
    /// For the tables.
    const NAME: &'static str;
    /// Two handles to one allocator with [`ROOM`] frames, all free.
    fn handles() -> [Self::Handle; 2];
}

/// A handle to an allocator that any number of threads may use.
#[derive(Debug)]
pub struct Part<A>(Arc<A>);

/// What [`Part`] needs: the calls through a shared reference.
pub trait Concurrent: Send + Sync {
    /// As [`Frames::new`].
    fn new(frames: u64) -> Self;
    /// As [`Frames::alloc`].
    fn alloc(&self, order: u8) -> Option<u64>;
    /// As [`Frames::free`].
    fn free(&self, block: u64, order: u8);
}

impl<A: Concurrent> Frames for Part<A> {
    fn new(frames: u64) -> Self {
        Self(Arc::new(A::new(frames)))
    }

    #[inline(always)]
    fn alloc(&mut self, order: u8) -> Option<u64> {
        self.0.alloc(order)
    }

    #[inline(always)]
    fn free(&mut self, block: u64, order: u8) {
        self.0.free(block, order);
    }
}

fn parts<A: Concurrent>() -> [Part<A>; 2] {
    let first = Part::new(ROOM);
    let second = Part(Arc::clone(&first.0));
    [first, second]
}

impl<const WORD: bool> Concurrent for Machine<2, WORD> {
    fn new(frames: u64) -> Self {
        <Self as Frames>::new(frames)
    }

    #[inline(always)]
    fn alloc(&self, order: u8) -> Option<u64> {
        self.take(order, GFP)
    }

    #[inline(always)]
    fn free(&self, block: u64, order: u8) {
        self.give(block, order);
    }
}

/// `frame-alloc`'s depot, told which CPU the thread is.
#[derive(Debug)]
pub struct PerCpuDepot;

/// The thread's CPU, as `frame-alloc` asks for it.
#[derive(Debug)]
pub struct ThreadCpu;

impl CpuId for ThreadCpu {
    #[inline(always)]
    fn current_cpu() -> usize {
        current_cpu() as usize
    }
}

impl Flavour for PerCpuDepot {
    const NAME: &'static str = "frame-alloc 0.1, depot";
    type Allocator = DepotAllocator<SummaryBuddyAllocator<11, Exposed>, ThreadCpu, 64>;
    fn new() -> Self::Allocator {
        let size = PageSize::from_log2(PAGE_SHIFT as u8);
        DepotAllocator::new(size, SummaryBuddyAllocator::new(size))
    }
}

impl<F: Flavour> Concurrent for FrameAlloc<F>
where
    F::Allocator: Send + Sync,
{
    fn new(frames: u64) -> Self {
        <Self as Frames>::new(frames)
    }

    #[inline(always)]
    fn alloc(&self, order: u8) -> Option<u64> {
        self.alloc_phys(order).map(|phys| phys as u64)
    }

    #[inline(always)]
    fn free(&self, block: u64, order: u8) {
        self.free_phys(block as usize, order);
    }
}

/// An allocator for one thread behind a spin lock, as its users have it.
#[derive(Debug)]
pub struct Locked<A>(Lock<A>);

impl<A: Frames + Send> Concurrent for Locked<A> {
    fn new(frames: u64) -> Self {
        Self(Lock::new(A::new(frames)))
    }

    #[inline(always)]
    fn alloc(&self, order: u8) -> Option<u64> {
        self.0.lock().alloc(order)
    }

    #[inline(always)]
    fn free(&self, block: u64, order: u8) {
        self.0.lock().free(block, order);
    }
}

macro_rules! shared {
    ($($allocator:ty, $name:literal;)*) => {$(
        impl Shared for $allocator {
            type Handle = Part<Self>;
            const NAME: &'static str = $name;
            fn handles() -> [Part<Self>; 2] {
                parts()
            }
        }
    )*};
}

shared! {
    Machine, "pageblock";
    Machine<2, false>, "pageblock, no word";
    FrameAlloc<Summary>, "frame-alloc 0.1, core";
    FrameAlloc<PerCpuDepot>, "frame-alloc 0.1, depot";
    Locked<crate::allocators::BuddySystem>, "buddy_system_allocator 0.13";
    Locked<crate::allocators::Bitmap>, "bitmap-allocator 0.4";
    Locked<crate::peers::BuddySlab>, "buddy-slab-allocator 0.6";
}

/// Each thread has a floor of its own: they share nothing, which is the point of per-CPU lists.
impl<const STATE: bool, const WORD: bool> Shared for Floor<STATE, WORD> {
    type Handle = Self;
    const NAME: &'static str = match (STATE, WORD) {
        (false, false) => "floor",
        (false, true) => "floor, word",
        (true, false) => "floor with a state byte",
        (true, true) => "floor with a state byte, word",
    };
    fn handles() -> [Self; 2] {
        [(), ()].map(|()| <Self as Frames>::new(ROOM))
    }
}

/// How far the other thread has come.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Progress {
    stop: AtomicBool,
    rounds: AtomicU64,
}

impl Progress {
    /// Rounds that it has done.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.rounds.load(Ordering::Relaxed)
    }
}

/// Runs `measured` on this thread as CPU 0 while another, CPU 1, repeats `round`. It has done one when `measured`
/// begins.
///
/// What `round` needs it should own: on this thread's stack it would share cache lines with what this thread writes.
pub fn beside<R>(round: impl FnMut() + Send, measured: impl FnOnce(&Progress) -> R) -> R {
    become_cpu(0);
    let progress = &Progress::default();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let mut round = round;
            become_cpu(1);
            while !progress.stop.load(Ordering::Relaxed) {
                round();
                let rounds = progress.rounds();
                progress.rounds.store(rounds + 1, Ordering::Relaxed);
            }
        });
        while progress.rounds() == 0 {
            std::thread::yield_now();
        }
        let result = measured(progress);
        progress.stop.store(true, Ordering::Relaxed);
        result
    })
}

/// A thread that is CPU 1 and does something with what it is sent, then sends it back.
#[derive(Debug)]
pub struct Other<T> {
    to: SyncSender<T>,
    back: Receiver<T>,
}

impl<T: Send> Other<T> {
    /// Starts the thread in a scope; it ends when this is dropped.
    pub fn start<'scope>(
        scope: &'scope std::thread::Scope<'scope, '_>,
        mut work: impl FnMut(&mut T) + Send + 'scope,
    ) -> Self
    where
        T: 'scope,
    {
        let (to, from) = sync_channel::<T>(1);
        let (answer, back) = sync_channel(1);
        scope.spawn(move || {
            become_cpu(1);
            for mut value in from {
                work(&mut value);
                if answer.send(value).is_err() {
                    return;
                }
            }
        });
        Self { to, back }
    }

    /// Has the thread work on a value, and waits for it. `None` if it has panicked.
    pub fn run(&self, value: T) -> Option<T> {
        self.to.send(value).ok()?;
        self.back.recv().ok()
    }
}
