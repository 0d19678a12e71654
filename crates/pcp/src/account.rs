//! Linux's tunings, which count the frames of all lists together: every operation passes here.

use pageblock_frame::sync::Ordering;
use pageblock_frame::{COSTLY_ORDER, Order, Platform};

use crate::config::Tuning;
use crate::list::List;
use crate::lists::PcpLists;
use crate::percpu::CpuLists;
use crate::tune::{MOST_DOUBLINGS, Tune};

impl Tune {
    /// An allocation has come: frees of late weigh half.
    pub(crate) fn note_alloc(&mut self, tuning: Tuning) {
        match tuning {
            Tuning::FreeFactor | Tuning::FreeFactorBurst => self.factor >>= 1,
            Tuning::SelfTuned => self.freed >>= 1,
            Tuning::Batch | Tuning::Bounded => {}
        }
    }
}

impl<P: Platform> PcpLists<'_, P> {
    /// Blocks that an empty list asks for (`nr_pcp_alloc()`, Linux 6.7, for the self-tuned one: only refills of single
    /// frames double).
    pub(crate) fn accounted_refill(&self, lists: &mut CpuLists<'_>, list: List) -> u32 {
        let sizes = self.sizes();
        let order = list.order();
        let tune = lists.tune();
        if self.config.tuning != Tuning::SelfTuned {
            return self.config.refill.blocks(sizes.batch, order);
        }
        let single = order == Order::ZERO;
        let frames = if single { sizes.batch << tune.refills } else { sizes.batch };
        if self.zone.free_frames() > self.zone.watermarks().high {
            tune.high = tune.high.saturating_add(frames).max(sizes.high).min(sizes.high_max);
        }
        if !single {
            return self.config.refill.blocks(frames, order);
        }
        let most = tune.high.saturating_sub(tune.count + sizes.batch).max(sizes.batch);
        if frames <= most && tune.refills < MOST_DOUBLINGS {
            tune.refills += 1;
        }
        self.config.refill.blocks(frames.min(most), order)
    }

    /// Puts a block on its list and gives some back if that is too much (`free_unref_page_commit()`).
    pub(crate) fn accounted_free(&self, lists: &mut CpuLists<'_>, list: List, index: u32) {
        let order = list.order();
        let frames = order.frames() as u32;
        let sizes = self.sizes();
        if !lists.push(list, index) {
            // Linux's lists are linked; ours have so much room. However small the batch, one block goes.
            self.give_back(lists, list, (sizes.batch >> order.as_u8().min(3)).max(1));
            if !lists.push(list, index) {
                // There is no room for even one.
                self.give_listed(order, index);
                return;
            }
        }
        let tune = lists.tune();
        tune.count += frames;
        let burst = self.is_burst(tune, order, sizes.batch);
        if self.config.tuning == Tuning::SelfTuned {
            tune.freed = (tune.freed + frames).min(sizes.batch << MOST_DOUBLINGS);
            tune.refills >>= 1;
        }
        let limit = self.effective_high(lists.tune(), burst);
        if lists.tune().count >= limit {
            let count = if burst { lists.tune().count } else { self.overflow(lists.tune()) };
            self.give_frames(lists, list, count);
        }
    }

    /// A free of order 1 to 3 in the middle of many empties all lists.
    fn is_burst(&self, tune: &mut Tune, order: Order, batch: u32) -> bool {
        let high_order = order > Order::ZERO && order <= COSTLY_ORDER;
        match self.config.tuning {
            Tuning::FreeFactorBurst => high_order && tune.factor > 0,
            Tuning::SelfTuned => {
                let before = core::mem::replace(&mut tune.high_before, high_order);
                high_order && before && tune.freed >= batch
            }
            Tuning::Batch | Tuning::FreeFactor | Tuning::Bounded => false,
        }
    }

    /// Frames from which on some go back (`nr_pcp_high()`).
    fn effective_high(&self, tune: &mut Tune, burst: bool) -> u32 {
        let sizes = self.sizes();
        if sizes.high == 0 || burst {
            return 0;
        }
        let reclaiming = self.reclaiming.load(Ordering::Relaxed);
        match self.config.tuning {
            Tuning::Batch | Tuning::Bounded => sizes.high,
            Tuning::FreeFactor | Tuning::FreeFactorBurst if reclaiming => sizes.high.min(4 * sizes.batch),
            Tuning::FreeFactor | Tuning::FreeFactorBurst => sizes.high,
            Tuning::SelfTuned if reclaiming => {
                let least = sizes.high.min(4 * sizes.batch);
                tune.high = tune.high.saturating_sub(sizes.batch << MOST_DOUBLINGS).max(least);
                tune.high.min(4 * sizes.batch)
            }
            Tuning::SelfTuned => {
                if tune.count >= tune.high && self.zone.free_frames() > self.zone.watermarks().high {
                    tune.high = (tune.freed + sizes.batch).max(tune.high).max(sizes.high).min(sizes.high_max);
                }
                tune.high
            }
        }
    }

    /// Frames that an overflow gives back (`nr_pcp_free()`).
    fn overflow(&self, tune: &mut Tune) -> u32 {
        let sizes = self.sizes();
        let high = if self.config.tuning == Tuning::SelfTuned { tune.high } else { sizes.high };
        if high < sizes.batch {
            return 1;
        }
        let most = (high - sizes.batch).max(sizes.batch);
        match self.config.tuning {
            Tuning::Batch | Tuning::Bounded => sizes.batch,
            Tuning::FreeFactor | Tuning::FreeFactorBurst => {
                let frames = sizes.batch << tune.factor;
                if frames < high - sizes.batch && tune.factor < MOST_DOUBLINGS {
                    tune.factor += 1;
                }
                frames.max(sizes.batch).min(most)
            }
            Tuning::SelfTuned => tune.freed.max(sizes.batch).min(most),
        }
    }

    /// Gives back about so many frames, beginning with this list and going round (`free_pcppages_bulk()`, told a list
    /// and not a type, so that the first blocks have the right order too). The last block may make it a little more.
    fn give_frames(&self, lists: &mut CpuLists<'_>, first: List, frames: u32) {
        let mut left = frames;
        let from_first = List::all(self.config.set).skip_while(|&list| list != first);
        let before = List::all(self.config.set).take_while(|&list| list != first);
        for list in from_first.chain(before) {
            if left == 0 {
                return;
            }
            let size = list.order().frames() as u32;
            // A shift, which cannot divide by zero as far as the compiler sees.
            let blocks = (left + size - 1) >> list.order().as_u8();
            let given = self.give_back(lists, list, blocks);
            left = left.saturating_sub(given * size);
        }
    }

    /// Linux 6.7's work once a second: a self-tuned high that is not needed falls by an eighth, and the rest above it
    /// goes back. For this CPU's lists.
    pub fn decay(&self) {
        let sizes = self.sizes();
        let Some(mut guard) = self.areas.enter() else { return };
        let lists = guard.lists_mut();
        if self.config.tuning != Tuning::SelfTuned {
            return;
        }
        let tune = lists.tune();
        tune.high = (tune.high - tune.high / 8).max(sizes.high);
        let surplus = tune.count.saturating_sub(tune.high);
        if let Some(list) = List::all(self.config.set).next() {
            self.give_frames(lists, list, surplus);
        }
    }
}
