//! Files: where they lie on the disk, and which kernel objects stand for them in memory. Their pages are the owner's.

use std::collections::VecDeque;

use super::disk::Sector;
use super::slab::{Kind, Object};

/// Names a file. A number is never used again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct FileId(pub(crate) u32);

/// Pages that one radix-tree node covers.
const NODE_PAGES: u32 = 64;

#[derive(Debug)]
struct File {
    /// Where its first page lies; the others follow.
    start: u64,
    pages: u32,
    /// While a lookup may find it by name without looking at the disk.
    dentry: Option<Object>,
    /// Inode and tree nodes, while it is known in memory.
    objects: Vec<Object>,
    looks: Looks,
    exists: bool,
    /// Mapped for good.
    kept: bool,
    /// While it is open: its dentry and inode stay.
    descriptor: Option<Object>,
    /// It has a place in `known`.
    queued: bool,
    /// Written to since it was read last: the next read changes its inode (`relatime`).
    unread: bool,
}

/// The shrinker's work when it looks at a file the next time: the dentry goes first, and only then is the inode on a
/// list of its own; both get a second chance.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Looks {
    /// Take the dentry's mark of use away.
    Unmark,
    /// Free the dentry.
    FreeDentry,
    /// Take the inode's mark away.
    UnmarkInode,
    /// Free the inode.
    FreeInode,
}

/// All files of a machine.
#[derive(Debug, Default)]
pub(crate) struct Files {
    files: Vec<File>,
    /// Where the next file goes: the disk is large and never full.
    end: u64,
    /// Files known in memory, the one that was looked at longest ago first; some perhaps deleted or opened by now.
    known: VecDeque<FileId>,
    /// Those of them that are not open.
    known_count: u64,
    /// A file used once has no mark (Linux since 3.18): only a second use gives a second chance.
    pub(super) marks_second_use: bool,
}

/// A shrinker's work on the next file.
#[derive(Debug)]
pub(crate) enum Pruned {
    /// It was used: it stays.
    Kept,
    /// This is to be freed.
    Dentry(Object),
    /// These are to be freed, and the pages that the file still has.
    Inode(FileId, Vec<Object>),
}

impl Files {
    /// A new file of so many pages, behind all others on the disk.
    pub(crate) fn create(&mut self, pages: u32) -> FileId {
        let id = FileId(self.files.len() as u32);
        let looks = Looks::Unmark;
        self.files.push(File {
            start: self.end,
            pages,
            dentry: None,
            objects: Vec::new(),
            looks,
            exists: true,
            kept: false,
            descriptor: None,
            queued: false,
            unread: false,
        });
        self.end += u64::from(pages.max(1));
        id
    }

    /// Leaves a gap on the disk: the next file is far away.
    pub(crate) fn skip(&mut self, pages: u64) {
        self.end += pages;
    }

    /// Its inode stays from now on.
    pub(crate) fn keep(&mut self, id: FileId) {
        if let Some(file) = self.files.get_mut(id.0 as usize) {
            file.kept = true;
        }
    }

    /// True if it is mapped for good.
    pub(crate) fn is_kept(&self, id: FileId) -> bool {
        self.files.get(id.0 as usize).is_some_and(|file| file.kept)
    }

    /// It is written to; true if that is news to its inode.
    pub(crate) fn note_write(&mut self, id: FileId) -> bool {
        self.files.get_mut(id.0 as usize).is_some_and(|file| !std::mem::replace(&mut file.unread, true))
    }

    /// It is read; true if that is news to its inode.
    pub(crate) fn note_read(&mut self, id: FileId) -> bool {
        self.files.get_mut(id.0 as usize).is_some_and(|file| std::mem::replace(&mut file.unread, false))
    }

    /// Number of pages.
    pub(crate) fn pages(&self, id: FileId) -> u32 {
        self.files.get(id.0 as usize).map_or(0, |file| file.pages)
    }

    /// True until it is deleted.
    pub(crate) fn exists(&self, id: FileId) -> bool {
        self.files.get(id.0 as usize).is_some_and(|file| file.exists)
    }

    /// Where a page lies.
    pub(crate) fn sector(&self, id: FileId, page: u32) -> Sector {
        Sector(self.files.get(id.0 as usize).map_or(0, |file| file.start) + u64::from(page))
    }

    /// The file is used. The kinds of objects that have to be allocated first if they are not there.
    pub(crate) fn open(&mut self, id: FileId) -> Vec<Kind> {
        let Some(file) = self.files.get_mut(id.0 as usize).filter(|file| file.exists) else { return Vec::new() };
        file.looks = Looks::Unmark;
        let mut kinds = Vec::new();
        if file.dentry.is_none() {
            kinds.push(Kind::Dentry);
        }
        if file.objects.is_empty() {
            let nodes = if file.pages > 1 { file.pages.div_ceil(NODE_PAGES) } else { 0 };
            kinds.push(Kind::Inode);
            kinds.extend(std::iter::repeat_n(Kind::RadixNode, nodes as usize));
        }
        kinds
    }

    /// The objects that [`open`](Self::open) asked for. Back come those that another actor brought meanwhile.
    pub(crate) fn know(&mut self, id: FileId, objects: Vec<Object>) -> Vec<Object> {
        let Some(file) = self.files.get_mut(id.0 as usize).filter(|file| file.exists) else { return objects };
        let (dentries, rest): (Vec<_>, Vec<_>) = objects.into_iter().partition(|object| object.kind() == Kind::Dentry);
        let mut unwanted = Vec::new();
        for dentry in dentries {
            unwanted.extend(file.dentry.replace(dentry));
        }
        if file.objects.is_empty() && !rest.is_empty() {
            file.objects = rest;
            if self.marks_second_use {
                file.looks = Looks::FreeDentry;
            }
            if file.descriptor.is_none() {
                self.enqueue(id);
            }
        } else {
            unwanted.extend(rest);
        }
        unwanted
    }

    /// Opens the file: until [`let_go`](Self::let_go) its dentry and inode stay. Back comes the descriptor of
    /// its last opener.
    pub(crate) fn hold(&mut self, id: FileId, descriptor: Object) -> Option<Object> {
        let Some(file) = self.files.get_mut(id.0 as usize).filter(|file| file.exists) else { return Some(descriptor) };
        let before = file.descriptor.replace(descriptor);
        if before.is_none() && !file.objects.is_empty() {
            self.known_count -= 1;
        }
        before
    }

    /// It is closed: its descriptor, which is to be freed.
    pub(crate) fn let_go(&mut self, id: FileId) -> Option<Object> {
        let file = self.files.get_mut(id.0 as usize)?;
        let descriptor = file.descriptor.take()?;
        if !file.objects.is_empty() {
            self.enqueue(id);
        }
        Some(descriptor)
    }

    /// A file that is not open is known from now on.
    fn enqueue(&mut self, id: FileId) {
        let Some(file) = self.files.get_mut(id.0 as usize) else { return };
        self.known_count += 1;
        if !std::mem::replace(&mut file.queued, true) {
            self.known.push_back(id);
        }
    }

    /// True if its inode is in memory.
    pub(crate) fn is_known(&self, id: FileId) -> bool {
        self.files.get(id.0 as usize).is_some_and(|file| !file.objects.is_empty())
    }

    /// True if the file is known in memory, without an object of this kind.
    pub(crate) fn lacks(&self, id: FileId, kind: Kind) -> bool {
        let file = self.files.get(id.0 as usize).filter(|file| !file.objects.is_empty());
        file.is_some_and(|file| file.objects.iter().all(|object| object.kind() != kind))
    }

    /// One more object that goes with the inode. Back comes one that the file has no place for.
    pub(crate) fn attach(&mut self, id: FileId, object: Object) -> Option<Object> {
        if !self.lacks(id, object.kind()) {
            return Some(object);
        }
        self.files.get_mut(id.0 as usize)?.objects.push(object);
        None
    }

    /// Looks at the file that was looked at longest ago (`prune_dcache_sb()` and `prune_icache_sb()`). `None` if no
    /// file is known.
    pub(crate) fn prune(&mut self) -> Option<Pruned> {
        loop {
            let id = self.known.pop_front()?;
            let file = &mut self.files[id.0 as usize];
            if file.objects.is_empty() || file.descriptor.is_some() {
                file.queued = false;
                continue;
            }
            if file.kept {
                self.known.push_back(id);
                return Some(Pruned::Kept);
            }
            let freed = file.looks == Looks::FreeDentry;
            let next = match file.looks {
                Looks::Unmark => Looks::FreeDentry,
                Looks::FreeDentry if self.marks_second_use => Looks::FreeInode,
                Looks::FreeDentry => Looks::UnmarkInode,
                Looks::UnmarkInode => Looks::FreeInode,
                Looks::FreeInode => {
                    self.known_count -= 1;
                    file.queued = false;
                    return Some(Pruned::Inode(id, std::mem::take(&mut file.objects)));
                }
            };
            file.looks = next;
            self.known.push_back(id);
            let dentry = if freed { file.dentry.take() } else { None };
            return Some(dentry.map_or(Pruned::Kept, Pruned::Dentry));
        }
    }

    /// Forgets a file for good; its objects are to be freed.
    pub(crate) fn delete(&mut self, id: FileId) -> Vec<Object> {
        let Some(file) = self.files.get_mut(id.0 as usize) else { return Vec::new() };
        file.exists = false;
        self.known_count -= u64::from(!file.objects.is_empty() && file.descriptor.is_none());
        let mut objects = std::mem::take(&mut file.objects);
        objects.extend(file.dentry.take());
        objects.extend(file.descriptor.take());
        objects
    }

    /// Files known in memory that are not open.
    pub(crate) fn known(&self) -> u64 {
        self.known_count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::slab::Slabs;
    use pageblock_frame::{Order, Pfn};

    fn objects(kinds: &[Kind]) -> Vec<Object> {
        let mut slabs = Slabs::default();
        let take = |(at, kind): (usize, &Kind)| {
            slabs.add(*kind, Pfn::new(at as u64), Order::ZERO);
            slabs.take(*kind).unwrap()
        };
        kinds.iter().enumerate().map(take).collect()
    }

    #[test]
    fn a_file_is_pruned_when_it_was_not_used_since_the_last_look() {
        let mut files = Files::default();
        let id = files.create(65);
        let kinds = files.open(id);
        assert_eq!(kinds, [Kind::Dentry, Kind::Inode, Kind::RadixNode, Kind::RadixNode]);
        assert!(files.know(id, objects(&kinds)).is_empty());
        assert!(files.open(id).is_empty(), "it is known");
        assert_eq!(files.know(id, objects(&kinds[1..])).len(), 3, "what came second goes back");
        assert!(matches!(files.prune(), Some(Pruned::Kept)));
        assert!(matches!(files.prune(), Some(Pruned::Dentry(_))));
        assert_eq!(files.open(id), [Kind::Dentry], "the name is looked up again");
        assert!(files.know(id, objects(&kinds[..1])).is_empty());
        for _ in 0..2 {
            assert!(matches!(files.prune(), Some(Pruned::Kept | Pruned::Dentry(_))));
        }
        assert!(matches!(files.prune(), Some(Pruned::Kept)));
        assert!(matches!(files.prune(), Some(Pruned::Inode(_, objects)) if objects.len() == 3));
        assert!(files.prune().is_none());
        assert_eq!((files.known(), files.exists(id)), (0, true));
    }

    #[test]
    fn an_open_file_is_not_pruned() {
        let mut files = Files { marks_second_use: true, ..Files::default() };
        let [open, closed] = [files.create(1), files.create(1)];
        for id in [open, closed] {
            let kinds = files.open(id);
            assert!(files.know(id, objects(&kinds)).is_empty());
        }
        let descriptor = || objects(&[Kind::OpenFile]).pop().unwrap();
        assert_eq!((files.hold(open, descriptor()), files.known()), (None, 1));
        assert_eq!(files.hold(open, descriptor()), Some(descriptor()), "it was open");
        assert_eq!(files.known(), 1);
        let pruned = |files: &mut Files| std::iter::from_fn(|| files.prune()).count();
        assert_eq!((pruned(&mut files), files.known()), (2, 0), "a dentry and an inode, of the other");
        assert!(files.open(open).is_empty() && !files.open(closed).is_empty());
        assert_eq!((files.let_go(open), files.let_go(open), files.known()), (Some(descriptor()), None, 1));
        assert!(pruned(&mut files) > 1 && files.known() == 0);
        assert!(!files.open(open).is_empty(), "it is forgotten");
        // Deleted while it is open, it leaves no descriptor behind.
        assert_eq!(files.hold(closed, descriptor()), None);
        assert_eq!((files.delete(closed), files.known()), (vec![descriptor()], 0));
    }

    #[test]
    fn files_follow_one_another_on_the_disk() {
        let mut files = Files::default();
        let (first, second) = (files.create(3), files.create(1));
        assert_eq!((files.sector(first, 2), files.sector(second, 0)), (Sector(2), Sector(3)));
        files.skip(100);
        let third = files.create(1);
        assert_eq!(files.sector(third, 0), Sector(104));
        files.delete(first);
        assert!(!files.exists(first) && files.open(first).is_empty());
    }
}
