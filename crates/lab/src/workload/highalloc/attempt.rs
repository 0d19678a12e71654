//! Blocks of order 9, taken and held until none is to be had.

use pageblock::AllocError;
use pageblock_frame::reclaim::{Reclaim, Shrink};
use pageblock_frame::{Gfp, NodeId, PAGEBLOCK_ORDER, Pfn, ZoneKind};

use super::scene::Scene;
use crate::machine::owner::{Holder, Memory};

/// What the requests permit: the four sets of flags of the measured runs.
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
            match huge(&self.memory, gfp) {
                Ok(_) => (got, failures) = (got + 1, 0),
                Err(_) => failures += 1,
            }
            self.threads.run(&self.memory);
        }
        got
    }
}

fn huge(memory: &Memory, gfp: Gfp) -> Result<Pfn, AllocError> {
    let holder = Holder::Test { order: PAGEBLOCK_ORDER };
    memory.take(holder, gfp).or_else(|error| {
        if !gfp.contains(Gfp::DIRECT_RECLAIM) || gfp.contains(Gfp::NORETRY) {
            return Err(error);
        }
        let mut freed = 0;
        for priority in (0..=12).rev() {
            let round = Shrink { priority, ..Shrink::direct(NodeId::new(0), ZoneKind::Movable, gfp) };
            freed += memory.shrink(&round).freed;
            if freed >= 1024 {
                break;
            }
        }
        if freed > 0 { memory.take(holder, gfp) } else { Err(error) }
    })
}

/// As [`Memory::take`] for single frames, with reclaim.
pub(super) fn take_with_reclaim(memory: &Memory, holder: Holder, gfp: Gfp) -> Result<Pfn, AllocError> {
    for priority in (0..=12).rev() {
        match memory.take(holder, gfp) {
            Err(AllocError::OutOfMemory) => {
                memory.shrink(&Shrink { priority, ..Shrink::direct(NodeId::new(0), ZoneKind::Movable, gfp) });
            }
            other => return other,
        }
    }
    memory.take(holder, gfp)
}
