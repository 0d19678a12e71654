use core::mem::MaybeUninit;
use std::boxed::Box;
use std::vec::Vec;

use pageblock_frame::sync::{AtomicU8, PerCpuPtr};
use pageblock_frame::{Carver, CpuId, Pfn, Platform, StateTable};

use super::*;
use crate::list::{LISTS, List};
use crate::sizing::Sizes;
use crate::tune::Tune;

const SIZES: Sizes = Sizes { batch: 5, high: 9, high_max: 9 };

fn list(index: usize) -> List {
    List::places().nth(index).unwrap()
}

struct Host;

// SAFETY: one CPU, one thread, no memory asked for.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 3;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

fn with_areas(test: impl FnOnce(&Areas<'_, Host>)) {
    let states: Vec<AtomicU8> = (0..300).map(|_| AtomicU8::new(0)).collect();
    let capacities = core::array::from_fn(|place| place as u16 % 4);
    let layout = |cpus| Layout { cpus, capacities };
    let mut raw = std::vec![MaybeUninit::uninit(); Areas::<Host>::bytes(&layout(2))];
    let table = (Pfn::new(0), StateTable::new(&states));
    let carve = |cpus, raw: &mut [_]| {
        // SAFETY: the bytes outlive the areas, which the caller drops first.
        let raw = unsafe { core::slice::from_raw_parts_mut(raw.as_mut_ptr(), raw.len()) };
        Areas::<Host>::carve(&layout(cpus), table, &Tune::new(SIZES), &mut Carver::new(raw))
    };
    assert!(carve(4, &mut raw).is_none(), "the platform has three CPUs");
    let areas = carve(2, &mut raw).unwrap();
    test(&areas);
}

#[test]
fn lists_do_not_touch_each_other() {
    with_areas(|areas| {
        let mut guard = areas.enter().unwrap();
        let lists = guard.lists_mut();
        for place in 0..LISTS {
            let capacity = place as u32 % 4;
            assert!(lists.pop(list(place)).is_none());
            for i in 0..capacity {
                assert!(lists.push(list(place), place as u32 * 4 + i));
            }
            assert!(!lists.push(list(place), 299), "list {place} is full");
        }
        for place in 0..LISTS {
            let expected: Vec<u32> = (0..place as u32 % 4).map(|i| place as u32 * 4 + i).collect();
            assert_eq!(lists.frames_of(list(place)), expected);
            for &frame in expected.iter().rev() {
                assert_eq!(lists.pop(list(place)).map(|found| found.0), Some(frame));
            }
            assert!(lists.pop(list(place)).is_none());
        }
        lists.tune().count += 1;
        assert_eq!(lists.tune().count, 1);
    });
}

#[test]
fn bulk_moves_keep_the_order() {
    with_areas(|areas| {
        let mut guard = areas.enter().unwrap();
        let lists = guard.lists_mut();
        let filled = lists.fill(list(3), 9, |slots| {
            slots.copy_from_slice(&[10, 11, 12]);
            slots.len()
        });
        assert_eq!((filled, lists.len(list(3)), lists.capacity(list(3))), (3, 3, 3));
        let mut oldest = Vec::new();
        let mut take = |frames: &mut [u32]| {
            oldest.extend_from_slice(frames);
            frames.len()
        };
        assert_eq!(lists.take_oldest(list(3), 2, &mut take), 2);
        assert_eq!((oldest.as_slice(), lists.frames_of(list(3))), (&[10, 11][..], &[12][..]));
        lists.set_limit(list(3), 2);
        assert!(lists.push(list(3), 1));
        assert!(!lists.push(list(3), 2));
        assert_eq!(lists.limit(list(3)), 2);
    });
}

#[test]
fn a_signal_is_noticed_and_answered() {
    with_areas(|areas| {
        let cpu = CpuId::new(0);
        areas.enter().unwrap().lists().push(list(1), 42);
        assert!(!areas.signal(cpu, Signals::DRAIN).unwrap().has(Signals::DRAIN));
        assert_eq!(areas.signal(CpuId::new(2), Signals::DRAIN), None);
        let guard = areas.enter().unwrap();
        let lists = guard.lists();
        assert!(lists.pop(list(1)).is_none() && lists.frame(0).is_none());
        assert!(lists.frame_always(299).is_some() && lists.frame_always(300).is_none());
        areas.signal(cpu, Signals::ISOLATE);
        assert_eq!(lists.answer(Signals::DRAIN, u32::MAX), Signals::DRAIN | Signals::ISOLATE);
        assert!(lists.frame(0).is_none(), "one signal is left");
        assert_eq!(lists.answer(Signals::ISOLATE, u32::MAX), Signals::ISOLATE);
        assert!(!areas.signals(cpu).unwrap().has(Signals::DRAIN | Signals::ISOLATE));
        assert_eq!(lists.pop(list(1)).map(|found| found.0), Some(42));
        areas.signal(cpu, Signals::RESIZE);
        areas.withdraw(cpu, Signals::RESIZE);
        assert!(lists.frame(0).is_none(), "noticed at the next answer");
        lists.answer(Signals::DRAIN, u32::MAX);
        assert!(lists.frame(0).is_some());
    });
}

/// No combination of the signals that have names is a bit of the protocol.
#[test]
fn no_signal_makes_a_cpu_count_as_offline_or_taken() {
    with_areas(|areas| {
        let cpu = CpuId::new(0);
        let all = Signals::DRAIN | Signals::ISOLATE | Signals::RESIZE | Signals::ACCOUNT;
        areas.signal(cpu, all);
        assert!(!areas.signals(cpu).unwrap().is_offline() && areas.take_over(cpu).is_none());
        areas.enter().unwrap().go_offline();
        let mut guard = areas.take_over(cpu).unwrap();
        areas.withdraw(cpu, all);
        guard.lists_mut().answer(all, u32::MAX);
        assert!(areas.take_over(cpu).is_none(), "the guard is still the only one");
        drop(guard);
        assert!(areas.take_over(cpu).is_some());
    });
}

#[test]
fn an_interrupt_stays_out() {
    with_areas(|areas| {
        let guard = areas.enter().unwrap();
        assert!(areas.enter().is_none());
        drop(guard);
        assert!(areas.enter().is_some());
    });
}

#[test]
fn an_offline_area_is_taken_by_one() {
    with_areas(|areas| {
        let cpu = CpuId::new(0);
        assert!(areas.take_over(cpu).is_none(), "it is online");
        assert_eq!(areas.come_online(0), ComeOnline::WasOnline);
        let guard = areas.enter().unwrap();
        guard.lists().push(list(2), 8);
        guard.go_offline();
        assert!(areas.enter().is_none());
        let mut guard = areas.take_over(cpu).unwrap();
        assert!(areas.take_over(cpu).is_none(), "one at a time");
        assert_eq!(guard.lists_mut().pop(list(2)).map(|found| found.0), Some(8));
        drop(guard);
        assert_eq!(areas.come_online(0), ComeOnline::Done);
        assert!(areas.enter().unwrap().lists().pop(list(2)).is_none());
        // SAFETY: this CPU does nothing until it is online again.
        unsafe { areas.declare_offline(CpuId::new(1)) };
        assert!(areas.take_over(CpuId::new(1)).is_some());
    });
}

/// A guard that is never dropped shuts its CPU out, and nothing waits for ever.
#[test]
fn coming_back_waits_for_a_moment_only() {
    with_areas(|areas| {
        areas.enter().unwrap().go_offline();
        core::mem::forget(areas.take_over(CpuId::new(0)));
        assert_eq!(areas.come_online(100), ComeOnline::Taken);
        assert!(areas.enter().is_none() && areas.take_over(CpuId::new(0)).is_none());
    });
}

std::thread_local! {
    static WORD: std::cell::Cell<PerCpuPtr> = const { std::cell::Cell::new(PerCpuPtr::new()) };
}

/// One CPU a thread, which keeps a word.
struct Keeper;

// SAFETY: each test is one thread, which is CPU 0 of its own areas and keeps its word; no memory is asked for.
unsafe impl Platform for Keeper {
    const MAX_CPUS: usize = 2;
    const HAS_MEMORY: bool = false;
    const CPU_WORD: bool = true;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }

    fn cpu_word() -> PerCpuPtr {
        WORD.get()
    }

    unsafe fn set_cpu_word(word: PerCpuPtr) {
        WORD.set(word);
    }
}

fn kept(high: u32) -> &'static Areas<'static, Keeper> {
    let states = Box::leak((0..100).map(|_| AtomicU8::new(0)).collect::<Box<[_]>>());
    let layout = Layout { cpus: 1, capacities: [4; LISTS] };
    let raw = std::vec![MaybeUninit::uninit(); Areas::<Keeper>::bytes(&layout)].leak();
    let table = (Pfn::new(1000), StateTable::new(states));
    let tune = Tune::new(Sizes { high, ..SIZES });
    Box::leak(Box::new(Areas::carve(&layout, table, &tune, &mut Carver::new(raw)).unwrap()))
}

fn high(guard: Option<LocalGuard<'_, Keeper>>) -> u32 {
    guard.unwrap().lists_mut().tune().high
}

#[test]
fn a_word_leads_to_the_first_areas_that_may_have_it() {
    let [first, second] = [kept(1), kept(2)];
    let [unset, plain, by_word, other] = [const { AreaRef::<Keeper>::new() }; 4];
    plain.set(first);
    by_word.set_for_words(first);
    other.set_for_words(second);
    assert!(unset.enter().is_none());
    assert_eq!(high(plain.enter()), 1);
    assert_eq!(WORD.get(), PerCpuPtr::new());
    // The first time by the table, which gives the area to the word; then by the word.
    for _ in 0..3 {
        let guard = by_word.enter().unwrap();
        assert_ne!(WORD.get(), PerCpuPtr::new());
        let lists = guard.lists();
        assert_eq!(lists.origin(), 1000);
        assert!(lists.push(list(3), 7));
        assert!(core::ptr::eq(lists.pop(list(3)).unwrap().1, lists.frame(7).unwrap()));
        // As interrupts would find it, whichever way they come; the other zone's area is idle.
        assert!(by_word.enter().is_none() && plain.enter().is_none() && first.enter().is_none());
        assert_eq!(high(other.enter()), 2);
    }
    assert_eq!(high(by_word.enter()), 1);
    assert!(unset.enter().is_none());
}

#[test]
fn a_word_does_not_lead_past_a_cpu_that_is_offline() {
    let areas = kept(5);
    let way = AreaRef::<Keeper>::new();
    way.set_for_words(areas);
    way.enter().unwrap().lists().push(list(0), 9);
    way.enter().unwrap().go_offline();
    assert!(way.enter().is_none());
    let mut guard = areas.take_over(CpuId::new(0)).unwrap();
    assert_eq!(guard.lists_mut().pop(list(0)).map(|(frame, _)| frame), Some(9));
    drop(guard);
    assert_eq!(areas.come_online(0), ComeOnline::Done);
    assert_eq!(way.enter().unwrap().lists().len(list(0)), 0);
    // SAFETY: this thread is the CPU, and does nothing meanwhile.
    unsafe { areas.declare_offline(CpuId::new(0)) };
    assert!(way.enter().is_none());
    assert!(areas.come_online(0) == ComeOnline::Done && way.enter().is_some());
}
