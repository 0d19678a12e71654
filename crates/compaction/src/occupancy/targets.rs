//! Finding room for the blocks to move: the fullest pageblocks first.

use core::ops::Range;

use arrayvec::ArrayVec;
use pageblock_frame::migration::Migrate;
use pageblock_frame::{Pageblock, Platform};

use super::run::Run;
use crate::choice::{Sources, is_foreign_target, is_target, step_of};

/// Pageblocks looked at together.
const GROUP: u32 = 64;

/// Which pageblocks may give targets.
#[derive(Debug, Clone, Copy)]
enum Suited {
    /// Movable ones, and emptier than this step of the histogram.
    Step(u16),
    /// Movable ones.
    Movable,
    /// Those of other types.
    Foreign,
}

impl Suited {
    const fn suits(self, b: &Pageblock) -> bool {
        match self {
            Self::Step(most) => is_target(b) && step_of(b) <= most,
            Self::Movable => is_target(b),
            Self::Foreign => is_foreign_target(b),
        }
    }
}

impl<P: Platform, M: Migrate> Run<'_, '_, '_, P, M> {
    /// Takes targets from pageblocks at least as full as the threshold says, downwards through the window; from any,
    /// if those do not suffice; and then from those of other types.
    pub(super) fn find_targets(&mut self, need: usize, threshold: u16) {
        let rounds = [Suited::Step(threshold), Suited::Movable, Suited::Foreign];
        let foreign = Sources::new(self.request, self.order, self.config()).foreign;
        for suited in rounds.into_iter().take(if foreign { 3 } else { 2 }) {
            let mut left = self.window.end - self.window.start;
            while self.targets.len() < need && left > 0 {
                if self.target <= self.window.start {
                    self.target = self.window.end;
                }
                let from = self.target.saturating_sub(GROUP).max(self.window.start);
                left = left.saturating_sub(self.target - from);
                if !self.take_targets(from..self.target, suited, need) {
                    self.target = from;
                }
            }
        }
    }

    /// Takes targets from a few pageblocks. True if there may be more in them.
    fn take_targets(&mut self, blocks: Range<u32>, suited: Suited, need: usize) -> bool {
        let order = self.targets.order();
        let mut some: ArrayVec<u32, { GROUP as usize }> = ArrayVec::new();
        let source = self.source;
        self.migration.scan.survey(blocks, |block, b| {
            // With nothing free there is no largest order, and no target.
            if suited.suits(b) && b.top() >= order.as_u8() && block != source {
                // No more pageblocks than there is room for were asked for.
                let _ = some.try_push(block);
            }
        });
        for block in some.into_iter().rev() {
            let missing = need.saturating_sub(self.targets.len());
            if missing == 0 {
                return true;
            }
            let got = self.targets.take_from(block, missing) as u64;
            self.counts.free_scanned += got << order.as_u8();
            self.counts.isolated += got << order.as_u8();
        }
        self.targets.len() >= need
    }
}
