//! The slow path: signals, refills, overflows, and everything that goes to the zone.
//!
//! # Bounded lists
//! With [`Tuning::Bounded`] each list has a limit of its own. An overflow gives up to `call_limit` of the blocks that
//! have been there longest back to the zone: half of the list, or all but a batch if nothing has been taken from it since the last one,
//! as Linux's do in the end when frees follow one another. Limits start at three batches. A list that overflows and then runs dry was too
//! short: its limit doubles, up to its room. A list that runs dry again without overflowing asks for twice as much, up to all its room in
//! the end, as long as the zone is above its high watermark; each overflow halves that. Reclaim brings the limits down to one batch.
//!
//! Refills come by whole words of 64 frames where the zone has such, from a pageblock from which no other CPU takes: a word's
//! state bytes are one cache line, and two CPUs that allocate and free in one line wait for each other at every operation.

use pageblock_buddy::{FreeError, Given, Refill, Zone, word_of};
use pageblock_frame::sync::{Inside, Ordering, View};
use pageblock_frame::{AllocFlags, MigrateType, Order, Pfn, Platform, StateByte};

use crate::config::Tuning;
use crate::drain::{SIGNAL_DRAIN, SIGNAL_ISOLATE, SIGNAL_RESIZE};
use crate::list::List;
use crate::lists::{PcpLists, claim};
use crate::tune::{MOST_DOUBLINGS, Tune};

/// What a CPU may do with its lists now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Use {
    /// Take and give.
    Full,
    /// Take only: frames of an isolated pageblock might come in.
    TakeOnly,
    /// Neither: the lists are being drained.
    Not,
}

impl<P: Platform> PcpLists<'_, P> {
    /// Allocates where [`alloc`](Self::alloc) could not: answers signals, refills the list, or goes to the zone. The caller has
    /// tested the watermarks; a refill may take up to a batch below them, as in Linux.
    #[cold]
    pub fn alloc_slow(
        &self,
        zone: &Zone<'_>,
        order: Order,
        migrate_type: MigrateType,
        flags: AllocFlags,
    ) -> Option<Pfn> {
        let list = List::of(self.config.set, order, migrate_type);
        if let Some(list) = list
            && !flags.contains(AllocFlags::HIGHATOMIC)
        {
            if let Some(mut inside) = self.stacks.enter() {
                if self.attend(zone, &mut inside) != Use::Not
                    && let Some(index) = self.take(zone, &mut inside, (list, migrate_type))
                {
                    zone.states().set(index, StateByte::allocated(order, migrate_type));
                    return Some(self.pfn_of(index));
                }
            } else {
                self.note_busy();
            }
        }
        let pfn = zone.alloc::<P>(order, migrate_type, flags)?;
        self.past.count_given(order);
        Some(pfn)
    }

    /// Takes a block from a list, refilled if it is empty.
    fn take(
        &self,
        zone: &Zone<'_>,
        view: &mut View<'_, Tune>,
        (list, migrate_type): (List, MigrateType),
    ) -> Option<u32> {
        let accounted = self.config.tuning != Tuning::Bounded;
        if accounted {
            view.value().note_alloc(self.config.tuning);
        }
        if view.len(list.stack()) == 0 {
            let order = list.order();
            let got = if accounted {
                let blocks = self.accounted_refill(zone, view, list);
                view.fill(list.stack(), blocks, |slots| zone.alloc_bulk::<P>(order, migrate_type, slots))
            } else {
                let (least, room) = self.bounded_refill(zone, view, list);
                let refill = Refill { order, migrate_type, cpu: Self::own_cpu(), least };
                view.fill(list.stack(), room, |slots| zone.refill::<P>(refill, slots))
            };
            view.value().count += got << order.as_u8();
        }
        let (index, _) = view.pop_always(list.stack())?;
        let frames = list.order().frames() as u32;
        let tune = view.value();
        tune.count = tune.count.saturating_sub(frames);
        Some(index)
    }

    /// How many blocks a bounded list that ran dry asks for, and for how many it has room.
    fn bounded_refill(&self, zone: &Zone<'_>, view: &mut View<'_, Tune>, list: List) -> (u32, u32) {
        let order = list.order();
        let batch = self.sizes().batch;
        let capacity = view.capacity(list.stack());
        let limit = view.limit(list.stack());
        let tune = &mut view.value().lists[list.index()];
        if core::mem::take(&mut tune.overflowed) {
            // Too short: it had to give back what it now asks for.
            view.set_limit(list.stack(), limit.saturating_mul(2).min(capacity));
        } else {
            tune.doublings = (tune.doublings + 1).min(MOST_DOUBLINGS);
        }
        if order.as_u8() > pageblock_frame::COSTLY_ORDER.as_u8() {
            return (1, 1);
        }
        let doublings = view.value().lists[list.index()].doublings;
        let eighth = (batch / 8).max(1);
        let plenty = zone.free_frames() > zone.watermarks().high;
        let frames = if plenty { eighth << doublings } else { (eighth << doublings).min(batch + 1) };
        // At least half of the list stays empty, so that the frees that follow find room: unless none follow.
        let room = if plenty && doublings == MOST_DOUBLINGS { capacity } else { capacity.div_ceil(2) };
        let room = room.max(1);
        (self.config.refill.blocks(frames, order).min(room), room)
    }

    /// A list is at its limit: gives some of it back to the zone, and puts the block on it after all. The block is marked as
    /// listed, and its frame is the caller's.
    #[cold]
    pub(crate) fn make_room(&self, zone: &Zone<'_>, view: &mut View<'_, Tune>, index: u32, order: Order) {
        let state = zone.states().get(index);
        let list = state.migrate_type().and_then(|t| List::of(self.config.set, order, t));
        let Some(list) = list else {
            // Of a type without lists. We own the frame: as if it had never been marked.
            zone.free_bulk::<P>(order, &[index]);
            return;
        };
        if !view.push(list.stack(), index) {
            let len = view.len(list.stack());
            let limit = view.limit(list.stack());
            let excess = len.saturating_sub(limit);
            // Half at least stays; or a batch, where nothing has been taken since the last time; unless the limit has come down.
            let taken = view.popped(list.stack()) as u32;
            let tune = &mut view.value().lists[list.index()];
            let last = core::mem::replace(&mut tune.popped, taken);
            let batch = (self.sizes().batch + 1) >> order.as_u8();
            let stays = if taken == last { batch.min(limit / 2) } else { limit / 2 };
            let some = (limit - stays).max(excess).min(self.config.call_limit).max(1);
            let some = words_first(view.frames_of(list.stack()), self.config.call_limit).unwrap_or(some);
            self.give_back(zone, view, list, some);
            let tune = &mut view.value().lists[list.index()];
            tune.overflowed = true;
            tune.doublings = tune.doublings.saturating_sub(1);
            if !view.push(list.stack(), index) {
                zone.free_bulk::<P>(order, &[index]);
            }
        }
    }

    /// Gives up to `blocks` of a list's blocks, those that have been there longest, back to the zone. Returns how many: with
    /// bounded lists perhaps less, but one at least.
    pub(crate) fn give_back(&self, zone: &Zone<'_>, view: &mut View<'_, Tune>, list: List, blocks: u32) -> u32 {
        if view.len(list.stack()) == 0 {
            return 0;
        }
        let order = list.order();
        let given = view.take_oldest(list.stack(), blocks, |oldest| {
            let given = match self.config.tuning {
                Tuning::Bounded => zone.free_some::<P>(order, oldest),
                _ => Given { done: oldest.len(), refused: zone.free_bulk::<P>(order, oldest) },
            };
            debug_assert_eq!(given.refused, 0, "blocks on a list are marked as listed");
            given.done
        });
        let tune = view.value();
        tune.count = tune.count.saturating_sub(given << order.as_u8());
        given
    }

    /// Frees where [`free_fast`](Self::free_fast) would not: answers signals, keeps the accounts, names a wrong free, goes to
    /// the zone.
    ///
    /// # Errors
    /// [`FreeError`] says what the frame is instead; nothing has changed.
    #[cold]
    pub fn free_slow(&self, zone: &Zone<'_>, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let index = self.index_of(pfn);
        if !crate::list::has_lists(order) {
            return zone.free::<P>(pfn, order);
        }
        let Some(mut inside) = self.stacks.enter() else {
            self.note_busy();
            return zone.free::<P>(pfn, order);
        };
        let using = self.attend(zone, &mut inside);
        let Some(byte) = inside.frame_always(index) else { return Err(FreeError::OutOfRange) };
        let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
        let Some(list) = self.list_of(state, order).filter(|_| using == Use::Full) else {
            drop(inside);
            return zone.free::<P>(pfn, order);
        };
        if !claim::<P>(byte, state) {
            return Err(zone.wrong_free(index as u32));
        }
        if self.config.tuning == Tuning::Bounded {
            self.make_room(zone, &mut inside, index as u32, order);
        } else {
            self.accounted_free(zone, &mut inside, (list, index as u32));
        }
        Ok(())
    }

    /// The list on which an allocated block of this order goes; `None` if it is not one.
    fn list_of(&self, state: StateByte, order: Order) -> Option<List> {
        state.allocated_as(order)?;
        List::of(self.config.set, order, state.migrate_type()?)
    }

    /// Answers what the others have asked for, as far as one call may go, and says what the lists are good for now.
    fn attend(&self, zone: &Zone<'_>, inside: &mut Inside<'_, Tune, P>) -> Use {
        let seen = inside.answer(SIGNAL_RESIZE);
        if seen & SIGNAL_RESIZE != 0 {
            self.apply_sizes(inside);
        }
        if seen & SIGNAL_DRAIN != 0 {
            if self.drain_some(zone, inside, self.config.call_limit) {
                inside.answer(SIGNAL_DRAIN);
            }
            return Use::Not;
        }
        if seen & SIGNAL_ISOLATE != 0 { Use::TakeOnly } else { Use::Full }
    }

    /// Gives back up to `blocks` blocks of whatever lists. True if all lists are empty then.
    pub(crate) fn drain_some(&self, zone: &Zone<'_>, view: &mut View<'_, Tune>, blocks: u32) -> bool {
        let mut left = blocks;
        for list in List::all(self.config.set) {
            left -= self.give_back(zone, view, list, left);
            if view.len(list.stack()) > 0 {
                return false;
            }
        }
        true
    }

    /// Sets the limits of the lists to what the sizes and reclaim ask for.
    pub(crate) fn apply_sizes(&self, view: &mut View<'_, Tune>) {
        let sizes = self.sizes();
        view.value().high = sizes.high;
        if self.config.tuning != Tuning::Bounded {
            return;
        }
        let reclaiming = self.reclaiming.load(Ordering::Relaxed);
        for list in List::all(self.config.set) {
            let frames = if reclaiming { sizes.batch } else { 3 * (sizes.batch + 1) };
            let least = u32::from(view.capacity(list.stack()) > 0);
            view.set_limit(list.stack(), (frames >> list.order().as_u8()).max(least));
        }
    }
}

/// Where the oldest frames are whole words, perhaps after what is left of another, as after refills that are freed in order:
/// how many that is. A whole word costs the zone no more than a few frames do.
fn words_first(oldest: &[u32], call_limit: u32) -> Option<u32> {
    let whole_from = |start: usize| {
        let (words, _) = oldest.get(start..)?.as_chunks();
        let whole = words.iter().take(MOST_WORDS).take_while(|word| word_of(word).is_some()).count();
        (whole > 0).then_some((start + whole * WORD as usize) as u32)
    };
    whole_from(0).or_else(|| {
        let first = oldest.first()? / WORD;
        let rest = oldest.iter().take(call_limit as usize).take_while(|&frame| frame / WORD == first).count();
        whole_from(rest)
    })
}

/// Whole words that one call gives back.
const MOST_WORDS: usize = 2;
/// Frames that a word of the zone's free maps describes.
const WORD: u32 = 64;
