//! The lists that every operation works on.

use pageblock_frame::Pfn;
use pageblock_lru::{Lrus, Pagevecs};

#[cfg(feature = "history")]
use crate::history::Steps;
use crate::table::AddressSpace;

/// The lists and this CPU's pagevecs. The caller stays on its CPU while the context has them.
///
/// ```
/// use pageblock_lru::{Lrus, Pagevecs};
/// use pageblock_mlock::Context;
/// let mut vecs: Pagevecs<14> = Pagevecs::new();
/// let context = Context::new(Lrus::new(&[]).unwrap(), &mut vecs);
/// assert_eq!(context.lrus.nr_mlock(), 0);
/// ```
#[derive(Debug)]
pub struct Context<'a, 'm, const N: usize = 15> {
    /// Every frame's lists.
    pub lrus: Lrus<'a, 'm>,
    /// This CPU's pagevecs.
    pub vecs: &'a mut Pagevecs<N>,
    /// How to work.
    #[cfg(feature = "history")]
    pub steps: Steps,
}

impl<'a, 'm, const N: usize> Context<'a, 'm, N> {
    /// The default way of working.
    #[must_use]
    pub fn new(lrus: Lrus<'a, 'm>, vecs: &'a mut Pagevecs<N>) -> Self {
        Self {
            lrus,
            vecs,
            #[cfg(feature = "history")]
            steps: Steps::default(),
        }
    }

    /// The same with other switches.
    #[cfg(feature = "history")]
    #[must_use]
    pub fn with_steps(self, steps: Steps) -> Self {
        Self { steps, ..self }
    }

    /// Empties this CPU's pagevecs.
    pub(crate) fn drain(&mut self, space: &impl AddressSpace) {
        self.vecs.drain(self.lrus, &mut |pfn| space.free(pfn));
    }

    /// Gives a reference back.
    #[inline]
    pub(crate) fn put(&self, space: &impl AddressSpace, pfn: Pfn) {
        if self.lrus.release(pfn) {
            space.free(pfn);
        }
    }
}
