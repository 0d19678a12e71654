//! Which node a frame belongs to.

use arrayvec::ArrayVec;

use crate::set::{Full, Span};
use pageblock_frame::NodeId;

#[derive(Clone, Copy, Debug)]
struct Claim {
    frames: Span,
    node: NodeId,
}

/// The claims of nodes on frames. Unclaimed frames belong to node 0; where claims overlap the highest number
/// wins, so that a map that says nothing about nodes (all 0) and one that does can be fed in together, in any order.
#[derive(Clone, Debug)]
pub(crate) struct NodeClaims<const N: usize> {
    claims: ArrayVec<Claim, N>,
}

/// Frames at the beginning of a range: their node, and where they end.
pub(crate) struct Head {
    pub(crate) node: NodeId,
    pub(crate) end: u64,
}

impl<const N: usize> NodeClaims<N> {
    pub(crate) const fn new() -> Self {
        Self { claims: ArrayVec::new_const() }
    }

    pub(crate) fn clear(&mut self) {
        self.claims.clear();
    }

    /// Records that the frames belong to the node.
    pub(crate) fn add(&mut self, frames: Span, node: NodeId) -> Result<(), Full> {
        if node.index() == 0 || frames.len() == 0 {
            return Ok(());
        }
        let touching = |claim: &&mut Claim| {
            claim.node == node && claim.frames.start <= frames.end && frames.start <= claim.frames.end
        };
        if let Some(claim) = self.claims.iter_mut().find(touching) {
            claim.frames.start = claim.frames.start.min(frames.start);
            claim.frames.end = claim.frames.end.max(frames.end);
            return Ok(());
        }
        self.claims.try_push(Claim { frames, node }).map_err(|_| Full)
    }

    /// The frame's node.
    pub(crate) fn node_of(&self, frame: u64) -> NodeId {
        let claims = self.claims.iter().filter(|claim| claim.frames.start <= frame && frame < claim.frames.end);
        claims.map(|claim| claim.node).max().unwrap_or_default()
    }

    /// The part at the beginning of a range that is all on one node.
    pub(crate) fn head(&self, range: Span) -> Head {
        let node = self.node_of(range.start);
        let mut end = range.start;
        while end < range.end && self.node_of(end) == node {
            end = self.next_border(end).min(range.end);
        }
        Head { node, end }
    }

    /// The next frame above this one where a claim begins or ends.
    fn next_border(&self, frame: u64) -> u64 {
        let mut next = u64::MAX;
        for claim in &self.claims {
            for border in [claim.frames.start, claim.frames.end] {
                if border > frame {
                    next = next.min(border);
                }
            }
        }
        next
    }
}
