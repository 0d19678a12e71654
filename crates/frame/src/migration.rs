//! Moving memory: the seam between compaction, which chooses sources and targets, and the migrator, which moves
//! contents and references.

use core::fmt;

use crate::{Order, Pfn};

/// How much a migration may wait.
///
/// ```
/// use pageblock_frame::migration::MigrateMode;
/// assert!(MigrateMode::Async < MigrateMode::Sync);
/// assert_eq!(MigrateMode::SyncLight.to_string(), "sync");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MigrateMode {
    /// For nothing: locked pages and those being written back stay in place (`MIGRATE_ASYNC`).
    Async,
    /// For locks, not for writing back (`MIGRATE_SYNC_LIGHT`).
    SyncLight,
    /// For everything (`MIGRATE_SYNC`).
    Sync,
}

impl fmt::Display for MigrateMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if *self == Self::Async { "async" } else { "sync" })
    }
}

crate::errors! {
    /// Why a migrator does not isolate a block.
    ///
    /// ```
    /// use pageblock_frame::migration::Refusal;
    /// assert_eq!(Refusal::Pinned.to_string(), "pinned");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Refusal {
        /// The migrator does not hold this block, or it was freed meanwhile.
        #[error("not the owner's")]
        Unknown,
        /// It cannot move: its address is in use.
        #[error("pinned")]
        Pinned,
        /// A mode that waits longer might isolate it.
        #[error("busy")]
        Busy,
    }
}

crate::errors! {
    /// Why a block was not moved.
    ///
    /// ```
    /// use pageblock_frame::migration::MoveError;
    /// assert_eq!(MoveError::Again.to_string(), "busy, worth another try");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum MoveError {
        /// Not now (`-EAGAIN`): compaction tries again a few times.
        #[error("busy, worth another try")]
        Again,
        /// Not in this run.
        #[error("cannot be moved")]
        Failed,
        /// The block was given up while it was isolated: compaction frees it, and it is not put back.
        #[error("given up by its owner")]
        Released,
    }
}

/// Whether a migrator still wants a block that it had isolated.
///
/// ```
/// use pageblock_frame::migration::PutBack;
/// assert_ne!(PutBack::Kept, PutBack::Released);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack {
    /// The migrator holds it again.
    Kept,
    /// It was given up meanwhile: compaction frees it.
    Released,
}

/// Why a run should end early.
///
/// ```
/// use pageblock_frame::migration::Interrupt;
/// assert_ne!(Interrupt::None, Interrupt::Fatal);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interrupt {
    /// No reason.
    #[default]
    None,
    /// Another task wants the CPU: asynchronous runs end (before 6.x), others go on.
    Reschedule,
    /// The caller is being killed: every run ends.
    Fatal,
}

/// One block to be isolated, and the migrator's answer.
///
/// ```
/// use pageblock_frame::migration::IsolateRequest;
/// use pageblock_frame::{Order, Pfn};
/// assert_eq!(IsolateRequest::new(Pfn::new(7), Order::ZERO).answer, None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IsolateRequest {
    /// First frame.
    pub pfn: Pfn,
    /// Size.
    pub order: Order,
    /// The answer; `None` counts as a refusal.
    pub answer: Option<Result<(), Refusal>>,
}

impl IsolateRequest {
    /// A block that has not been asked for yet.
    #[must_use]
    pub const fn new(pfn: Pfn, order: Order) -> Self {
        Self { pfn, order, answer: None }
    }
}

/// One isolated block to be moved, and the result.
///
/// ```
/// use pageblock_frame::migration::Move;
/// use pageblock_frame::{Order, Pfn};
/// assert_eq!(Move::new(Pfn::new(7), Pfn::new(900), Order::ZERO).outcome, None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Move {
    /// Where it is.
    pub from: Pfn,
    /// Where it is to be.
    pub to: Pfn,
    /// Size of both.
    pub order: Order,
    /// The result; `None` counts as [`MoveError::Failed`].
    pub outcome: Option<Result<(), MoveError>>,
}

impl Move {
    /// A move that has not been tried yet.
    #[must_use]
    pub const fn new(from: Pfn, to: Pfn, order: Order) -> Self {
        Self { from, to, order, outcome: None }
    }
}

/// A holder of movable memory. Compaction holds **no lock** and has interrupts on in every call, so each may wait as
/// its mode allows, and may allocate from and free to the allocator that is being compacted.
///
/// # Course
/// [`isolate`](Migrate::isolate) begins the isolation of a block. Compaction then marks its state byte: a free of it
/// is refused as isolated. The isolation ends in exactly one of three ways:
/// * [`migrate`](Migrate::migrate) returns `Ok`: contents and references are at `to`, and compaction frees `from`.
///   `to` is the migrator's from the moment the call begins; it may even be freed before the call returns.
/// * [`migrate`](Migrate::migrate) returns [`MoveError::Released`]: compaction frees `from` and takes `to` back.
/// * [`put_back`](Migrate::put_back): the migrator holds the block as before, or answers [`PutBack::Released`], and
///   compaction frees it.
///
/// # Safety
/// Compaction frees frames on the strength of these answers, and its next caller writes to them. So:
/// 1. `isolate` answers `Ok` only for a block that the implementor holds as one allocation of exactly this order, and
///    that is not isolated yet. On `Err` nothing has changed.
/// 2. From that `Ok` to the end of the isolation nothing frees, splits or hands on the block.
/// 3. `migrate` answers `Ok` only if nothing refers to `from` any more, no CPU's translation included.
/// 4. `migrate` answers [`MoveError::Released`] only if nothing refers to `from`, nor to `to`.
/// 5. On any other `Err` of `migrate`, nothing refers to `to`, `to` has not been freed, and `from` is as it was.
/// 6. `put_back` answers [`PutBack::Released`] only if nothing refers to the block, and the implementor has not freed
///    it and will not free it.
/// 7. An entry of a batch is for its own block, whatever the order of entries. Nothing has happened to a block if its
///    entry is `None`.
/// 8. A call that unwinds counts as [`Refusal::Unknown`], [`MoveError::Failed`] or [`PutBack::Kept`]; a batch that
///    unwinds counts as far as its entries are written. The promises hold for these answers, too. Compaction then puts
///    back all that is isolated; if `put_back` unwinds during that, the program aborts.
///
/// # Breaches
/// An implementor that breaks 1 to 8 gives away memory that is in use. Compaction checks the state byte before it
/// takes a block in hand and before it frees one, so that most breaches cost a refused free. It cannot tell these two
/// from honest answers:
/// * `migrate` frees `to`, another request allocates it with the same order, and `migrate` answers `Err`: compaction
///   takes it from its new holder (5).
/// * A block is freed while `isolate` answers `Ok`, another request allocates it, and `put_back` answers `Released`:
///   compaction frees it under its new holder (1, 6).
///
/// ```
/// use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
/// use pageblock_frame::{Order, Pfn};
/// /// Holds nothing that could move.
/// struct Stone;
/// // SAFETY: every block is refused, so that no answer gives a frame away.
/// unsafe impl Migrate for Stone {
///     fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> { Err(Refusal::Unknown) }
///     fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> { Err(MoveError::Failed) }
///     fn put_back(&self, _: Pfn, _: Order) -> PutBack { PutBack::Kept }
/// }
/// assert!(Stone.isolate(Pfn::new(3), Order::ZERO, MigrateMode::Sync).is_err());
/// ```
///
/// Code without `unsafe` cannot answer for frames:
/// ```compile_fail,E0200
/// use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
/// use pageblock_frame::{Order, Pfn};
/// struct Liar;
/// impl Migrate for Liar {
///     fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> { Ok(()) }
///     fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> { Ok(()) }
///     fn put_back(&self, _: Pfn, _: Order) -> PutBack { PutBack::Kept }
/// }
/// ```
pub unsafe trait Migrate {
    /// Begins the isolation of a block.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed.
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal>;

    /// Moves an isolated block's contents and every reference to it.
    ///
    /// # Errors
    /// [`MoveError`]; see the promises of the trait.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError>;

    /// Ends an isolation without a move. The block is allocated again when this is called.
    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack;

    /// Begins the isolation of several blocks: for migrators that take one lock for all.
    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        for request in requests {
            request.answer = Some(self.isolate(request.pfn, request.order, mode));
        }
    }

    /// Moves several blocks: for migrators that flush once for all.
    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        for one in moves {
            one.outcome = Some(self.migrate(one.from, one.to, one.order, mode));
        }
    }

    /// True if so much is isolated already that a scanner should wait (`too_many_isolated()`).
    fn too_many_isolated(&self) -> bool {
        false
    }

    /// Asked between batches.
    fn interrupt(&self) -> Interrupt {
        Interrupt::None
    }
}

/// A reference to a migrator is one, so that [`Hooks::migrator`](crate::Hooks::migrator)'s answer can be passed on.
// SAFETY: every call goes to the migrator behind the reference; its answers keep the promises.
unsafe impl<M: Migrate + ?Sized> Migrate for &M {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        (**self).isolate(pfn, order, mode)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        (**self).migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        (**self).put_back(pfn, order)
    }

    fn isolate_batch(&self, requests: &mut [IsolateRequest], mode: MigrateMode) {
        (**self).isolate_batch(requests, mode);
    }

    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        (**self).migrate_batch(moves, mode);
    }

    fn too_many_isolated(&self) -> bool {
        (**self).too_many_isolated()
    }

    fn interrupt(&self) -> Interrupt {
        (**self).interrupt()
    }
}
