//! The owner against its tables, under random operations.

use std::cell::RefCell;
use std::rc::Rc;

use pageblock::{Config, Region};
use pageblock_buddy::Patience;
use pageblock_frame::migration::{Migrate, MigrateMode, MoveError, PutBack, Refusal};
use pageblock_frame::reclaim::{Reclaim, Shrink};
use pageblock_frame::trace::Event;
use pageblock_frame::{DescFlags, Gfp, Hooks, NodeId, Order, PAGEBLOCK_ORDER, Pfn, Platform, ZoneKind};
use pageblock_lru::LruList;
use pageblock_memmap::ZoneLimits;
use proptest::prelude::*;

use super::*;

const MIB: u64 = 1 << 20;

fn memory(mib: u64, swap: u64) -> Rc<Memory> {
    let config = Config::new().zones(ZoneLimits::single());
    let config = MemoryConfig { swap, ..MemoryConfig::new(vec![Region::from((0, mib * MIB, true))], config) };
    Memory::new(&config).unwrap()
}

fn anon(page: u32) -> Name {
    Name::Anon { process: 1, page }
}

fn file(index: u32) -> Name {
    Name::File { file: 1, index }
}

#[test]
fn pages_are_found_moved_and_ended() {
    let memory = memory(16, 0);
    let _on = memory.enter();
    let from = memory.take_page(anon(7), Gfp::HIGHUSER_MOVABLE).unwrap();
    let kernel = memory.take(Holder::Kernel { order: Order::ZERO }, Gfp::KERNEL).unwrap();
    assert_eq!(memory.isolate(kernel, Order::ZERO, MigrateMode::Sync), Err(Refusal::Pinned));
    assert_eq!(memory.isolate(Pfn::new(1 << 40), Order::ZERO, MigrateMode::Sync), Err(Refusal::Unknown));
    assert_eq!(memory.isolate(from, Order::ZERO, MigrateMode::Async), Ok(()));
    assert_eq!(memory.isolate(from, Order::ZERO, MigrateMode::Async), Err(Refusal::Pinned));
    // As compaction does it: the target is the owner's when the move begins, and the source is freed afterwards.
    let to = memory.allocator().alloc(Gfp::HIGHUSER_MOVABLE).unwrap().into_raw().pfn;
    assert_eq!(memory.migrate(from, to, Order::ZERO, MigrateMode::Async), Ok(()));
    memory.give_back(from, Order::ZERO);
    assert_eq!((memory.find(anon(7)), memory.holder(from)), (Some(to), Holder::Nobody));
    memory.check().unwrap();
    assert_eq!(memory.end(Name::of_process(1)), 1);
    assert!(memory.free(kernel) && !memory.free(kernel));
    assert_eq!(memory.allocator().stats().free, memory.allocator().stats().managed);
    memory.check().unwrap();
}

#[test]
fn a_page_that_ends_while_it_is_lent_is_compactions_to_free() {
    let memory = memory(16, 0);
    let _on = memory.enter();
    let pages = [0, 1].map(|page| memory.take_page(anon(page), Gfp::HIGHUSER_MOVABLE).unwrap());
    for pfn in pages {
        memory.isolate(pfn, Order::ZERO, MigrateMode::SyncLight).unwrap();
    }
    assert_eq!(memory.end(Name::of_process(1)), 2);
    assert_eq!(memory.migrate(pages[0], pages[1].add(9), Order::ZERO, MigrateMode::Sync), Err(MoveError::Released));
    assert_eq!(memory.put_back(pages[1], Order::ZERO), PutBack::Released);
    pages.iter().for_each(|pfn| memory.give_back(*pfn, Order::ZERO));
    memory.check().unwrap();
}

#[test]
fn writing_back_holds_a_page() {
    let memory = memory(16, 8);
    let _on = memory.enter();
    let page = memory.take_page(file(3), Gfp::HIGHUSER_MOVABLE).unwrap();
    assert!(!memory.begin_writeback(page));
    memory.make_dirty(page);
    assert!(memory.begin_writeback(page));
    assert_eq!(memory.isolate(page, Order::ZERO, MigrateMode::SyncLight), Err(Refusal::Busy));
    memory.free(page);
    assert_eq!(memory.allocator().stats().managed - memory.allocator().stats().free, 1);
    assert!(memory.end_writeback(page) && !memory.end_writeback(page));
    assert_eq!(memory.allocator().stats().managed, memory.allocator().stats().free);
    memory.check().unwrap();
}

#[test]
fn reclaim_takes_clean_cache_and_swaps_what_was_written() {
    let memory = memory(16, 8);
    let _on = memory.enter();
    let dirty = memory.take_page(file(0), Gfp::HIGHUSER_MOVABLE).unwrap();
    memory.make_dirty(dirty);
    for index in 1..100 {
        memory.take_page(file(index), Gfp::HIGHUSER_MOVABLE).unwrap();
    }
    for page in 0..16 {
        let pfn = memory.take_page(anon(page), Gfp::HIGHUSER_MOVABLE).unwrap();
        assert!(memory.begin_writeback(pfn) && memory.end_writeback(pfn)); // as if written to swap
    }
    let round = Shrink { frames: 1000, priority: 0, ..Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL) };
    let freed: u64 = (0..8).map(|_| memory.shrink(&round).freed).sum();
    assert_eq!((freed, memory.find(file(0)), memory.swapped()), (99 + 8, Some(dirty), 8));
    memory.check().unwrap();
    assert!(memory.is_swapped(anon(0)));
    memory.take_page(anon(0), Gfp::HIGHUSER_MOVABLE).unwrap(); // read in again
    assert_eq!(memory.swapped(), 7);
}

#[test]
fn used_pages_survive_a_look_and_become_active() {
    let memory = memory(16, 0);
    let _on = memory.enter();
    let page = memory.take_page(file(0), Gfp::HIGHUSER_MOVABLE).unwrap();
    memory.touch(page);
    assert!(memory.lrus()[0].isolate(page).is_ok());
    assert_eq!((memory.evict(page), memory.lrus()[0].put_back(page)), (Verdict::Referenced, false));
    memory.touch(page);
    memory.touch(page);
    assert!(memory.flags(page).contains(DescFlags::ACTIVE));
    assert_eq!(memory.lrus()[0].frames(LruList::ActiveFile), 1);
}

#[test]
fn hooks_learn_of_events_and_machines_nest() {
    #[derive(Default)]
    struct Notes(RefCell<Vec<String>>);
    impl super::sim::Hooks for Notes {
        fn wake_kswapd(&self, _: NodeId) {
            self.0.borrow_mut().push("kswapd".into());
        }
        fn trace(&self, event: &Event) {
            if matches!(event, Event::Alloc { .. }) {
                self.0.borrow_mut().push("alloc".into());
            }
        }
    }
    let notes = Rc::new(Notes::default());
    let outer = memory(16, 0);
    outer.set_hooks(Some(notes.clone()));
    let _on = outer.enter();
    outer.take_page(anon(0), Gfp::HIGHUSER_MOVABLE).unwrap();
    {
        let inner = memory(16, 0);
        let _on = inner.enter();
        inner.take_page(anon(0), Gfp::HIGHUSER_MOVABLE).unwrap();
    }
    Sim::hooks().wake_kswapd(NodeId::new(0));
    assert_eq!(*notes.0.borrow(), ["alloc", "kswapd"]);
}

/// A huge page that was split and lost its first part is no place for another huge page.
#[test]
fn a_huge_page_needs_its_whole_range() {
    let memory = memory(8, 0);
    let _on = memory.enter();
    let huge = memory.take_huge(1, 1024, Gfp::TRANSHUGE).unwrap();
    assert!(memory.split_huge(huge));
    memory.free(huge);
    assert!(memory.take_huge(1, 1024, Gfp::TRANSHUGE).is_err());
    assert!(memory.take_huge(1, 1536, Gfp::TRANSHUGE).is_ok());
    memory.check().unwrap();
}

/// Operations on a machine's pages.
#[derive(Clone, Debug)]
enum Act {
    Anon(u32),
    Huge(u32),
    File(u32, bool),
    Kernel,
    Free(usize),
    Split(usize),
    Move(usize),
    Shrink,
    End,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        4 => (0u32..64).prop_map(Act::Anon),
        1 => (0u32..3).prop_map(|huge| Act::Huge(1024 + huge * 512)),
        4 => (0u32..64, any::<bool>()).prop_map(|(index, dirty)| Act::File(index, dirty)),
        2 => Just(Act::Kernel),
        3 => any::<usize>().prop_map(Act::Free),
        1 => any::<usize>().prop_map(Act::Split),
        3 => any::<usize>().prop_map(Act::Move),
        1 => Just(Act::Shrink),
        1 => Just(Act::End),
    ]
}

fn perform(memory: &Memory, act: &Act) {
    let some = |number: usize| {
        let held: Vec<_> = memory.held().collect();
        (!held.is_empty()).then(|| held[number % held.len()].0)
    };
    match *act {
        Act::Anon(page) => drop(memory.take_page(anon(page), Gfp::HIGHUSER_MOVABLE)),
        Act::Huge(page) => drop(memory.take_huge(1, page, Gfp::TRANSHUGE)),
        Act::File(index, dirty) => {
            if let (Ok(pfn), true) = (memory.take_page(file(index), Gfp::HIGHUSER_MOVABLE), dirty) {
                memory.make_dirty(pfn);
            }
        }
        Act::Kernel => drop(memory.take(Holder::Kernel { order: Order::ZERO }, Gfp::KERNEL)),
        Act::Free(number) => drop(some(number).map(|pfn| memory.free(pfn))),
        Act::Split(number) => drop(some(number).map(|pfn| memory.split_huge(pfn))),
        Act::Move(number) => drop(some(number).map(|pfn| move_one(memory, pfn))),
        Act::Shrink => drop(memory.shrink(&Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL))),
        Act::End => drop(memory.end(Name::of_file(1))),
    }
}

/// Moves a page as compaction would.
fn move_one(memory: &Memory, pfn: Pfn) {
    let order = memory.holder(pfn).order();
    if memory.isolate(pfn, order, MigrateMode::SyncLight).is_err() {
        return;
    }
    match memory.allocator().alloc_order(order, Gfp::HIGHUSER_MOVABLE).map(|block| block.into_raw().pfn) {
        Ok(to) => {
            assert_eq!(memory.migrate(pfn, to, order, MigrateMode::SyncLight), Ok(()));
            memory.give_back(pfn, order);
        }
        Err(_) => assert_eq!(memory.put_back(pfn, order), PutBack::Kept),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn tables_agree(acts in proptest::collection::vec(act(), 1..120)) {
        let memory = memory(8, 4);
        let _on = memory.enter();
        for act in &acts {
            perform(&memory, act);
        }
        prop_assert!(memory.check().is_ok(), "{:?}", memory.check());
        let held: Vec<_> = memory.held().map(|(pfn, _)| pfn).collect();
        for pfn in held {
            memory.free(pfn);
        }
        memory.allocator().drain();
        prop_assert_eq!(memory.allocator().stats().free, memory.allocator().stats().managed);
        prop_assert!(memory.check().is_ok());
        let scan = memory.zones()[0].scan::<Sim>(Patience::Wait);
        prop_assert_eq!(scan.free_blocks().iter().skip(PAGEBLOCK_ORDER.index()).any(|blocks| *blocks > 0), true);
    }
}
