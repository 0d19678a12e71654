//! What CPUs ask of one another, on one thread that plays them all: no request is lost, none is answered early, and the
//! CPU that is asked is kicked.

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::cell::{Cell, RefCell};
use std::mem::MaybeUninit;
use std::ptr::NonNull;

use pageblock_buddy::{FreeError, Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{
    AllocFlags, Carver, CpuId, Hooks, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind,
};
use pageblock_pcp::{Drain, PcpConfig, PcpError, PcpLists};

use MigrateType::Movable;

std::thread_local! {
    static CPU: Cell<u32> = const { Cell::new(0) };
    static KICKED: RefCell<Vec<CpuId>> = const { RefCell::new(Vec::new()) };
    /// Kicks unwind.
    static UNWINDS: Cell<bool> = const { Cell::new(false) };
}

/// The thread is whichever CPU it says it is; kicks are written down and not followed.
#[derive(Debug)]
struct Machine;

// SAFETY: each test is one thread, which is one CPU at a time; nothing is mapped.
unsafe impl Platform for Machine {
    const MAX_CPUS: usize = 8;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn pin() -> CpuId {
        CpuId::new(CPU.get())
    }

    fn hooks() -> impl Hooks {
        Kicks
    }
}

struct Kicks;

impl Hooks for Kicks {
    fn kick(&self, cpu: CpuId) -> bool {
        if UNWINDS.get() {
            // Without the message that a panic would print.
            std::panic::resume_unwind(Box::new("injected"));
        }
        KICKED.with_borrow_mut(|kicked| kicked.push(cpu));
        true
    }
}

fn on<R>(cpu: u32, work: impl FnOnce() -> R) -> R {
    let before = CPU.replace(cpu);
    let result = work();
    CPU.set(before);
    result
}

const FRAMES: u64 = 1 << 17;

fn order(log2: u8) -> Order {
    Order::new(log2).unwrap()
}

fn zone(first: u64) -> &'static Zone<'static> {
    let span = PfnRange::from_len(Pfn::new(first), FRAMES);
    let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
    let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
    let zone = Zone::new::<Machine>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
    zone.release_simulated::<Machine>(span).unwrap();
    Box::leak(Box::new(zone))
}

type Lists = PcpLists<'static, Machine>;

fn lists_of(zone: &'static Zone<'static>, config: PcpConfig, cpus: u32) -> Lists {
    let raw = vec![MaybeUninit::uninit(); Lists::bytes(&config, zone.span(), cpus)].leak();
    let lists = PcpLists::carve(config, zone, cpus, &mut Carver::new(raw)).unwrap();
    assert_eq!(lists.cpus(), cpus as usize);
    lists
}

fn machine() -> Lists {
    lists_of(zone(0), PcpConfig::new(), 2)
}

fn alloc(lists: &Lists, order: Order) -> Pfn {
    lists.alloc(order, Movable).or_else(|| lists.alloc_slow(order, Movable, AllocFlags::empty())).unwrap()
}

/// Puts so many blocks of an order onto a CPU's list.
fn stock(lists: &Lists, cpu: u32, order: Order, blocks: usize) {
    on(cpu, || {
        let take = |_| lists.zone().alloc::<Machine>(order, Movable, AllocFlags::empty()).unwrap();
        let held: Vec<Pfn> = (0..blocks).map(take).collect();
        held.into_iter().for_each(|pfn| lists.free_simulated(pfn, order).unwrap());
    });
}

fn conserved(lists: &Lists, held: u64) {
    lists.zone().check().unwrap();
    lists.check().unwrap();
    assert_eq!(lists.zone().free_frames() + lists.frames() + held, FRAMES);
}

#[test]
fn a_drain_kicks_the_cpu_and_waits_for_it() {
    let lists = machine();
    stock(&lists, 1, Order::ZERO, 10);
    assert_eq!(lists.drain_cpu(CpuId::new(1)), Ok(Drain::Kicked));
    assert_eq!(KICKED.take(), [CpuId::new(1)]);
    assert_eq!(lists.frames_on(CpuId::new(1)), 10, "no other CPU touches the list");
    assert_eq!(lists.wait(3), Err(PcpError::Waiting(CpuId::new(1))));
    on(1, || lists.handle_kick());
    assert_eq!((lists.wait(0), lists.frames_on(CpuId::new(1))), (Ok(()), 0));
    assert_eq!(lists.drain_cpu(CpuId::new(0)), Ok(Drain::Done));
    assert_eq!(KICKED.take(), [], "this CPU kicks itself no more than it must");
    conserved(&lists, 0);
}

/// A CPU pays a drain in parts: it answers when the last list is empty, not before, and forgets nothing between.
#[test]
fn a_drain_is_answered_when_all_lists_are_empty() {
    let lists = machine();
    let mut stocked = 0;
    for (log2, blocks) in [(0, 60), (1, 20), (3, 8), (5, 2), (9, 1)] {
        stock(&lists, 1, order(log2), blocks);
        stocked += (blocks as u64) << log2;
    }
    assert_eq!(lists.frames_on(CpuId::new(1)), stocked, "frames, not blocks");
    assert_eq!(lists.drain_cpu(CpuId::new(1)), Ok(Drain::Kicked));
    let mut parts = 0;
    while lists.wait(0).is_err() {
        let before = lists.frames_on(CpuId::new(1));
        assert!(before > 0, "all lists are empty, and the request still waits");
        // The list may not serve meanwhile.
        let pfn = on(1, || alloc(&lists, Order::ZERO));
        assert!(lists.frames_on(CpuId::new(1)) < before, "each operation pays a part");
        on(1, || lists.free_simulated(pfn, Order::ZERO)).unwrap();
        parts += 1;
        assert!(parts < 100);
    }
    assert!(parts >= 2, "{parts} parts, of an allocation and a free each");
    assert!(lists.frames_on(CpuId::new(1)) <= 1, "answered, and something was left");
    lists.quiesce(0).unwrap_err();
    on(1, || lists.handle_kick());
    conserved(&lists, 0);
}

#[test]
fn an_offline_cpu_is_taken_over_by_one_and_owes_no_answer() {
    let lists = machine();
    stock(&lists, 1, Order::ZERO, 30);
    lists.drain_cpu(CpuId::new(1)).unwrap();
    on(1, || lists.go_offline()).unwrap();
    assert_eq!(lists.wait(0), Err(PcpError::Waiting(CpuId::new(1))));
    assert_eq!(lists.take_over(CpuId::new(1)), Ok(()));
    assert_eq!((lists.wait(0), lists.frames_on(CpuId::new(1))), (Ok(()), 0));
    assert_eq!(lists.take_over(CpuId::new(0)), Err(PcpError::Online(CpuId::new(0))));
    assert_eq!(lists.take_over(CpuId::new(2)), Err(PcpError::NoSuchCpu(CpuId::new(2))));
    // Later drains do it themselves.
    assert_eq!(lists.drain_all(), 0);
    on(1, || lists.come_online()).unwrap();
    assert_eq!(on(1, || lists.come_online()), Err(PcpError::Online(CpuId::new(1))));
    conserved(&lists, 0);
}

#[test]
fn of_two_isolations_both_have_to_end() {
    let lists = machine();
    let [a, b] = [alloc(&lists, Order::ZERO), alloc(&lists, Order::ZERO)];
    lists.begin_isolation();
    lists.begin_isolation();
    on(1, || lists.handle_kick());
    lists.end_isolation();
    lists.free_simulated(a, Order::ZERO).unwrap();
    assert_eq!(lists.frames(), 0, "one of the isolations goes on");
    lists.end_isolation();
    lists.free_simulated(b, Order::ZERO).unwrap();
    assert_eq!(lists.frames(), 1);
    lists.end_isolation(); // one too many does no harm
    conserved(&lists, 0);
}

/// Lists know their zone: there is no argument by which another could come in, and a frame of another zone is refused.
#[test]
fn frames_of_another_zone_are_refused() {
    let [a, b] = [zone(0), zone(FRAMES)].map(|zone| lists_of(zone, PcpConfig::new(), 1));
    let pfn = alloc(&b, Order::ZERO);
    assert_eq!(a.free_simulated(pfn, Order::ZERO), Err(FreeError::OutOfRange));
    assert!(core::ptr::eq(a.zone(), a.zone()) && !core::ptr::eq(a.zone(), b.zone()));
    assert_eq!(b.free_simulated(pfn, Order::ZERO), Ok(()));
    conserved(&a, 0);
    conserved(&b, 0);
}

/// Blocks in the depot count as free, are named when they are freed once more, and come out by whichever way lists are
/// emptied.
#[test]
fn what_is_in_the_depot_is_on_a_list() {
    for way in 0..3 {
        let lists = machine();
        let held: Vec<Pfn> = (0..1000).map(|_| alloc(&lists, Order::ZERO)).collect();
        lists.quiesce(0).unwrap_err();
        on(1, || lists.handle_kick());
        held.iter().for_each(|&pfn| lists.free_simulated(pfn, Order::ZERO).unwrap());
        let on_list = lists.frames_on(CpuId::new(0));
        assert!(
            lists.frames() >= on_list + 64,
            "{} of {} frames are in the depot",
            lists.frames() - on_list,
            lists.frames()
        );
        for &pfn in &held {
            assert!(lists.free_simulated(pfn, Order::ZERO).is_err(), "{pfn} is freed twice");
        }
        let twice =
            held.iter().filter(|&&pfn| lists.free_simulated(pfn, Order::ZERO) == Err(FreeError::OnList)).count();
        assert_eq!(twice as u64, lists.frames());
        conserved(&lists, 0);
        // Another CPU takes a batch over.
        let (taken, before) = (on(1, || alloc(&lists, Order::ZERO)), lists.frames());
        assert_eq!((lists.frames_on(CpuId::new(1)), lists.frames() + lists.zone().free_frames()), (63, FRAMES - 1));
        assert!(before > 63 && held.contains(&taken));
        on(1, || lists.free_simulated(taken, Order::ZERO)).unwrap();
        match way {
            0 => {
                assert_eq!(lists.drain_all(), 1);
                on(1, || lists.handle_kick());
            }
            1 => {
                lists.go_offline().unwrap();
                on(1, || lists.go_offline()).unwrap();
                lists.take_over(CpuId::new(0)).unwrap();
                lists.take_over(CpuId::new(1)).unwrap();
            }
            _ => {
                lists.begin_isolation();
                on(1, || lists.handle_kick());
            }
        }
        assert_eq!((lists.frames(), lists.zone().free_frames()), (0, FRAMES), "way {way}");
        conserved(&lists, 0);
    }
}

/// A call of a small order moves a part only, however much is owed.
#[test]
fn no_free_gives_back_more_than_a_part() {
    let config = PcpConfig::new();
    for log2 in 0..=3 {
        let lists = machine();
        let take = |_| lists.zone().alloc::<Machine>(order(log2), Movable, AllocFlags::empty()).unwrap();
        let held: Vec<Pfn> = (0..6000).map(take).collect();
        // Every third, so that no word of the map is whole.
        for pfn in (0..3).flat_map(|third| held.iter().skip(third).step_by(3)) {
            let before = lists.zone().free_frames();
            lists.free_simulated(*pfn, order(log2)).unwrap();
            let given = (lists.zone().free_frames() - before) >> log2;
            assert!(given <= u64::from(config.call_limit), "order {log2}: {given} blocks");
        }
        conserved(&lists, 0);
    }
}

/// From 16 MiB and one CPU to 256 MiB and eight: lists are short, and there.
#[test]
fn small_machines_have_lists() {
    for mib in [16, 32, 64, 128, 256] {
        for cpus in [1, 2, 4, 8] {
            let span = PfnRange::from_len(Pfn::new(0), mib << 8);
            let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
            let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
            let zone = Zone::new::<Machine>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
            zone.release_simulated::<Machine>(span).unwrap();
            let lists = lists_of(Box::leak(Box::new(zone)), PcpConfig::new(), cpus);
            for cpu in 0..cpus {
                on(cpu, || {
                    let pfn = alloc(&lists, Order::ZERO);
                    lists.free_simulated(pfn, Order::ZERO).unwrap();
                    assert_eq!(lists.alloc(Order::ZERO, Movable), Some(pfn), "{mib} MiB, CPU {cpu} of {cpus}");
                    lists.free_simulated(pfn, Order::ZERO).unwrap();
                    // Orders whose lists have no room are served as well, and lose nothing.
                    for log2 in 0..=10 {
                        let Some(pfn) = lists.alloc_slow(order(log2), Movable, AllocFlags::empty()) else { continue };
                        lists.free_simulated(pfn, order(log2)).unwrap();
                    }
                });
            }
            assert_eq!(lists.zone().free_frames() + lists.frames(), mib << 8, "{mib} MiB, {cpus} CPUs");
            lists.check().unwrap();
        }
    }
}

/// Lists of two CPUs with batches in the depot, from CPU 0, and the blocks that were freed.
fn with_batches(order: Order) -> (Lists, Vec<Pfn>) {
    let lists = machine();
    let take = |_| lists.zone().alloc::<Machine>(order, Movable, AllocFlags::empty()).unwrap();
    let blocks: Vec<Pfn> = (0..2048 >> order.as_u8()).map(take).collect();
    on(0, || blocks.iter().for_each(|&pfn| lists.free_simulated(pfn, order).unwrap()));
    assert!(lists.frames_in_depot() > 0, "order {order}: batches are full");
    (lists, blocks)
}

#[test]
fn wrong_frees_are_named_on_every_cpu_while_a_batch_is_in_the_depot() {
    for o in [0, 2, 5, 8] {
        let (lists, blocks) = with_batches(order(o));
        let counts = lists.counts();
        for cpu in [0, 1] {
            on(cpu, || {
                for &pfn in &blocks {
                    let twice = lists.free_simulated(pfn, order(o)).unwrap_err();
                    assert!(matches!(twice, FreeError::OnList | FreeError::NotAllocated), "{twice:?}");
                    assert!(lists.free_simulated(pfn, order(o + 1)).is_err(), "with a wrong order");
                    assert!(o == 0 || lists.free_simulated(pfn.add(1), Order::ZERO).is_err(), "of a part");
                }
            });
        }
        assert_eq!(lists.counts(), counts, "a refused free changes nothing");
        conserved(&lists, 0);
        // The batch becomes the other CPU's: each of its blocks has one owner, and is freed once.
        let held: Vec<Pfn> = on(1, || (0..8).map(|_| alloc(&lists, order(o))).collect());
        conserved(&lists, 8 << o);
        for pfn in held {
            on(0, || assert_eq!(lists.free_simulated(pfn, order(o)), Ok(())));
            on(1, || assert_eq!(lists.free_simulated(pfn, order(o)), Err(FreeError::OnList)));
        }
        conserved(&lists, 0);
    }
}

#[test]
fn a_cpu_that_leaves_while_batches_are_in_the_depot_loses_nothing() {
    for o in [0, 3, 6] {
        let (lists, _) = with_batches(order(o));
        on(0, || lists.go_offline().unwrap());
        conserved(&lists, 0);
        // What it handed over is the other CPUs'.
        let in_depot = lists.frames_in_depot();
        let held = on(1, || alloc(&lists, order(o)));
        assert!(lists.frames_in_depot() < in_depot, "order {o}: from the depot");
        conserved(&lists, 1 << o);
        on(1, || lists.free_simulated(held, order(o)).unwrap());
        on(1, || lists.take_over(CpuId::new(0)).unwrap());
        on(1, || lists.quiesce(0).unwrap());
        assert_eq!((lists.frames(), lists.zone().free_frames()), (0, FRAMES));
        on(0, || lists.come_online().unwrap());
        conserved(&lists, 0);
    }
}

#[test]
fn a_kick_that_unwinds_in_the_middle_of_a_drain_takes_nothing_with_it() {
    let unwinding = |call: &dyn Fn()| {
        UNWINDS.set(true);
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(call));
        UNWINDS.set(false);
        assert!(ended.is_err(), "the kick unwinds");
    };
    let (lists, _) = with_batches(Order::ZERO);
    stock(&lists, 1, Order::ZERO, 10);
    on(0, || unwinding(&|| _ = lists.drain_cpu(CpuId::new(1))));
    conserved(&lists, 0);
    on(0, || unwinding(&|| _ = lists.drain_all()));
    conserved(&lists, 0);
    on(0, || unwinding(&|| _ = lists.begin_isolation()));
    // The isolation has ended: what is freed goes to a list again, once the drains that were asked for are done.
    on(0, || lists.handle_kick());
    on(1, || lists.handle_kick());
    let frame = on(0, || alloc(&lists, Order::ZERO));
    on(0, || lists.free_simulated(frame, Order::ZERO).unwrap());
    assert!(lists.frames_on(CpuId::new(0)) > 0, "on its list");
    on(0, || _ = lists.drain_all());
    on(1, || lists.handle_kick());
    assert_eq!((lists.frames(), lists.zone().free_frames()), (0, FRAMES));
    conserved(&lists, 0);
}

#[test]
fn a_request_gets_a_block_of_a_part_of_the_lists() {
    let (lists, _) = with_batches(order(2));
    on(0, || {
        stock(&lists, 0, order(5), 4);
        let (listed, free) = (lists.counts().by_order, lists.zone().free_frames());
        // A larger block serves at once, and most of the rest stays.
        assert!(lists.give_back_until(order(3), || lists.zone().free_frames() > free));
        let left = lists.counts().by_order;
        assert!(left[5] < listed[5], "blocks of order 5 serve");
        assert_eq!(left[2], listed[2], "those of order 2 stay");
        // Nothing suffices: all goes back, the depot's batches too.
        assert!(lists.give_back_until(order(9), || false));
        assert_eq!((lists.frames_on(CpuId::new(0)), lists.frames_in_depot()), (0, 0));
        assert!(!lists.give_back_until(order(9), || false), "and then there is nothing");
    });
    conserved(&lists, 0);
}

#[test]
fn blocks_go_back_to_a_zone_in_which_a_large_request_found_nothing() {
    let lists = machine();
    let whole = order(9);
    let take = |order| lists.zone().alloc::<Machine>(order, Movable, AllocFlags::empty()).unwrap();
    let large: Vec<Pfn> = (0..FRAMES / 512 * 7 / 8).map(|_| take(whole)).collect();
    assert!(lists.zone().is_short_of_whole() && lists.zone().whole_blocks() > 0);
    let in_depot = || {
        let blocks: Vec<Pfn> = (0..1024).map(|_| take(Order::ZERO)).collect();
        on(0, || blocks.iter().for_each(|&pfn| lists.free_simulated(pfn, Order::ZERO).unwrap()));
        let in_depot = lists.frames_in_depot();
        on(0, || lists.give_back_until(order(3), || false));
        in_depot
    };
    assert!(in_depot() > 0, "smaller requests want nothing of the zone");
    on(0, || lists.give_back_until(whole, || false));
    assert_eq!(in_depot(), 0, "blocks that wait for use keep pageblocks from becoming whole");
    for pfn in large {
        // SAFETY: taken above; there is no memory behind the numbers.
        unsafe { lists.zone().free::<Machine>(pfn, whole) }.unwrap();
    }
    assert!(in_depot() > 0, "many pageblocks are whole again");
    conserved(&lists, 0);
}
