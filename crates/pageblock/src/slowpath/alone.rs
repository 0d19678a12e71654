//! The ladder where no hook moves memory or gives it up: all that can be had is there already.

use pageblock_frame::Platform;

use super::attempts::{cannot_wait, first_attempt, must_not_fail, unreserve, without_watermarks};
use super::lists::take_back;
use super::wake::wake_threads;
use super::{Climb, Step};

pub(super) fn climb<P: Platform>(climb: &Climb<P>) -> Step {
    wake_threads(&climb.request);
    first_attempt(climb)?;
    without_watermarks(climb)?;
    take_back(climb)?;
    cannot_wait(climb)?;
    unreserve(climb)?;
    must_not_fail(climb)
}
