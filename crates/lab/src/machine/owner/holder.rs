//! Possible holders of a frame.

use pageblock_frame::{Order, PAGEBLOCK_ORDER};
use serde::Serialize;

/// Name of a page: the one way to it, as in a page table or the page cache.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Name {
    /// A page of a process, by its number in the address space. A huge page is known by its first.
    Anon { process: u32, page: u32 },
    /// A page of a file.
    File { file: u32, index: u32 },
}

impl Name {
    /// All pages of a process.
    pub(crate) const fn of_process(process: u32) -> Space {
        Space::Process(process)
    }

    /// All pages of a file.
    pub(crate) const fn of_file(file: u32) -> Space {
        Space::File(file)
    }
}

/// Names that belong together.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Space {
    /// Those of a process.
    Process(u32),
    /// Those of a file.
    File(u32),
}

impl Space {
    /// One of them.
    pub(crate) const fn name(self, number: u32) -> Name {
        match self {
            Self::Process(process) => Name::Anon { process, page: number },
            Self::File(file) => Name::File { file, index: number },
        }
    }

    /// True if the name is one of them.
    pub(crate) const fn contains(self, name: Name) -> bool {
        match (self, name) {
            (Self::Process(space), Name::Anon { process, .. }) => space == process,
            (Self::File(space), Name::File { file, .. }) => space == file,
            _ => false,
        }
    }
}

/// Holder of a frame. Of a block, the first frame says it for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Holder {
    /// None: it is free, or not the first of its block.
    #[default]
    Nobody,
    /// An anonymous page: one frame, or a huge page.
    Anon { process: u32, page: u32, order: Order },
    /// A page of the page cache.
    File { file: u32, index: u32 },
    /// The kernel, for good: it knows the address.
    Kernel { order: Order },
    /// A page of kernel objects that can be freed on demand but not moved: dentries, inodes.
    Slab { order: Order },
    /// A test: it can neither be moved nor freed.
    Test { order: Order },
}

impl Holder {
    /// The holder of a page with this name.
    pub(crate) const fn named(name: Name, order: Order) -> Self {
        match name {
            Name::Anon { process, page } => Self::Anon { process, page, order },
            Name::File { file, index } => Self::File { file, index },
        }
    }

    /// The name of the page, if it has one: then it is on an LRU list, and can be moved and reclaimed.
    pub(crate) const fn name(self) -> Option<Name> {
        match self {
            Self::Anon { process, page, .. } => Some(Name::Anon { process, page }),
            Self::File { file, index } => Some(Name::File { file, index }),
            _ => None,
        }
    }

    /// Size of the block.
    pub(crate) const fn order(self) -> Order {
        match self {
            Self::Nobody | Self::File { .. } => Order::ZERO,
            Self::Anon { order, .. } | Self::Kernel { order } | Self::Slab { order } | Self::Test { order } => order,
        }
    }

    /// True if it is one page of a pageblock's size.
    pub(crate) fn is_huge(self) -> bool {
        matches!(self, Self::Anon { order, .. } if order == PAGEBLOCK_ORDER)
    }

    /// True for holders that neither move nor go away by themselves.
    pub(crate) const fn is_kernel(self) -> bool {
        matches!(self, Self::Kernel { .. } | Self::Slab { .. })
    }
}

/// Frames by kind of holder.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Counts {
    pub(crate) anon: u64,
    pub(crate) file: u64,
    pub(crate) kernel: u64,
    pub(crate) slab: u64,
    pub(crate) test: u64,
}

impl Counts {
    /// Counts a block in, or out again.
    pub(crate) const fn change(&mut self, holder: Holder, add: bool) {
        let slot = match holder {
            Holder::Nobody => return,
            Holder::Anon { .. } => &mut self.anon,
            Holder::File { .. } => &mut self.file,
            Holder::Kernel { .. } => &mut self.kernel,
            Holder::Slab { .. } => &mut self.slab,
            Holder::Test { .. } => &mut self.test,
        };
        let frames = holder.order().frames();
        *slot = if add { *slot + frames } else { slot.saturating_sub(frames) };
    }

    /// All of them.
    pub(crate) const fn total(&self) -> u64 {
        self.anon + self.file + self.kernel + self.slab + self.test
    }
}
