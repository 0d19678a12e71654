//! Points that every frame allocator should pass, for ours and for those of others.
//!
//! An adapter implements [`Candidate`]; [`examine`] runs every [`Point`] on fresh instances and returns a [`Report`];
//! [`table`] sets reports side by side. A point that panics or hangs is an answer like any other: each runs on a
//! thread of its own. The adapters for the peers are in `peers` (a feature of that name), and [`Naive`] is the slow
//! allocator that shows that all points can be passed.

use std::collections::HashSet;
use std::fmt;
use std::sync::Once;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

mod faults;
mod naive;
#[cfg(feature = "peers")]
pub mod peers;
mod soundness;

pub use naive::Naive;

/// Frames of every instance under examination, numbered from 0.
pub const FRAMES: u64 = 4096;

/// How long a point may take before it counts as hanging.
const PATIENCE: Duration = Duration::from_secs(60);

/// An allocator of frames `0..frames`, behind an adapter.
///
/// ```
/// use pageblock_testkit::conformance::{Candidate, Naive};
/// let mut naive = Naive::new(4096);
/// let pfn = naive.alloc(3).unwrap();
/// assert_eq!(naive.free(pfn, 2), Err("OrderMismatch".into()));
/// assert_eq!(naive.free(pfn, 3), Ok(()));
/// ```
pub trait Candidate: Sized {
    /// Name and version, for the table.
    const NAME: &'static str;
    /// Largest order, inclusive.
    const MAX_ORDER: u8 = 10;
    /// There is a largest order; without one, the pool is the only bound.
    const BOUNDED: bool = true;

    /// All frames `0..frames` free, except those that the allocator keeps for itself.
    fn new(frames: u64) -> Self;

    /// The first frame of a block of `2^order` frames.
    fn alloc(&mut self, order: u8) -> Option<u64>;

    /// Frees a block.
    ///
    /// # Errors
    /// The name of the allocator's own error. An allocator that says nothing returns `Ok`.
    fn free(&mut self, pfn: u64, order: u8) -> Result<(), String>;

    /// The first of `frames` contiguous frames; the outer `None` if no call takes a count.
    fn alloc_frames(&mut self, _frames: u64) -> Option<Option<u64>> {
        None
    }

    /// Free frames as the allocator counts them, if it says.
    fn free_frames(&self) -> Option<u64> {
        None
    }
}

/// Finding of an examination on one point.
///
/// ```
/// use pageblock_testkit::conformance::Outcome;
/// assert!(Outcome::Pass("OutOfRange".into()).is_pass());
/// assert_eq!(Outcome::Fail("silent".into()).to_string(), "**silent**");
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// As it should be; with the name of the error where one is right.
    Pass(String),
    /// Not as it should be, and the actual behaviour.
    Fail(String),
    /// The allocator has no such call.
    NotApplicable,
}

impl Outcome {
    fn pass() -> Self {
        Self::Pass(String::from("yes"))
    }

    /// True unless the point was failed.
    #[must_use]
    pub fn is_pass(&self) -> bool {
        !matches!(self, Self::Fail(_))
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pass(how) => f.write_str(how),
            Self::Fail(how) => write!(f, "**{how}**"),
            Self::NotApplicable => f.write_str("n/a"),
        }
    }
}

/// One thing to examine.
///
/// ```
/// use pageblock_testkit::conformance::{Naive, points};
/// assert!(points::<Naive>().iter().any(|point| point.name == "double free"));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Point {
    /// Short name.
    pub name: &'static str,
    /// Runs it on instances of its own.
    run: fn() -> Outcome,
}

/// All points, in the table's order.
#[must_use]
pub fn points<C: Candidate>() -> Vec<Point> {
    let mut points = soundness::points::<C>();
    points.extend(faults::points::<C>());
    points
}

/// One allocator's behaviour on every point.
///
/// ```
/// use pageblock_testkit::conformance::{Naive, examine};
/// let report = examine::<Naive>();
/// assert!(report.failures().is_empty());
/// ```
#[derive(Clone, Debug)]
pub struct Report {
    /// The allocator's name.
    pub name: &'static str,
    /// Name and outcome of every point.
    pub outcomes: Vec<(&'static str, Outcome)>,
}

impl Report {
    /// The points that were failed, and how.
    #[must_use]
    pub fn failures(&self) -> Vec<String> {
        let failed = self.outcomes.iter().filter(|(_, outcome)| !outcome.is_pass());
        failed.map(|(point, outcome)| format!("{}: {point}: {outcome}", self.name)).collect()
    }
}

/// Examines an allocator.
#[must_use]
pub fn examine<C: Candidate>() -> Report {
    let outcomes = points::<C>().into_iter().map(|point| (point.name, guarded(point.run))).collect();
    Report { name: C::NAME, outcomes }
}

/// Runs a point so that a panic or a hang is its outcome. A thread that hangs is left behind.
fn guarded(run: fn() -> Outcome) -> Outcome {
    const THREAD: &str = "conformance";
    static QUIET: Once = Once::new();
    QUIET.call_once(|| {
        let loud = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if std::thread::current().name() != Some(THREAD) {
                loud(info);
            }
        }));
    });
    let (sender, receiver) = channel();
    let thread = std::thread::Builder::new().name(THREAD.into()).stack_size(16 << 20).spawn(move || {
        let _ = sender.send(run());
    });
    if let Err(error) = thread {
        return Outcome::Fail(format!("cannot be examined: {error}"));
    }
    match receiver.recv_timeout(PATIENCE) {
        Ok(outcome) => outcome,
        Err(RecvTimeoutError::Disconnected) => Outcome::Fail("panics".into()),
        Err(RecvTimeoutError::Timeout) => Outcome::Fail("hangs".into()),
    }
}

/// A Markdown table: a row a point, a column an allocator, and the sums below.
#[must_use]
pub fn table(reports: &[Report]) -> String {
    let mut lines = vec![String::from("| |"), String::from("|---|")];
    for report in reports {
        lines[0] += &format!(" {} |", report.name);
        lines[1] += "---|";
    }
    let rows = reports.first().map_or(0, |report| report.outcomes.len());
    for row in 0..rows {
        let mut line = format!("| {} |", reports[0].outcomes[row].0);
        for report in reports {
            line += &format!(" {} |", report.outcomes[row].1);
        }
        lines.push(line);
    }
    let mut sums = String::from("| passed |");
    for report in reports {
        let applicable = report.outcomes.iter().filter(|(_, outcome)| *outcome != Outcome::NotApplicable).count();
        sums += &format!(" {} of {applicable} |", applicable - report.failures().len());
    }
    lines.push(sums);
    lines.join("\n") + "\n"
}

/// Takes single frames until there are none; at most a few more than there can be.
fn drain<C: Candidate>(candidate: &mut C) -> Vec<u64> {
    (0..FRAMES + 64).map_while(|_| candidate.alloc(0)).collect()
}

/// The frames that a fresh instance can hand out: all of them, less those that the allocator keeps for itself.
fn pool<C: Candidate>() -> HashSet<u64> {
    drain(&mut C::new(FRAMES)).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes nothing that matters: hands out the same frame for ever and believes everything.
    struct Careless;
    impl Candidate for Careless {
        const NAME: &'static str = "careless";
        fn new(_frames: u64) -> Self {
            Self
        }
        fn alloc(&mut self, _order: u8) -> Option<u64> {
            Some(5)
        }
        fn free(&mut self, _pfn: u64, _order: u8) -> Result<(), String> {
            Ok(())
        }
        fn alloc_frames(&mut self, _frames: u64) -> Option<Option<u64>> {
            Some(Some(5))
        }
        fn free_frames(&self) -> Option<u64> {
            Some(7)
        }
    }

    #[test]
    fn the_points_can_be_passed() {
        assert_eq!(examine::<Naive>().failures(), Vec::<String>::new());
    }

    #[test]
    fn the_points_can_be_failed() {
        let report = examine::<Careless>();
        let failed = report.failures();
        assert_eq!(failed.len(), report.outcomes.len(), "every point must see through {report:?}");
    }

    #[test]
    fn panics_are_outcomes() {
        assert_eq!(guarded(|| panic!("on purpose")), Outcome::Fail("panics".into()));
    }
}
