//! Buffers that XFS keeps in memory besides dentries, inodes and the pages of files: neither movable nor counted as
//! reclaimable.
//!
//! An inode that was changed has a log item (`xfs_ili`) until it is forgotten. Inodes are read and written through
//! buffers of a cluster of 32 (16 KiB at 512 bytes an inode, as `mkfs.xfs` makes them since 2014): four frames asked
//! for one by one, and kept until a shrinker takes them. So pageblocks of the unmovable type fill with frames whose
//! ends are far apart, and their free frames are crumbs.

use std::collections::{HashMap, VecDeque};

use pageblock_frame::{Gfp, Order, PAGE_SIZE, Pfn};
use pageblock_reclaim::Slab;

use super::disk::{Sector, Transfer};
use super::objects::Deferred;
use super::{FileId, Kind, Machine, Time};

/// Inodes of a cluster. Those of files that were created one after the other.
const CLUSTER: u32 = 32;
/// Frames of its buffer: 512 bytes an inode.
const FRAMES: usize = (CLUSTER as u64 * 512 / PAGE_SIZE) as usize;
/// Looks of the shrinker that a buffer of inodes survives since its last use (`XFS_INO_REF`).
const LOOKS: u8 = 2;
/// Where clusters lie on the disk, in pages: far from all files and from swap.
const SECTORS: u64 = 1 << 33;
/// Flags of a buffer's frames: inside a transaction nothing of the file system may be waited for.
const BUFFER: Gfp = Gfp::NOFS;

/// Buffers of inode clusters.
///
/// | field | legal values | who may change it |
/// |---|---|---|
/// | `buffers` | by cluster its frames, up to `FRAMES`, and how many looks it survives | `use_buffer`, `shrink_buffers` |
/// | `queue` | each of them once, the one that was looked at longest ago first | the same |
/// | `created` | clusters from here on have never been on the disk | `use_buffer` |
/// | `deferred` | looks that are too few for a batch yet | `shrink_buffers` |
#[derive(Debug, Default)]
pub(super) struct Buffers {
    buffers: HashMap<u32, (Vec<Pfn>, u8)>,
    queue: VecDeque<u32>,
    created: u32,
    deferred: Deferred,
}

impl Buffers {
    /// Looks at the next one: its frames, if it goes.
    fn look(&mut self) -> Vec<Pfn> {
        let Some(cluster) = self.queue.pop_front() else { return Vec::new() };
        match self.buffers.get_mut(&cluster) {
            Some((_, looks)) if *looks > 0 => {
                *looks -= 1;
                self.queue.push_back(cluster);
                Vec::new()
            }
            _ => self.buffers.remove(&cluster).map_or(Vec::new(), |(frames, _)| frames),
        }
    }
}

impl Machine {
    /// An inode comes into memory, new or from the disk: through the buffer of its cluster. If that has to be read, the
    /// time when it is there.
    pub(super) fn use_buffer(&self, file: FileId) -> Option<Time> {
        if !self.is_xfs {
            return None;
        }
        let cluster = file.0 / CLUSTER;
        let is_new = {
            let mut all = self.buffers.borrow_mut();
            if let Some((_, looks)) = all.buffers.get_mut(&cluster) {
                *looks = LOOKS;
                return None;
            }
            let is_new = cluster >= all.created;
            all.created = all.created.max(cluster + 1);
            is_new
        };
        let frames: Vec<Pfn> = (0..FRAMES).filter_map(|_| self.kernel_block(Order::ZERO, BUFFER)).collect();
        let mut all = self.buffers.borrow_mut();
        // Another actor may have brought it while reclaim ran.
        let unwanted = match all.buffers.insert(cluster, (frames, LOOKS)) {
            Some((before, _)) => before,
            None => {
                all.queue.push_back(cluster);
                Vec::new()
            }
        };
        drop(all);
        unwanted.into_iter().for_each(|pfn| _ = self.memory.free(pfn));
        if is_new {
            return None;
        }
        let at = Sector(SECTORS + u64::from(cluster) * FRAMES as u64);
        Some(self.ask_disk(Transfer::Read, (at, FRAMES as u64), Vec::new()))
    }

    /// An inode is changed: it has a log item from now on, and is in the log that is written next.
    pub(super) fn log_inode(&self, file: FileId) {
        if !self.is_xfs || !self.files.borrow().is_known(file) {
            return;
        }
        self.attach(file, Kind::LogItem);
        self.log_change(file);
    }

    /// An object that goes with the inode of a known file, unless it has one.
    pub(super) fn attach(&self, file: FileId, kind: Kind) {
        if !self.files.borrow().lacks(file, kind) {
            return;
        }
        if let Some(object) = self.object(kind) {
            let unwanted = self.files.borrow_mut().attach(file, object);
            self.release(unwanted);
        }
    }

    /// Looks at as many buffers as is fair for the pages looked at on the LRU lists.
    pub(super) fn shrink_buffers(&self, slab: &Slab) {
        let looks = {
            let mut all = self.buffers.borrow_mut();
            let known = all.buffers.len() as u64;
            all.deferred.take(self.shrinking, slab, known / self.nodes())
        };
        for _ in 0..looks {
            self.compute(super::costs::SHRINK_OBJECT);
            let frames = self.buffers.borrow_mut().look();
            frames.into_iter().for_each(|pfn| _ = self.memory.free(pfn));
        }
    }
}

#[cfg(test)]
#[path = "xfs_tests.rs"]
mod tests;
