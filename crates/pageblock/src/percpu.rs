//! A kernel's calls about the per-CPU lists: emptying them, kicks, CPUs that come and go.

use pageblock_frame::sync::Pinned;
use pageblock_frame::{CpuId, Platform};
use pageblock_pcp::{Drain, PcpError, PcpLists, PcpViolation};

use crate::PageAllocator;
use crate::slowpath::drain_lists;

/// Rounds that [`PageAllocator::drain`] waits for the other CPUs.
const SPINS: u64 = 1 << 16;

impl<P: Platform> PageAllocator<P> {
    /// The CPUs and their lists: kicks, CPUs that come and go.
    #[must_use]
    pub const fn cpus(&self) -> Cpus<'_, P> {
        Cpus { frames: self }
    }

    fn lists(&self) -> impl Iterator<Item = &'static PcpLists<'static, P>> {
        self.inner().ok().into_iter().flat_map(|inner| inner.lists())
    }

    /// Empties the per-CPU lists of all CPUs into their zones, so that free frames can be merged, isolated or taken by
    /// place: this CPU's at once, an offline CPU's too, the others' by request and kick, with a moment's wait. Returns
    /// how many lists are still to be emptied; their CPUs hand out nothing from them until they have.
    ///
    /// ```
    /// use pageblock::{Config, Gfp, PageAllocator, Region};
    /// use pageblock::hosted::Simulated;
    /// let frames = PageAllocator::<Simulated>::new();
    /// let storage = vec![core::mem::MaybeUninit::uninit(); 1 << 20].leak();
    /// frames.init_simulated([Region::from((0, 128 << 20, true))], &Config::new().cpus(1), storage)?;
    /// drop(frames.alloc(Gfp::KERNEL)?);
    /// assert!(frames.stats().listed > 0); // the list was filled, and keeps the frame
    /// assert_eq!(frames.drain(), 0);
    /// assert_eq!(frames.stats().listed, 0);
    /// # Ok::<(), Box<dyn core::error::Error>>(())
    /// ```
    pub fn drain(&self) -> u32 {
        self.lists().filter(|lists| drain_lists(lists, SPINS) > 0).count() as u32
    }

    /// Compares the per-CPU lists with the state bytes, while no other CPU uses the allocator; for tests.
    ///
    /// # Errors
    /// The first [`PcpViolation`].
    pub fn check_lists(&self) -> Result<(), PcpViolation> {
        self.lists().try_for_each(PcpLists::check)
    }
}

/// The CPUs of an allocator ([`PageAllocator::cpus`]).
///
/// ```
/// use pageblock::{CpuId, Drain, PageAllocator};
/// use pageblock::hosted::Simulated;
/// // No lists yet: nothing to be emptied.
/// let frames = PageAllocator::<Simulated>::new();
/// assert_eq!(frames.cpus().drain(CpuId::new(0)), Ok(Drain::Done));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cpus<'a, P: Platform> {
    frames: &'a PageAllocator<P>,
}

impl<P: Platform> Cpus<'_, P> {
    /// Empties the lists of one CPU; [`Drain::Kicked`] or [`Drain::Requested`] if it has been asked to.
    ///
    /// # Errors
    /// [`PcpError::NoSuchCpu`].
    pub fn drain(self, cpu: CpuId) -> Result<Drain, PcpError> {
        let mut result = Ok(Drain::Done);
        for lists in self.frames.lists().filter(|lists| lists.cpus() > 0) {
            match lists.drain_cpu(cpu)? {
                Drain::Done => {}
                pending => result = Ok(pending),
            }
        }
        result
    }

    /// The call for a CPU that has been kicked ([`Hooks::kick`](crate::Hooks::kick)): it answers the requests of
    /// others. Safe in interrupt handlers.
    pub fn handle_kick(self) {
        self.frames.lists().for_each(PcpLists::handle_kick);
    }

    /// This CPU goes offline: from now on it allocates and frees past its lists, which [`take_over`](Self::take_over)
    /// or any [`drain`](PageAllocator::drain) empties.
    ///
    /// # Errors
    /// [`PcpError::Busy`] if it is offline already, or this is an interrupt on top of an allocation. Nothing has
    /// changed then: the CPU is online in every zone or in none.
    pub fn go_offline(self) -> Result<(), PcpError> {
        let _here = Pinned::<P>::new();
        let lists = || self.frames.lists().filter(|lists| lists.cpus() > 0);
        for (zones, of_zone) in lists().enumerate() {
            if let Err(error) = of_zone.go_offline() {
                // The zones before it have been left a moment ago, by this CPU, so that they take it back.
                lists().take(zones).for_each(return_to);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Empties the lists of a CPU that is offline.
    ///
    /// # Errors
    /// [`PcpError::Online`] if it is not, [`PcpError::NoSuchCpu`]. The lists of all zones in which the CPU is offline
    /// are empty all the same.
    pub fn take_over(self, cpu: CpuId) -> Result<(), PcpError> {
        let lists = self.frames.lists().filter(|lists| lists.cpus() > 0);
        let mut result = Ok(());
        for lists in lists {
            // After a refusal, too.
            result = result.and(lists.take_over(cpu));
        }
        result
    }

    /// This CPU is back, and uses its lists again.
    ///
    /// # Errors
    /// [`PcpError::Online`] if it was offline in no zone.
    pub fn come_online(self) -> Result<(), PcpError> {
        let _here = Pinned::<P>::new();
        let mut came = false;
        let mut result = Ok(());
        for lists in self.frames.lists().filter(|lists| lists.cpus() > 0) {
            match lists.come_online() {
                Ok(()) => came = true,
                Err(error) => result = result.and(Err(error)),
            }
        }
        if came && matches!(result, Err(PcpError::Online(_))) { Ok(()) } else { result }
    }
}

/// Undoes a leave of a moment ago. A CPU that has taken the lists over meanwhile gives them back within a few tries.
fn return_to<P: Platform>(left: &PcpLists<'_, P>) {
    const TRIES: u32 = 8;
    let _ = (0..TRIES).find(|_| !matches!(left.come_online(), Err(PcpError::Taken(_))));
}
