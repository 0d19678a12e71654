//! An owner that always has something larger to give up, and from which nothing ever comes back.

use std::cell::Cell;
use std::ptr::NonNull;

use pageblock::trace::ReclaimEvent;
use pageblock::{AllocError, Event, Gfp, Hooks, NodeId, Order, Platform, Reclaim, Shrink, Shrunk, ZoneKind};

use crate::machine::{ALL_OF_IT, Booted, MIB, boot_on, memory};

thread_local! {
    static RESORTS: Cell<u32> = const { Cell::new(0) };
    static WAITS: Cell<u32> = const { Cell::new(0) };
    static RECLAIMS: Cell<u32> = const { Cell::new(0) };
}

struct Desperate;

// SAFETY: each thread is a machine of its own with one CPU and no interrupts; no memory is behind the frames.
unsafe impl Platform for Desperate {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn hooks() -> impl Hooks {
        Self
    }
}

impl Hooks for Desperate {
    fn reclaimer(&self) -> Option<&'static (dyn Reclaim + Sync)> {
        Some(&Self)
    }

    fn wait_until(&self, _: NodeId, _: u64) {
        WAITS.set(WAITS.get() + 1);
    }

    fn trace(&self, event: &Event) {
        if matches!(event, Event::Reclaim(ReclaimEvent::DirectBegin { .. })) {
            RECLAIMS.set(RECLAIMS.get() + 1);
        }
    }
}

impl Reclaim for Desperate {
    fn shrink(&self, _: &Shrink) -> Shrunk {
        Shrunk::default()
    }

    fn out_of_memory(&self, _: Order, _: ZoneKind, _: Gfp) -> bool {
        RESORTS.set(RESORTS.get() + 1);
        true
    }
}

/// A machine of which nothing is left.
fn used_up() -> Booted<Desperate> {
    let frames = boot_on::<Desperate>(&memory(16 * MIB), &ALL_OF_IT).unwrap();
    while let Ok(frame) = frames.alloc(Gfp::KERNEL | Gfp::MEMALLOC) {
        let _ = frame.into_raw();
    }
    for count in [&RESORTS, &WAITS, &RECLAIMS] {
        count.take();
    }
    frames
}

#[test]
fn the_last_resort_is_asked_a_few_times_and_not_for_ever() {
    let frames = used_up();
    assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    let asked = RESORTS.take();
    assert!((2..=16).contains(&asked), "asked {asked} times");
}

#[test]
fn a_request_that_may_not_enter_file_systems_waits_for_others_instead() {
    let frames = used_up();
    assert_eq!(frames.alloc(Gfp::KERNEL.difference(Gfp::FS)).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!(RESORTS.take(), 0, "it found nothing with one hand tied, which says little");
    assert!(WAITS.take() > 1);
}

#[test]
fn a_costly_order_makes_one_round() {
    let frames = used_up();
    assert_eq!(frames.alloc_order(Order::HUGE, Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    assert_eq!((RECLAIMS.take(), RESORTS.take()), (1, 0));
    assert_eq!(frames.alloc(Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory);
    assert!(RECLAIMS.take() > 1, "an order that is not goes round");
}
