//! The timer that interrupts.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::handler::handle;

/// Least pause between two interrupts, in nanoseconds; up to eight times as much.
const PAUSE: u64 = 1_000;

/// The running timer.
static TIMER: AtomicUsize = AtomicUsize::new(0);
static PAUSES: AtomicU64 = AtomicU64::new(1);

extern "C" fn interrupt(_signal: libc::c_int) {
    handle();
    // Only now, so that the thread below gets on, however slow signals are.
    arm(TIMER.load(Ordering::Relaxed) as libc::timer_t);
}

/// Sets the timer for one interrupt.
fn arm(timer: libc::timer_t) {
    let random = PAUSES.load(Ordering::Relaxed).wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
    PAUSES.store(random, Ordering::Relaxed);
    let pause = libc::timespec { tv_sec: 0, tv_nsec: (PAUSE + (random >> 33) % (7 * PAUSE)) as libc::c_long };
    let spec = libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: pause };
    // SAFETY: a plain call, allowed in signal handlers; after the timer is deleted it fails.
    unsafe { libc::timer_settime(timer, 0, &spec, std::ptr::null_mut()) };
}

/// A timer that signals this thread.
#[derive(Debug)]
pub(crate) struct Timer(libc::timer_t);

impl Timer {
    pub(crate) fn start() -> Self {
        // SAFETY: plain calls; the structures are zeroed as C would have them, and outlive the calls.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = interrupt as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESTART;
            assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
            let mut event: libc::sigevent = std::mem::zeroed();
            event.sigev_notify = libc::SIGEV_THREAD_ID;
            event.sigev_signo = libc::SIGUSR1;
            event.sigev_notify_thread_id = libc::gettid();
            let mut timer = std::mem::zeroed();
            assert_eq!(libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer), 0);
            TIMER.store(timer as usize, Ordering::Relaxed);
            arm(timer);
            Self(timer)
        }
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        // SAFETY: the timer is ours. A last signal may be on its way; from now on the handler is not to be called.
        unsafe {
            libc::signal(libc::SIGUSR1, libc::SIG_IGN);
            libc::timer_delete(self.0);
        }
    }
}
