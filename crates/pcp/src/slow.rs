//! The slow path: signals, refills, overflows, and everything that goes to the zone.
//!
//! # Bounded lists
//! With [`Tuning::Bounded`] each list has a limit of its own. An overflow hands the blocks that have been there longest
//! over to the [depot](crate::depot), a batch at a time. If the depot takes none, half of the list is owed to the zone
//! (all but a batch if nothing has been taken from it since the last overflow, as Linux's lists do in the end when
//! frees follow one another); each call that finds the list full pays up to `call_limit` blocks of that. Limits start
//! at three batches. A list that overflows and then runs dry was too short: its limit doubles, up to its room. A list
//! that runs dry takes a batch of the depot, or asks the zone: for twice as much each time that it runs dry again
//! without overflowing, as long as the zone is above its high watermark; each overflow halves that. Reclaim brings the
//! limits down to one batch.
//!
//! A zone that is wanted for large blocks has neither long lists nor a depot: both would hand a block that was freed in a
//! nearly free pageblock to the next request, where the zone would take one of the most fragmented.
//!
//! Refills come by whole words of 64 frames where the zone has such, from a pageblock from which no other CPU takes: a
//! word's state bytes are one cache line, and two CPUs that allocate and free in one line wait for each other at every
//! operation.

use pageblock_buddy::{BulkGiven, FreeError, Refill, word_of};
use pageblock_frame::sync::Ordering;
use pageblock_frame::{AllocFlags, COSTLY_ORDER, MigrateType, Order, PAGEBLOCK_FRAMES, Pfn, Platform, StateByte};

use crate::config::{Tuning, WhenShort};
use crate::depot::blocks_of;
use crate::list::List;
use crate::lists::{Freed, PcpLists, claim};
use crate::percpu::{CpuLists, Signals};
use crate::tune::MOST_DOUBLINGS;

/// Operations that a CPU may do with its lists now.
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
    /// Allocates where [`alloc`](Self::alloc) could not: answers signals, refills the list, or goes to the zone. The
    /// caller has tested the watermarks; a refill may take up to a batch below them, as in Linux.
    #[cold]
    pub fn alloc_slow(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> Option<Pfn> {
        let list = List::of(self.config.set, order, migrate_type);
        if let Some(list) = list
            && !flags.contains(AllocFlags::HIGHATOMIC)
        {
            if let Some(mut guard) = self.areas.enter() {
                let using = self.attend(guard.lists_mut());
                if using != Use::Not
                    && let Some(index) = self.take(guard.lists_mut(), list, (migrate_type, flags), using)
                {
                    // SAFETY: the block came off a list of this CPU, and is the caller's from here on.
                    #[expect(unsafe_code, reason = "the list held the block")]
                    unsafe { self.zone.state_table() }.set(index, StateByte::allocated(order, migrate_type));
                    return Some(self.pfn_of(index));
                }
            } else {
                self.count_busy();
            }
        }
        if self.has_nothing(order, migrate_type, flags) {
            return None;
        }
        let pfn = self.zone.alloc::<P>(order, migrate_type, flags)?;
        self.bypass.count_given(order);
        Some(pfn)
    }

    /// True if it is known without a lock that the zone refuses. A type that cannot move has to ask, so that compaction
    /// is told that it needs a whole pageblock.
    fn has_nothing(&self, order: Order, migrate_type: MigrateType, flags: AllocFlags) -> bool {
        const RESERVE: AllocFlags = AllocFlags::HIGHATOMIC.union(AllocFlags::NON_BLOCK).union(AllocFlags::OOM);
        order > Order::ZERO
            && migrate_type == MigrateType::Movable
            && !flags.intersects(RESERVE)
            && !self.zone.has_block(order, flags)
    }

    /// Takes a block from a list, refilled if it is empty.
    fn take(
        &self,
        lists: &mut CpuLists<'_>,
        list: List,
        (migrate_type, flags): (MigrateType, AllocFlags),
        using: Use,
    ) -> Option<u32> {
        let accounted = self.config.tuning != Tuning::Bounded;
        if accounted {
            lists.tune().note_alloc(self.config.tuning);
        }
        if lists.len(list) == 0 {
            let got = if accounted {
                let (blocks, order) = (self.accounted_refill(lists, list), list.order());
                lists.fill(list, blocks, |slots| match self.config.when_short {
                    WhenShort::Stops => self.zone.alloc_bulk::<P>(order, migrate_type, slots),
                    WhenShort::FallsBack => self.zone.alloc_bulk_by_rules::<P>(order, migrate_type, flags, slots),
                })
            } else {
                self.refill(lists, list, migrate_type, using)
            };
            lists.tune().count += got << list.order().as_u8();
        }
        let (index, _) = lists.pop_always(list)?;
        let frames = list.order().frames() as u32;
        let tune = lists.tune();
        tune.count = tune.count.saturating_sub(frames);
        Some(index)
    }

    /// Fills an empty bounded list: with a batch of the depot, or from the zone. Where the list may not be added to,
    /// the depot may hold blocks of the isolated pageblock, and stays as it is.
    fn refill(&self, lists: &mut CpuLists<'_>, list: List, migrate_type: MigrateType, using: Use) -> u32 {
        if lists.capacity(list) == 0 {
            return 0;
        }
        let (least, room) = self.bounded_refill(lists, list);
        if using == Use::Full && self.depot.depth(list) > 0 {
            let got = self.pop_batch(lists, list);
            if got > 0 {
                return got;
            }
        }
        let refill = Refill { order: list.order(), migrate_type, cpu: Self::own_cpu(), least };
        let got = lists.fill(list, room, |slots| self.zone.refill::<P>(refill, slots));
        // The pageblock may have been opened for this refill.
        lists.show(self.zone.opened_frames::<P>());
        got
    }

    /// Puts a batch of the depot on an empty list. Returns its blocks.
    pub(crate) fn pop_batch(&self, lists: &mut CpuLists<'_>, list: List) -> u32 {
        let blocks = blocks_of(list.order());
        if lists.capacity(list) < blocks {
            return 0;
        }
        let mut spare = lists.tune().spare;
        let got = lists.fill(list, blocks, |slots| {
            let mut got = 0;
            self.depot.pop(list, &mut spare, |batch| {
                // As many slots as the batch has blocks, so that this is one copy.
                if let Some(slots) = slots.get_mut(..batch.len()) {
                    slots.copy_from_slice(batch);
                    got = batch.len();
                }
            });
            got
        });
        lists.tune().spare = spare;
        got
    }

    /// True if blocks are to go back to the zone rather than to wait for use: no pageblock is whole, or few are, and a
    /// request for a large block has found nothing. Blocks that are used again at once would keep others from becoming
    /// whole.
    fn wants_large(&self) -> bool {
        if self.zone.whole_blocks() == 0 {
            // A zone without room for a pageblock has none to lose.
            return self.zone.managed() >= PAGEBLOCK_FRAMES;
        }
        if !self.wants_large.load(Ordering::Relaxed) {
            return false;
        }
        let short = self.zone.is_short_of_whole();
        if !short {
            self.wants_large.store(false, Ordering::Relaxed);
        }
        short
    }

    /// Hands the oldest blocks of a list over to the depot. False if it does not take them: while the zone is reclaimed
    /// or wanted for large blocks they are to go back to it, and so are large ones where few pageblocks are wholly free.
    fn push_batch(&self, lists: &mut CpuLists<'_>, list: List) -> bool {
        let blocks = blocks_of(list.order());
        if !self.depot.has_room(list) || lists.len(list) < blocks || self.reclaiming.load(Ordering::Relaxed) {
            return false;
        }
        if self.wants_large() || list.order() > COSTLY_ORDER && self.zone.is_short_of_whole() {
            return false;
        }
        let mut spare = lists.tune().spare;
        let handed =
            lists.take_oldest(
                list,
                blocks,
                |oldest| {
                    if self.depot.push(list, &mut spare, oldest) { oldest.len() } else { 0 }
                },
            );
        let tune = lists.tune();
        tune.spare = spare;
        tune.count = tune.count.saturating_sub(handed << list.order().as_u8());
        handed > 0
    }

    /// How many blocks a bounded list that ran dry asks for, and for how many it has room.
    fn bounded_refill(&self, lists: &mut CpuLists<'_>, list: List) -> (u32, u32) {
        let order = list.order();
        let batch = self.sizes().batch;
        let capacity = lists.capacity(list);
        let limit = lists.limit(list);
        let tune = &mut lists.tune().lists[list.index()];
        if core::mem::take(&mut tune.overflowed) {
            // Too short: it had to give back blocks that it now asks for.
            lists.set_limit(list, limit.saturating_mul(2).min(self.most_blocks(lists, list)));
        } else {
            tune.doublings = (tune.doublings + 1).min(MOST_DOUBLINGS);
        }
        if order > COSTLY_ORDER {
            return (1, 1);
        }
        let doublings = lists.tune().lists[list.index()].doublings;
        let eighth = (batch / 8).max(1);
        let plenty = self.zone.free_frames() > self.zone.watermarks().high;
        let frames = if plenty { eighth << doublings } else { (eighth << doublings).min(batch + 1) };
        // At least half of the list stays empty, so that the frees that follow find room: unless none follow.
        let room = if plenty && doublings == MOST_DOUBLINGS { capacity } else { capacity.div_ceil(2) };
        let room = room.max(1);
        (self.config.refill.blocks(frames, order).min(room), room)
    }

    /// To how many blocks the limit of a list may rise: to all that it has room for, or a batch of a zone that is wanted
    /// for large blocks.
    fn most_blocks(&self, lists: &CpuLists<'_>, list: List) -> u32 {
        let batch = (self.sizes().batch + 1) >> list.order().as_u8();
        let capacity = lists.capacity(list);
        if self.wants_large() { batch.max(1).min(capacity) } else { capacity }
    }

    /// A list is at its limit: gives some of it back to the zone, and puts the block on it after all. The block is
    /// marked as listed, and its frame is the caller's.
    #[cold]
    pub(crate) fn make_room(&self, lists: &mut CpuLists<'_>, freed: Freed) {
        let Freed { index, order, migrate_type } = freed;
        let Some(list) = List::of(self.config.set, order, migrate_type) else {
            // Such blocks have no list in this set. The frame is the caller's, as if it had never been marked.
            self.give_listed(order, index);
            return;
        };
        if lists.push(list, index) {
            return;
        }
        let handed = self.push_batch(lists, list);
        if !handed {
            self.give_back_part(lists, list);
        }
        let tune = &mut lists.tune().lists[list.index()];
        tune.overflowed = true;
        tune.doublings = tune.doublings.saturating_sub(1);
        if !lists.push(list, index) {
            self.give_listed(order, index);
        }
    }

    /// Gives a part of a list that is at its limit back to the zone: the blocks above half of it are owed, and paid by
    /// this call and the next ones that find the list full, at most `call_limit` blocks each.
    fn give_back_part(&self, lists: &mut CpuLists<'_>, list: List) {
        let limit = lists.limit(list);
        let excess = lists.len(list).saturating_sub(limit);
        // Half at least stays; or a batch, where nothing has been taken since the last time; unless the limit has come
        // down.
        let taken = lists.popped(list) as u16;
        let tune = &mut lists.tune().lists[list.index()];
        let last = core::mem::replace(&mut tune.popped, taken);
        let batch = (self.sizes().batch + 1) >> list.order().as_u8();
        let stays = if taken == last { batch.min(limit / 2) } else { limit / 2 };
        let some = (limit - stays).max(excess).min(self.config.call_limit).max(1);
        let some = words_first(lists.frames_of(list), self.config.call_limit).unwrap_or(some);
        self.give_back(lists, list, some);
    }

    /// Gives up to `blocks` of a list's blocks, those that have been there longest, back to the zone. Returns how many:
    /// with bounded lists perhaps less, but one at least.
    pub(crate) fn give_back(&self, lists: &mut CpuLists<'_>, list: List, blocks: u32) -> u32 {
        if lists.len(list) == 0 {
            return 0;
        }
        let order = list.order();
        #[expect(unsafe_code, reason = "the list holds the blocks")]
        let given = lists.take_oldest(list, blocks, |oldest| {
            // SAFETY: a block on a list is listed for it, is on no other, and is taken off here.
            let given = unsafe {
                match self.config.tuning {
                    Tuning::Bounded => self.zone.free_some::<P>(order, oldest),
                    _ => BulkGiven { done: oldest.len(), refused: self.zone.free_bulk::<P>(order, oldest) },
                }
            };
            debug_assert_eq!(given.refused, 0, "blocks on a list are marked as listed");
            given.done
        });
        let tune = lists.tune();
        tune.count = tune.count.saturating_sub(given << order.as_u8());
        given
    }

    /// Gives a block to the zone that is marked as listed and has no list.
    pub(crate) fn give_listed(&self, order: Order, index: u32) {
        // SAFETY: a free has marked the block, which the caller of that held, and no list has it.
        #[expect(unsafe_code, reason = "the call that marked the block holds it")]
        unsafe {
            self.zone.free_bulk::<P>(order, &[index]);
        }
    }

    /// Frees where [`free_fast`](Self::free_fast) would not: answers signals, keeps the accounts, names a wrong free,
    /// goes to the zone.
    ///
    /// # Errors
    /// [`FreeError`] names the frame's state instead; nothing has changed.
    ///
    /// # Safety
    /// As [`free`](Self::free).
    #[expect(unsafe_code, reason = "the caller's word that it holds the block")]
    #[cold]
    pub unsafe fn free_slow(&self, pfn: Pfn, order: Order) -> Result<(), FreeError> {
        let index = self.index_of(pfn);
        let Some(mut guard) = self.areas.enter() else {
            self.count_busy();
            // SAFETY: the caller's promise is passed on, here and below.
            return unsafe { self.zone.free::<P>(pfn, order) };
        };
        let using = self.attend(guard.lists_mut());
        // SAFETY: the caller's promise is passed on.
        let Some(byte) = unsafe { self.zone.state_table() }.byte_at(index) else {
            drop(guard);
            // SAFETY: as above.
            return unsafe { self.zone.free::<P>(pfn, order) };
        };
        let state = StateByte::from_raw(byte.load(Ordering::Relaxed));
        let typed = state.migrate_type().filter(|&t| state == StateByte::allocated(order, t) && using == Use::Full);
        let Some((migrate_type, list)) = typed.and_then(|t| Some((t, List::of(self.config.set, order, t)?))) else {
            drop(guard);
            // SAFETY: as above.
            return unsafe { self.zone.free::<P>(pfn, order) };
        };
        let freed = Freed { index: index as u32, order, migrate_type };
        if !claim::<P>(byte, state) {
            return Err(self.zone.wrong_free(freed.index));
        }
        if self.config.tuning == Tuning::Bounded {
            self.make_room(guard.lists_mut(), freed);
        } else {
            self.accounted_free(guard.lists_mut(), list, freed.index);
        }
        Ok(())
    }

    /// Answers signals that have been carried out; frames that have been opened meanwhile become visible.
    pub(crate) fn answer(&self, lists: &CpuLists<'_>, done: Signals) -> Signals {
        lists.answer(done, self.zone.opened_frames::<P>())
    }

    /// Answers the other CPUs' requests, as far as one call may go, and says which operations the lists serve now.
    fn attend(&self, lists: &mut CpuLists<'_>) -> Use {
        let seen = self.answer(lists, Signals::RESIZE);
        if seen.has(Signals::RESIZE) {
            self.apply_sizes(lists);
        }
        if seen.has(Signals::DRAIN) {
            if self.drain_some(lists, self.config.call_limit) {
                self.answer(lists, Signals::DRAIN);
            }
            return Use::Not;
        }
        if seen.has(Signals::ISOLATE) { Use::TakeOnly } else { Use::Full }
    }

    /// Gives back up to `blocks` blocks of this CPU's lists and of the depot. True if all are empty then.
    pub(crate) fn drain_some(&self, lists: &mut CpuLists<'_>, blocks: u32) -> bool {
        let mut left = blocks;
        for list in List::all(self.config.set) {
            loop {
                left -= self.give_back(lists, list, left);
                if lists.len(list) > 0 {
                    return false;
                }
                if self.depot.depth(list) == 0 || self.pop_batch(lists, list) == 0 {
                    break;
                }
            }
        }
        true
    }

    /// Sets the limits of the lists to the values that sizes and reclaim ask for.
    pub(crate) fn apply_sizes(&self, lists: &mut CpuLists<'_>) {
        let sizes = self.sizes();
        lists.tune().high = sizes.high;
        if self.config.tuning != Tuning::Bounded {
            return;
        }
        let reclaiming = self.reclaiming.load(Ordering::Relaxed);
        for list in List::all(self.config.set) {
            let frames = if reclaiming { sizes.batch } else { 3 * (sizes.batch + 1) };
            let least = u32::from(lists.capacity(list) > 0);
            lists.set_limit(list, (frames >> list.order().as_u8()).max(least));
        }
    }
}

/// Where the oldest frames are whole words, perhaps after the rest of another, as after refills that are freed in
/// order: how many that is. A whole word costs the zone no more than a few frames do.
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
