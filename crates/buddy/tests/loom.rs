//! Two CPUs on one zone, with somebody reading state bytes, in every interleaving with up to two preemptions. Run:
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p pageblock-buddy --test loom --release --target-dir target/loom
//! ```
//!
//! `LOOM_MAX_PREEMPTIONS=3` makes the bound three. Each model counts that what it is about has happened.
#![cfg(loom)]
#![expect(clippy::disallowed_types, reason = "counters that live outside the models")]

use pageblock_testkit::simulated::SimulatedZone;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

use loom::sync::Arc;
use loom::thread;
use pageblock_buddy::{BoostRule, FairPolicy, FreeError, Refill, Watermarks, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{
    AllocFlags, Carver, CpuId, FrameState, MigrateType, NodeId, Order, Pageblocks, Pfn, PfnRange, Platform, StateByte,
    ZoneKind,
};

/// Zones that take turns, by marks.
const POLICY: FairPolicy = FairPolicy::Linux3_17;

struct Machine;

// SAFETY: a zone does not ask for the CPU; there are no interrupts; nothing is mapped.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 2;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

const FRAMES: u64 = 8;

/// A zone of eight free frames.
fn zone() -> Arc<Zone<'static>> {
    zone_with(BoostRule::off())
}

fn zone_with(boost: BoostRule) -> Arc<Zone<'static>> {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let raw = vec![core::mem::MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let config = ZoneConfig { boost, ..ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span) };
    let zone = Zone::new::<Machine>(config, storage).unwrap();
    zone.release_simulated::<Machine>(span).unwrap();
    Arc::new(zone)
}

fn explore(executions: &'static AtomicUsize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(2));
    builder.max_branches = 20_000; // a check reads a byte for each frame of two pageblocks
    builder.check(move || {
        executions.fetch_add(1, Ordering::Relaxed);
        model();
    });
    println!("{} executions", executions.load(Ordering::Relaxed));
}

fn alloc(zone: &Zone<'_>, order: Order) -> Option<Pfn> {
    zone.alloc::<Machine>(order, MigrateType::Movable, AllocFlags::empty())
}

/// Nothing is held, nothing is lost.
fn assert_at_rest(zone: &Zone<'_>) {
    zone.check().unwrap();
    assert_eq!(zone.free_frames(), FRAMES);
    assert_eq!(zone.free_blocks()[3], 1, "all of it is one block again");
}

#[test]
fn two_cpus_allocate_and_free_while_another_reads() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static TOGETHER: AtomicUsize = AtomicUsize::new(0);
    static IN_TURN: AtomicUsize = AtomicUsize::new(0);
    static SEEN_HELD: AtomicUsize = AtomicUsize::new(0);
    static SEEN_FREE: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone();
        let cpu = |order: u8| {
            let zone = zone.clone();
            thread::spawn(move || {
                let order = Order::saturating(order);
                let pfn = alloc(&zone, order).expect("there is room for both");
                let index = zone.index_of(pfn).unwrap();
                let state = FrameState::Allocated(order, Some(MigrateType::Movable));
                assert_eq!(zone.states().get(index).decode(), state, "nobody else writes our head");
                zone.free_simulated::<Machine>(pfn, order).unwrap();
                pfn
            })
        };
        let (first, second) = (cpu(0), cpu(1));
        // A scanner: no lock, so that what it sees may be old, but never anything that was not there.
        let states = zone.states();
        for index in 0..2 {
            match states.get(index).decode() {
                FrameState::Inside => SEEN_FREE.fetch_add(1, Ordering::Relaxed),
                FrameState::Allocated(order, Some(MigrateType::Movable)) if order.as_u8() <= 1 => {
                    SEEN_HELD.fetch_add(1, Ordering::Relaxed)
                }
                other => panic!("frame {index} is {other:?}"),
            };
        }
        assert!(zone.free_frames() >= FRAMES - 3);
        let (first, second) = (first.join().unwrap(), second.join().unwrap());
        // Each alone gets frame 0; both at once cannot.
        let counter = if first == second { &IN_TURN } else { &TOGETHER };
        counter.fetch_add(1, Ordering::Relaxed);
        assert_at_rest(&zone);
    });
    for (what, count) in [
        ("executions", &EXECUTIONS),
        ("both held at once", &TOGETHER),
        ("one after the other", &IN_TURN),
        ("a held head was read", &SEEN_HELD),
        ("a free frame was read", &SEEN_FREE),
    ] {
        let count = count.load(Ordering::Relaxed);
        println!("{what}: {count}");
        assert!(count > 0, "{what} never happened");
    }
}

#[test]
fn the_last_block_has_one_owner() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static REFUSED: AtomicUsize = AtomicUsize::new(0);
    static WINS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    explore(&EXECUTIONS, || {
        let zone = zone();
        let four = Order::saturating(2);
        let kept = alloc(&zone, four).unwrap();
        let threads = [0, 1].map(|cpu| {
            let zone = zone.clone();
            thread::spawn(move || {
                let got = alloc(&zone, four);
                WINS[cpu].fetch_add(usize::from(got.is_some()), Ordering::Relaxed);
                got
            })
        });
        let got = threads.map(|thread| thread.join().unwrap());
        let owned: Vec<Pfn> = got.into_iter().flatten().collect();
        assert_eq!(owned.len(), 1);
        assert_ne!(owned[0], kept);
        REFUSED.fetch_add(1, Ordering::Relaxed);
        assert_eq!(zone.free_frames(), 0);
        zone.free_simulated::<Machine>(owned[0], four).unwrap();
        zone.free_simulated::<Machine>(kept, four).unwrap();
        assert_at_rest(&zone);
    });
    assert!(WINS.iter().all(|wins| wins.load(Ordering::Relaxed) > 0), "each CPU is first in some execution");
    assert_eq!(REFUSED.load(Ordering::Relaxed), EXECUTIONS.load(Ordering::Relaxed));
}

#[test]
fn a_double_free_from_two_cpus_is_refused_once() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static WINS: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
    explore(&EXECUTIONS, || {
        let zone = zone();
        let pfn = alloc(&zone, Order::ZERO).unwrap();
        let threads = [0, 1].map(|cpu| {
            let zone = zone.clone();
            thread::spawn(move || {
                let result = zone.free_simulated::<Machine>(pfn, Order::ZERO);
                WINS[cpu].fetch_add(usize::from(result.is_ok()), Ordering::Relaxed);
                result
            })
        });
        let mut results = threads.map(|thread| thread.join().unwrap());
        results.sort_by_key(Result::is_err);
        assert_eq!(results, [Ok(()), Err(FreeError::NotAllocated)]);
        assert_at_rest(&zone);
    });
    assert!(WINS.iter().all(|wins| wins.load(Ordering::Relaxed) > 0), "each CPU is first in some execution");
}

#[test]
fn one_allocates_what_another_frees_in_bulk() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static BEFORE: AtomicUsize = AtomicUsize::new(0);
    static AFTER: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone();
        let mut listed = [0; FRAMES as usize];
        assert_eq!(zone.alloc_bulk::<Machine>(Order::ZERO, MigrateType::Movable, &mut listed), listed.len());
        let other = {
            let zone = zone.clone();
            thread::spawn(move || assert_eq!(zone.free_bulk_simulated::<Machine>(Order::ZERO, &listed), 0))
        };
        let got = alloc(&zone, Order::saturating(3));
        (if got.is_some() { &AFTER } else { &BEFORE }).fetch_add(1, Ordering::Relaxed);
        other.join().unwrap();
        if let Some(pfn) = got {
            zone.free_simulated::<Machine>(pfn, Order::saturating(3)).unwrap();
        }
        assert_at_rest(&zone);
    });
    assert!(BEFORE.load(Ordering::Relaxed) > 0 && AFTER.load(Ordering::Relaxed) > 0);
}

/// Of a boost and the decay of another, none is lost, and one CPU tells kswapd.
#[test]
fn a_mixing_boosts_while_kswapd_takes_back() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static TAKEN_BACK: AtomicUsize = AtomicUsize::new(0);
    static TOLD_BY_KSWAPD: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone_with(BoostRule::posted()); // the other leaves so small a zone alone
        let task = {
            let zone = zone.clone();
            thread::spawn(move || {
                let mixed = zone.alloc::<Machine>(Order::ZERO, MigrateType::Unmovable, AllocFlags::empty());
                assert!(mixed.is_some());
                zone.take_boosted()
            })
        };
        let kswapd = {
            let zone = zone.clone();
            thread::spawn(move || {
                let seen = zone.boost();
                zone.lower_boost(seen);
                (seen, zone.take_boosted())
            })
        };
        let by_task = task.join().unwrap();
        let (seen, told) = kswapd.join().unwrap();
        assert!(by_task != told, "one of the two tells kswapd");
        assert_eq!(zone.boost() + seen, 512);
        TAKEN_BACK.fetch_add(usize::from(seen > 0), Ordering::Relaxed);
        TOLD_BY_KSWAPD.fetch_add(usize::from(told), Ordering::Relaxed);
    });
    let (taken_back, told) = (TAKEN_BACK.load(Ordering::Relaxed), TOLD_BY_KSWAPD.load(Ordering::Relaxed));
    assert!(taken_back > 0 && told > 0, "{taken_back} boosts taken back, {told} times kswapd was first");
}

/// A stall's boost takes no lock, and a mixing's has that of its region: neither is lost.
#[test]
fn a_stall_and_a_mixing_both_boost() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone_with(BoostRule::posted());
        zone.set_watermarks(Watermarks { min: 0, low: 0, high: 8192 });
        let task = {
            let zone = zone.clone();
            thread::spawn(move || zone.boost_fast())
        };
        zone.alloc::<Machine>(Order::ZERO, MigrateType::Unmovable, AllocFlags::empty()).unwrap();
        task.join().unwrap();
        assert_eq!(zone.boost(), 512 + 3584);
    });
}

/// A zone of two regions: four frames in each, all of them allocated but those that are named.
fn two_regions(free: &[u64]) -> Arc<Zone<'static>> {
    let span = PfnRange::new(Pfn::new(508), Pfn::new(516));
    let nine = Order::saturating(9);
    let raw = vec![core::mem::MaybeUninit::uninit(); ZoneStorage::bytes(span, nine)].leak();
    let storage = ZoneStorage::carve(span, nine, &mut Carver::new(raw)).unwrap();
    let config = ZoneConfig { max_order: nine, ..ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span) };
    let zone = Zone::new::<Machine>(config, storage).unwrap();
    zone.release_simulated::<Machine>(span).unwrap();
    for pfn in 508..516 {
        if !free.contains(&pfn) {
            zone.alloc_at::<Machine>(Pfn::new(pfn), Order::ZERO).unwrap();
        }
    }
    Arc::new(zone)
}

/// A pageblock that another CPU moves to a smaller set, or to a larger one, is found by a search that would be served
/// either way.
#[test]
fn a_search_misses_no_pageblock_that_moves() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static GROWN: AtomicUsize = AtomicUsize::new(0);
    static SHRUNK: AtomicUsize = AtomicUsize::new(0);
    for grows in [true, false] {
        explore(&EXECUTIONS, move || {
            // One frame of a pair is free, or both are.
            let zone = two_regions(if grows { &[515] } else { &[514, 515] });
            let other = {
                let zone = zone.clone();
                thread::spawn(move || {
                    if grows {
                        zone.free_simulated::<Machine>(Pfn::new(514), Order::ZERO).unwrap();
                    } else {
                        alloc(&zone, Order::ZERO).expect("there is one for each");
                    }
                })
            };
            let got = alloc(&zone, Order::ZERO).expect("one frame is free at every moment");
            other.join().unwrap();
            let counter = if grows { &GROWN } else { &SHRUNK };
            // The other CPU came first.
            let expected = Pfn::new(if grows { 514 } else { 515 });
            counter.fetch_add(usize::from(got == expected), Ordering::Relaxed);
            zone.check().unwrap();
        });
    }
    assert!(GROWN.load(Ordering::Relaxed) > 0 && SHRUNK.load(Ordering::Relaxed) > 0);
}

/// What is free in a pageblock that is reserved for one CPU is refused to no other.
#[test]
fn a_reservation_hides_nothing() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static SHARED: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = two_regions(&[508, 509, 510, 511]);
        let refill =
            |cpu| Refill { order: Order::ZERO, migrate_type: MigrateType::Movable, cpu: CpuId::new(cpu), least: 1 };
        assert_eq!(zone.refill::<Machine>(refill(0), &mut [0; 1]), 1);
        let other = {
            let zone = zone.clone();
            thread::spawn(move || zone.refill::<Machine>(refill(0), &mut [0; 1]))
        };
        let mut mine = [0; 1];
        assert_eq!(zone.refill::<Machine>(refill(1), &mut mine), 1);
        let last = alloc(&zone, Order::ZERO);
        assert_eq!(other.join().unwrap(), 1);
        assert!(last.is_some(), "four frames, four takers");
        SHARED.fetch_add(1, Ordering::Relaxed);
        assert_eq!(zone.free_frames(), 0);
        zone.check().unwrap();
    });
    assert!(SHARED.load(Ordering::Relaxed) > 0);
}

/// Zones that take turns: two CPUs use up a zone's batch, and whoever finds its turn over begins it anew.
#[test]
fn a_turn_is_used_up_and_begun_anew_on_two_cpus() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static RESETS: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone();
        zone.set_watermarks(Watermarks { min: 0, low: 0, high: 2 });
        let turn = |zone: &Zone<'_>| {
            zone.charge_fair(1, POLICY);
            let over = zone.fair_is_over(POLICY);
            if over {
                zone.reset_fair();
            }
            over
        };
        let cpu = || {
            let zone = zone.clone();
            thread::spawn(move || turn(&zone))
        };
        let cpus = [cpu(), cpu()];
        let over: usize = cpus.into_iter().map(|cpu| usize::from(cpu.join().unwrap())).sum();
        RESETS.fetch_add(over, Ordering::Relaxed);
        assert!(over > 0, "two of two are used up");
        // Each reset sets all of it, so that it is never more than that.
        assert!((0..=2).contains(&zone.fair_batch()), "{}", zone.fair_batch());
    });
    assert!(RESETS.load(Ordering::Relaxed) > EXECUTIONS.load(Ordering::Relaxed), "at times both");
}

/// A mark set while another CPU begins the turn anew costs the zone that turn, and no more.
#[test]
fn a_late_mark_lasts_until_the_next_reset() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static LATE: AtomicUsize = AtomicUsize::new(0);
    static IN_TIME: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let zone = zone();
        zone.set_watermarks(Watermarks { min: 0, low: 0, high: 2 });
        zone.charge_fair(2, POLICY);
        let begin = zone.clone();
        let begin = thread::spawn(move || begin.reset_fair());
        let charge = zone.clone();
        let charge = thread::spawn(move || charge.charge_fair(1, POLICY));
        begin.join().unwrap();
        charge.join().unwrap();
        // The reset came first, or it came last and the charge is forgotten.
        assert!([1, 2].contains(&zone.fair_batch()), "{}", zone.fair_batch());
        let late = usize::from(zone.fair_is_over(POLICY));
        LATE.fetch_add(late, Ordering::Relaxed);
        IN_TIME.fetch_add(1 - late, Ordering::Relaxed);
        zone.reset_fair();
        assert!(!zone.fair_is_over(POLICY) && zone.fair_batch() == 2);
        zone.charge_fair(3, POLICY);
        assert!(zone.fair_is_over(POLICY));
    });
    assert!(LATE.load(Ordering::Relaxed) > 0 && IN_TIME.load(Ordering::Relaxed) > 0);
}

/// A CPU opens a pageblock and hands a frame of it out, while another looks at the frames: it sees what the first has
/// written, or that there is nothing, and never what was in memory before.
#[test]
fn state_bytes_are_not_read_before_they_are_written() {
    static EXECUTIONS: AtomicUsize = AtomicUsize::new(0);
    static OPENED: AtomicUsize = AtomicUsize::new(0);
    explore(&EXECUTIONS, || {
        let held = StateByte::allocated(Order::ZERO, MigrateType::Movable);
        // Four frames are enough; all of them look as if a caller held them.
        let raw = vec![core::mem::MaybeUninit::uninit(); 1 << 12].leak();
        let mut blocks = Pageblocks::carve_unopened(1, 4, held, &mut Carver::new(raw)).unwrap();
        let states = blocks.states();
        let opener = thread::spawn(move || {
            blocks.get_mut(0).unwrap().fill(pageblock_frame::Fill::Taken);
            blocks.states().set(0, held);
        });
        let looker = thread::spawn(move || {
            OPENED.fetch_add(usize::from(states.is_opened(0)), Ordering::Relaxed);
            assert_eq!(states.get(1), StateByte::INSIDE);
            assert_eq!(states.heads(0) & !1, 0);
        });
        opener.join().unwrap();
        looker.join().unwrap();
        assert_eq!((states.get(0), states.get(1)), (held, StateByte::INSIDE));
    });
    assert!(OPENED.load(Ordering::Relaxed) > 0, "the second CPU has come after the opening");
}
