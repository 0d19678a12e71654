use core::mem::MaybeUninit;
use std::vec::Vec;

use super::super::AtomicU8;
use super::*;
use crate::{Carver, StateTable};

fn id(stack: usize) -> StackId {
    StackId::new(stack).unwrap()
}

struct Host;

// SAFETY: one CPU, one thread, no memory asked for.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 3;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> {
        core::ptr::NonNull::dangling()
    }
}

fn with_stacks(test: impl FnOnce(&CpuStacks<'_, u32, Host>)) {
    let states: Vec<AtomicU8> = (0..300).map(|_| AtomicU8::new(0)).collect();
    let capacities = core::array::from_fn(|stack| stack as u32 % 4);
    let mut raw = std::vec![MaybeUninit::uninit(); CpuStacks::<u32, Host>::bytes(2, &capacities)];
    let table = (Pfn::new(0), StateTable::new(&states));
    assert!(CpuStacks::<u32, Host>::carve(3, &capacities, table, 5, &mut Carver::new(&mut raw)).is_none());
    let stacks = CpuStacks::carve(2, &capacities, table, 5, &mut Carver::new(&mut raw)).unwrap();
    test(&stacks);
}

#[test]
fn stacks_do_not_touch_each_other() {
    with_stacks(|stacks| {
        let mut inside = stacks.enter().unwrap();
        for stack in 0..STACKS {
            let capacity = stack as u32 % 4;
            assert!(inside.pop(id(stack)).is_none());
            for i in 0..capacity {
                assert!(inside.push(id(stack), stack as u32 * 4 + i));
            }
            assert!(!inside.push(id(stack), 299), "stack {stack} is full");
        }
        for stack in 0..STACKS {
            let expected: Vec<u32> = (0..stack as u32 % 4).map(|i| stack as u32 * 4 + i).collect();
            assert_eq!(inside.frames_of(id(stack)), expected);
            for &frame in expected.iter().rev() {
                assert_eq!(inside.pop(id(stack)).map(|found| found.0), Some(frame));
            }
            assert!(inside.pop(id(stack)).is_none());
        }
        *inside.value() += 1;
        assert_eq!(*inside.value(), 6);
    });
}

#[test]
fn bulk_moves_keep_the_order() {
    with_stacks(|stacks| {
        let mut inside = stacks.enter().unwrap();
        let filled = inside.fill(id(3), 9, |slots| {
            slots.copy_from_slice(&[10, 11, 12]);
            slots.len()
        });
        assert_eq!((filled, inside.len(id(3)), inside.capacity(id(3))), (3, 3, 3));
        let mut oldest = Vec::new();
        let mut take = |frames: &[u32]| {
            oldest.extend_from_slice(frames);
            frames.len()
        };
        assert_eq!(inside.take_oldest(id(3), 2, &mut take), 2);
        assert_eq!((oldest.as_slice(), inside.frames_of(id(3))), (&[10, 11][..], &[12][..]));
        inside.set_limit(id(3), 2);
        assert!(inside.push(id(3), 1));
        assert!(!inside.push(id(3), 2));
        assert_eq!(inside.limit(id(3)), 2);
    });
}

#[test]
fn a_signal_is_noticed_and_answered() {
    with_stacks(|stacks| {
        let cpu = CpuId::new(0);
        stacks.enter().unwrap().push(id(1), 42);
        assert_eq!(stacks.signal(cpu, 1), Some(0));
        assert_eq!(stacks.signal(CpuId::new(2), 1), None);
        let inside = stacks.enter().unwrap();
        assert!(inside.pop(id(1)).is_none() && inside.frame(0).is_none());
        assert!(inside.frame_always(299).is_some() && inside.frame_always(300).is_none());
        stacks.signal(cpu, 2);
        assert_eq!(inside.answer(1), 3);
        assert!(inside.frame(0).is_none(), "one signal is left");
        assert_eq!(inside.answer(2), 2);
        assert_eq!(stacks.signals(cpu), Some(0));
        assert_eq!(inside.pop(id(1)).map(|found| found.0), Some(42));
        assert!(inside.frame(299).is_some() && inside.frame(300).is_none());
    });
}

#[test]
fn an_offline_area_is_taken_by_one() {
    with_stacks(|stacks| {
        let cpu = CpuId::new(0);
        assert!(stacks.take_over(cpu).is_none(), "it is online");
        assert!(!stacks.come_online());
        let inside = stacks.enter().unwrap();
        inside.push(id(2), 8);
        inside.go_offline();
        assert!(stacks.enter().is_none());
        let taken = stacks.take_over(cpu).unwrap();
        assert!(stacks.take_over(cpu).is_none(), "one at a time");
        assert_eq!(taken.pop(id(2)).map(|found| found.0), Some(8));
        drop(taken);
        assert!(stacks.come_online());
        assert!(stacks.enter().unwrap().pop(id(2)).is_none());
        // SAFETY: this CPU does nothing until it is online again.
        unsafe { stacks.declare_offline(CpuId::new(1)) };
        assert!(stacks.take_over(CpuId::new(1)).is_some());
    });
}

std::thread_local! {
    static WORD: std::cell::Cell<CpuWord> = const { std::cell::Cell::new(CpuWord::new()) };
}

/// One CPU a thread, which keeps a word.
struct Keeper;

// SAFETY: each test is one thread, which is CPU 0 of its own stacks and keeps its word; no memory is asked for.
unsafe impl Platform for Keeper {
    const MAX_CPUS: usize = 2;
    const CPU_WORD: bool = true;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> core::ptr::NonNull<u8> {
        core::ptr::NonNull::dangling()
    }

    fn cpu_word() -> CpuWord {
        WORD.get()
    }

    fn set_cpu_word(word: CpuWord) {
        WORD.set(word);
    }
}

fn kept<T: Copy>(value: T) -> &'static CpuStacks<'static, T, Keeper> {
    let states = std::boxed::Box::leak((0..100).map(|_| AtomicU8::new(0)).collect::<std::boxed::Box<[_]>>());
    let raw = std::vec![MaybeUninit::uninit(); CpuStacks::<T, Keeper>::bytes(1, &[4; STACKS])].leak();
    let table = (Pfn::new(1000), StateTable::new(states));
    std::boxed::Box::leak(std::boxed::Box::new(
        CpuStacks::carve(1, &[4; STACKS], table, value, &mut Carver::new(raw)).unwrap(),
    ))
}

fn leads_to<T: Copy>(stacks: &CpuStacks<'_, T, Keeper>) -> bool {
    WORD.get() == CpuWord::to(stacks.store.view(0).unwrap().area)
}

#[test]
fn a_word_leads_to_the_first_stacks_that_may_have_it() {
    let [first, second] = [kept(1_u32), kept(2_u32)];
    let [unset, plain, by_word, other] = [const { CpuStacksRef::<u32, Keeper>::new() }; 4];
    plain.set(first);
    by_word.set_for_words(first);
    other.set_for_words(second);
    assert!(unset.enter().is_none());
    assert_eq!(*plain.enter().unwrap().value(), 1);
    assert_eq!(WORD.get(), CpuWord::new());
    // The first time by the table, which gives the area to the word; then by the word.
    for _ in 0..3 {
        let mut inside = by_word.enter().unwrap();
        assert!(leads_to(first));
        assert_eq!((*inside.value(), inside.origin()), (1, 1000));
        assert!(inside.push(id(3), 7));
        assert!(core::ptr::eq(inside.pop(id(3)).unwrap().1, inside.frame(7).unwrap()));
        // As interrupts would find it, whichever way they come; another's area they find open.
        assert!(by_word.enter().is_none() && plain.enter().is_none() && first.enter().is_none());
        assert_eq!(*other.enter().unwrap().value(), 2);
    }
    assert!(unset.enter().is_none() && leads_to(first));
}

#[test]
fn a_word_does_not_lead_past_a_cpu_that_is_offline() {
    let stacks = kept(5_u32);
    let way = CpuStacksRef::<u32, Keeper>::new();
    way.set_for_words(stacks);
    way.enter().unwrap().push(id(0), 9);
    way.enter().unwrap().go_offline();
    assert!(leads_to(stacks) && way.enter().is_none());
    let taken = stacks.take_over(CpuId::new(0)).unwrap();
    assert_eq!(taken.pop(id(0)).map(|(frame, _)| frame), Some(9));
    drop(taken);
    assert!(stacks.come_online());
    assert_eq!(way.enter().unwrap().len(id(0)), 0);
    // SAFETY: this thread is the CPU, and does nothing meanwhile.
    unsafe { stacks.declare_offline(CpuId::new(0)) };
    assert!(way.enter().is_none());
    assert!(stacks.come_online() && way.enter().is_some());
}

#[test]
fn words_lead_to_stacks_with_one_type_of_value() {
    let numbers = CpuStacksRef::<u32, Keeper>::new();
    numbers.set_for_words(kept(1_u32));
    drop(numbers.enter());
    WORD.set(CpuWord::new());
    let letters = CpuStacksRef::<char, Keeper>::new();
    let stacks = kept('a');
    letters.set_for_words(stacks);
    assert_eq!(*letters.enter().unwrap().value(), 'a');
    // `u32` asked first.
    assert_eq!(WORD.get(), CpuWord::new());
}
