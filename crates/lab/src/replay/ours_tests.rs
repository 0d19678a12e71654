use pageblock_buddy::{Watermarks, ZoneConfig};
use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, ZoneKind};

use super::super::linux::{Linux, START, kind_of};
use super::super::plan::Origin;
use super::super::rules::Rules;
use super::super::start::Start;
use super::*;

const FRAMES: u32 = 64 * PAGEBLOCK_FRAMES as u32;

fn layout() -> Vec<ZoneLayout> {
    let span = range(0, FRAMES);
    vec![ZoneLayout {
        config: ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span),
        marks: Watermarks { min: 32, low: 40, high: 48 },
        reserve: [0; ZoneKind::COUNT],
        ram: vec![span],
        recorded: Default::default(),
    }]
}

/// A machine full of movable frames held since the start, of which every second one is freed.
fn scattered(rules: Rules) -> Ours {
    let layout = layout();
    let mut linux = Linux::new(Pfn::new(FRAMES.into()));
    (0..FRAMES).for_each(|pfn| linux.set(pfn.into(), START, kind_of(MigrateType::Movable)));
    let start = Start { linux, origin: Origin::Recorded, types: vec![Vec::new()], unmatched: Vec::new() };
    let machine = Machine::new(rules, &start, &layout).unwrap();
    start.build(&layout, &machine).unwrap();
    let mut ours = Ours::new(machine);
    let odd: Vec<_> = (0..FRAMES / 2).map(|at| Op::FreeStart { pfn: 2 * at + 1, frames: 1 }).collect();
    ours.execute(&odd);
    assert_eq!((ours.machine.free_frames(), ours.machine.free_pageblocks()), (u64::from(FRAMES / 2), 0));
    ours
}

/// Frees the blocks held since the start, the first so many pages excepted, and looks whether all but `held` is free.
fn ends_free(mut ours: Ours, held: u64, first: u32) {
    let even: Vec<_> = (first..FRAMES / 2).map(|at| Op::FreeStart { pfn: 2 * at, frames: 1 }).collect();
    ours.execute(&even);
    assert_eq!((ours.tally.rejected, &ours.tally.first_rejection), (0, &None));
    ours.machine.drain();
    ours.machine.check().unwrap();
    assert_eq!(ours.machine.free_frames(), u64::from(FRAMES) - held);
}

const HUGE: Gfp = Gfp::TRANSHUGE;

#[test]
fn a_request_for_a_large_block_compacts_and_later_frees_find_what_moved() {
    for rules in [Rules::Default, Rules::Linux3_13, Rules::Linux4_20, Rules::Linux6_1, Rules::Linux6_18] {
        let mut ours = scattered(rules);
        let alloc = Op::Alloc { block: 0, order: PAGEBLOCK_ORDER, gfp: HUGE, node: NodeId::new(0) };
        ours.execute(&[alloc]);
        assert_eq!(ours.tally.refused, [0; Order::COUNT], "{rules:?}");
        assert_ne!(ours.machine.seat.places.borrow().of_block(0), NONE);
        assert!(ours.machine.seat.allocator.compaction().stats().migrate_success >= 256);
        ends_free(ours, PAGEBLOCK_FRAMES, 0);
    }
}

#[test]
fn a_request_that_linux_refused_leaves_nothing_behind() {
    let mut ours = scattered(Rules::Default);
    ours.execute(&[Op::Try { order: PAGEBLOCK_ORDER, gfp: HUGE, node: NodeId::new(0) }]);
    assert_eq!((ours.tally.served_beyond, ours.tally.rejected), (1, 0));
    assert!(ours.machine.free_pageblocks() > 0);
    ends_free(ours, 0, 0);
}

#[test]
fn the_compaction_thread_makes_a_block_when_it_is_woken() {
    let mut ours = scattered(Rules::Linux6_1);
    let woken = [Op::At { cpu: 0, micros: 5 }, Op::Kcompactd { node: 0, order: PAGEBLOCK_ORDER }];
    ours.execute(&woken);
    assert!(ours.machine.free_pageblocks() > 0);
    let noted = ours.machine.seat.noted.get();
    assert!(noted.runs > 0 && noted.successes > 0, "{noted:?}");
    assert_eq!(ours.tally.operations, u64::from(FRAMES / 2), "no operation of the allocator");
    ends_free(ours, 0, 0);
}

#[test]
fn each_cpu_has_lists_of_its_own() {
    let mut layout = layout();
    layout[0].recorded.cpus = 2;
    let linux = Linux::new(Pfn::new(FRAMES.into()));
    let mut start = Start { linux, origin: Origin::Recorded, types: vec![Vec::new()], unmatched: Vec::new() };
    (0..FRAMES).for_each(|pfn| start.linux.set(pfn.into(), super::super::linux::FREE, 0));
    let machine = Machine::new(Rules::Linux6_1, &start, &layout).unwrap();
    start.build(&layout, &machine).unwrap();
    assert_eq!((machine.cpus, machine.free_pageblocks()), (2, 64));
    let mut ours = Ours::new(machine);
    let alloc = |block| Op::Alloc { block, order: Order::ZERO, gfp: Gfp::HIGHUSER_MOVABLE, node: NodeId::new(0) };
    ours.execute(&[Op::At { cpu: 0, micros: 0 }, alloc(0)]);
    let after_one = ours.machine.seat.allocator.stats().listed;
    // The same frames lie on the first CPU's list; the second refills one of its own. The third is the first again.
    ours.execute(&[Op::At { cpu: 1, micros: 0 }, alloc(1)]);
    let after_two = ours.machine.seat.allocator.stats().listed;
    ours.execute(&[Op::At { cpu: 2, micros: 0 }, alloc(2)]);
    let after_three = ours.machine.seat.allocator.stats().listed;
    assert!(
        after_one > 0 && after_two > after_one && after_three == after_two - 1,
        "{after_one} {after_two} {after_three}"
    );
    assert!(ours.machine.drain() == after_three && ours.machine.seat.allocator.stats().listed == 0);
}
