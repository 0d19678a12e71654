//! Points about right use.

use std::collections::HashSet;

use super::{Candidate, FRAMES, Outcome, Point, drain, pool};

pub(super) fn points<C: Candidate>() -> Vec<Point> {
    vec![
        Point { name: "blocks are naturally aligned", run: aligned::<C> },
        Point { name: "no frame is handed out twice", run: distinct::<C> },
        Point { name: "after exhaustion, what is freed comes again", run: exhaustion::<C> },
        Point { name: "all frames come back", run: come_back::<C> },
        Point { name: "all frames merge again", run: merge::<C> },
        Point { name: "two freed buddies of the largest order come again", run: largest::<C> },
        Point { name: "more than the largest order is refused", run: too_large::<C> },
        Point { name: "a request for no frames is refused", run: nothing::<C> },
        Point { name: "reports its free frames exactly", run: counted::<C> },
    ]
}

/// A small generator of its own, so that the points never change with a library.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % below
    }
}

fn fail(how: impl Into<String>) -> Outcome {
    Outcome::Fail(how.into())
}

fn aligned<C: Candidate>() -> Outcome {
    for order in 0..=C::MAX_ORDER {
        let mut candidate = C::new(FRAMES);
        let _ = candidate.alloc(0); // so that not everything starts at 0
        let mut blocks = 0;
        while let Some(pfn) = candidate.alloc(order) {
            if pfn % (1 << order) != 0 {
                return fail(format!("order {order} at {pfn}"));
            }
            blocks += 1;
            if blocks > FRAMES {
                return fail("never ends");
            }
        }
        if blocks == 0 {
            return fail(format!("no block of order {order}"));
        }
    }
    Outcome::pass()
}

/// Random allocations and frees; an error if a frame has two owners. Returns the live blocks.
fn churn<C: Candidate>(candidate: &mut C, steps: usize) -> Result<Vec<(u64, u8)>, String> {
    let mut dice = Dice(7);
    let mut live: Vec<(u64, u8)> = Vec::new();
    let mut owned: HashSet<u64> = HashSet::new();
    for _ in 0..steps {
        let grow = (owned.len() as u64) < FRAMES / 2;
        if live.is_empty() || dice.roll(4) < if grow { 3 } else { 1 } {
            let order = [0, 0, 0, 0, 1, 1, 2, 3, 9][dice.roll(9)];
            let Some(pfn) = candidate.alloc(order) else { continue };
            if !(pfn..pfn + (1 << order)).all(|frame| frame < FRAMES && owned.insert(frame)) {
                return Err(format!("block {pfn} of order {order}"));
            }
            live.push((pfn, order));
        } else {
            let (pfn, order) = live.swap_remove(dice.roll(live.len()));
            for frame in pfn..pfn + (1 << order) {
                owned.remove(&frame);
            }
            candidate.free(pfn, order).map_err(|error| format!("a right free is refused: {error}"))?;
        }
    }
    Ok(live)
}

/// Random use, then everything freed.
fn used<C: Candidate>() -> Result<C, String> {
    let mut candidate = C::new(FRAMES);
    for (pfn, order) in churn(&mut candidate, 20_000)? {
        candidate.free(pfn, order)?;
    }
    Ok(candidate)
}

fn distinct<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    match churn(&mut candidate, 20_000) {
        Err(what) => fail(what),
        Ok(_) => Outcome::pass(),
    }
}

fn exhaustion<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    let frames = drain(&mut candidate);
    let (Some(&last), None) = (frames.last(), candidate.alloc(0)) else { return fail("never exhausted") };
    if candidate.free(last, 0).is_err() {
        return fail("a right free is refused");
    }
    match (candidate.alloc(0), candidate.alloc(0)) {
        (Some(again), None) if again == last => Outcome::pass(),
        (first, second) => fail(format!("{first:?}, then {second:?}")),
    }
}

fn come_back<C: Candidate>() -> Outcome {
    match used::<C>() {
        Err(what) => fail(what),
        Ok(mut candidate) => {
            let frames = drain(&mut candidate);
            let (found, expected) = (frames.iter().copied().collect::<HashSet<_>>(), pool::<C>());
            if found == expected && frames.len() == expected.len() {
                Outcome::pass()
            } else {
                fail(format!("{} of {}", found.len(), expected.len()))
            }
        }
    }
}

fn largest_blocks<C: Candidate>(candidate: &mut C) -> usize {
    (0..FRAMES).map_while(|_| candidate.alloc(C::MAX_ORDER)).count()
}

fn merge<C: Candidate>() -> Outcome {
    match used::<C>() {
        Err(what) => fail(what),
        Ok(mut candidate) => {
            let (found, expected) = (largest_blocks(&mut candidate), largest_blocks(&mut C::new(FRAMES)));
            if found == expected { Outcome::pass() } else { fail(format!("{found} of {expected} largest blocks")) }
        }
    }
}

fn largest<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    let mut blocks = HashSet::new();
    while let Some(pfn) = candidate.alloc(C::MAX_ORDER) {
        if !blocks.insert(pfn) {
            return fail("the same block twice");
        }
    }
    let buddy = blocks.iter().copied().find(|pfn| blocks.contains(&(pfn ^ (1 << C::MAX_ORDER))));
    let Some(low) = buddy else { return fail("no two buddies") };
    let pair = HashSet::from([low, low ^ (1 << C::MAX_ORDER)]);
    for &pfn in &pair {
        if let Err(error) = candidate.free(pfn, C::MAX_ORDER) {
            return fail(error);
        }
    }
    let again = [candidate.alloc(C::MAX_ORDER), candidate.alloc(C::MAX_ORDER)];
    if again.iter().flatten().copied().collect::<HashSet<_>>() == pair {
        Outcome::pass()
    } else {
        fail(format!("{again:?}"))
    }
}

fn too_large<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    let order = if C::BOUNDED { C::MAX_ORDER + 1 } else { FRAMES.ilog2() as u8 + 1 };
    if let Some(pfn) = candidate.alloc(order) {
        return fail(format!("gives {pfn}"));
    }
    if drain(&mut candidate).len() == pool::<C>().len() { Outcome::pass() } else { fail("loses frames") }
}

fn nothing<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    match candidate.alloc_frames(0) {
        None => Outcome::NotApplicable,
        Some(Some(_)) => fail("gives a frame"),
        Some(None) if drain(&mut candidate).len() == pool::<C>().len() => Outcome::pass(),
        Some(None) => fail("loses frames"),
    }
}

fn counted<C: Candidate>() -> Outcome {
    let mut candidate = C::new(FRAMES);
    if let Err(what) = churn(&mut candidate, 5_000) {
        return fail(what);
    }
    let Some(said) = candidate.free_frames() else { return Outcome::NotApplicable };
    let counted = drain(&mut candidate).len() as u64;
    if said == counted { Outcome::pass() } else { fail(format!("{said} for {counted}")) }
}
