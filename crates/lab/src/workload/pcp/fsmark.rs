//! fsmark with empty files: every file is an inode, a name and a few buffers of the directory, and none is deleted.
//!
//! It allocates only. Nothing comes back that a list could keep, so lists have nothing to give.

use pageblock::MigrateType;

use super::frames::Frames;
use super::slab::Slab;

/// Threads, each on a CPU of its own.
pub(super) const THREADS: [u32; 3] = [1, 2, 4];
/// Sizes of an inode, a directory entry and a buffer head; and files that share a block of the directory.
const INODE: u32 = 1080;
const DENTRY: u32 = 192;
const BUFFER: u32 = 104;
const PER_BLOCK: u64 = 100;
/// Files that a thread makes before the next gets on.
const QUANTUM: u64 = 50;

/// One run.
#[derive(Clone, Copy, Debug)]
pub(super) struct FsMark {
    pub(super) threads: u32,
    pub(super) files: u64,
    pub(super) cpus: u32,
}

impl FsMark {
    /// Does it. Returns how many frames are held in the end: all.
    pub(super) fn run<F: Frames>(self, frames: &mut F) -> u64 {
        let slab = |size| Slab::new(size, self.cpus, MigrateType::Reclaimable);
        let (mut inodes, mut dentries, mut buffers) = (slab(INODE), slab(DENTRY), slab(BUFFER));
        let mut blocks = 0;
        for file in 0..self.files {
            let cpu = (file / QUANTUM) as u32 % self.threads.min(self.cpus);
            inodes.alloc(frames, cpu);
            dentries.alloc(frames, cpu);
            if file % PER_BLOCK == 0 {
                frames.take(cpu, 0, MigrateType::Movable);
                blocks += 1;
                buffers.alloc(frames, cpu);
            }
        }
        inodes.held() + dentries.held() + buffers.held() + blocks
    }
}
