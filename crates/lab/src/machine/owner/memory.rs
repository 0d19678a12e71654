//! The memory of one machine: allocator, descriptors, lists, and the two tables of holders.

use core::fmt;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

use pageblock::{AllocError, Config, InitError, PageAllocator, Region};
use pageblock_buddy::Zone;
use pageblock_frame::{DescFlags, Descriptor, Gfp, NodeId, Order, Pfn};
use pageblock_lru::Lru;
use pageblock_reclaim::Area;

use super::holder::{Counts, Holder, Name};
use super::places::Places;
use super::sim::{Entered, Hooks, Sim};
use super::storage::Storage;

/// Range of a set of LRU lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LruScope {
    /// A node (Linux since 4.8).
    Node,
    /// A zone (Linux before).
    Zone,
}

/// A machine's memory, as it is to be built.
#[derive(Clone, Debug)]
pub(crate) struct MemoryConfig {
    /// The memory map.
    pub(crate) regions: Vec<Region>,
    /// The allocator.
    pub(crate) allocator: Config,
    /// Range of a set of LRU lists.
    pub(crate) lru: LruScope,
    /// Node of each CPU; those that are missing are on node 0.
    pub(crate) cpu_nodes: Vec<NodeId>,
    /// Frames that anonymous pages can be swapped out to.
    pub(crate) swap: u64,
    /// Whether the allocator may ask for pages to be moved, and to be given up.
    pub(crate) moves: bool,
    pub(crate) gives_up: bool,
}

impl MemoryConfig {
    /// One node, one CPU, no swap.
    pub(crate) fn new(regions: Vec<Region>, allocator: Config) -> Self {
        let (lru, cpu_nodes) = (LruScope::Node, Vec::new());
        Self { regions, allocator: allocator.cpus(1), lru, cpu_nodes, swap: 0, moves: true, gives_up: true }
    }
}

/// The memory of one machine.
///
/// | field | legal values | changed by |
/// |---|---|---|
/// | `holders` | one a frame; not `Nobody` exactly for the first frames of allocated blocks | allocation, free, moves |
/// | `places` | the inverse of `holders`, for named pages | the same |
/// | `swapped` | names of anonymous pages that are on swap and not in memory; at most `swap` of them | eviction, and the call that needs the page or ends it |
/// | `counts` | the sums over `holders` | the same |
pub(crate) struct Memory {
    storage: Storage,
    holders: Box<[Cell<Holder>]>,
    pub(super) places: RefCell<Places>,
    pub(super) swapped: RefCell<BTreeSet<Name>>,
    pub(super) swap: u64,
    counts: Cell<Counts>,
    hooks: RefCell<Option<Rc<dyn Hooks>>>,
    able: (bool, bool),
    /// Frames moved so far.
    pub(super) moved: Cell<u64>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Memory {
    /// Builds it; no frame has a holder yet.
    pub(crate) fn new(config: &MemoryConfig) -> Result<Rc<Self>, InitError> {
        let able = (config.moves, config.gives_up);
        let build = || Storage::build(&config.regions, &config.allocator, config.lru);
        let storage = Sim::boot(&config.cpu_nodes, able, build)?;
        let frames = storage.allocator().zones().map(|zone| zone.span().end.as_u64()).max().unwrap_or(0);
        Ok(Rc::new(Self {
            storage,
            holders: (0..frames).map(|_| Cell::default()).collect(),
            places: RefCell::default(),
            swapped: RefCell::default(),
            swap: config.swap,
            counts: Cell::default(),
            hooks: RefCell::default(),
            able,
            moved: Cell::default(),
        }))
    }

    /// Makes this the thread's machine, at time 0 on CPU 0, until the returned guard is dropped. All that allocates or
    /// frees needs it.
    pub(crate) fn enter(self: &Rc<Self>) -> Entered {
        Entered::new(Rc::clone(self))
    }

    /// The reaction when the allocator wakes, waits, or tells an event. To be set before [`enter`](Self::enter).
    pub(crate) fn set_hooks(&self, hooks: Option<Rc<dyn Hooks>>) {
        Sim::set_traced(hooks.is_some());
        *self.hooks.borrow_mut() = hooks;
    }

    pub(super) fn hooks(&self) -> Option<Rc<dyn Hooks>> {
        self.hooks.borrow().clone()
    }

    pub(super) fn wants_events(&self) -> bool {
        self.hooks.borrow().is_some()
    }

    /// Whether pages can be moved, and given up.
    pub(super) fn able(&self) -> (bool, bool) {
        self.able
    }

    /// The allocator. Blocks freed there directly are missing in the tables here.
    pub(crate) fn allocator(&self) -> &PageAllocator<Sim> {
        self.storage.allocator()
    }

    /// The allocator's zones from inside, to be looked at and tuned.
    #[expect(unsafe_code, reason = "the laboratory's word that it frees through the allocator")]
    pub(crate) fn zones(&self) -> &[Zone<'static>] {
        // SAFETY: experiments read them and set watermarks; the one that splits a block is the block's holder.
        unsafe { self.allocator().raw_zones() }
    }

    /// All LRU list sets, by node and zone.
    pub(crate) fn lrus(&self) -> &[Lru<'static>] {
        self.storage.lrus()
    }

    /// The same lists as scanning sees them. Not to be used when the memory is gone.
    pub(crate) fn areas(&self) -> &'static [Area<'static, 'static>] {
        self.storage.areas()
    }

    /// The list set that covers a frame, and its descriptor.
    pub(super) fn page(&self, pfn: Pfn) -> Option<(&Lru<'static>, &'static Descriptor)> {
        self.lrus().iter().find_map(|lru| Some((lru, lru.page(pfn)?)))
    }

    /// Frames by kind of holder.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.get()
    }

    /// Frames that were moved so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Holder of the block that begins here.
    pub(crate) fn holder(&self, pfn: Pfn) -> Holder {
        self.holders.get(pfn.as_u64() as usize).map_or(Holder::Nobody, Cell::get)
    }

    /// Every held block, upwards.
    pub(crate) fn held(&self) -> impl Iterator<Item = (Pfn, Holder)> {
        let all = self.holders.iter().zip(0..).map(|(holder, pfn)| (Pfn::new(pfn), holder.get()));
        all.filter(|(_, holder)| *holder != Holder::Nobody)
    }

    /// Writes a holder down, and keeps the counts and the names in step. Returns the former holder.
    pub(super) fn set_holder(&self, pfn: Pfn, holder: Holder) -> Holder {
        let Some(slot) = self.holders.get(pfn.as_u64() as usize) else { return Holder::Nobody };
        let before = slot.replace(holder);
        let mut counts = self.counts.get();
        counts.change(before, false);
        counts.change(holder, true);
        self.counts.set(counts);
        before
    }

    /// Allocates a block for a holder. A name that is taken already, or swapped out, loses its former block: ask
    /// [`find`](Self::find) first.
    ///
    /// # Errors
    /// [`AllocError`]; nothing has changed but by reclaim and compaction.
    pub(crate) fn take(&self, holder: Holder, gfp: Gfp) -> Result<Pfn, AllocError> {
        let raw = self.allocator().alloc_order(holder.order(), gfp)?.into_raw();
        let (pfn, order) = (raw.pfn, raw.order);
        debug_assert_eq!(order, holder.order(), "one answer for one question");
        let taken = self.set_holder(pfn, holder);
        assert_eq!(taken, Holder::Nobody, "{pfn} was handed out twice");
        if let Some(name) = holder.name() {
            if let Some(old) = self.find(name) {
                self.free(old);
            }
            if matches!(name, Name::Anon { .. }) {
                self.swapped.borrow_mut().remove(&name);
            }
            self.places.borrow_mut().insert(name, pfn);
        }
        if let Some((lru, page)) = self.page(pfn) {
            page.store_refs(1);
            let kind = match holder {
                Holder::File { .. } => DescFlags::FILE,
                Holder::Anon { .. } if holder.is_huge() => DescFlags::HUGE | DescFlags::DIRTY,
                Holder::Anon { .. } => DescFlags::DIRTY,
                _ => DescFlags::empty(),
            };
            page.store_flags(kind);
            if let Some(name) = holder.name() {
                if matches!(name, Name::File { .. })
                    && let Some(hooks) = self.hooks()
                {
                    hooks.enters(pfn, name, gfp.contains(Gfp::WRITE));
                }
                lru.add(pfn);
            }
        }
        Ok(pfn)
    }

    /// Ends a block: its holder has no more use for it. If it is isolated or being written back, it is freed when
    /// that is over. False if it had no holder.
    pub(crate) fn free(&self, pfn: Pfn) -> bool {
        let holder = self.forget(pfn);
        if holder == Holder::Nobody {
            return false;
        }
        self.drop_reference(pfn, holder.order());
        true
    }

    /// Takes the holder and the name off a block; its reference remains to be dropped.
    pub(super) fn forget(&self, pfn: Pfn) -> Holder {
        let holder = self.set_holder(pfn, Holder::Nobody);
        if let Some(name) = holder.name() {
            self.places.borrow_mut().remove(name);
        }
        holder
    }

    /// Gives a reference back, and the block to the allocator if that was the last.
    pub(super) fn drop_reference(&self, pfn: Pfn, order: Order) {
        if self.page(pfn).is_some_and(|(lru, _)| lru.release(pfn)) {
            self.storage.give_back(pfn, order);
        }
    }

    /// Frees a block of which the last reference is gone.
    pub(crate) fn give_back(&self, pfn: Pfn, order: Order) {
        self.storage.give_back(pfn, order);
    }
}
