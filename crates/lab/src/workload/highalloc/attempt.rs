//! Blocks of order 9, taken and held until none is to be had.

use pageblock_frame::{Gfp, PAGEBLOCK_ORDER};

use super::scene::{HUGE_TIME, Scene};
use crate::machine::owner::Holder;

/// Permissions of the requests: the four sets of flags of the measured runs.
pub(crate) const FLAGS: [(&str, Gfp); 4] = [
    ("light", Gfp::TRANSHUGE_LIGHT),
    ("thpnr", Gfp::TRANSHUGE.union(Gfp::NORETRY)),
    ("thp", Gfp::TRANSHUGE),
    ("movable", Gfp::HIGHUSER_MOVABLE),
];

impl Scene {
    /// Takes blocks until `patience` requests in a row have failed; returns how many it got. They are held.
    pub(crate) fn take_huge(&mut self, gfp: Gfp, patience: u32) -> u64 {
        let (mut got, mut failures) = (0, 0);
        while failures < patience {
            match self.memory.take(Holder::Test { order: PAGEBLOCK_ORDER }, gfp) {
                Ok(_) => (got, failures) = (got + 1, 0),
                Err(_) => failures += 1,
            }
            self.threads.pass(&self.memory, HUGE_TIME);
        }
        got
    }
}
