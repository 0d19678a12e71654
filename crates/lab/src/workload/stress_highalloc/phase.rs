//! One phase: the module that allocates huge pages at a steady pace and frees them at the end.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::str::FromStr;

use anyhow::anyhow;
use pageblock_frame::{Gfp, PAGEBLOCK_ORDER, Pfn};

use super::scale::PACE;
use super::tree::Done;
use crate::machine::owner::Holder;
use crate::machine::{Actor, Machine, Next};

/// The flags of the requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flags {
    /// `GFP_HIGHUSER_MOVABLE`.
    Nothp,
    /// The same as huge page faults had it: no reserves, no retries, kswapd is not woken.
    Thp,
}

impl Flags {
    /// Both.
    pub(crate) const ALL: [Self; 2] = [Self::Nothp, Self::Thp];

    /// As in the published tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothp => "nothp",
            Self::Thp => "thp",
        }
    }

    const fn gfp(self) -> Gfp {
        let movable = Gfp::HIGHUSER_MOVABLE.union(Gfp::NOWARN);
        match self {
            Self::Nothp => movable,
            Self::Thp => movable.union(Gfp::NOMEMALLOC).union(Gfp::NORETRY).difference(Gfp::KSWAPD_RECLAIM),
        }
    }
}

impl FromStr for Flags {
    type Err = anyhow::Error;

    fn from_str(name: &str) -> anyhow::Result<Self> {
        let found = Self::ALL.into_iter().find(|flags| flags.name() == name);
        found.ok_or_else(|| anyhow!("expected nothp or thp, found `{name}`"))
    }
}

/// Findings of a phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Found {
    pub(super) attempts: u64,
    pub(super) successes: u64,
}

/// Listener for the moment when a phase has all its blocks.
pub(super) type Full = Rc<RefCell<dyn FnMut(&Machine)>>;

/// The module.
pub(super) struct Module {
    pub(super) flags: Flags,
    /// Attempts left.
    pub(super) left: u64,
    pub(super) taken: Vec<Pfn>,
    pub(super) found: Rc<Cell<Found>>,
    /// Told when all attempts are made, before the blocks are freed.
    pub(super) full: Full,
    pub(super) done: Done,
}

impl Actor for Module {
    fn step(&mut self, machine: &Machine) -> Next {
        if self.left == 0 {
            (self.full.borrow_mut())(machine);
            // Newest first.
            while let Some(pfn) = self.taken.pop() {
                machine.memory().free(pfn);
            }
            self.done.set(true);
            return Next::Exit;
        }
        let began = machine.now();
        self.left -= 1;
        let taken = machine.memory().take(Holder::Test { order: PAGEBLOCK_ORDER }, self.flags.gfp());
        let mut found = self.found.get();
        found.attempts += 1;
        if let Ok(pfn) = taken {
            self.taken.push(pfn);
            found.successes += 1;
        }
        self.found.set(found);
        // A slow one is followed at once by the next, and no debt is repaid.
        Next::Sleep(began.after(PACE))
    }
}
