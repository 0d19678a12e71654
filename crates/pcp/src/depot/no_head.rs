//! The head of a stack where no batch can change hands: always full, always empty.

use super::batch::Batch;

/// No batch.
pub(crate) const NONE: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct Head;

impl Head {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(super) fn depth(&self) -> u16 {
        0
    }

    pub(super) fn push(&self, _: &[Batch], _: u16, _: u16) -> bool {
        false
    }

    pub(super) fn pop(&self, _: &[Batch]) -> Option<u16> {
        None
    }
}
