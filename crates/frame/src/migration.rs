//! Moving memory: the seam between compaction, which decides what moves where, and the owner, who can move it.

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
    /// For nothing: what is locked or being written back is left where it is (`MIGRATE_ASYNC`).
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

/// Why an owner does not lend a block.
///
/// ```
/// use pageblock_frame::migration::Refusal;
/// assert_eq!(Refusal::Pinned.to_string(), "pinned");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Nobody here owns it, or it was freed meanwhile.
    #[error("not the owner's")]
    Unknown,
    /// It cannot move: somebody knows its address.
    #[error("pinned")]
    Pinned,
    /// It could be lent in a mode that waits longer.
    #[error("busy")]
    Busy,
}

/// Why a block was not moved.
///
/// ```
/// use pageblock_frame::migration::MoveError;
/// assert_eq!(MoveError::Again.to_string(), "busy, worth another try");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MoveError {
    /// Not now (`-EAGAIN`): compaction tries again a few times.
    #[error("busy, worth another try")]
    Again,
    /// Not in this run.
    #[error("cannot be moved")]
    Failed,
    /// The owner gave the block up while it was lent: compaction frees it, and it is not put back.
    #[error("given up by its owner")]
    Released,
}

/// Whether an owner still wants a block that it had lent.
///
/// ```
/// use pageblock_frame::migration::PutBack;
/// assert_ne!(PutBack::Kept, PutBack::Released);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PutBack {
    /// The owner has it again.
    Kept,
    /// The owner gave it up meanwhile: whoever put it back frees it.
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
    /// Somebody else wants the CPU: asynchronous runs end (before 6.x), others go on.
    Reschedule,
    /// The caller is being killed: every run ends.
    Fatal,
}

/// One block to be lent, and the owner's answer.
///
/// ```
/// use pageblock_frame::migration::Loan;
/// use pageblock_frame::{Order, Pfn};
/// assert_eq!(Loan::new(Pfn::new(7), Order::ZERO).answer, None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Loan {
    /// First frame.
    pub pfn: Pfn,
    /// Size.
    pub order: Order,
    /// The answer; `None` counts as a refusal.
    pub answer: Option<Result<(), Refusal>>,
}

impl Loan {
    /// A block that has not been asked for yet.
    #[must_use]
    pub const fn new(pfn: Pfn, order: Order) -> Self {
        Self { pfn, order, answer: None }
    }
}

/// One lent block to be moved, and what came of it.
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
    /// What came of it; `None` counts as [`MoveError::Failed`].
    pub outcome: Option<Result<(), MoveError>>,
}

impl Move {
    /// A move that has not been tried yet.
    #[must_use]
    pub const fn new(from: Pfn, to: Pfn, order: Order) -> Self {
        Self { from, to, order, outcome: None }
    }
}

/// An owner of movable memory. Compaction holds **no lock** and has interrupts on in every call, so each may wait as its mode
/// allows, and may allocate from and free to the allocator that is being compacted.
///
/// # Contract
/// * [`isolate`](Migrate::isolate) lends a block: between `Ok` and what ends the loan the owner does not free it (a free is
///   refused as isolated) and lends it to nobody else, but may go on using its contents. A block that the owner
///   does not know, or that is being freed, is refused. On `Err` nothing has changed.
/// * A loan ends in exactly one of three ways:
///   1. [`migrate`](Migrate::migrate) returns `Ok`: contents and every reference are at `to`, which is an ordinary block of the owner's
///      from the moment the call begins (it may even be freed before the call returns); `from` is compaction's, which
///      frees it.
///   2. [`migrate`](Migrate::migrate) returns [`MoveError::Released`]: the owner has no more use for the block; `from` and `to` are
///      compaction's.
///   3. [`put_back`](Migrate::put_back): the owner has the block as before, or says that it gave it up meanwhile, and compaction frees it.
/// * On any other error of `migrate` the loan goes on, `from` is untouched, and the owner has kept nothing of `to`.
///
/// # What an owner that breaks the contract can do
/// Damage its own contents. The allocator stays consistent whatever is answered: a state byte that is not what the
/// contract says stops the frame from being given or taken twice, and a batch whose answers are left out counts as refused.
///
/// ```
/// use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
/// use pageblock_frame::{Order, Pfn};
/// /// Owns nothing that could move.
/// struct Stone;
/// impl Migrate for Stone {
///     fn isolate(&self, _: Pfn, _: Order, _: MigrateMode) -> Result<(), Refusal> { Err(Refusal::Unknown) }
///     fn migrate(&self, _: Pfn, _: Pfn, _: Order, _: MigrateMode) -> Result<(), MoveError> { Err(MoveError::Failed) }
///     fn put_back(&self, _: Pfn, _: Order) -> PutBack { PutBack::Kept }
/// }
/// assert!(Stone.isolate(Pfn::new(3), Order::ZERO, MigrateMode::Sync).is_err());
/// ```
pub trait Migrate {
    /// Lends a block.
    ///
    /// # Errors
    /// [`Refusal`]; nothing has changed.
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal>;

    /// Moves a lent block's contents and every reference to it.
    ///
    /// # Errors
    /// [`MoveError`]; see the contract.
    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError>;

    /// Ends a loan without a move.
    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack;

    /// Lends several blocks: for owners that take one lock for all.
    fn isolate_batch(&self, loans: &mut [Loan], mode: MigrateMode) {
        for loan in loans {
            loan.answer = Some(self.isolate(loan.pfn, loan.order, mode));
        }
    }

    /// Moves several blocks: for owners that flush once for all.
    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        for one in moves {
            one.outcome = Some(self.migrate(one.from, one.to, one.order, mode));
        }
    }

    /// True if so much is lent already that a scanner should wait (`too_many_isolated()`).
    fn is_overlent(&self) -> bool {
        false
    }

    /// Asked between batches.
    fn interrupt(&self) -> Interrupt {
        Interrupt::None
    }
}

/// A reference to an owner is one, so that [`Platform::migrator`](crate::Platform::migrator)'s answer can be passed on.
impl<M: Migrate + ?Sized> Migrate for &M {
    fn isolate(&self, pfn: Pfn, order: Order, mode: MigrateMode) -> Result<(), Refusal> {
        (**self).isolate(pfn, order, mode)
    }

    fn migrate(&self, from: Pfn, to: Pfn, order: Order, mode: MigrateMode) -> Result<(), MoveError> {
        (**self).migrate(from, to, order, mode)
    }

    fn put_back(&self, pfn: Pfn, order: Order) -> PutBack {
        (**self).put_back(pfn, order)
    }

    fn isolate_batch(&self, loans: &mut [Loan], mode: MigrateMode) {
        (**self).isolate_batch(loans, mode);
    }

    fn migrate_batch(&self, moves: &mut [Move], mode: MigrateMode) {
        (**self).migrate_batch(moves, mode);
    }

    fn is_overlent(&self) -> bool {
        (**self).is_overlent()
    }

    fn interrupt(&self) -> Interrupt {
        (**self).interrupt()
    }
}
