//! Slab caches, as far as the page allocator notices them: objects of one size in blocks of an order that follows from
//! it (SLUB without its per-CPU partial lists).

use pageblock::MigrateType;

use super::frames::{Block, Frames};

/// Partial slabs that a cache keeps although they are empty (`min_partial`).
const MIN_PARTIAL: usize = 5;
/// Frame size.
const PAGE: u32 = 4096;

/// A cache.
#[derive(Debug)]
pub(super) struct Slab {
    order: u8,
    objects: u32,
    migrate_type: MigrateType,
    /// Of each CPU, the slab that it allocates from.
    current: Vec<Option<u32>>,
    slabs: Vec<Entry>,
    /// Places in `slabs` that are unused.
    spare: Vec<u32>,
    /// Slabs with free objects that no CPU allocates from, oldest first.
    partial: std::collections::VecDeque<u32>,
}

#[derive(Debug)]
struct Entry {
    block: Option<Block>,
    free: u32,
    /// Neither full nor some CPU's current one.
    partial: bool,
}

/// An object: the slab that it is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Object(u32);

/// The order of a slab: the smallest with 4 × (bits of the number of CPUs + 1) objects, 3 at most.
pub(super) fn slab_order(size: u32, cpus: u32) -> u8 {
    let objects = 4 * (u32::BITS - cpus.leading_zeros() + 1);
    (0..3).find(|order| (PAGE << order) / size >= objects).unwrap_or(3)
}

impl Slab {
    pub(super) fn new(size: u32, cpus: u32, migrate_type: MigrateType) -> Self {
        let order = slab_order(size, cpus);
        Self {
            order,
            objects: (PAGE << order) / size,
            migrate_type,
            current: vec![None; cpus as usize],
            slabs: Vec::new(),
            spare: Vec::new(),
            partial: std::collections::VecDeque::new(),
        }
    }

    /// An object for this CPU: of its slab, of a partial one, of a new one.
    pub(super) fn alloc<F: Frames>(&mut self, frames: &mut F, cpu: u32) -> Object {
        let current = self.current[cpu as usize].filter(|&slab| self.slabs[slab as usize].free > 0);
        let slab = current.or_else(|| self.take_partial()).unwrap_or_else(|| self.grow(frames, cpu));
        self.current[cpu as usize] = Some(slab);
        self.slabs[slab as usize].free -= 1;
        Object(slab)
    }

    fn take_partial(&mut self) -> Option<u32> {
        let slab = self.partial.pop_front()?;
        self.slabs[slab as usize].partial = false;
        Some(slab)
    }

    fn grow<F: Frames>(&mut self, frames: &mut F, cpu: u32) -> u32 {
        let block = Some(frames.take(cpu, self.order, self.migrate_type));
        let entry = Entry { block, free: self.objects, partial: false };
        if let Some(place) = self.spare.pop() {
            self.slabs[place as usize] = entry;
            return place;
        }
        self.slabs.push(entry);
        self.slabs.len() as u32 - 1
    }

    /// Frees an object on whatever CPU. A slab that is empty by that goes back to the page allocator if there are
    /// enough others.
    pub(super) fn free<F: Frames>(&mut self, frames: &mut F, cpu: u32, Object(slab): Object) {
        let entry = &mut self.slabs[slab as usize];
        entry.free += 1;
        if self.current.contains(&Some(slab)) {
            return;
        }
        if !entry.partial {
            entry.partial = true;
            self.partial.push_back(slab);
        }
        if entry.free == self.objects && self.partial.len() > MIN_PARTIAL {
            self.partial.retain(|&other| other != slab);
            self.release(frames, cpu, slab);
        }
    }

    fn release<F: Frames>(&mut self, frames: &mut F, cpu: u32, slab: u32) {
        if let Some(block) = self.slabs[slab as usize].block.take() {
            frames.give(cpu, block);
            self.spare.push(slab);
        }
    }

    /// Frees all slabs that are empty: the cache is destroyed. Returns how many frames it still holds.
    pub(super) fn shrink<F: Frames>(&mut self, frames: &mut F, cpu: u32) -> u64 {
        self.partial.clear();
        self.current.fill(None);
        for slab in 0..self.slabs.len() as u32 {
            self.slabs[slab as usize].partial = false;
            if self.slabs[slab as usize].free == self.objects {
                self.release(frames, cpu, slab);
            }
        }
        self.held()
    }

    /// Frames of its slabs.
    pub(super) fn held(&self) -> u64 {
        (self.slabs.iter().filter(|entry| entry.block.is_some()).count() as u64) << self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::pcp::frames::Nothing;

    #[test]
    fn orders_follow_from_sizes() {
        assert_eq!([64, 256, 512, 1024, 2048, 4096, 8192].map(|size| slab_order(size, 4)), [0, 0, 1, 2, 3, 3, 3]);
    }

    #[test]
    fn slabs_are_filled_emptied_and_given_back() {
        let mut frames = Nothing::default();
        let mut slab = Slab::new(512, 4, MigrateType::Unmovable);
        let objects: Vec<_> = (0..160).map(|_| slab.alloc(&mut frames, 0)).collect();
        assert_eq!(slab.held(), 20, "ten slabs of order 1");
        for object in objects {
            slab.free(&mut frames, 1, object);
        }
        // CPU 0's own slab, and the partial ones that are kept.
        assert_eq!(slab.held(), 2 * (1 + MIN_PARTIAL as u64));
        slab.alloc(&mut frames, 2);
        assert_eq!(slab.shrink(&mut frames, 0), 2, "one object is still in use");
    }
}
