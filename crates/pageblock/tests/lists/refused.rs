//! A refused request drains what may help it, and remembers a drain that did not.

use pageblock::{AllocError, Gfp, Order, PcpConfig, PcpError, RawFrames, Sizing};

use crate::machine::{answer_kicks, boot, on_cpu};

fn take(machine: &crate::machine::Booted, gfp: Gfp) -> Option<RawFrames> {
    machine.alloc(gfp).ok().map(|frames| frames.into_raw())
}

#[test]
fn what_others_free_is_found_though_drains_in_vain_are_remembered() {
    let machine = boot(PcpConfig::new());
    answer_kicks(Some(machine.clone()));
    let mut held: Vec<RawFrames> = on_cpu(0, || std::iter::from_fn(|| take(&machine, Gfp::KERNEL)).collect());
    assert_eq!(machine.stats().free, 0, "nothing waits on a list when the first request is refused");
    // Refusals on top of one another drain nothing.
    on_cpu(0, || (0..1000).for_each(|_| assert_eq!(machine.alloc(Gfp::KERNEL).unwrap_err(), AllocError::OutOfMemory)));
    let mut free = |cpu| {
        let RawFrames { pfn, order } = held.pop().unwrap();
        // SAFETY: taken above; hosted frames have nothing behind them.
        on_cpu(cpu, || unsafe { machine.free(pfn, order) }).unwrap();
    };
    free(0);
    assert!(on_cpu(0, || take(&machine, Gfp::KERNEL)).is_some(), "a frame of this CPU's own is there at once");
    for _ in 0..10 {
        assert_eq!(on_cpu(0, || take(&machine, Gfp::KERNEL)), None);
    }
    free(2);
    let found = on_cpu(0, || (1..=64).find(|_| take(&machine, Gfp::KERNEL).is_some()));
    assert!(found.is_some(), "another CPU's is found soon");
    free(3);
    assert!(on_cpu(0, || take(&machine, Gfp::KERNEL | Gfp::NOFAIL)).is_some(), "at once by what must not fail");
    answer_kicks(None);
}

#[test]
fn frames_of_this_cpus_lists_make_a_block_again() {
    let machine = boot(PcpConfig::new());
    on_cpu(1, || {
        let blocks: Vec<_> = std::iter::from_fn(|| machine.alloc_order(Order::HUGE, Gfp::KERNEL).ok()).collect();
        let mut parts = blocks.into_iter().map(|block| block.split(Order::ZERO).unwrap());
        drop(parts.next());
        assert!(machine.stats().listed > 0);
        let again = machine.alloc_order(Order::HUGE, Gfp::KERNEL);
        assert!(again.is_ok(), "its frames were free, some of them on this CPU's list");
    });
}

/// A fuzzer's find: the product of such a number and a batch is no number of 32 bits.
#[test]
fn absurd_sizings_are_refused() {
    let batches = |batches| PcpConfig { sizing: Sizing::Batches(batches), ..PcpConfig::linux_6_1() }.check();
    assert_eq!(batches(6), Ok(()));
    assert!(matches!(batches(u32::MAX), Err(PcpError::Sizes { .. })));
    assert!(matches!(batches(1 << 26), Err(PcpError::Sizes { .. })));
}

#[test]
fn a_drain_tells_how_many_zones_wait_for_other_cpus() {
    let machine = boot(PcpConfig::new());
    on_cpu(1, || drop(machine.alloc(Gfp::KERNEL).unwrap()));
    // No kick is answered.
    assert_eq!(on_cpu(0, || machine.drain()), 1);
    answer_kicks(Some(machine.clone()));
    assert_eq!((on_cpu(0, || machine.drain()), machine.stats().listed), (0, 0));
    answer_kicks(None);
}
