//! Kernel objects: slabs that are filled from the allocator, and the shrinkers that empty them.

use pageblock_frame::reclaim::{Actor, Shrunk};
use pageblock_frame::{Gfp, Order, Pfn};
use pageblock_reclaim::Slab;

use super::files::Pruned;
use super::owner::{Holder, Name};
use super::slab::Object;
use super::{FileId, Kind, Machine, costs};

/// Looks until an unused file is forgotten.
const LOOKS: u32 = 4;
/// Objects that a shrinker looks at in one go.
pub(super) const BATCH: u64 = 128;

/// How many objects a shrinker looks at in a round of reclaim, and what becomes of shares that are too small.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Shrinking {
    /// By the part of the pages that was looked at; small shares add up (before 4.8).
    ByScan,
    /// By the priority of the round; small shares add up.
    ByPriority,
    /// The same, but of what has added up only the priority's part counts, so that nothing is looked at as long as
    /// reclaim finds pages easily (since 5.13).
    Proportional,
}

/// Objects that a shrinker has yet to look at (`nr_deferred`).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Deferred(u64);

impl Deferred {
    /// Objects to look at now, of so many that could be freed.
    pub(super) fn take(&mut self, shrinking: Shrinking, slab: &Slab, freeable: u64) -> u64 {
        let share = match shrinking {
            Shrinking::ByScan => slab.share_3_13(freeable),
            Shrinking::ByPriority | Shrinking::Proportional => slab.share(freeable),
        };
        let counted = match shrinking {
            Shrinking::ByScan | Shrinking::ByPriority => self.0,
            Shrinking::Proportional => self.0 >> slab.priority,
        };
        let wanted = (counted + share).min(freeable * 2);
        let looks = if wanted < BATCH { 0 } else { wanted };
        self.0 = (self.0 + share).saturating_sub(looks).min(freeable * 2);
        looks
    }
}

impl Machine {
    /// Allocates an object; `None` if memory is out.
    pub(crate) fn object(&self, kind: Kind) -> Option<Object> {
        self.compute(costs::SLAB_OBJECT);
        loop {
            let taken = self.slabs.borrow_mut().take(kind);
            if taken.is_some() {
                return taken;
            }
            let (pfn, order) = self.new_slab(kind)?;
            self.slabs.borrow_mut().add(kind, pfn, order);
        }
    }

    /// A slab of the kind's order, or of one frame if that cannot be had easily (SLUB's `allocate_slab()`).
    fn new_slab(&self, kind: Kind) -> Option<(Pfn, Order)> {
        let (gfp, holder): (Gfp, fn(Order) -> Holder) = match kind {
            _ if kind.is_reclaimable() => (Gfp::NOFS | Gfp::RECLAIMABLE, |order| Holder::Slab { order }),
            Kind::LogVector | Kind::Bio | Kind::BioVec => (Gfp::NOFS, |order| Holder::Kernel { order }),
            _ => (Gfp::KERNEL, |order| Holder::Kernel { order }),
        };
        let order = kind.order(self.cpus);
        if order > Order::ZERO {
            // Without waiting: the large slab is a wish.
            let easy = (gfp | Gfp::NOWARN | Gfp::NORETRY) - Gfp::DIRECT_RECLAIM;
            if let Ok(pfn) = self.memory.take(holder(order), easy) {
                return Some((pfn, order));
            }
        }
        let pfn = self.memory.take(holder(Order::ZERO), gfp);
        if pfn.is_err() {
            self.tally.borrow_mut().out_of_memory += 1;
        }
        Some((pfn.ok()?, Order::ZERO))
    }

    /// Frees objects.
    pub(crate) fn release(&self, objects: impl IntoIterator<Item = Object>) -> u64 {
        let mut frames = 0;
        for object in objects {
            self.compute(costs::SLAB_OBJECT);
            let emptied = self.slabs.borrow_mut().give(object);
            if let Some((pfn, order)) = emptied {
                self.memory.free(pfn);
                frames += order.frames();
            }
        }
        frames
    }

    /// Allocates a block for the kernel, for good.
    pub(crate) fn kernel_block(&self, order: Order, gfp: Gfp) -> Option<Pfn> {
        self.memory.take(Holder::Kernel { order }, gfp).ok()
    }

    /// Objects of a kind, and the frames of their slabs.
    pub(crate) fn slab_usage(&self, kind: Kind) -> (u64, u64) {
        self.slabs.borrow().usage(kind)
    }

    /// Looks at as many dentries and inodes as is fair for the pages looked at on the LRU lists (`shrink_slab()`).
    pub(super) fn shrink_objects(&self, slab: &Slab) -> Shrunk {
        // Frames of buffers are not counted as those of slabs are.
        self.shrink_buffers(slab);
        // Of each node's lists the same share; the objects of different nodes are not kept apart.
        let known = self.files.borrow().known() / self.nodes();
        let mut deferred = self.deferred.get();
        let scanned = deferred.take(self.shrinking, slab, known);
        self.deferred.set(deferred);
        Shrunk { scanned, freed: self.prune(scanned, slab.actor) }
    }

    /// Looks at so many files, and forgets those that were not used since the last look, with the pages that they still
    /// have.
    fn prune(&self, count: u64, actor: Actor) -> u64 {
        let mut frames = 0;
        for _ in 0..count {
            let next = self.files.borrow_mut().prune();
            self.compute(costs::SHRINK_OBJECT);
            self.tally.borrow_mut().slabs_scanned += 1;
            match next {
                None => break,
                Some(Pruned::Kept) => {}
                Some(Pruned::Dentry(dentry)) => frames += self.release([dentry]),
                Some(Pruned::Inode(file, objects)) => {
                    if !self.drop_clean(file, actor) {
                        // Dirty pages keep their inode (it is on the list of those to be written).
                        self.files.borrow_mut().know(file, objects);
                        continue;
                    }
                    frames += self.release(objects);
                    self.forget_changes(file);
                }
            }
        }
        frames
    }

    /// True for a page of a file that is mapped for good.
    pub(super) fn is_mapped(&self, pfn: Pfn) -> bool {
        matches!(self.memory.holder(pfn), Holder::File { file, .. } if self.files.borrow().is_kept(FileId(file)))
    }

    /// Drops the clean pages of a file; false if there remain others.
    fn drop_clean(&self, file: FileId, actor: Actor) -> bool {
        let mut all = true;
        for (_, pfn) in self.memory.pages_of(Name::of_file(file.0)) {
            if self.memory.is_clean_and_idle(pfn) {
                self.memory.free(pfn);
                self.tally.borrow_mut().inode_steals[usize::from(actor == Actor::Direct)] += 1;
            } else {
                all = false;
            }
        }
        all
    }

    /// Writes 3 to `/proc/sys/vm/drop_caches`: forgets all clean pages of files, and all objects that can be had again.
    pub(crate) fn drop_caches(&self) {
        let held: Vec<Pfn> = self
            .memory
            .held()
            .filter(|(_, holder)| matches!(holder, Holder::File { .. }))
            .map(|(pfn, _)| pfn)
            .collect();
        for pfn in held {
            if self.memory.is_clean_and_idle(pfn) && !self.is_mapped(pfn) {
                self.memory.free(pfn);
            }
        }
        let known = self.files.borrow().known();
        self.prune(known * u64::from(LOOKS), Actor::Direct);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::{Setup, Stream, Time};
    use pageblock_frame::NodeId;
    use std::rc::Rc;

    /// A machine that knows so many files of two pages, all read.
    fn machine(files: u32) -> (Rc<Machine>, Vec<FileId>) {
        machine_of(&Setup::small(), files)
    }

    fn machine_of(setup: &Setup, files: u32) -> (Rc<Machine>, Vec<FileId>) {
        let machine = Machine::boot(setup).unwrap();
        let files: Vec<_> = (0..files).map(|_| machine.create_file(2)).collect();
        for file in &files {
            machine.open(*file);
            machine.read(*file, 0, 2, &mut Stream::default());
        }
        machine.run_until(Time::new(100 * costs::SECOND));
        (machine, files)
    }

    fn known(machine: &Machine) -> u64 {
        machine.slab_usage(Kind::Inode).0
    }

    /// A share of one object is never looked at since 5.13, however often: what has added up counts by the priority.
    #[test]
    fn shares_that_are_too_small_add_up_or_count_by_the_priority() {
        let slab = |priority| Slab {
            node: NodeId::new(0),
            actor: Actor::Kswapd,
            gfp: Gfp::KERNEL,
            priority,
            scanned: 32,
            eligible: 1 << 17,
        };
        let looks = |shrinking, priority| {
            let mut deferred = Deferred::default();
            (0..1000).map(|_| deferred.take(shrinking, &slab(priority), 36_500)).sum::<u64>()
        };
        assert_eq!(looks(Shrinking::Proportional, 12), 0);
        assert_eq!(looks(Shrinking::ByPriority, 12), 16_000, "128 at each eighth time");
        assert_eq!(looks(Shrinking::ByScan, 12), 17_000);
        assert!(looks(Shrinking::Proportional, 9) > 36_500, "where pages are hard to find");
    }

    #[test]
    fn shares_that_are_too_small_add_up() {
        let setup = Setup { shrinking: Shrinking::ByPriority, ..Setup::small() };
        let machine = machine_of(&setup, 100).0;
        let slab = Slab {
            node: NodeId::new(0),
            actor: Actor::Kswapd,
            gfp: Gfp::KERNEL,
            priority: 2,
            scanned: 32,
            eligible: 200,
        };
        // 100 files, a quarter, twice: 50 a call, and 128 are a batch.
        let scanned = [(); 4].map(|()| machine.shrink_objects(&slab).scanned);
        assert_eq!(scanned, [0, 0, 150, 0]);
        assert_eq!(machine.tally().slabs_scanned, 150);
    }

    #[test]
    fn a_file_that_is_forgotten_takes_its_clean_pages_with_it() {
        let (machine, files) = machine(10);
        machine.write(files[0], 1, 1);
        assert_eq!((known(&machine), machine.slab_usage(Kind::Dentry).0), (10, 10));
        machine.prune(2 * 10, Actor::Kswapd);
        assert_eq!((known(&machine), machine.slab_usage(Kind::Dentry).0), (10, 0), "names go first");
        machine.prune(2 * 10, Actor::Kswapd);
        assert_eq!(known(&machine), 1, "dirty pages keep their inode");
        assert_eq!([machine.cached(files[0]), machine.cached(files[9])], [1, 0]);
        assert_eq!(machine.tally().inode_steals, [19, 0]);
        machine.memory().check().unwrap();
    }

    #[test]
    fn emptied_slabs_give_their_frames_back() {
        let (machine, _) = machine(0);
        let before = machine.memory().allocator().stats().free;
        let objects: Vec<_> = (0..500).map(|_| machine.object(Kind::Dentry).unwrap()).collect();
        let (count, frames) = machine.slab_usage(Kind::Dentry);
        assert_eq!((count, before - machine.memory().allocator().stats().free), (500, frames));
        // Four slabs stay, empty: the fifth of five is given back.
        assert_eq!(machine.release(objects), frames - 4);
        assert_eq!(machine.memory().allocator().stats().free, before - 4);
    }
}
