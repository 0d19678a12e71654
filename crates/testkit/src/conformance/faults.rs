//! Points about wrong frees. Right is an error that changes nothing; everything else is described.

use std::collections::HashSet;

use super::{Candidate, FRAMES, Outcome, Point, drain, pool};

pub(super) fn points<C: Candidate>() -> Vec<Point> {
    vec![
        Point { name: "double free", run: double::<C> },
        Point { name: "double free, later", run: double_later::<C> },
        Point { name: "double free of a merged block", run: double_merged::<C> },
        Point { name: "free of a frame that was never allocated", run: never_allocated::<C> },
        Point { name: "free of a frame past the end", run: past_the_end::<C> },
        Point { name: "free of a block at a place that is not aligned", run: misaligned::<C> },
        Point { name: "free with a larger order while the neighbour is live", run: larger::<C> },
        Point { name: "free with a smaller order", run: smaller::<C> },
        Point { name: "free of a frame inside a block", run: inside::<C> },
    ]
}

/// An instance in use, and its live blocks.
struct Scene<C> {
    candidate: C,
    live: Vec<(u64, u8)>,
}

impl<C: Candidate> Scene<C> {
    /// A quarter of the frames are live, singly, and three larger blocks.
    fn new() -> Option<Self> {
        let mut scene = Self { candidate: C::new(FRAMES), live: Vec::new() };
        for order in [5, 4, 6] {
            scene.alloc(order)?;
        }
        for _ in 0..FRAMES / 4 {
            scene.alloc(0)?;
        }
        Some(scene)
    }

    fn alloc(&mut self, order: u8) -> Option<u64> {
        let pfn = self.candidate.alloc(order)?;
        self.live.push((pfn, order));
        Some(pfn)
    }

    fn free(&mut self, pfn: u64, order: u8) -> Option<()> {
        self.candidate.free(pfn, order).ok()?;
        self.live.retain(|&(start, _)| start != pfn);
        Some(())
    }

    fn owned(&self) -> HashSet<u64> {
        self.live.iter().flat_map(|&(pfn, order)| pfn..pfn + (1 << order)).collect()
    }

    /// Does the wrong free, then takes every frame that is left, and reports the outcome.
    fn wrong_free(mut self, pfn: u64, order: u8) -> Outcome {
        let answer = self.candidate.free(pfn, order);
        if answer.is_ok() {
            // A free of a head means the block, whatever order is claimed: it has no owner now.
            self.live.retain(|&(start, _)| start != pfn);
        }
        let damage = self.damage();
        match (answer, damage) {
            (Err(error), None) => Outcome::Pass(error),
            (Err(error), Some(damage)) => Outcome::Fail(format!("{error}, but {damage}")),
            (Ok(()), None) => Outcome::Fail("silent".into()),
            (Ok(()), Some(damage)) => Outcome::Fail(format!("silent: {damage}")),
        }
    }

    fn damage(&mut self) -> Option<String> {
        let (pool, owned) = (pool::<C>(), self.owned());
        let drained = drain(&mut self.candidate);
        let mut seen = HashSet::new();
        let twice = drained.iter().filter(|&&pfn| !seen.insert(pfn)).count();
        let live = seen.intersection(&owned).count();
        let foreign = seen.difference(&pool).count();
        let lost = pool.iter().filter(|pfn| !owned.contains(pfn) && !seen.contains(pfn)).count();
        let parts = [
            (live + twice, "live frame(s) handed out again"),
            (foreign, "frame(s) handed out that are not its own"),
            (lost, "frame(s) lost"),
        ];
        let parts: Vec<String> =
            parts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}")).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

/// Sets a scene, prepares the wrong free in it, and does it.
fn probe<C: Candidate>(prepare: impl FnOnce(&mut Scene<C>) -> Option<(u64, u8)>) -> Outcome {
    let prepared = Scene::<C>::new().and_then(|mut scene| prepare(&mut scene).map(|bad| (scene, bad)));
    match prepared {
        Some((scene, (pfn, order))) => scene.wrong_free(pfn, order),
        None => Outcome::Fail("right use already fails".into()),
    }
}

fn double<C: Candidate>() -> Outcome {
    // Both buddies of the victim's neighbourhood stay live, so that nothing merges.
    probe::<C>(|scene| {
        let (pfn, _) = scene.live[100];
        scene.free(pfn, 0)?;
        Some((pfn, 0))
    })
}

fn double_later<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let (pfn, _) = scene.live[100];
        scene.free(pfn, 0)?;
        for _ in 0..200 {
            let (other, order) = scene.live[150];
            scene.free(other, order)?;
        }
        Some((pfn, 0))
    })
}

fn double_merged<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let pfn = scene.alloc(0)?;
        for (live, order) in scene.live.clone() {
            scene.free(live, order)?;
        }
        Some((pfn, 0))
    })
}

fn never_allocated<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let owned = scene.owned();
        let free = pool::<C>().into_iter().filter(|pfn| !owned.contains(pfn));
        let pfn = free.filter(|pfn| pfn % 8 == 5).max()?;
        Some((pfn, 0))
    })
}

fn past_the_end<C: Candidate>() -> Outcome {
    probe::<C>(|_| Some((FRAMES, 0)))
}

fn misaligned<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let pfn = scene.alloc(1)?;
        Some((pfn + 1, 1))
    })
}

fn larger<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let owned: HashSet<u64> = scene.live.iter().filter(|(_, order)| *order == 0).map(|&(pfn, _)| pfn).collect();
        let whole = |pfn: &u64| pfn.is_multiple_of(8) && (*pfn..pfn + 8).all(|frame| owned.contains(&frame));
        Some((owned.iter().copied().filter(whole).min()?, 3))
    })
}

fn smaller<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let pfn = scene.alloc(3)?;
        Some((pfn, 0))
    })
}

fn inside<C: Candidate>() -> Outcome {
    probe::<C>(|scene| {
        let pfn = scene.alloc(3)?;
        Some((pfn + 5, 0))
    })
}
