//! Counts that wait, as in Linux's per-CPU event counters.

use pageblock_lru::{Lru, LruEvent};

/// Events of one CPU that wait to be counted, as Linux's per-CPU event counters do: for the two list sets met last.
#[derive(Debug, Default)]
pub(super) struct Events<'a, 'm> {
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
            lru.counters().count_some(LruEvent::Munlocked, core::mem::take(&mut self.munlocked));
            lru.counters().count_some(LruEvent::Stranded, core::mem::take(&mut self.stranded));
        }
    }
}

impl<'a, 'm> Events<'a, 'm> {
    /// Counts frames that lost `MLOCKED`: `Munlocked`, or `Stranded`.
    #[inline]
    pub(super) fn cleared(&mut self, lru: &'a Lru<'m>, event: LruEvent, frames: u64) {
        if !self.waiting[0].is_for(lru) {
            self.waiting.swap(0, 1);
            if !self.waiting[0].is_for(lru) {
                self.waiting[0].flush();
                self.waiting[0].lru = Some(lru);
            }
        }
        let mine = &mut self.waiting[0];
        if matches!(event, LruEvent::Stranded) { mine.stranded += frames } else { mine.munlocked += frames }
    }

    /// Hands the counts over.
    pub(super) fn flush(&mut self) {
        self.waiting.iter_mut().for_each(Waiting::flush);
    }
}
