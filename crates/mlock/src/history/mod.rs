//! munlock as Linux 3.11 to 5.17 did it (*munlock batching*, 2013), one switch a patch: [`Steps`].
//!
//! Compiled with the feature `history` only. The default form, in `runs.rs`, uses nothing of it.
//!
//! * `single.rs`: one page at a time: Linux 3.11 and its first two patches
//! * `vector.rs`: patches 3 to 7: pages of one zone in a vector on the stack

mod events;
mod single;
mod steps;
mod vector;

pub use steps::{Accounting, InPlace, Steps};

use crate::context::Context;
use crate::span::Span;
use crate::table::AddressSpace;

/// Unlocks the pages of a span as `context.steps` says.
pub(crate) fn unlock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    if context.steps.batch_isolate {
        vector::munlock(space, span, context);
    } else {
        single::munlock(space, span, context);
    }
}

/// Locks the pages of a span, page by page.
pub(crate) fn lock<S: AddressSpace, const N: usize>(space: &S, span: Span, context: &mut Context<'_, '_, N>) {
    let mut at = span.start;
    while at < span.end {
        at = single::lock_one(space, at, span, context);
    }
}
