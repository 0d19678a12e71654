//! Emptying lists: one's own, another CPU's by request, an offline CPU's by taking it over.

use pageblock_frame::sync::{Ordering, Pinned, spin_hint};
use pageblock_frame::{COSTLY_ORDER, CpuId, Hooks, Order, Platform};

use crate::config::PcpConfig;
use crate::list::{LISTS, List, TYPES};
use crate::lists::PcpLists;
use crate::percpu::{ComeOnline, CpuLists, LocalGuard, Signals};
use crate::sizing::Sizes;

/// Rounds that a CPU which comes back waits for another to leave its lists.
const ONLINE_SPINS: u32 = 1 << 16;

/// Blocks that go back at first for the sake of a request.
const PART: u32 = 8;

/// How far a drain has come.
///
/// ```
/// assert_ne!(pageblock_pcp::Drain::Done, pageblock_pcp::Drain::Requested);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Drain {
    /// The lists are empty.
    Done,
    /// The CPU has been asked and kicked: it will answer soon. It hands out nothing from its lists until it has emptied
    /// them.
    Kicked,
    /// The CPU has been asked, and nothing kicked it: its next operation answers. To wait for it is of no use.
    Requested,
}

pageblock_frame::errors! {
    /// Operations that the lists of a CPU cannot do.
    ///
    /// ```
    /// use pageblock_frame::CpuId;
    /// use pageblock_pcp::PcpError;
    /// assert_eq!(PcpError::NoSuchCpu(CpuId::new(9)).to_string(), "there is no CPU 9");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum PcpError {
        /// No lists were made for a CPU with this number.
        #[error("there is no CPU {0}")]
        NoSuchCpu(CpuId),
        /// The CPU has not answered.
        #[error("CPU {0} has not answered")]
        Waiting(CpuId),
        /// The CPU is not offline.
        #[error("CPU {0} is not offline")]
        Online(CpuId),
        /// The lists are in use: this is an interrupt, or the CPU is offline.
        #[error("CPU {0} is busy")]
        Busy(CpuId),
        /// A call that may give back nothing would never empty a list.
        #[error("a call limit of 0 empties no list")]
        CallLimit,
        /// Lists without room for a single frame are no lists.
        #[error("a room of 0 keeps nothing")]
        Room,
        /// The CPU's lists are being taken over.
        #[error("the lists of CPU {0} are being taken over")]
        Taken(CpuId),
        /// Batch is 0 or above 1024, or high is not 0 and below batch.
        #[error("batch {batch} and high {high} do not fit")]
        Sizes {
            /// The batch.
            batch: u32,
            /// The high mark.
            high: u32,
        },
    }
}

impl PcpConfig {
    /// Refuses values that mean nothing.
    ///
    /// # Errors
    /// [`PcpError::Sizes`], [`PcpError::CallLimit`], [`PcpError::Room`].
    ///
    /// ```
    /// use pageblock_pcp::{PcpConfig, Sizing};
    /// let config = PcpConfig { sizing: Sizing::Fixed { batch: 0, high: 4 }, ..PcpConfig::new() };
    /// assert!(config.check().is_err());
    /// assert!(PcpConfig { call_limit: 0, ..PcpConfig::new() }.check().is_err());
    /// assert!(PcpConfig { room: 0, ..PcpConfig::new() }.check().is_err());
    /// assert!(PcpConfig::PRESETS.iter().all(|(_, config)| config.check().is_ok()));
    /// ```
    pub const fn check(&self) -> Result<(), PcpError> {
        if self.call_limit == 0 {
            return Err(PcpError::CallLimit);
        }
        if self.room == 0 {
            return Err(PcpError::Room);
        }
        let sizes = self.sizes(1 << 20, 4096, 4);
        sizes.check()
    }
}

impl Sizes {
    const fn check(&self) -> Result<(), PcpError> {
        let Self { batch, high, .. } = *self;
        if batch == 0 || batch > 1024 || (high != 0 && high < batch) || high > 1 << 24 {
            return Err(PcpError::Sizes { batch, high });
        }
        Ok(())
    }
}

impl<P: Platform> PcpLists<'_, P> {
    /// Number of CPUs that have lists.
    #[must_use]
    pub fn cpus(&self) -> usize {
        self.areas.cpus()
    }

    /// Their numbers.
    fn each_cpu(&self) -> impl Iterator<Item = CpuId> + use<P> {
        (0..self.areas.cpus() as u32).map(CpuId::new)
    }

    pub(crate) fn own_cpu() -> CpuId {
        Pinned::<P>::new().cpu()
    }

    /// Empties a CPU's lists into the zone: at once if it is this CPU or an offline one, else by request.
    ///
    /// # Errors
    /// [`PcpError::NoSuchCpu`].
    pub fn drain_cpu(&self, cpu: CpuId) -> Result<Drain, PcpError> {
        let before = self.areas.signal(cpu, Signals::DRAIN).ok_or(PcpError::NoSuchCpu(cpu))?;
        if before.is_offline() {
            // The signal stays until the lists are empty, on whichever CPU.
            return Ok(self.take_over(cpu).map_or(Drain::Requested, |_| Drain::Done));
        }
        let pinned = Pinned::<P>::new();
        let kicked = if pinned.cpu() == cpu {
            self.handle_kick();
            false
        } else {
            P::hooks().kick(cpu)
        };
        drop(pinned);
        let waits = self.areas.signals(cpu).is_some_and(|signals| signals.has(Signals::DRAIN));
        let pending = if kicked { Drain::Kicked } else { Drain::Requested };
        Ok(if waits { pending } else { Drain::Done })
    }

    /// Empties the lists of every CPU; returns how many of them have yet to answer.
    pub fn drain_all(&self) -> u32 {
        self.each_cpu().filter(|&cpu| matches!(self.drain_cpu(cpu), Ok(Drain::Kicked | Drain::Requested))).count()
            as u32
    }

    /// The reaction of a kicked CPU: it answers all requests, to the end. On an interrupt that
    /// finds the lists busy nothing: the operation below meets the request at its next step to the lists, or the next
    /// operation does.
    pub fn handle_kick(&self) {
        let Some(mut guard) = self.areas.enter() else { return };
        let lists = guard.lists_mut();
        let seen = self.answer(lists, Signals::RESIZE);
        if seen.has(Signals::RESIZE) {
            self.apply_sizes(lists);
        }
        if seen.has(Signals::DRAIN) {
            self.drain_whole(lists);
            self.answer(lists, Signals::DRAIN);
        }
    }

    fn drain_whole(&self, lists: &mut CpuLists<'_>) {
        while !self.drain_some(lists, u32::MAX) {}
    }

    /// Gives a part of the blocks of this CPU's lists and of the depot back to the zone, and a larger one, until
    /// `enough` or nothing is left: blocks of `order` first, then larger ones from the smallest up, then smaller ones,
    /// which may merge, from the largest down. So a request gets a block at little cost, and most of the lists stay as
    /// they are. True if anything went back.
    pub fn give_back_until(&self, order: Order, enough: impl Fn() -> bool) -> bool {
        if order > COSTLY_ORDER {
            // Relaxed, here and where it is read: a hint.
            self.wants_large.store(true, Ordering::Relaxed);
        }
        let Some(mut guard) = self.areas.enter() else { return false };
        let lists = guard.lists_mut();
        let first = order.index() * TYPES;
        let (mut given, mut part) = (false, PART);
        let sufficient = List::places().skip(first);
        let smaller = (0..first.min(LISTS)).rev().filter_map(|place| List::places().nth(place));
        for list in sufficient.chain(smaller) {
            while lists.len(list) > 0 || (self.depot.depth(list) > 0 && self.pop_batch(lists, list) > 0) {
                given = true;
                self.give_back(lists, list, part);
                if enough() {
                    return true;
                }
                // The less it helps, the less often it is asked.
                part = part.saturating_mul(2);
            }
        }
        given
    }

    /// Waits, at most `spins` rounds, until every CPU has answered.
    ///
    /// # Errors
    /// [`PcpError::Waiting`] names the first that has not.
    pub fn wait(&self, spins: u64) -> Result<(), PcpError> {
        let mut left = spins;
        for cpu in self.each_cpu() {
            while self.areas.signals(cpu).is_some_and(|signals| signals.has(Signals::DRAIN)) {
                left = left.checked_sub(1).ok_or(PcpError::Waiting(cpu))?;
                spin_hint();
            }
        }
        Ok(())
    }

    /// Empties all lists, and waits until they are: for tests and for shutting down.
    ///
    /// # Errors
    /// [`PcpError::Waiting`] if a CPU has not answered within `spins` rounds; it will.
    pub fn quiesce(&self, spins: u64) -> Result<(), PcpError> {
        self.drain_all();
        self.wait(spins)
    }

    /// This CPU leaves: its lists stay as they are until a CPU [takes them over](Self::take_over), and its operations
    /// go to the zone until it [comes back](Self::come_online).
    ///
    /// # Errors
    /// [`PcpError::Busy`] on an interrupt on top of a list operation, or if it is offline already.
    pub fn go_offline(&self) -> Result<(), PcpError> {
        let guard = self.areas.enter().ok_or(PcpError::Busy(Self::own_cpu()))?;
        guard.go_offline();
        Ok(())
    }

    /// Empties the lists of a CPU that is offline.
    ///
    /// # Errors
    /// [`PcpError::Online`], also if another CPU is emptying them at this moment; [`PcpError::NoSuchCpu`].
    pub fn take_over(&self, cpu: CpuId) -> Result<(), PcpError> {
        if cpu.index() >= self.areas.cpus() {
            return Err(PcpError::NoSuchCpu(cpu));
        }
        let mut guard = self.areas.take_over(cpu).ok_or(PcpError::Online(cpu))?;
        self.drain_whole(guard.lists_mut());
        self.answer(guard.lists_mut(), Signals::DRAIN);
        Ok(())
    }

    /// This CPU comes back after [`go_offline`](Self::go_offline).
    ///
    /// # Errors
    /// [`PcpError::Online`] if it was not offline; [`PcpError::Taken`] if another CPU works with the lists and has not
    /// left them within a moment, which is bounded: it can be tried again.
    pub fn come_online(&self) -> Result<(), PcpError> {
        match self.areas.come_online(ONLINE_SPINS) {
            ComeOnline::Done => Ok(()),
            ComeOnline::WasOnline => Err(PcpError::Online(Self::own_cpu())),
            ComeOnline::Taken => Err(PcpError::Taken(Self::own_cpu())),
        }
    }

    /// Makes a CPU that will never run again, or not before it [comes back](Self::come_online), count as offline.
    ///
    /// # Safety
    /// The CPU executes nothing that uses these lists, and will not until then; all it did happened before this call.
    #[expect(unsafe_code, reason = "the caller's word that the CPU does not run")]
    pub unsafe fn declare_offline(&self, cpu: CpuId) {
        // SAFETY: the caller's promise is passed on.
        unsafe { self.areas.declare_offline(cpu) };
    }

    /// Keeps this CPU's lists busy as an operation does, until the guard is dropped: for tests of interrupts on top of
    /// one.
    #[must_use]
    pub fn enter(&self) -> Option<LocalGuard<'_, P>> {
        self.areas.enter()
    }

    /// Call it after pageblocks of the zone have been isolated: no block goes onto a list from now on, and those that
    /// are on one are drained by request. As soon as a CPU has begun its next operation, it hands out nothing that it
    /// had.
    ///
    /// Isolations nest and may overlap; each ends with [`end_isolation`](Self::end_isolation).
    pub fn begin_isolation(&self) -> u32 {
        {
            let mut isolations = self.isolations.lock_irq::<P>();
            *isolations += 1;
            for cpu in self.each_cpu() {
                self.areas.signal(cpu, Signals::ISOLATE);
            }
        }
        // A kick that unwinds takes the caller with it, which would end the isolation.
        let unfinished = Isolation(self);
        let waiting = self.drain_all();
        core::mem::forget(unfinished);
        waiting
    }

    /// Ends the state that [`begin_isolation`](Self::begin_isolation) began.
    pub fn end_isolation(&self) {
        let mut isolations = self.isolations.lock_irq::<P>();
        *isolations = isolations.saturating_sub(1);
        if *isolations == 0 {
            for cpu in self.each_cpu() {
                self.areas.withdraw(cpu, Signals::ISOLATE);
            }
        }
    }

    /// Tells the lists that reclaim of the zone begins or ends: meanwhile they hold no more than four batches.
    pub fn set_reclaim(&self, active: ReclaimActivity) {
        self.reclaiming.store(active == ReclaimActivity::Active, Ordering::Relaxed);
        self.resize();
    }

    /// Sets batch and high, as when watermarks are recomputed.
    ///
    /// # Errors
    /// [`PcpError::Sizes`]; nothing has changed.
    pub fn set_sizes(&self, sizes: Sizes) -> Result<(), PcpError> {
        sizes.check()?;
        self.store_sizes(sizes);
        self.resize();
        Ok(())
    }

    fn resize(&self) {
        for cpu in self.each_cpu() {
            self.areas.signal(cpu, Signals::RESIZE);
        }
    }
}

/// An isolation that has begun, and ends when this is dropped.
struct Isolation<'l, 'm, P: Platform>(&'l PcpLists<'m, P>);

impl<P: Platform> Drop for Isolation<'_, '_, P> {
    fn drop(&mut self) {
        self.0.end_isolation();
    }
}

/// Whether reclaim of a zone is under way.
///
/// ```
/// assert_ne!(pageblock_pcp::ReclaimActivity::Active, pageblock_pcp::ReclaimActivity::Idle);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReclaimActivity {
    /// It is.
    Active,
    /// It is not.
    Idle,
}
