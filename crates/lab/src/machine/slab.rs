//! Kernel objects in slabs: dentries, inodes and their like, which shrinkers can free, and all that cannot be freed.
//!
//! A slab is a block of frames with room for some objects of one kind. It goes back to the allocator when its last
//! object is freed; since objects are freed in an order of their own, slabs stay half empty for long. That
//! keeps pageblocks of the reclaimable type.

use std::collections::VecDeque;

use pageblock_frame::{Order, PAGE_SIZE, Pfn};

/// A kind of object. The sizes are those of Linux 3.13 on x86-64, with SLUB's choice of order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub(crate) enum Kind {
    /// `dentry`: 192 bytes.
    Dentry,
    /// `ext4_inode_cache`: about 900 bytes.
    Inode,
    /// `radix_tree_node`: 560 bytes; a file has one for each 64 of its pages.
    RadixNode,
    /// Objects of a process that cannot be reclaimed: areas, descriptors of files, credentials; 256 bytes a piece.
    Process,
    /// `xfs_ili`, the log item of an inode of XFS that was changed: 168 bytes.
    LogItem,
    /// `filp`: a file that a process has open, 256 bytes.
    OpenFile,
    /// `kmalloc-1k`: a changed inode as it goes into the log of XFS.
    LogVector,
    /// Parts of an inode of XFS beside it: its extents (`kmalloc-96`) and its label (`lsm_inode_cache`, 32 bytes).
    InodePart,
    /// `bio` with `iomap_ioend` around it: a piece of a file on its way to the disk.
    Bio,
    /// `biovec-max`: the list of its pages, with room for 256.
    BioVec,
}

impl Kind {
    /// All kinds.
    pub(crate) const ALL: [Self; 10] = [
        Self::Dentry,
        Self::Inode,
        Self::RadixNode,
        Self::Process,
        Self::LogItem,
        Self::OpenFile,
        Self::LogVector,
        Self::InodePart,
        Self::Bio,
        Self::BioVec,
    ];

    /// Size of an object, in bytes.
    const fn bytes(self) -> u64 {
        match self {
            Self::Dentry => 192,
            Self::Inode => 900,
            Self::RadixNode => 560,
            Self::Process | Self::OpenFile | Self::Bio => 256,
            Self::LogItem => 168,
            Self::LogVector => 1024,
            Self::InodePart => 128,
            Self::BioVec => 4096,
        }
    }

    /// Size of a slab, unless memory is short: then one frame. The more CPUs, the more objects it is to have; a
    /// sixteenth of it may be left over, or else more, up to a quarter (SLUB's `calculate_order()`).
    pub(crate) const fn order(self, cpus: u32) -> Order {
        if matches!(self, Self::Process) {
            return Order::ZERO; // objects of several sizes
        }
        let most = (PAGE_SIZE << MOST_ORDER) / self.bytes();
        let wanted = 4 * (cpus.ilog2() as u64 + 2);
        let mut objects = if wanted < most { wanted } else { most };
        while objects > 1 {
            let mut fraction = 16;
            while fraction >= 4 {
                let mut order = 0;
                while order <= MOST_ORDER {
                    let slab = PAGE_SIZE << order;
                    if slab >= objects * self.bytes() && slab % self.bytes() <= slab / fraction {
                        return Order::saturating(order);
                    }
                    order += 1;
                }
                fraction /= 2;
            }
            objects -= 1;
        }
        Order::ZERO
    }

    /// Slabs with room that are kept even if they are empty (`min_partial`).
    const fn kept(self) -> usize {
        let half = self.bytes().ilog2() as usize / 2;
        if half < 5 { 5 } else { half }
    }

    /// Objects in a slab of this size.
    pub(crate) const fn per_slab(self, order: Order) -> u16 {
        (order.frames() * PAGE_SIZE / self.bytes()) as u16
    }

    /// Whether the kernel can get such objects back (`SLAB_RECLAIM_ACCOUNT`): its frames are of the reclaimable type.
    pub(crate) const fn is_reclaimable(self) -> bool {
        matches!(self, Self::Dentry | Self::Inode | Self::RadixNode)
    }
}

/// The largest order of a slab (`slub_max_order`).
const MOST_ORDER: u8 = 3;

/// One object: the slab that holds it. Objects of a slab are alike.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Object {
    kind: Kind,
    slab: u32,
}

impl Object {
    /// Its kind.
    pub(crate) const fn kind(self) -> Kind {
        self.kind
    }
}

#[derive(Clone, Copy, Debug)]
struct Slab {
    pfn: Pfn,
    order: Order,
    used: u16,
    /// In the list of those with room.
    listed: bool,
}

/// The slabs of one kind.
#[derive(Debug, Default)]
struct Cache {
    slabs: Vec<Slab>,
    /// Slabs with room, some perhaps without by now.
    partial: VecDeque<u32>,
    /// Places of slabs that were given back.
    vacant: Vec<u32>,
    objects: u64,
    frames: u64,
}

/// All slabs of a machine. Takes no frames itself: a request for an object is told when a slab is missing.
#[derive(Debug, Default)]
pub(crate) struct Slabs {
    caches: [Cache; Kind::ALL.len()],
}

impl Slabs {
    /// Takes an object from a slab that has room; `None` if there is no such slab.
    pub(crate) fn take(&mut self, kind: Kind) -> Option<Object> {
        let cache = &mut self.caches[kind as usize];
        let &slab = cache.partial.back()?;
        let entry = &mut cache.slabs[slab as usize];
        entry.used += 1;
        if entry.used == kind.per_slab(entry.order) {
            entry.listed = false;
            cache.partial.pop_back();
        }
        cache.objects += 1;
        Some(Object { kind, slab })
    }

    /// Adds an empty slab.
    pub(crate) fn add(&mut self, kind: Kind, pfn: Pfn, order: Order) {
        let cache = &mut self.caches[kind as usize];
        let slab = Slab { pfn, order, used: 0, listed: true };
        cache.frames += order.frames();
        let place = match cache.vacant.pop() {
            Some(place) => {
                cache.slabs[place as usize] = slab;
                place
            }
            None => {
                cache.slabs.push(slab);
                cache.slabs.len() as u32 - 1
            }
        };
        cache.partial.push_back(place);
    }

    /// Takes an object back. The slab's block if that was its last: then it is the caller's to free.
    pub(crate) fn give(&mut self, object: Object) -> Option<(Pfn, Order)> {
        let cache = &mut self.caches[object.kind as usize];
        let entry = &mut cache.slabs[object.slab as usize];
        entry.used -= 1;
        cache.objects -= 1;
        if !entry.listed {
            entry.listed = true;
            // Not first in line: objects freed at random leave room in many slabs, and the fuller are used first.
            cache.partial.push_front(object.slab);
        }
        if entry.used > 0 || cache.partial.len() < object.kind.kept() {
            return None;
        }
        let (pfn, order) = (entry.pfn, entry.order);
        cache.frames -= order.frames();
        entry.listed = false;
        cache.partial.retain(|slab| *slab != object.slab);
        cache.vacant.push(object.slab);
        Some((pfn, order))
    }

    /// Objects of a kind, and the frames of their slabs.
    pub(crate) fn usage(&self, kind: Kind) -> (u64, u64) {
        let cache = &self.caches[kind as usize];
        (cache.objects, cache.frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slab_is_given_back_with_its_last_object() {
        let mut slabs = Slabs::default();
        assert_eq!(slabs.take(Kind::Dentry), None);
        slabs.add(Kind::Dentry, Pfn::new(7), Order::ZERO);
        let objects: Vec<_> = std::iter::from_fn(|| slabs.take(Kind::Dentry)).collect();
        assert_eq!((objects.len(), slabs.usage(Kind::Dentry)), (21, (21, 1)));
        let (last, others) = objects.split_last().unwrap();
        for object in others {
            assert_eq!(slabs.give(*object), None);
        }
        assert_eq!(slabs.give(*last), None, "a few are kept empty");
        (10..14).for_each(|pfn| slabs.add(Kind::Dentry, Pfn::new(pfn), Order::ZERO));
        let object = slabs.take(Kind::Dentry).unwrap();
        assert_eq!(slabs.give(object), Some((Pfn::new(13), Order::ZERO)));
        assert_eq!(slabs.usage(Kind::Dentry), (0, 4));
    }

    /// As `/proc/slabinfo` of a Linux 6.1 says for one CPU, and of one for eight.
    #[test]
    fn the_more_cpus_the_larger_a_slab() {
        let orders = |cpus| {
            [Kind::Dentry, Kind::Inode, Kind::RadixNode, Kind::OpenFile, Kind::LogVector, Kind::BioVec]
                .map(|kind| kind.order(cpus).as_u8())
        };
        assert_eq!(orders(1), [0, 1, 1, 0, 1, 3]);
        assert_eq!(orders(8), [0, 3, 2, 1, 3, 3]);
    }
}
