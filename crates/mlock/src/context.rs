//! What every operation works with.

use pageblock_frame::Pfn;
use pageblock_lru::{Event, Lru, Lrus, Pagevecs};

use crate::steps::Steps;
use crate::table::AddressSpace;

/// The lists, this CPU's pagevecs and the switches. The caller stays on its CPU while it lends the pagevecs.
///
/// ```
/// use pageblock_lru::{Lrus, Pagevecs};
/// use pageblock_mlock::{Context, Steps};
/// let mut vecs: Pagevecs<14> = Pagevecs::new();
/// let context = Context::new(Lrus::new(&[]).unwrap(), &mut vecs);
/// assert_eq!(context.steps, Steps::default());
/// ```
#[derive(Debug)]
pub struct Context<'a, 'm, const N: usize = 15> {
    /// Every frame's lists.
    pub lrus: Lrus<'a, 'm>,
    /// This CPU's pagevecs.
    pub vecs: &'a mut Pagevecs<N>,
    /// How to work.
    pub steps: Steps,
}

impl<'a, 'm, const N: usize> Context<'a, 'm, N> {
    /// The default way of working.
    #[must_use]
    pub fn new(lrus: Lrus<'a, 'm>, vecs: &'a mut Pagevecs<N>) -> Self {
        Self { lrus, vecs, steps: Steps::default() }
    }

    /// The same with other switches.
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

/// Events of one CPU that wait to be counted, as Linux's per-CPU event counters do: for the two list sets met last.
#[derive(Debug, Default)]
pub(crate) struct Events<'a, 'm> {
    waiting: [Waiting<'a, 'm>; 2],
}

#[derive(Debug, Default)]
struct Waiting<'a, 'm> {
    lru: Option<&'a Lru<'m>>,
    munlocked: u64,
    stranded: u64,
}

impl<'a, 'm> Waiting<'a, 'm> {
    #[inline]
    fn is_for(&self, lru: &Lru<'m>) -> bool {
        self.lru.is_some_and(|mine| core::ptr::eq(mine, lru))
    }

    fn flush(&mut self) {
        if let Some(lru) = self.lru.take() {
            lru.counters().count_some(Event::Munlocked, core::mem::take(&mut self.munlocked));
            lru.counters().count_some(Event::Stranded, core::mem::take(&mut self.stranded));
        }
    }
}

impl<'a, 'm> Events<'a, 'm> {
    /// Counts frames whose `MLOCKED` was cleared: `Munlocked`, or `Stranded`.
    #[inline]
    pub(crate) fn cleared(&mut self, lru: &'a Lru<'m>, event: Event, frames: u64) {
        if !self.waiting[0].is_for(lru) {
            self.waiting.swap(0, 1);
            if !self.waiting[0].is_for(lru) {
                self.waiting[0].flush();
                self.waiting[0].lru = Some(lru);
            }
        }
        let mine = &mut self.waiting[0];
        if matches!(event, Event::Stranded) { mine.stranded += frames } else { mine.munlocked += frames }
    }

    /// Hands the counts over.
    pub(crate) fn flush(&mut self) {
        self.waiting.iter_mut().for_each(Waiting::flush);
    }
}
