//! The races of munlock, each brought about on purpose, in every form.

use pageblock_frame::sync::spin_hint;
use pageblock_frame::{DescFlags, Pfn};
use pageblock_lru::{Batch, HUGE_FRAMES, LruEvent, LruList, Lrus, Pagevecs, Unevictable};
use pageblock_mlock::{
    Accounting, AddressSpace, AreaState, Cause, Context, Mapping, MlockBatch, Placement, SoftArea, SoftTable, Span,
    Steps, Vpn, clear_mlocked, mlock, mlock_pages, mlock_pages_counted, munlock, munlock_pages, munlock_pages_counted,
};

use crate::common::{BASE, FRAMES, Machine, NODES, frame, nodes, tables};

/// Every form: the work's eight columns and the default.
fn forms() -> impl Iterator<Item = Steps> {
    (0..8).map(Steps::first).chain([Steps::default()])
}

fn span(pages: std::ops::Range<u64>) -> Span {
    Span::new(Vpn::new(BASE + pages.start), Vpn::new(BASE + pages.end))
}

/// A machine with one locked area of `pages` pages, all present, nodes alternating if `stride` is 1.
fn with_locked(machine: &Machine<'_>, pages: u64, stride: usize) {
    machine.area(0, 0..pages, AreaState::Locked);
    for at in 0..pages {
        machine.map(at, frame(at as usize * stride));
    }
    let mut vecs = Pagevecs::<14>::new();
    mlock_pages(machine, span(0..pages), &mut Context::new(machine.lrus(), &mut vecs));
    machine.check(&[]);
}

fn unmark(machine: &Machine<'_>, pages: std::ops::Range<u64>, id: u8) {
    for page in pages {
        let mut slots = machine.slots.lock().unwrap();
        let slot = slots[page as usize].as_mut().unwrap();
        assert_eq!(slot.id, id);
        slot.state = AreaState::Unlocked;
    }
}

#[test]
fn a_page_that_somebody_else_has_is_stranded_and_rescued_later() {
    for steps in forms() {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        with_locked(&machine, 40, 1);
        let off = [frame(3), frame(8), frame(9)];
        for pfn in off {
            assert_eq!(machine.lrus().of(pfn).unwrap().isolate(pfn), Ok(()));
        }
        unmark(&machine, 0..40, 0);
        let mut vecs = Pagevecs::<14>::new();
        munlock_pages(&machine, span(0..40), &mut Context::new(machine.lrus(), &mut vecs).with_steps(steps));
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        machine.check(&off);
        let event = |event| machine.lrus().event(event);
        assert_eq!((event(LruEvent::Munlocked), event(LruEvent::Stranded)), (37, 3), "{steps:?}");
        assert_eq!(event(LruEvent::Rescued), 37);
        for pfn in off {
            assert!(!machine.lrus().of(pfn).unwrap().put_back(pfn));
        }
        machine.check(&[]);
        assert_eq!((event(LruEvent::Rescued), machine.lrus().nr_mlock()), (40, 0));
    }
}

#[test]
fn the_historical_fault_leaves_stranded_pages_counted() {
    let steps = Steps { accounting: Accounting::Leaky, ..Steps::first(7) };
    let tables = tables(FRAMES);
    let nodes = nodes(&tables, Unevictable::Linked);
    let machine = Machine::new(&nodes);
    with_locked(&machine, 20, 1);
    assert_eq!(machine.lrus().of(frame(3)).unwrap().isolate(frame(3)), Ok(()));
    unmark(&machine, 0..20, 0);
    let mut vecs = Pagevecs::<14>::new();
    munlock_pages(&machine, span(0..20), &mut Context::new(machine.lrus(), &mut vecs).with_steps(steps));
    assert!(machine.mlocked().is_empty());
    assert_eq!(machine.lrus().nr_mlock(), 1, "one page too many, for ever");
}

#[test]
fn a_page_that_another_area_locks_stays_locked() {
    for steps in forms() {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        with_locked(&machine, 20, 1);
        machine.area(1, 30..36, AreaState::Locked);
        machine.area(2, 36..40, AreaState::Unlocked);
        (30..40).for_each(|at| machine.map(at, frame(at as usize - 28))); // frames 2 to 11
        unmark(&machine, 0..20, 0);
        let mut vecs = Pagevecs::<14>::new();
        munlock_pages(&machine, span(0..20), &mut Context::new(machine.lrus(), &mut vecs).with_steps(steps));
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        machine.check(&[]);
        assert_eq!(machine.mlocked().len(), 6, "{steps:?}");
        assert!(*machine.asked.lock().unwrap() >= 10);
        unmark(&machine, 30..36, 1);
        munlock_pages(&machine, span(30..36), &mut Context::new(machine.lrus(), &mut vecs).with_steps(steps));
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        machine.check(&[]);
        assert!(machine.mlocked().is_empty());
    }
}

#[test]
fn a_page_freed_while_it_waits_in_this_cpus_pagevec_is_handed_over() {
    for steps in forms() {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        with_locked(&machine, 4, 1);
        let mut vecs = Pagevecs::<14>::new();
        let pfn = frame(30);
        machine.lrus().page(pfn).unwrap().store_refs(1);
        vecs.push(Batch::Add, pfn, machine.lrus(), &mut |_| unreachable!());
        assert!(!machine.lrus().release(pfn)); // its owner is gone; the pagevec's reference is the last
        unmark(&machine, 0..4, 0);
        munlock_pages(&machine, span(0..4), &mut Context::new(machine.lrus(), &mut vecs).with_steps(steps));
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        assert_eq!(*machine.freed.lock().unwrap(), [pfn]);
        machine.check(&[]);
    }
}

#[test]
fn an_unmapped_page_is_cleared_and_one_freed_while_locked_is_repaired() {
    let tables = tables(FRAMES);
    let nodes = nodes(&tables, Unevictable::Linked);
    let machine = Machine::new(&nodes);
    with_locked(&machine, 4, 1);
    for at in [1, 2] {
        machine.table.set(Vpn::new(BASE + at), Mapping::Nothing);
        machine.slots.lock().unwrap()[at as usize].as_mut().unwrap().page = None;
    }
    for _ in 0..2 {
        clear_mlocked(machine.lrus(), frame(1)); // once only
        assert!(!machine.lrus().page(frame(1)).unwrap().flags().contains(DescFlags::MLOCKED));
        assert_eq!((machine.lrus().event(LruEvent::Cleared), machine.lrus().nr_mlock()), (1, 3));
        let node = machine.lrus().of(frame(1)).unwrap();
        assert_eq!(node.frames(LruList::InactiveAnon), 1, "it is evictable from then on");
    }
    assert!(machine.lrus().release(frame(1)));
    assert!(machine.lrus().release(frame(2)));
    machine.check(&[]);
    assert_eq!(machine.lrus().event(LruEvent::Cleared), 2);
}

/// An address space of one huge page.
fn huge(machine: &mut Machine<'_>) -> Pfn {
    let head = machine.nodes[0].start();
    machine.table.map(Vpn::new(512), Mapping::Huge(head));
    let page = machine.lrus().page(head).unwrap();
    page.store_refs(1);
    page.set_flags(DescFlags::HUGE);
    assert!(machine.nodes[0].add(head));
    let mut vecs = Pagevecs::<14>::new();
    let all = Span::new(Vpn::new(512), Vpn::new(1024));
    mlock_pages(machine, all, &mut Context::new(machine.lrus(), &mut vecs));
    assert_eq!(machine.nodes[0].frames(LruList::Unevictable), HUGE_FRAMES);
    assert_eq!(machine.lrus().nr_mlock(), HUGE_FRAMES as i64);
    head
}

/// Splits the page and its mapping, as the kernel does under the table's lock.
fn split(table: &SoftTable, machine: &Machine<'_>) -> bool {
    table.split(Vpn::new(512), |head| {
        let lru = machine.lrus().of(head).unwrap();
        assert!(lru.hold().split(head));
        (1..HUGE_FRAMES).for_each(|tail| lru.page(head.add(tail)).unwrap().store_refs(1));
    })
}

fn all_unlocked(machine: &Machine<'_>, steps: Steps) {
    assert_eq!(machine.lrus().nr_mlock(), 0, "{steps:?}");
    assert_eq!(machine.nodes[0].all_frames(), [HUGE_FRAMES, 0, 0, 0, 0]);
    assert_eq!(machine.nodes[0].check(), Ok(()));
    assert_eq!(machine.lrus().event(LruEvent::Munlocked), HUGE_FRAMES);
    assert!(tables_quiet(machine));
}

fn tables_quiet(machine: &Machine<'_>) -> bool {
    machine.nodes[0].table().iter().all(|page| page.refs() <= 1 && !page.flags().contains(DescFlags::LOCKED))
}

#[test]
fn a_huge_page_is_unlocked_whole() {
    for steps in forms() {
        let tables = tables(HUGE_FRAMES as usize);
        let nodes = nodes(&tables, Unevictable::Linked);
        let mut machine = Machine::new(&nodes);
        huge(&mut machine);
        let mut vecs = Pagevecs::<14>::new();
        let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
        // Not wholly in the range: left alone.
        munlock_pages(&machine, Span::new(Vpn::new(512), Vpn::new(1023)), &mut context);
        munlock_pages(&machine, Span::new(Vpn::new(600), Vpn::new(1024)), &mut context);
        assert_eq!(machine.lrus().nr_mlock(), HUGE_FRAMES as i64);
        munlock_pages(&machine, Span::new(Vpn::new(500), Vpn::new(1030)), &mut context);
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        all_unlocked(&machine, steps);
    }
}

/// As [`huge`], with eight single pages of the other node mapped behind it; all are locked.
fn huge_and_eight(machine: &mut Machine<'_>) -> Pfn {
    let head = huge(machine);
    for page in 0..8 {
        let pfn = Pfn::new(NODES[1] + page);
        machine.table.map(Vpn::new(1024 + page), Mapping::Base(pfn));
        machine.lrus().page(pfn).unwrap().store_refs(1);
        assert!(machine.nodes[1].add(pfn));
    }
    lock(machine, 1024..1032, Steps::default());
    assert_eq!(machine.nodes[1].frames(LruList::Unevictable), 8);
    head
}

fn lock(machine: &Machine<'_>, pages: std::ops::Range<u64>, steps: Steps) {
    let mut vecs = Pagevecs::<14>::new();
    let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
    mlock_pages(machine, Span::new(Vpn::new(pages.start), Vpn::new(pages.end)), &mut context);
}

fn unlock(machine: &Machine<'_>, pages: std::ops::Range<u64>, steps: Steps) {
    let mut vecs = Pagevecs::<14>::new();
    let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
    munlock_pages(machine, Span::new(Vpn::new(pages.start), Vpn::new(pages.end)), &mut context);
    vecs.drain(machine.lrus(), &mut |_| unreachable!());
}

#[test]
fn a_huge_page_and_an_area_that_ends_with_it() {
    for steps in forms() {
        let tables = tables(HUGE_FRAMES as usize);
        let nodes = nodes(&tables, Unevictable::Linked);
        let mut machine = Machine::new(&nodes);
        huge(&mut machine);
        unlock(&machine, 512..1024, steps);
        all_unlocked(&machine, steps);
    }
}

#[test]
fn a_huge_page_with_a_second_reference_is_unlocked_if_no_other_area_locks_it() {
    for steps in forms() {
        let tables = tables(HUGE_FRAMES as usize);
        let nodes = nodes(&tables, Unevictable::Linked);
        let mut machine = Machine::new(&nodes);
        let head = huge(&mut machine);
        machine.lrus().page(head).unwrap().get();
        unlock(&machine, 512..1024, steps);
        assert!(*machine.asked.lock().unwrap() > 0, "{steps:?}");
        machine.lrus().page(head).unwrap().put();
        all_unlocked(&machine, steps);
    }
}

#[test]
fn pages_behind_a_huge_page_that_is_partly_covered_are_unlocked() {
    for steps in forms() {
        for (from, huge_stays) in [(512, false), (700, true), (1023, true)] {
            let tables = tables(HUGE_FRAMES as usize);
            let nodes = nodes(&tables, Unevictable::Linked);
            let mut machine = Machine::new(&nodes);
            huge_and_eight(&mut machine);
            unlock(&machine, from..1032, steps);
            let expected = if huge_stays { HUGE_FRAMES as i64 } else { 0 };
            assert_eq!(machine.lrus().nr_mlock(), expected, "{steps:?} from {from}");
            assert_eq!(machine.nodes[1].all_frames(), [8, 0, 0, 0, 0], "{steps:?} from {from}");
            assert!(tables_quiet(&machine));
        }
    }
}

#[test]
fn every_form_locks_a_huge_page_that_is_wholly_covered_and_what_is_behind_it() {
    for steps in forms() {
        for (from, locks_huge) in [(512, true), (500, true), (513, false), (1023, false)] {
            let tables = tables(HUGE_FRAMES as usize);
            let nodes = nodes(&tables, Unevictable::Linked);
            let mut machine = Machine::new(&nodes);
            huge_and_eight(&mut machine);
            unlock(&machine, 512..1032, Steps::default());
            assert_eq!(machine.lrus().nr_mlock(), 0);
            lock(&machine, from..1032, steps);
            let expected = if locks_huge { HUGE_FRAMES } else { 0 };
            assert_eq!(machine.nodes[0].frames(LruList::Unevictable), expected, "{steps:?} from {from}");
            assert_eq!(machine.nodes[1].frames(LruList::Unevictable), 8, "{steps:?} from {from}");
            assert_eq!(machine.lrus().nr_mlock(), expected as i64 + 8);
            assert!(tables_quiet(&machine));
            // Not beyond its end either: the last page of the huge page is missing.
            unlock(&machine, 512..1032, Steps::default());
            lock(&machine, 512..1023, steps);
            assert_eq!(machine.lrus().nr_mlock(), 0, "{steps:?}");
        }
    }
}

#[test]
fn a_page_that_is_off_its_list_and_locked_by_another_area_stays_locked() {
    for steps in forms() {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        with_locked(&machine, 8, 1);
        machine.area(1, 30..31, AreaState::Locked);
        machine.map(30, frame(3));
        assert_eq!(machine.lrus().of(frame(3)).unwrap().isolate(frame(3)), Ok(()));
        unmark(&machine, 0..8, 0);
        unlock(&machine, BASE..BASE + 8, steps);
        machine.check(&[frame(3)]);
        assert_eq!(machine.mlocked(), [frame(3)], "{steps:?}");
    }
}

#[test]
fn each_step_comes_with_its_patch() {
    let flags = |s: Steps| {
        [
            s.lazy_base,
            s.drain_once,
            s.batch_isolate,
            s.batch_counter,
            s.local_put_back,
            s.one_reference,
            s.walk_in_place,
        ]
    };
    for patches in 0..=8u8 {
        let expected: [bool; 7] = std::array::from_fn(|patch| (patch as u8) < patches);
        assert_eq!(flags(Steps::first(patches)), expected, "{patches} patches");
        assert!(!Steps::first(patches).runs);
    }
}

#[test]
fn an_area_for_measurements_is_an_address_space_like_any_other() {
    let tables = SoftArea::descriptors(Placement::Interleaved, 512);
    let area = SoftArea::new(Placement::Interleaved, 512, &tables);
    let lrus = Lrus::new(area.lrus()).unwrap();
    let mut vecs = Pagevecs::<14>::new();
    let mut context = Context::new(lrus, &mut vecs);
    assert_eq!(mlock(&area, 0, 512 * 4096, &mut context), Ok(512));
    let state = |area: &SoftArea<'_>| area.area(Vpn::new(7)).map(|area| area.state);
    assert_eq!((area.nr_mlock(), state(&area)), (512, Some(AreaState::Locked)));
    assert_eq!(munlock(&area, 0, 512 * 4096, &mut context), Ok(512));
    vecs.drain(lrus, &mut |_| unreachable!());
    assert_eq!((area.nr_mlock(), state(&area)), (0, Some(AreaState::Unlocked)));
    assert_eq!(area.lrus().iter().map(|lru| lru.frames(LruList::InactiveAnon)).sum::<u64>(), 512);
}

#[test]
fn a_huge_page_that_is_split_under_way_is_unlocked_part_by_part() {
    for steps in forms() {
        let tables = tables(HUGE_FRAMES as usize);
        let nodes = nodes(&tables, Unevictable::Linked);
        let mut machine = Machine::new(&nodes);
        let head = huge(&mut machine);
        let page = machine.lrus().page(head).unwrap();
        // The splitter has the page locked; munlock's older forms wait for it with the huge page in hand.
        page.set_flags(DescFlags::LOCKED);
        let machine = &machine;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut vecs = Pagevecs::<14>::new();
                let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
                munlock_pages(machine, Span::new(Vpn::new(512), Vpn::new(1024)), &mut context);
                vecs.drain(machine.lrus(), &mut |_| unreachable!());
            });
            while !steps.runs && page.refs() < 2 {
                spin_hint(); // until it has its reference, and waits for the lock
            }
            assert!(split(&machine.table, machine));
            page.clear_flags(DescFlags::LOCKED);
        });
        all_unlocked(machine, steps);
    }
}

#[test]
fn a_hole_stops_both_calls_and_what_came_before_stays_done() {
    for steps in forms() {
        let tables = tables(FRAMES);
        let nodes = nodes(&tables, Unevictable::Linked);
        let machine = Machine::new(&nodes);
        machine.area(0, 0..10, AreaState::Unlocked);
        machine.area(1, 12..20, AreaState::Unlocked);
        (0..20).filter(|at| *at < 10 || *at >= 12).for_each(|at| machine.map(at, frame(at as usize)));
        let mut vecs = Pagevecs::<14>::new();
        let mut context = Context::new(machine.lrus(), &mut vecs).with_steps(steps);
        let stopped = mlock(&machine, BASE * 4096, 20 * 4096, &mut context).unwrap_err();
        assert_eq!((stopped.cause, stopped.pages), (Cause::Hole { at: Vpn::new(BASE + 10) }, 10));
        assert_eq!(machine.mlocked().len(), 10);
        assert_eq!(munlock(&machine, (BASE + 10) * 4096, 4096, &mut context).unwrap_err().pages, 0);
        let stopped = munlock(&machine, (BASE + 5) * 4096 + 1, 9 * 4096, &mut context).unwrap_err();
        assert_eq!((stopped.cause, stopped.pages), (Cause::Hole { at: Vpn::new(BASE + 10) }, 5));
        vecs.drain(machine.lrus(), &mut |_| unreachable!());
        machine.check(&[]);
        assert_eq!(machine.mlocked().len(), 5);
    }
}

#[test]
fn the_counted_form_locks_and_unlocks_by_counting() {
    let tables = tables(FRAMES);
    let nodes = nodes(&tables, Unevictable::Counted);
    let machine = Machine::new(&nodes);
    machine.area(0, 0..40, AreaState::Locked);
    machine.area(1, 40..50, AreaState::Locked);
    (0..40).for_each(|at| machine.map(at, frame(at as usize)));
    (40..50).for_each(|at| machine.map(at, frame(at as usize - 40)));
    let (mut vecs, mut batch) = (Pagevecs::<15>::new(), MlockBatch::<15>::new());
    let mut context = Context::new(machine.lrus(), &mut vecs);
    mlock_pages_counted(&machine, span(0..40), &mut context, &mut batch);
    mlock_pages_counted(&machine, span(40..50), &mut context, &mut batch);
    machine.check(&[]);
    assert_eq!(machine.lrus().nr_mlock(), 40);
    unmark(&machine, 0..40, 0);
    munlock_pages_counted(&machine, span(0..40), &mut context, &mut batch);
    machine.check(&[]);
    assert_eq!((machine.lrus().nr_mlock(), *machine.asked.lock().unwrap()), (10, 0));
    unmark(&machine, 40..50, 1);
    munlock_pages_counted(&machine, span(40..50), &mut context, &mut batch);
    machine.check(&[]);
    assert_eq!((machine.lrus().nr_mlock(), batch.waiting()), (0, 0));
    let events =
        [LruEvent::Mlocked, LruEvent::Munlocked, LruEvent::Culled, LruEvent::Rescued].map(|e| machine.lrus().event(e));
    assert_eq!(events, [40; 4]);
}
