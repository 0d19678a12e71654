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
