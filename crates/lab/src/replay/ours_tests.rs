use pageblock_buddy::{Watermarks, ZoneConfig};
use pageblock_frame::{MigrateType, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER, ZoneKind};

use super::super::layout::ZoneLayout;
use super::super::machine::{Cpu, Storage};
use super::*;

const FRAMES: u32 = 16 * PAGEBLOCK_FRAMES as u32;

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
fn scattered<'m>(layout: &[ZoneLayout], storage: &'m mut Storage) -> Ours<'m> {
    let machine = Machine::new(layout, storage).unwrap();
    let zone = &machine.zones()[0];
    zone.release(layout[0].config.span).unwrap();
    for _ in 0..FRAMES {
        zone.alloc::<Cpu>(Order::ZERO, MigrateType::Movable, Default::default()).unwrap();
    }
    let mut ours = Ours::new(machine, u64::from(FRAMES));
    let odd: Vec<_> = (0..FRAMES / 2).map(|at| Op::FreeStart { pfn: 2 * at + 1, frames: 1 }).collect();
    ours.execute(&odd, &mut []);
    assert_eq!(ours.machine.free_frames(), u64::from(FRAMES / 2));
    ours
}

/// Frees whatever is held since the start, the first so many pages excepted, and looks whether all but `held` is free.
fn ends_free(mut ours: Ours<'_>, held: u64, first: u32) {
    let even: Vec<_> = (first..FRAMES / 2).map(|at| Op::FreeStart { pfn: 2 * at, frames: 1 }).collect();
    ours.execute(&even, &mut []);
    assert_eq!((ours.tally.rejected, &ours.tally.first_rejection), (0, &None));
    ours.machine.check().unwrap();
    assert_eq!(ours.machine.free_frames(), u64::from(FRAMES) - held);
}

const HUGE: Gfp = Gfp::TRANSHUGE;

#[test]
fn a_request_for_a_large_block_compacts_and_later_frees_find_what_moved() {
    let (layout, mut storage) = (layout(), Storage::new(&layout()));
    let mut ours = scattered(&layout, &mut storage);
    let mut blocks = [Block { linux: 0, ours: NONE, left: PAGEBLOCK_FRAMES as u32, order: PAGEBLOCK_ORDER }];
    let alloc = Op::Alloc { block: 0, order: PAGEBLOCK_ORDER, gfp: HUGE, node: NodeId::new(0) };
    ours.execute(&[alloc], &mut blocks);
    assert_eq!(ours.tally.refused, [0; Order::COUNT]);
    assert_ne!(blocks[0].ours, NONE);
    assert!(ours.compaction.vmstat().migrate_success >= 256);
    ends_free(ours, PAGEBLOCK_FRAMES, 0);
}

#[test]
fn an_event_compacts_where_there_is_no_block_and_does_nothing_where_there_is_one() {
    for op in [
        Op::Compact { order: PAGEBLOCK_ORDER, gfp: HUGE, priority: Priority::SyncLight },
        Op::Kcompactd { node: 0, order: PAGEBLOCK_ORDER, limit: ZoneKind::Normal },
        Op::Look,
    ] {
        let (layout, mut storage) = (layout(), Storage::new(&layout()));
        let mut ours = scattered(&layout, &mut storage);
        ours.execute(&[op], &mut []);
        let moved = ours.compaction.vmstat().migrate_success;
        assert!(ours.machine.free_pageblocks() > 0 && moved >= 256, "{op:?}");
        assert_eq!(ours.tally.operations, u64::from(FRAMES / 2), "{op:?} is no operation of the allocator");
        ours.execute(&[op], &mut []);
        assert_eq!(ours.compaction.vmstat().migrate_success, moved, "{op:?}");
        ends_free(ours, 0, 0);
    }
}

#[test]
fn blocks_of_the_trace_move_whole_and_are_freed_where_they_are() {
    let (layout, mut storage) = (layout(), Storage::new(&layout()));
    let mut ours = scattered(&layout, &mut storage);
    let mut blocks = vec![Block { linux: 0, ours: NONE, left: 1, order: Order::ZERO }; 64];
    let (gfp, node) = (Gfp::HIGHUSER_MOVABLE, NodeId::new(0));
    let allocs: Vec<_> = (0..64).map(|block| Op::Alloc { block, order: Order::ZERO, gfp, node }).collect();
    ours.execute(&allocs, &mut blocks);
    // Nothing else is left in their pageblock: it is the one that takes the fewest moves.
    assert!(blocks.iter().all(|block| u64::from(block.ours) < PAGEBLOCK_FRAMES));
    let others = (0..PAGEBLOCK_FRAMES as u32 / 2).map(|at| Op::FreeStart { pfn: 2 * at, frames: 1 });
    ours.execute(&others.collect::<Vec<_>>(), &mut blocks);
    ours.execute(&[Op::Compact { order: PAGEBLOCK_ORDER, gfp: HUGE, priority: Priority::Async }], &mut blocks);
    assert!(blocks.iter().all(|block| u64::from(block.ours) >= PAGEBLOCK_FRAMES));
    assert_eq!((ours.machine.free_pageblocks(), ours.compaction.vmstat().migrate_success), (1, 64));
    let frees: Vec<_> = (0..64).map(|block| Op::Free { block, order: Order::ZERO }).collect();
    ours.execute(&frees, &mut blocks);
    ends_free(ours, 0, PAGEBLOCK_FRAMES as u32 / 2);
}
