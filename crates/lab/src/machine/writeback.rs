//! Dirty pages, and the thread that takes them to the disk.

use std::collections::{BTreeMap, VecDeque};

use pageblock_frame::{NodeId, Pfn, ZoneKind};

use super::disk::Transfer;
use super::owner::Name;
use super::slab::Object;
use super::{Actor, FileId, Kind, Machine, Next, Time, costs};

/// A piece of a file on its way to the disk.
#[derive(Debug)]
pub(super) struct Piece {
    file: Option<FileId>,
    /// They describe it to the disk.
    objects: Vec<Object>,
}

/// A zone: its node and its kind.
type Place = (NodeId, ZoneKind);

/// Pages that were written to, in the order in which they were.
///
/// | field | legal values |
/// |---|---|
/// | `queue` | every dirty page once at least; entries of pages that are clean or gone by now are void |
/// | `dirty` | pages marked dirty |
/// | `written_back` | pages on their way to the disk |
/// | `zones` | both, by node and kind of zone |
#[derive(Debug, Default)]
pub(super) struct Dirty {
    queue: VecDeque<(Time, FileId, u32)>,
    dirty: u64,
    written_back: u64,
    zones: BTreeMap<Place, u64>,
    /// Pages that are to be written soon, whatever their age and number.
    hurried: u64,
    sync: bool,
    /// The write-back thread has more than the disk takes at once.
    wants_room: bool,
}

impl Dirty {
    /// A page in this zone became dirty.
    pub(super) fn add(&mut self, now: Time, (file, page): (FileId, u32), zone: Place) {
        self.queue.push_back((now, file, page));
        self.dirty += 1;
        self.enter(zone);
    }

    fn enter(&mut self, zone: Place) {
        *self.zones.entry(zone).or_default() += 1;
    }

    /// A dirty page in this zone is gone.
    pub(super) fn forget(&mut self, zone: Place) {
        self.dirty = self.dirty.saturating_sub(1);
        self.leave(zone);
    }

    fn leave(&mut self, zone: Place) {
        let pages = self.zones.entry(zone).or_default();
        *pages = pages.saturating_sub(1);
    }

    /// Dirty pages of a zone, and pages being written.
    pub(super) fn in_zone(&self, zone: Place) -> u64 {
        self.zones.get(&zone).copied().unwrap_or_default()
    }

    fn wants_writing(&self) -> bool {
        self.sync || self.hurried > 0
    }

    /// The oldest, if it was dirtied before this.
    fn next(&mut self, before: Time) -> Option<(FileId, u32)> {
        let &(time, file, page) = self.queue.front()?;
        if time > before {
            return None;
        }
        self.queue.pop_front();
        self.hurried = self.hurried.saturating_sub(1);
        Some((file, page))
    }
}

impl Machine {
    /// Pages that could be dirty: free ones, and those of files.
    fn dirtyable(&self) -> u64 {
        let free: u64 = self.memory.allocator().zones().map(pageblock::ZoneView::free_frames).sum();
        free + self.memory.counts().file
    }

    /// The kind of zone that a frame is in.
    pub(super) fn zone_of(&self, pfn: Pfn) -> Place {
        let zone = self.memory.allocator().zone_of(pfn);
        zone.map_or((NodeId::default(), ZoneKind::Normal), |zone| (zone.node(), zone.kind()))
    }

    /// Dirty pages, and pages being written.
    pub(crate) fn dirty_pages(&self) -> (u64, u64) {
        let dirty = self.dirty.borrow();
        (dirty.dirty, dirty.written_back)
    }

    /// Wakes the write-back thread where there is enough to do; the time until which a writer must wait if there is too
    /// much (`balance_dirty_pages()`).
    pub(super) fn balance_dirty(&self) -> Option<Time> {
        let (dirty, written_back) = self.dirty_pages();
        let all = self.dirtyable();
        let background = all * costs::DIRTY_BACKGROUND / 100;
        if dirty > background {
            self.wake_flusher();
        }
        let limit = all * costs::DIRTY_SETPOINT / 1000;
        if dirty + written_back <= limit {
            return None;
        }
        // As long as the disk takes to bring it back to the limit.
        let excess = (dirty + written_back - limit) * costs::DISK_PAGE;
        let until = self.now().after(excess.clamp(costs::TICK, costs::WRITER_PAUSE));
        self.hold_back(until);
        Some(until)
    }

    /// Hands the oldest dirty pages to the disk, as far as they were dirtied before a time; says when they are written.
    fn write_some(&self, before: Time) -> Option<Time> {
        let most = costs::WRITEBACK_CHUNK.min(self.disk_room());
        let mut batch: Vec<(u64, Pfn)> = Vec::with_capacity(most);
        while batch.len() < most {
            let Some((file, index)) = self.dirty.borrow_mut().next(before) else { break };
            // With it go the dirty pages of the file that follow.
            for index in index.. {
                let Some(pfn) = self.memory.find(Name::File { file: file.0, index }) else { break };
                if batch.len() == most || !self.start_writing(pfn) {
                    break;
                }
                batch.push((self.files.borrow().sector(file, index).0, pfn));
            }
        }
        self.submit(batch)
    }

    /// Marks a page as being written, if it is dirty.
    pub(super) fn start_writing(&self, pfn: Pfn) -> bool {
        if !self.memory.begin_writeback(pfn) {
            return false;
        }
        let mut dirty = self.dirty.borrow_mut();
        dirty.dirty = dirty.dirty.saturating_sub(1);
        dirty.written_back += 1;
        true
    }

    /// The same for an anonymous page, which is not counted among the dirty ones of files.
    pub(super) fn start_swapping(&self, pfn: Pfn) -> bool {
        let begun = self.memory.begin_writeback(pfn);
        if begun {
            let mut dirty = self.dirty.borrow_mut();
            dirty.written_back += 1;
            dirty.enter(self.zone_of(pfn));
        }
        begun
    }

    /// Reclaim met nothing but dirty pages: the write-back thread writes, whatever their number
    /// (`wakeup_flusher_threads()`).
    pub(super) fn hurry_flusher(&self) {
        let mut dirty = self.dirty.borrow_mut();
        dirty.hurried = dirty.dirty;
        drop(dirty);
        self.wake_flusher();
    }

    /// Queues pages that are marked at the disk, neighbours together; says when the last is written.
    pub(super) fn submit(&self, mut batch: Vec<(u64, Pfn)>) -> Option<Time> {
        batch.sort_unstable();
        let mut done = None;
        for run in batch.chunk_by(|a, b| a.0 + 1 == b.0) {
            let Some((sector, first)) = run.first() else { continue };
            self.describe(*first);
            let place = (super::disk::Sector(*sector), run.len() as u64);
            done = Some(self.ask_disk(Transfer::Write, place, run.iter().map(|(_, pfn)| *pfn).collect()));
        }
        done
    }

    /// Requests for which the disk has room. Only pieces of files are counted, each of which is a request.
    fn disk_room(&self) -> usize {
        costs::DISK_REQUESTS.saturating_sub(self.pieces.borrow().len())
    }

    /// A piece of a file is about to go to the disk: the objects that describe it, until it is there.
    fn describe(&self, first: Pfn) {
        if self.is_xfs {
            let objects = [Kind::Bio, Kind::BioVec].into_iter().filter_map(|kind| self.object(kind)).collect();
            let file = match self.memory.holder(first).name() {
                Some(Name::File { file, .. }) => Some(FileId(file)),
                _ => None,
            };
            let before = self.pieces.borrow_mut().insert(first, Piece { file, objects });
            self.release(before.into_iter().flat_map(|piece| piece.objects));
        }
    }

    /// It is there: a file that has grown has another size now.
    fn written(&self, piece: Piece) {
        self.release(piece.objects);
        if let Some(file) = piece.file {
            self.log_inode(file);
        }
    }

    pub(super) fn finish_writing(&self, pages: &[Pfn]) {
        for pfn in pages {
            self.memory.end_writeback(*pfn);
        }
        let mut dirty = self.dirty.borrow_mut();
        pages.iter().for_each(|pfn| dirty.leave(self.zone_of(*pfn)));
        dirty.written_back = dirty.written_back.saturating_sub(pages.len() as u64);
        if dirty.dirty + dirty.written_back == 0 {
            dirty.sync = false;
        }
        drop(dirty);
        for pfn in pages {
            let piece = self.pieces.borrow_mut().remove(pfn);
            piece.into_iter().for_each(|piece| self.written(piece));
        }
        if self.is_xfs && self.disk_room() >= costs::DISK_BATCH && self.dirty.borrow().wants_room {
            self.wake_flusher();
        }
    }

    /// Asks for everything dirty to be written; [`is_synced`](Self::is_synced) says when it is.
    pub(crate) fn start_sync(&self) {
        self.dirty.borrow_mut().sync = true;
        self.force_log();
        self.wake_flusher();
    }

    /// True if nothing is dirty.
    pub(crate) fn is_synced(&self) -> bool {
        self.dirty_pages() == (0, 0)
    }
}

/// The write-back thread: writes old pages, and the oldest of those above the limit.
#[derive(Debug, Default)]
pub(super) struct Flusher;

impl Actor for Flusher {
    fn step(&mut self, machine: &Machine) -> Next {
        machine.end_holds();
        machine.end_checkpoints();
        let now = machine.now();
        let (dirty, _) = machine.dirty_pages();
        let much =
            dirty > machine.dirtyable() * costs::DIRTY_BACKGROUND / 100 || machine.dirty.borrow().wants_writing();
        machine.dirty.borrow_mut().wants_room = much && machine.disk_room() <= costs::WRITEBACK_CHUNK;
        let before = if much { now } else { Time::new(now.nanoseconds().saturating_sub(machine.dirty_expire)) };
        match machine.write_some(before) {
            Some(done) => Next::Sleep(done),
            None => Next::Sleep(now.after(costs::WRITEBACK_INTERVAL.min(machine.dirty_expire / 6))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Setup, costs::SECOND};
    use std::rc::Rc;

    fn machine() -> Rc<Machine> {
        Machine::boot(&Setup::small()).unwrap()
    }

    #[test]
    fn what_is_dirty_is_written_when_it_is_old() {
        let machine = machine();
        let file = machine.create_file(100);
        assert_eq!(machine.write(file, 0, 100), None, "a few need not wait");
        machine.write(file, 0, 50);
        assert_eq!(machine.dirty_pages(), (100, 0), "each once");
        machine.run_until(Time::new(costs::DIRTY_EXPIRE - SECOND));
        assert_eq!((machine.dirty_pages(), machine.transferred()), ((100, 0), (0, 0)));
        machine.run_until(Time::new(costs::DIRTY_EXPIRE + 2 * costs::WRITEBACK_INTERVAL));
        assert_eq!((machine.is_synced(), machine.transferred()), (true, (0, 100)));
        assert_eq!(machine.cached(file), 100);
        machine.memory().check().unwrap();
    }

    #[test]
    fn who_asks_does_not_wait_for_age() {
        let machine = machine();
        let file = machine.create_file(100);
        machine.run_until(Time::new(SECOND));
        machine.write(file, 0, 100);
        machine.start_sync();
        machine.run_until(Time::new(2 * SECOND));
        assert_eq!((machine.is_synced(), machine.transferred().1), (true, 100));
        machine.write(file, 7, 1);
        machine.run_until(Time::new(3 * SECOND));
        assert_eq!(machine.dirty_pages(), (1, 0), "what was written to after it waits again");
    }

    #[test]
    fn a_tenth_is_written_and_whoever_writes_more_is_held() {
        let machine = machine();
        let all = machine.dirtyable();
        let file = machine.create_file(all as u32);
        let mut page = 0;
        let held = loop {
            if let Some(until) = machine.write(file, page, 1) {
                break until;
            }
            page += 1;
        };
        let (dirty, written_back) = machine.dirty_pages();
        assert_eq!(dirty + written_back, machine.dirtyable() * costs::DIRTY_SETPOINT / 1000 + 1);
        let pause = held.since(machine.now());
        assert!((costs::TICK..=costs::WRITER_PAUSE).contains(&pause), "{pause}");
        machine.run_until(Time::new(10 * SECOND));
        let (dirty, written_back) = machine.dirty_pages();
        let background = machine.dirtyable() * costs::DIRTY_BACKGROUND / 100;
        assert!(dirty <= background && written_back == 0, "{dirty} of {background}");
        assert!(dirty > 0, "only what is too much, young as it is");
        machine.delete_file(file);
        assert!(machine.is_synced(), "dirty pages end with their file");
    }

    #[test]
    fn zones_have_their_own_counts() {
        let mut dirty = Dirty::default();
        let [low, high] = [ZoneKind::Dma32, ZoneKind::Normal].map(|kind| (NodeId::new(0), kind));
        dirty.add(Time::default(), (FileId(1), 0), low);
        dirty.add(Time::new(5), (FileId(1), 1), high);
        dirty.forget(low);
        dirty.forget(low);
        assert_eq!([dirty.in_zone(low), dirty.in_zone(high), dirty.dirty], [0, 1, 0]);
        assert_eq!(dirty.next(Time::new(4)), Some((FileId(1), 0)));
        assert_eq!(dirty.next(Time::new(4)), None, "too young");
    }
}
