//! The system calls: a range of addresses, area by area.

use crate::context::Context;
use crate::lock::{Stuck, mlock_pages, populate};
use crate::munlock::munlock_pages;
use crate::span::{Span, SpanError, Vpn};
use crate::table::{AddressSpace, FaultError, MarkError};

/// Kind of an area, as mlock distinguishes them.
///
/// ```
/// assert_ne!(pageblock_mlock::AreaState::Locked, pageblock_mlock::AreaState::Unlocked);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AreaState {
    /// Its pages may be reclaimed.
    Unlocked,
    /// Its pages are kept in memory.
    Locked,
    /// Device memory and the like: passed over, for it has no pages to lock.
    Special,
}

/// An area of an address space.
///
/// ```
/// use pageblock_mlock::{LockedArea, AreaState, Span, Vpn};
/// let area = LockedArea { span: Span::new(Vpn::new(0), Vpn::new(8)), state: AreaState::Unlocked };
/// assert_eq!(area.span.len(), 8);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LockedArea {
    /// Its pages.
    pub span: Span,
    /// Its kind.
    pub state: AreaState,
}

pageblock_frame::errors! {
    /// Why [`mlock`] or [`munlock`] stopped.
    ///
    /// ```
    /// use pageblock_mlock::{Cause, Vpn};
    /// assert_eq!(Cause::Hole { at: Vpn::new(3) }.to_string(), "nothing is mapped at page 0x3");
    /// ```
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    #[non_exhaustive]
    pub enum Cause {
        /// The range is none (`EINVAL`).
        #[error(transparent)]
        Range(#[from] SpanError),
        /// No area there (`ENOMEM`).
        #[error("nothing is mapped at page {at}")]
        Hole {
            /// First page of the hole within the range.
            at: Vpn,
        },
        /// The area could not be marked.
        #[error("the area at page {at} cannot be marked: {error}")]
        Mark {
            /// First page of the area within the range.
            at: Vpn,
            /// Why.
            error: MarkError,
        },
        /// A page could not be brought in.
        #[error("page {at} cannot be brought in: {error}")]
        Fault {
            /// The page.
            at: Vpn,
            /// Why.
            error: FaultError,
        },
    }
}

/// How far [`mlock`] or [`munlock`] came before it stopped: that part stays done.
///
/// ```
/// use pageblock_mlock::{Cause, SpanError, Stopped};
/// let stopped = Stopped { cause: Cause::Range(SpanError::Wraps), pages: 0 };
/// assert_eq!(stopped.to_string(), "the range runs over the end of the address space (after 0 pages)");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stopped {
    /// Why.
    pub cause: Cause,
    /// Pages of the range, from its start, in areas that are marked as asked.
    pub pages: u64,
}

impl core::fmt::Display for Stopped {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{} (after {} pages)", self.cause, self.pages)
    }
}

impl core::error::Error for Stopped {}

/// Locks the pages that hold `length` bytes from `address`: marks their areas, locks present pages, and brings in and
/// locks the others. Returns the number of pages in the range.
///
/// Rules of `mlock(2)`: the range is rounded outwards; an empty one succeeds; locked pages stay locked; device
/// areas are passed over. At a hole nothing is brought in, but the areas before it stay marked and their present pages
/// locked.
///
/// # Errors
/// [`Stopped`], with the first bad page and the pages done before it.
pub fn mlock<S: AddressSpace, const N: usize>(
    space: &S,
    address: u64,
    length: u64,
    context: &mut Context<'_, '_, N>,
) -> Result<u64, Stopped> {
    let span = Span::of_bytes(address, length).map_err(|error| Stopped { cause: error.into(), pages: 0 })?;
    mark_each(space, span, AreaState::Locked, |part| mlock_pages(space, part, context))?;
    let filled = each_area(space, span, |area, part| {
        if area != AreaState::Locked {
            return Ok(());
        }
        populate(space, part, context).map_err(|Stuck { at, error }| Cause::Fault { at, error })
    });
    match filled {
        // All of it was there a moment ago: the rest was unmapped since.
        Ok(()) | Err(Stopped { cause: Cause::Hole { .. }, .. }) => Ok(span.len()),
        Err(Stopped { cause, .. }) => Err(Stopped { cause, pages: span.len() }),
    }
}

/// Unlocks the pages that hold `length` bytes from `address`. A page that another locked area maps too stays locked.
/// Returns the number of pages in the range.
///
/// Rules of `munlock(2)`: as for [`mlock`]; areas that are not locked are passed over.
///
/// # Errors
/// [`Stopped`], with the first bad page and the pages done before it.
pub fn munlock<S: AddressSpace, const N: usize>(
    space: &S,
    address: u64,
    length: u64,
    context: &mut Context<'_, '_, N>,
) -> Result<u64, Stopped> {
    let span = Span::of_bytes(address, length).map_err(|error| Stopped { cause: error.into(), pages: 0 })?;
    mark_each(space, span, AreaState::Unlocked, |part| munlock_pages(space, part, context))?;
    Ok(span.len())
}

/// Marks the areas of `span` one after another and lets `work` follow in each that was not so marked before.
/// Mirrors `apply_vma_lock_flags()` (6.1).
fn mark_each<S: AddressSpace>(
    space: &S,
    span: Span,
    state: AreaState,
    mut work: impl FnMut(Span),
) -> Result<(), Stopped> {
    each_area(space, span, |area, part| {
        if area != AreaState::Special && area != state {
            space.mark(part, state).map_err(|error| Cause::Mark { at: part.start, error })?;
            work(part);
        }
        Ok(())
    })
}

/// Calls `work` with the state and the part within `span` of one area after another.
fn each_area<S: AddressSpace>(
    space: &S,
    span: Span,
    mut work: impl FnMut(AreaState, Span) -> Result<(), Cause>,
) -> Result<(), Stopped> {
    let mut at = span.start;
    while at < span.end {
        let pages = at.as_u64() - span.start.as_u64();
        let Some(area) = space.area(at) else { return Err(Stopped { cause: Cause::Hole { at }, pages }) };
        let part = area.span.intersect(Span::new(at, span.end));
        work(area.state, part).map_err(|cause| Stopped { cause, pages })?;
        // An area that claims not to reach beyond `at` would hold us here for ever.
        at = core::cmp::max(part.end, at.add(1));
    }
    Ok(())
}
