//! Owners of movable memory: [`Movables`] keeps a table and its word, [`Faulty`] keeps neither where it is told so.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pageblock_frame::migration::{Interrupt, IsolateRequest, Migrate, MigrateMode, Move, MoveError, PutBack, Refusal};
use pageblock_frame::{Order, Pfn};

/// One owned block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Page {
    /// Size.
    pub order: Order,
    /// Its content, so that it is known again elsewhere.
    pub tag: u64,
    /// It cannot be moved.
    pub pinned: bool,
    /// Compaction has borrowed it.
    pub lent: bool,
    /// Its owner gave it up while it was lent.
    pub released: bool,
}

/// How giving up a block went.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Disowned {
    /// It is the caller's to free.
    Now,
    /// It is lent; compaction frees it when the isolation ends.
    Later,
    /// There is no such block.
    Unknown,
}

/// The reference owner: a table from frame to block, and nothing else.
///
/// ```
/// use pageblock_frame::migration::{Migrate, MigrateMode};
/// use pageblock_frame::{Order, Pfn};
/// use pageblock_testkit::movables::Movables;
/// let owner = Movables::new();
/// owner.own(Pfn::new(7), Order::ZERO, 42);
/// assert!(owner.isolate(Pfn::new(7), Order::ZERO, MigrateMode::Async).is_ok());
/// assert!(owner.isolate(Pfn::new(7), Order::ZERO, MigrateMode::Async).is_err()); // lent once
/// assert!(owner.migrate(Pfn::new(7), Pfn::new(900), Order::ZERO, MigrateMode::Async).is_ok());
/// assert_eq!(owner.place_of(42), Some(Pfn::new(900)));
/// ```
#[derive(Debug, Default)]
pub struct Movables {
    pages: Mutex<BTreeMap<Pfn, Page>>,
    collisions: Mutex<u64>,
}

impl Movables {
    /// Owns nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The table, for looking.
    pub fn pages(&self) -> MutexGuard<'_, BTreeMap<Pfn, Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a block over.
    ///
    /// # Panics
    /// If it owns that block already: an allocator handed it out twice.
    pub fn own(&self, pfn: Pfn, order: Order, tag: u64) {
        let page = Page { order, tag, pinned: false, lent: false, released: false };
        let old = self.pages().insert(pfn, page);
        assert_eq!(old, None, "{pfn} was handed out twice");
    }

    /// Gives a block up.
    pub fn disown(&self, pfn: Pfn) -> Disowned {
        let mut pages = self.pages();
        match pages.get_mut(&pfn) {
            None => Disowned::Unknown,
            Some(page) if page.released => Disowned::Unknown,
            Some(page) if page.lent => {
                page.released = true;
                Disowned::Later
            }
            Some(_) => {
                pages.remove(&pfn);
                Disowned::Now
            }
        }
    }

    /// Makes a block impossible to move, or possible again. False if there is no such block.
    pub fn pin(&self, pfn: Pfn, pinned: bool) -> bool {
        self.pages().get_mut(&pfn).map(|page| page.pinned = pinned).is_some()
    }

    /// Where the block with this tag is now.
    #[must_use]
    pub fn place_of(&self, tag: u64) -> Option<Pfn> {
        self.pages().iter().find(|(_, page)| page.tag == tag).map(|(pfn, _)| *pfn)
    }

    /// Targets that were a block of the owner's already: an allocator's fault, unless the owner lies.
    #[must_use]
    pub fn collisions(&self) -> u64 {
        *self.collisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Blocks lent and not returned.
    #[must_use]
    pub fn lent(&self) -> usize {
        self.pages().values().filter(|page| page.lent).count()
    }
}

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: the table is changed under its lock in the call that answers; nothing is behind the frames.
unsafe impl Migrate for Movables {
    fn isolate(&self, pfn: Pfn, order: Order, _mode: MigrateMode) -> Result<(), Refusal> {
        let mut pages = self.pages();
        let page = pages.get_mut(&pfn).filter(|page| page.order == order).ok_or(Refusal::Unknown)?;
        if page.pinned {
            return Err(Refusal::Pinned);
        }
        if page.lent {
            return Err(Refusal::Busy);
        }
        page.lent = true;
        Ok(())
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, _mode: MigrateMode) -> Result<(), MoveError> {
        let mut pages = self.pages();
        let Some(page) = pages.get(&from).filter(|page| page.lent && page.order == order).copied() else {
            return Err(MoveError::Failed);
        };
        pages.remove(&from);
        if page.released {
            return Err(MoveError::Released);
        }
        if pages.insert(to, Page { lent: false, ..page }).is_some() {
            *self.collisions.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        }
        Ok(())
    }

    fn put_back(&self, pfn: Pfn, _order: Order) -> PutBack {
        let mut pages = self.pages();
        let Some(page) = pages.get_mut(&pfn) else { return PutBack::Kept };
        page.lent = false;
        if page.released {
            pages.remove(&pfn);
            return PutBack::Released;
        }
        PutBack::Kept
    }
}

/// Faults of an owner, or at the wrong time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Refuses to lend.
    Refuse,
    /// Is busy.
    Busy,
    /// Asks for another try, for ever.
    Again,
    /// Fails to move.
    Fail,
    /// Gives the block up while it is lent.
    GiveUp,
    /// Leaves the answers of a batch out.
    Silent,
    /// Swaps the entries of a batch.
    Shuffle,
    /// Says that it lent a block that it has never seen.
    LieLent,
    /// Says that it moved a block that it did not touch.
    LieMoved,
    /// Says that it gave a block up, and keeps it.
    LieReleased,
    /// Calls back into the allocator in the middle.
    Reenter,
    /// Wants the run to end.
    Interrupt,
    /// Has lent too much.
    TooManyIsolated,
}

impl Fault {
    /// Every fault.
    pub const ALL: &[Self] = &[
        Self::None,
        Self::Refuse,
        Self::Busy,
        Self::Again,
        Self::Fail,
        Self::GiveUp,
        Self::Silent,
        Self::Shuffle,
        Self::LieLent,
        Self::LieMoved,
        Self::LieReleased,
        Self::Reenter,
        Self::Interrupt,
        Self::TooManyIsolated,
    ];

    /// The faults under which the owner keeps its word, if badly.
    #[must_use]
    pub fn honest() -> Vec<Self> {
        let lies = [Self::Shuffle, Self::LieLent, Self::LieMoved, Self::LieReleased];
        Self::ALL.iter().copied().filter(|fault| !lies.contains(fault)).collect()
    }
}

/// An owner that follows a script of faults, one a call, and is honest when the script has ended.
pub struct Faulty<'a> {
    /// The honest owner underneath.
    pub inner: &'a Movables,
    script: Mutex<Vec<Fault>>,
    reenter: Box<dyn Fn() + Send + Sync + 'a>,
}

impl core::fmt::Debug for Faulty<'_> {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("Faulty").field("inner", self.inner).finish_non_exhaustive()
    }
}

impl<'a> Faulty<'a> {
    /// An owner that breaks as scripted. `reenter` runs in the middle of a call where the script says so.
    pub fn new(inner: &'a Movables, script: Vec<Fault>, reenter: impl Fn() + Send + Sync + 'a) -> Self {
        Self { inner, script: Mutex::new(script), reenter: Box::new(reenter) }
    }

    /// The rest of the script.
    #[must_use]
    pub fn into_script(self) -> Vec<Fault> {
        self.script.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Fault {
        let fault = self.script.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or(Fault::None);
        if fault == Fault::Reenter {
            (self.reenter)();
        }
        fault
    }
}

#[expect(unsafe_code, reason = "a migrator\'s answers give frames away")]
// SAFETY: the table is changed under its lock in the call that answers; nothing is behind the frames.
unsafe impl Migrate for Faulty<'_> {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        match self.next() {
            Fault::Refuse => Err(Refusal::Pinned),
            Fault::Busy => Err(Refusal::Busy),
            Fault::LieLent => Ok(()),
            _ => self.inner.isolate(pfn, order, mode),
        }
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        match self.next() {
            Fault::Again => Err(MoveError::Again),
            Fault::Fail => Err(MoveError::Failed),
            Fault::LieMoved => Ok(()),
            Fault::LieReleased => Err(MoveError::Released),
            Fault::GiveUp => {
                self.inner.disown(from);
                self.inner.migrate(from, to, order, mode)
            }
            _ => self.inner.migrate(from, to, order, mode),
        }
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        match self.next() {
            Fault::LieReleased => PutBack::Released,
            Fault::GiveUp => {
                self.inner.disown(pfn);
                self.inner.put_back(pfn, order)
            }
            _ => self.inner.put_back(pfn, order),
        }
    }

    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        match self.next() {
            Fault::Silent => return,
            Fault::Shuffle => requests.reverse(),
            _ => {}
        }
        for request in requests {
            request.answer = Some(self.isolate(request.pfn, request.order, mode));
        }
    }

    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        match self.next() {
            Fault::Silent => return,
            Fault::Shuffle => moves.reverse(),
            _ => {}
        }
        for one in moves {
            one.outcome = Some(self.migrate(one.from, one.to, one.order, mode));
        }
    }

    fn too_many_isolated(&self) -> bool {
        self.next() == Fault::TooManyIsolated
    }

    fn interrupt(&self) -> Interrupt {
        match self.next() {
            Fault::Interrupt => Interrupt::Fatal,
            Fault::Busy => Interrupt::Reschedule,
            _ => Interrupt::None,
        }
    }
}
