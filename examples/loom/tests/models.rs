//! The models. Without `--cfg loom` each program runs once, with real threads.

use pageblock::hosted::model::{Cpus, Model};
use pageblock::{CpuId, Drain, Gfp, PageAllocator};
use shared_frames::SharedFrame;

// ANCHOR: model
#[test]
fn the_last_of_two_holders_frees_the_frame() {
    Model::that_meets(&["CPU 0 was the last", "CPU 1 was the last"]).explore(|run| {
        let frames = run.boot(8);
        let shared = SharedFrame::new(frames, frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap());
        assert!(shared.try_get());
        let last = run.cpus(shared, [SharedFrame::put, SharedFrame::put]);
        run.met(if last[0] { "CPU 0 was the last" } else { "CPU 1 was the last" });
        assert_ne!(last[0], last[1]);
        assert_eq!(frames.stats().free, 8);
    });
}
// ANCHOR_END: model

/// The allocator, and a frame of it with one holder.
type Machine = (&'static PageAllocator<Cpus>, SharedFrame<Cpus>);

fn shared(frames: &'static PageAllocator<Cpus>) -> Machine {
    (frames, SharedFrame::new(frames, frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap()))
}

/// The last holder lets go; the frame goes to its next owner, perhaps.
fn put_and_alloc((frames, shared): &Machine) -> bool {
    shared.put();
    drop(frames.alloc(Gfp::HIGHUSER_MOVABLE).unwrap());
    false
}

#[test]
fn a_lookup_never_gets_a_frame_that_has_been_freed() {
    Model::that_meets(&["found", "gone"]).explore(|run| {
        let frames = run.boot(8);
        let found = run.cpus(shared(frames), [put_and_alloc, |(_, shared)| shared.try_get() && (shared.put() || true)]);
        run.met(if found[1] { "found" } else { "gone" });
        assert_eq!((frames.stats().free, frames.stats().bad_frees), (8, 0));
    });
}

/// One CPU has the other's lists emptied while that one frees onto them: nothing stays behind.
#[test]
fn a_drain_beside_the_last_put_loses_nothing() {
    Model::that_meets(&["asked", "done at once"]).explore(|run| {
        let frames = run.boot(8);
        let drain = |(frames, _): &Machine| frames.cpus().drain(CpuId::new(0)) == Ok(Drain::Requested);
        let asked = run.cpus(shared(frames), [|(_, shared)| shared.put(), drain]);
        run.met(if asked[1] { "asked" } else { "done at once" });
        // CPU 0 is here again, and answers.
        frames.cpus().handle_kick();
        assert_eq!(frames.cpus().drain(CpuId::new(0)), Ok(Drain::Done));
        assert_eq!((frames.stats().free, frames.stats().listed), (8, 0));
    });
}

/// The bug that such code usually has: a lookup that counts up from 0 frees the frame a second time.
#[test]
#[cfg(loom)]
#[should_panic(expected = "the frame was freed twice")]
fn a_lookup_without_the_test_is_found_out() {
    Model::that_meets(&[]).explore(|run| {
        run.cpus(
            shared(run.boot(8)),
            [
                |(_, shared)| shared.put(),
                |(_, shared)| {
                    shared.get_blindly();
                    shared.put()
                },
            ],
        );
    });
}

/// A branch that no execution meets is a failure.
#[test]
#[cfg(loom)]
#[should_panic(expected = "no execution met")]
fn a_model_that_meets_nothing_is_found_out() {
    Model::that_meets(&["the frame stays"]).explore(|run| {
        run.cpus(shared(run.boot(8)), [|(_, shared)| shared.put()]);
    });
}
