//! The module `history` without the feature of that name: the same names, and nothing behind them.

use pageblock_buddy::Zone;
use pageblock_frame::{AllocFlags, Gfp, Order, Pfn, Platform};

use crate::error::ConfigError;
use crate::request::Request;

/// No settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Settings;

impl Settings {
    pub(crate) const fn new() -> Self {
        Self
    }

    pub(crate) const fn stall_order(&self) -> u8 {
        0
    }

    pub(crate) const fn check(&self, _max_order: Order) -> Result<(), ConfigError> {
        Ok(())
    }
}

/// No state.
#[derive(Debug)]
pub(crate) struct History;

impl History {
    pub(crate) const fn new(_settings: Settings) -> Self {
        Self
    }

    pub(crate) const fn zones_take_turns(&self) -> bool {
        false
    }

    pub(crate) const fn compaction_needs(&self) -> Gfp {
        Gfp::IO
    }

    pub(crate) const fn stall_count(&self) -> u64 {
        0
    }
}

impl<P: Platform> Request<P> {
    #[inline(always)]
    pub(crate) const fn fair_flag(&self) -> AllocFlags {
        AllocFlags::empty()
    }

    #[inline(always)]
    pub(crate) const fn stall_flag(&self) -> AllocFlags {
        AllocFlags::empty()
    }

    #[inline(always)]
    pub(crate) const fn out_of_turn(&self, _zone: &Zone<'_>, _flags: AllocFlags) -> bool {
        false
    }

    #[inline(always)]
    pub(crate) const fn charge_fair(&self, _zone: &Zone<'_>, _frames: u64) {}

    #[inline(always)]
    pub(crate) fn walk_fair(&self, flags: AllocFlags) -> Option<Pfn> {
        self.walk(flags.difference(AllocFlags::FAIR))
    }

    #[inline(always)]
    pub(crate) const fn reset_fair_in_slowpath(&self) {}

    #[inline(always)]
    pub(crate) const fn stall(&self) {}
}
