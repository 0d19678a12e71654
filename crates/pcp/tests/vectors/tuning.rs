//! Batch, high, refills, and what an overflow gives back (Linux 4.9 to 6.1).

use pageblock_frame::{MigrateType, Order};
use pageblock_pcp::{PcpConfig, ReclaimActivity, Sizing, Tuning, batch, high};

use crate::machine::{FRAMES, Machine, order, sized};

use MigrateType::{Movable, Unmovable};

#[test]
fn batch_grows_with_the_zone_to_63() {
    let mib = |mib: u64| mib << 8;
    let new = [16, 32, 64, 128, 256, 512, 1024, 1 << 20].map(|size| batch(mib(size), 256));
    assert_eq!(new, [1, 1, 3, 7, 15, 31, 63, 63]);
    assert_eq!([256, 512, 1024, 1 << 20].map(|size| batch(mib(size), 128)), [15, 31, 31, 31], "up to Linux 4.x");
}

#[test]
fn high_is_a_share_of_the_low_watermark_but_four_batches_at_least() {
    assert_eq!(
        [(3048, 8), (3048, 1), (3048, 12), (0, 4), (600, 4), (3048, 0)].map(|(low, cpus)| high(low, cpus, 63)),
        [381, 3048, 254, 252, 252, 3048]
    );
    let sizes = |sizing| PcpConfig { sizing, ..PcpConfig::linux_6_1() }.sizes(1 << 20, 3048, 8);
    assert_eq!(sizes(Sizing::LowWatermark).high, 381);
    assert_eq!(sizes(Sizing::Fraction(8)).high, (1 << 20) / 8 / 8);
    assert_eq!(sizes(Sizing::Fraction(1)).high, (1 << 20) / 8 / 8, "a fraction is an eighth at most");
    assert_eq!(sizes(Sizing::Fraction(1 << 20)).high, 252);
    assert_eq!(sizes(Sizing::Batches(6)).high, 186, "up to Linux 5.13");
    assert_eq!(sizes(Sizing::Batches(11)).high, 341, "*High-order per-CPU lists*");
}

/// What the first overflows give back, when nothing is allocated in between.
#[test]
fn overflows_double_with_the_free_factor() {
    for (sizes, expected) in [
        ((63, 378), &[63, 126, 252, 315, 315][..]),
        ((63, 381), &[63, 126, 252, 318, 318]),
        ((31, 186), &[31, 62, 124, 155, 155]),
        ((63, 1000), &[63, 126, 252, 504, 937, 937]),
        ((63, 252), &[63, 126, 189, 189]),
    ] {
        for config in [PcpConfig::linux_5_14(), PcpConfig::linux_6_1()] {
            let machine = sized(config, sizes);
            let pfns = machine.zone_blocks(Order::ZERO, Movable, 6000);
            let given = machine.overflows(pfns, Order::ZERO);
            assert_eq!(given[..expected.len()], *expected, "{sizes:?}, {:?}", config.tuning);
            machine.conserved(0);
        }
    }
}

#[test]
fn before_the_free_factor_an_overflow_was_one_batch() {
    for config in [PcpConfig::order_zero(), PcpConfig::seed_2016()] {
        let machine = sized(config, (31, 186));
        let pfns = machine.zone_blocks(Order::ZERO, Unmovable, 1000);
        let given = machine.overflows(pfns, Order::ZERO);
        assert!(given.len() > 20 && given.iter().all(|&frames| frames == 31), "{given:?}");
        machine.conserved(0);
    }
}

#[test]
fn an_allocation_halves_the_factor() {
    let machine = sized(PcpConfig::linux_6_1(), (63, 378));
    let mut pfns = machine.zone_blocks(Order::ZERO, Movable, 3000);
    let next_overflow = |pfns: &mut Vec<_>| {
        std::iter::from_fn(|| pfns.pop()).map(|pfn| machine.free(pfn, Order::ZERO)).find(|&given| given > 0).unwrap()
    };
    let first: Vec<u64> = (0..4).map(|_| next_overflow(&mut pfns)).collect();
    assert_eq!(first, [63, 126, 252, 315]);
    // 63 << 3 is above 315, so the factor has stayed at 3; one allocation makes it 1, another 0.
    pfns.push(machine.alloc(Order::ZERO, Movable));
    assert_eq!(next_overflow(&mut pfns), 126);
    for _ in 0..2 {
        pfns.push(machine.alloc(Order::ZERO, Movable));
    }
    assert_eq!(next_overflow(&mut pfns), 63);
}

/// `free_unref_page_commit()`: a free of order 1 to 3 while the factor is not 0 empties all lists.
#[test]
fn a_high_order_free_in_a_burst_empties_all_lists() {
    for (config, empties) in [(PcpConfig::linux_5_14(), false), (PcpConfig::linux_6_1(), true)] {
        for log2 in 1..=3 {
            let machine = sized(config, (63, 378));
            let high = machine.zone_blocks(order(log2), Unmovable, 2);
            assert_eq!(machine.free(high[0], order(log2)), 0, "no burst yet");
            let pfns = machine.zone_blocks(Order::ZERO, Movable, 400);
            assert_eq!(machine.overflows(pfns, Order::ZERO), [63]);
            machine.free(high[1], order(log2));
            assert_eq!(machine.lists.frames() == 0, empties, "{:?}", config.tuning);
            machine.conserved(0);
        }
    }
}

#[test]
fn a_pageblock_is_no_burst_and_neither_is_a_free_after_an_allocation() {
    let machine = sized(PcpConfig::linux_6_1(), (63, 378));
    let block = machine.zone_blocks(order(3), Unmovable, 1)[0];
    let pfns = machine.zone_blocks(Order::ZERO, Movable, 400);
    assert_eq!(machine.overflows(pfns, Order::ZERO), [63]);
    // The factor is 1, and 0 after this.
    let frame = machine.alloc(Order::ZERO, Movable);
    assert_eq!(machine.free(block, order(3)), 0);
    assert!(machine.lists.frames() > 300);
    machine.conserved(1);
    machine.free(frame, Order::ZERO);
}

/// `max(batch >> order, 2)` blocks, and two pageblocks, where the zone has pageblocks of the type.
#[test]
fn refills_are_scaled_by_the_order() {
    let machine = sized(PcpConfig::linux_6_1(), (63, 4000));
    let frames = [0, 1, 2, 3, 9].map(|log2| machine.refill(order(log2), Movable) >> log2);
    assert_eq!(frames, [63, 31, 15, 7, 2]);
    assert_eq!(machine.refill(order(4), Movable), 16, "past the lists");
    let machine = sized(PcpConfig::linux_6_1(), (1, 16));
    assert_eq!(machine.refill(order(2), Movable), 4, "a batch of 1 is not scaled");
}

#[test]
fn a_list_without_high_keeps_nothing() {
    let machine = sized(PcpConfig::linux_6_1(), (1, 0));
    for log2 in [0, 1, 3] {
        let pfn = machine.alloc(order(log2), Movable);
        machine.free(pfn, order(log2));
        assert_eq!(machine.lists.frames(), 0);
    }
    machine.conserved(0);
}

#[test]
fn while_reclaim_is_active_lists_hold_four_batches() {
    for config in [PcpConfig::linux_5_14(), PcpConfig::linux_6_1(), PcpConfig::linux_6_7()] {
        let machine = sized(config, (63, 1000));
        machine.lists.set_reclaim(ReclaimActivity::Active);
        let pfns = machine.zone_blocks(Order::ZERO, Movable, 2000);
        for pfn in pfns {
            machine.free(pfn, Order::ZERO);
            assert!(machine.lists.frames() < 252, "{:?}", config.tuning);
        }
        machine.lists.set_reclaim(ReclaimActivity::Idle);
        let pfns = machine.zone_blocks(Order::ZERO, Movable, 2000);
        let most = pfns.into_iter().map(|pfn| {
            machine.free(pfn, Order::ZERO);
            machine.lists.frames()
        });
        assert!(most.max() >= Some(900), "{:?}", config.tuning);
        machine.conserved(0);
    }
}

/// A list that is full gives a block back however small the batch is, and one without room keeps none: nothing is lost.
#[test]
fn full_lists_lose_nothing() {
    for (name, config) in PcpConfig::PRESETS {
        for (batch, room) in [(1, 4096), (7, 64), (63, 4)] {
            let sizing = Sizing::Fixed { batch, high: 4000 };
            let machine = Machine::new(PcpConfig { sizing, room, ..config });
            for log2 in [0, 1, 2, 3, 9] {
                let count = if log2 == 9 { 40 } else { 5000 };
                machine.overflows(machine.zone_blocks(order(log2), Movable, count), order(log2));
            }
            assert_eq!(
                machine.zone.free_frames() + machine.lists.frames(),
                FRAMES,
                "{name}, batch {batch}, room {room}"
            );
            machine.conserved(0);
        }
    }
}

/// The default gives no figure of Linux's, but a bound: no call moves more than so many blocks, but for whole words of
/// the zone's maps, two of which cost no more.
#[test]
fn bounded_lists_move_no_more_than_their_limit_in_one_call() {
    let config = PcpConfig::new();
    assert_eq!(config.tuning, Tuning::Bounded);
    let most = u64::from(config.call_limit).max(3 * 64);
    let machine = Machine::new(config);
    for log2 in [0, 1, 2, 3, 9] {
        let mut pfns: Vec<_> = (0..64).map(|_| machine.zone_blocks(order(log2), Movable, 1)[0]).collect();
        for round in 0..40 {
            if round % 3 == 2 {
                let refills = (0..40).map(|_| {
                    let before = machine.zone.free_frames();
                    pfns.push(machine.alloc(order(log2), Movable));
                    (before - machine.zone.free_frames()) >> log2
                });
                assert!(refills.max() <= Some(most));
            }
            let keep = if round % 2 == 0 { 0 } else { 20 };
            let given = machine.overflows(pfns.split_off(keep.min(pfns.len())), order(log2));
            assert!(given.iter().all(|frames| frames >> log2 <= most), "order {log2}: {given:?}");
            pfns.extend(machine.zone_blocks(order(log2), Movable, 30));
        }
        machine.overflows(pfns, order(log2));
    }
    machine.conserved(0);
}

/// In Linux a refill falls back for every block that its type lacks; the default lets a request fall back for itself
/// alone.
#[test]
fn a_refill_of_a_type_that_is_short_falls_back_or_stops() {
    for (config, kept) in [(PcpConfig::linux_6_1(), 30), (PcpConfig::new(), 0)] {
        let machine = sized(config, (31, 186));
        // Nothing is unmovable yet.
        let _ = machine.alloc(Order::ZERO, MigrateType::Unmovable);
        assert_eq!(machine.lists.frames(), kept, "{config:?}");
        machine.conserved(1);
    }
}
