//! The log of XFS. A changed inode is copied into a buffer of its own (`xfs_log_vec`), once for all changes between
//! two checkpoints. A checkpoint writes these buffers to the log and frees them.
//!
//! Each change allocates a buffer first, if the inode has no spare one. If the inode is in the checkpoint already, its
//! buffer there is written over, and the spare one is kept for the next checkpoint (`li_lv_shadow`). So an inode that
//! is changed again and again takes a buffer for each checkpoint: neither movable nor reclaimable, and gone soon. Such
//! slabs make pageblocks of the unmovable type, and leave them half empty.

use std::collections::{HashMap, HashSet, VecDeque};

use super::slab::Object;
use super::{FileId, Kind, Machine, Time, costs};

/// Bytes of an inode in the log: format 56, core 176, one extent 16, and a header of 12 for each of the three.
const ITEM: u64 = 56 + 176 + 16 + 3 * 12;
/// Size of the log, as `mkfs.xfs` makes it for small disks.
const LOG: u64 = 64 << 20;
/// A checkpoint begins when so many bytes wait for it (`XLOG_CIL_SPACE_LIMIT`: an eighth of the log).
const LIMIT: u64 = LOG / 8;

/// Changes that wait for a checkpoint, and checkpoints on their way to the disk.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `logged`, `vectors` | inodes changed since `began`, and their buffers | `log_change` adds, a checkpoint takes all |
/// | `spare` | buffers that no checkpoint has, by inode; a few may be of inodes that are forgotten | `log_change` |
/// | `closing` | checkpoints being written, with the times when they are; the oldest first | `end_checkpoints` |
#[derive(Debug)]
pub(super) struct Log {
    period: u64,
    began: Time,
    logged: HashSet<FileId>,
    vectors: Vec<Object>,
    spare: HashMap<FileId, Object>,
    closing: VecDeque<(Time, Vec<Object>)>,
}

impl Log {
    /// An empty one, written every so many nanoseconds.
    pub(super) fn new(period: u64) -> Self {
        let (logged, vectors, spare, closing) = Default::default();
        Self { period, began: Time::START, logged, vectors, spare, closing }
    }

    fn bytes(&self) -> u64 {
        self.logged.len() as u64 * ITEM
    }

    fn is_due(&self, now: Time) -> bool {
        self.bytes() >= LIMIT || now >= self.began.after(self.period)
    }

    /// The inode is in the next checkpoint, with its spare buffer unless it was before.
    fn join(&mut self, file: FileId) {
        if self.logged.insert(file) {
            let vector = self.spare.remove(&file);
            self.vectors.extend(vector);
        }
    }

    /// Begins to write what waits.
    fn close(&mut self, now: Time) {
        let written = now.after(self.bytes() * costs::DISK_PAGE / pageblock_frame::PAGE_SIZE);
        self.began = now;
        self.logged.clear();
        let vectors = std::mem::take(&mut self.vectors);
        if !vectors.is_empty() {
            self.closing.push_back((written, vectors));
        }
    }

    /// Buffers of a checkpoint that has been written.
    fn written(&mut self, now: Time) -> Option<Vec<Object>> {
        let (done, _) = self.closing.front()?;
        if *done > now {
            return None;
        }
        self.closing.pop_front().map(|(_, vectors)| vectors)
    }
}

impl Machine {
    /// An inode is changed.
    pub(super) fn log_change(&self, file: FileId) {
        self.end_checkpoints();
        if !self.log.borrow().spare.contains_key(&file) {
            let vector = self.object(Kind::LogVector);
            // Another actor may have brought one while reclaim ran.
            let before = vector.and_then(|vector| self.log.borrow_mut().spare.insert(file, vector));
            self.release(before);
        }
        self.log.borrow_mut().join(file);
    }

    /// The inode is gone.
    pub(super) fn forget_changes(&self, file: FileId) {
        let spare = self.log.borrow_mut().spare.remove(&file);
        self.release(spare);
    }

    /// Begins the checkpoint that is due, and frees the buffers of those that are over.
    pub(super) fn end_checkpoints(&self) {
        let now = self.now();
        if self.log.borrow().is_due(now) {
            self.log.borrow_mut().close(now);
        }
        loop {
            let written = self.log.borrow_mut().written(now);
            let Some(vectors) = written else { return };
            self.release(vectors);
        }
    }

    /// Begins a checkpoint at once.
    pub(super) fn force_log(&self) {
        self.log.borrow_mut().close(self.now());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Setup, costs::SECOND};

    #[test]
    fn an_inode_has_a_buffer_for_each_checkpoint_that_it_is_in() {
        let machine = Machine::boot(&Setup { is_xfs: true, ..Setup::small() }).unwrap();
        let files = [(); 100].map(|()| machine.create_file(2));
        let vectors = |machine: &Machine| machine.slab_usage(Kind::LogVector).0;
        files.iter().for_each(|file| _ = machine.open(*file));
        let write = |page| files.iter().for_each(|file| _ = machine.write(*file, page, 1));
        write(0);
        assert_eq!(vectors(&machine), 100);
        write(0);
        assert_eq!(vectors(&machine), 200, "and a spare one");
        write(0);
        assert_eq!(vectors(&machine), 200, "for all further changes");
        machine.start_sync();
        machine.run_until(Time::new(10 * SECOND));
        assert_eq!(vectors(&machine), 100, "what was in the checkpoint is written");
        // That the pages were written is a change, which took the spare one.
        machine.run_until(Time::new(40 * SECOND));
        assert_eq!(vectors(&machine), 0, "the log is written now and then");
        write(1);
        files.iter().for_each(|file| machine.delete_file(*file));
        machine.start_sync();
        machine.run_until(Time::new(50 * SECOND));
        assert_eq!(vectors(&machine), 0);
        machine.memory().check().unwrap();
    }

    #[test]
    fn a_full_log_does_not_wait() {
        let mut log = Log::new(u64::MAX / 2);
        for file in 0..(LIMIT / ITEM) as u32 {
            log.logged.insert(FileId(file));
            assert!(!log.is_due(Time::new(SECOND)));
        }
        log.logged.insert(FileId(u32::MAX));
        assert!(log.is_due(Time::new(SECOND)));
        log.close(Time::new(SECOND));
        assert!(!log.is_due(Time::new(2 * SECOND)) && log.closing.is_empty());
    }
}
