//! Runs under an owner that breaks: nothing is lost, nothing is given twice, and the zone agrees with itself.

use pageblock_testkit::simulated::SimulatedZone;
use std::collections::BTreeMap;
use std::sync::Mutex;

use pageblock_compaction::{CompactionConfig, Compactor, Origin, Patches, Priority, Request};
use pageblock_frame::migration::MigrateMode;
use pageblock_frame::trace::{CompactEvent, Event};
use pageblock_frame::{AllocFlags, MigrateType, Pfn, PfnRange, StateByte};
use pageblock_testkit::host::{is_balanced, record};
use pageblock_testkit::movables::{Disowned, Fault, Faulty};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{P, Scene, all_configs, order};

/// What a zone looks like before a run.
#[derive(Clone, Debug)]
struct State {
    blocks: u64,
    ragged: bool,
    /// Kinds of allocation, in order: order and whether it is movable.
    mix: Vec<(u8, bool)>,
    /// Which blocks are freed again: those whose hash is below.
    freed: u64,
    salt: u64,
}

fn state() -> impl Strategy<Value = State> {
    (2u64..12, any::<bool>(), vec((0u8..4, prop::bool::weighted(0.9)), 1..8), 10u64..95, any::<u64>())
        .prop_map(|(blocks, ragged, mix, freed, salt)| State { blocks, ragged, mix, freed, salt })
}

fn hash(pfn: Pfn, salt: u64) -> u64 {
    let mut x = pfn.as_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ salt;
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^ x >> 32
}

impl State {
    fn build(&self) -> Scene {
        let scene = if self.ragged {
            let span = PfnRange::from_len(Pfn::new(0x1000 + 37), self.blocks * 512 + 91);
            Scene::ragged(span, |zone, span| {
                zone.release_simulated::<P>(PfnRange::new(span.start, span.start.add(600))).unwrap();
                zone.release_simulated::<P>(PfnRange::new(span.start.add(603), span.end)).unwrap();
            })
        } else {
            Scene::new(self.blocks)
        };
        let mut failed = 0;
        for &(o, movable) in self.mix.iter().cycle() {
            let kind = if movable { MigrateType::Movable } else { MigrateType::Unmovable };
            failed = if scene.alloc(o, kind).is_some() { 0 } else { failed + 1 };
            if failed > self.mix.len() {
                break;
            }
        }
        scene.free_where(|pfn| hash(pfn, self.salt) % 100 < self.freed);
        scene
    }
}

fn request() -> impl Strategy<Value = Request> {
    let origin =
        select(&[Origin::Direct, Origin::KswapdState, Origin::Kcompactd, Origin::Proactive, Origin::Command][..]);
    let mode = select(&[MigrateMode::Async, MigrateMode::SyncLight, MigrateMode::Sync][..]);
    let kind = select(&[MigrateType::Movable, MigrateType::Movable, MigrateType::Unmovable][..]);
    (
        prop_oneof![5 => Just(Some(9u8)), 3 => (1u8..=11).prop_map(Some), 1 => Just(None)],
        kind,
        mode,
        origin,
        any::<bool>(),
    )
        .prop_map(|(o, migrate_type, mode, origin, full)| Request {
            order: o.map(order),
            migrate_type,
            mode,
            origin,
            full: full || o.is_none(),
            ..Request::direct(order(0), migrate_type, Priority::Async)
        })
}

fn config() -> impl Strategy<Value = CompactionConfig> {
    let flips = any::<[bool; 6]>();
    (select(all_configs()), flips).prop_map(|((_, config), p)| CompactionConfig {
        // The patches are independent of one another.
        patches: Patches {
            trace_runs: true,
            defer_helper: p[1],
            reset_before_read: p[2],
            detect_meeting: p[3],
            async_no_skip: p[4],
            reset_on_meeting: p[5],
        },
        ..config
    })
}

/// Frames that a caller holds, by the state bytes: nothing else may be out of the zone.
fn held_frames(scene: &Scene) -> u64 {
    let states = scene.zone.states();
    (0..states.len() as u32).map(|i| states.get(i)).filter(|s| s.is_head()).map(|s| s.order().frames()).sum()
}

fn isolated(scene: &Scene) -> usize {
    let states = scene.zone.states();
    let is = |s: StateByte| s.is_head() && !s.is_allocated() && !s.is_listed();
    (0..states.len() as u32).filter(|&i| is(states.get(i))).count()
}

/// Everything that must hold after a run, whatever the owner did.
pub(crate) fn sound(scene: &Scene) {
    scene.zone.check().unwrap();
    assert_eq!(isolated(scene), 0, "left isolated");
    assert_eq!(scene.zone.free_frames() + held_frames(scene), scene.zone.managed());
    let counts = scene.zone.counts();
    assert_eq!(counts.pageblocks[MigrateType::Isolate.index()], 0, "left withheld");
    assert!(is_balanced());
}

fn positions_inside(scene: &Scene, events: &[Event]) {
    let span = scene.zone.span();
    for event in events {
        let (Event::Compaction(CompactEvent::Begin(at)) | Event::Compaction(CompactEvent::End { at, .. })) = event
        else {
            continue;
        };
        assert!((span.start..=span.end).contains(&at.migrate), "{at}");
        assert!((span.start..=span.end).contains(&at.free), "{at}");
    }
}

proptest! {
    #[test]
    fn an_honest_owner_loses_nothing(
        state in state(),
        requests in vec((request(), config()), 1..4),
        script in vec(select(Fault::honest()), 0..400),
    ) {
        let scene = state.build();
        let kept: BTreeMap<u64, _> = scene.owner.pages().values().map(|p| (p.tag, p.order)).collect();
        let still = scene.held.borrow().clone();
        let taken = Mutex::new(Vec::new());
        // In the middle of a call the owner allocates, keeps, and frees.
        let faulty = Faulty::new(&scene.owner, script, || {
            let mut taken = taken.lock().unwrap();
            taken.extend(scene.zone.alloc::<P>(order(0), MigrateType::Unmovable, AllocFlags::empty()));
            if taken.len() > 5 {
                scene.zone.free_simulated::<P>(taken.swap_remove(2), order(0)).unwrap();
            }
            let victim = scene.owner.pages().iter().find(|(_, page)| page.tag % 7 == 3).map(|(pfn, p)| (*pfn, p.order));
            if let Some((pfn, o)) = victim && scene.owner.disown(pfn) == Disowned::Now {
                scene.zone.free_simulated::<P>(pfn, o).unwrap();
            }
        });
        let (_, events) = record(|| {
            for (request, config) in &requests {
                let compactor = Compactor::new(*config);
                let outcome = compactor.run::<P, _>(&scene.zone, &faulty, request);
                if let Some(pfn) = outcome.captured {
                    let o = request.order.unwrap();
                    assert!(pfn.is_aligned(o));
                    scene.zone.free_simulated::<P>(pfn, o).unwrap();
                }
                sound(&scene);
            }
        });
        positions_inside(&scene, &events);
        scene.verify();
        prop_assert_eq!((scene.owner.lent(), scene.owner.collisions()), (0, 0));
        // What the owner still has is what it had, in the same sizes; what nobody moves has not moved.
        for page in scene.owner.pages().values() {
            prop_assert_eq!(kept.get(&page.tag), Some(&page.order));
        }
        for (pfn, o) in &still {
            prop_assert!(scene.zone.free_simulated::<P>(*pfn, *o).is_ok());
        }
    }

    #[test]
    fn a_liar_harms_only_itself(
        state in state(),
        requests in vec((request(), config()), 1..4),
        script in vec(select(Fault::ALL), 0..400),
    ) {
        let scene = state.build();
        let faulty = Faulty::new(&scene.owner, script, || {
            // Frees what it has lent: refused. Frees what it has not: done.
            let pages: Vec<_> = scene.owner.pages().iter().map(|(pfn, page)| (*pfn, page.order)).collect();
            for (pfn, o) in pages.iter().step_by(17) {
                let _ = scene.zone.free_simulated::<P>(*pfn, *o);
            }
        });
        for (request, config) in &requests {
            let compactor = Compactor::new(*config);
            let outcome = compactor.run::<P, _>(&scene.zone, &faulty, request);
            scene.zone.check().unwrap();
            if let Some(pfn) = outcome.captured {
                scene.zone.free_simulated::<P>(pfn, request.order.unwrap()).unwrap();
            }
            sound(&scene);
        }
    }

    #[test]
    fn skip_bits_and_positions_are_hints(
        state in state(),
        config in config(),
        skips in vec(any::<bool>(), 16),
        request in request(),
    ) {
        // With skip bits set everywhere, a run finds less or nothing, but ends and changes nothing else.
        let scene = state.build();
        let scan = scene.zone.scan::<P>(pageblock_buddy::Patience::Wait);
        for (block, _) in skips.iter().enumerate().filter(|(_, set)| **set) {
            scan.set_skip(block as u32);
        }
        let before = scene.contents();
        let compactor = Compactor::new(config);
        for _ in 0..3 {
            let outcome = compactor.run::<P, _>(&scene.zone, &scene.owner, &request);
            if let Some(pfn) = outcome.captured {
                scene.zone.free_simulated::<P>(pfn, request.order.unwrap()).unwrap();
            }
            sound(&scene);
        }
        prop_assert_eq!(scene.contents(), before);
        // A run that ignores hints does not depend on them.
        compactor.reset::<P>(&scene.zone);
    }

    #[test]
    fn contiguous_ranges(
        state in state(),
        from in 0u64..6000,
        frames in 1u64..2000,
        script in vec(select(Fault::honest()), 0..60),
    ) {
        let scene = state.build();
        let span = scene.zone.span();
        let start = span.start.add(from % span.len());
        let range = PfnRange::from_len(start, frames);
        let before = scene.contents();
        let free = scene.zone.free_frames();
        let faulty = Faulty::new(&scene.owner, script, || {});
        let compactor = Compactor::new(CompactionConfig::default());
        let result = compactor.alloc_contig_range::<P, _>(&scene.zone, &faulty, range, MigrateMode::Sync);
        sound(&scene);
        scene.verify();
        if result.is_ok() {
            prop_assert!(scene.owner.pages().range(range.start..range.end).next().is_none());
            scene.zone.free_range_simulated::<P>(range).unwrap();
            sound(&scene);
        }
        prop_assert!(scene.zone.free_frames() >= free);
        let kept = scene.contents();
        prop_assert!(kept.iter().all(|page| before.contains(page)));
    }
}

/// A zone that begins, or both begins and ends, inside a pageblock, with free frames only where no target is looked
/// for.
#[test]
fn scanners_stay_inside_a_zone_that_does_not_begin_at_a_pageblock() {
    for frames in [90, 400, 1115] {
        for (name, config) in all_configs() {
            for request in [Request::command(), Request::kcompactd(order(9))] {
                let span = PfnRange::from_len(Pfn::new(0x1000 + 37), frames);
                let scene = Scene::ragged(span, |zone, span| {
                    zone.release_simulated::<P>(span).unwrap();
                });
                scene.fill(MigrateType::Movable);
                scene.free_where(|pfn| pfn < span.start.add(64) && pfn.as_u64() % 2 == 0);
                let compactor = Compactor::new(CompactionConfig { patches: Patches::first(6), ..config });
                let ((), events) = record(|| {
                    // The second run begins where the first one ended.
                    let _ = compactor.run::<P, _>(&scene.zone, &scene.owner, &request);
                    let _ = compactor.run::<P, _>(&scene.zone, &scene.owner, &Request { full: false, ..request });
                });
                let begins = events.iter().filter(|event| matches!(event, Event::Compaction(CompactEvent::Begin(_))));
                assert!(
                    request.order.is_some() || begins.count() == 2,
                    "{name}: a run that did not begin shows nothing"
                );
                positions_inside(&scene, &events);
                sound(&scene);
            }
        }
    }
}

#[test]
fn a_movable_range_can_be_had_whole() {
    let scene = Scene::new(8);
    scene.fill(MigrateType::Movable);
    scene.free_every(2);
    let before = scene.contents();
    let base = scene.zone.base();
    let range = PfnRange::new(base.add(700), base.add(1500));
    let compactor = Compactor::new(CompactionConfig::default());
    compactor.alloc_contig_range::<P, _>(&scene.zone, &scene.owner, range, MigrateMode::Sync).unwrap();
    scene.verify();
    sound(&scene);
    assert_eq!(scene.contents(), before);
    assert_eq!(scene.zone.free_frames(), 8 * 256 - 800 + 400 - 400);
    scene.zone.free_range_simulated::<P>(range).unwrap();
    sound(&scene);
}
