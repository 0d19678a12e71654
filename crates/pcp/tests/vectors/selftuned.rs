//! Linux 6.7: high and batch follow what happens.

use pageblock_buddy::Watermarks;
use pageblock_frame::{MigrateType, Order};
use pageblock_pcp::{PcpConfig, Sizes};

use crate::machine::{FRAMES, Machine, order, sized};

use MigrateType::{Movable, Unmovable};

/// Batch 63, high between 378 and 4000.
fn machine() -> Machine {
    let machine = sized(PcpConfig::linux_6_7(), (63, 4000));
    machine.lists.set_sizes(Sizes { batch: 63, high: 378, high_max: 4000 }).unwrap();
    machine.lists.handle_kick(); // takes the sizes up
    machine
}

/// A zone at its high watermark: nothing grows any more.
fn short_of_memory(machine: &Machine) {
    machine.zone.set_watermarks(Watermarks { min: 0, low: FRAMES, high: FRAMES });
}

/// Frames of each refill of single frames.
fn refills(machine: &Machine, count: usize) -> Vec<u64> {
    std::iter::from_fn(|| Some(machine.refill(Order::ZERO, Movable))).filter(|&frames| frames > 0).take(count).collect()
}

/// Frames that the lists hold at most while 3000 more are freed.
fn most_held(machine: &Machine) -> u64 {
    let pfns = machine.zone_blocks(Order::ZERO, Movable, 3000);
    let held = pfns.into_iter().map(|pfn| {
        machine.free(pfn, Order::ZERO);
        machine.lists.frames()
    });
    held.max().unwrap()
}

#[test]
fn refills_double_as_they_follow_one_another() {
    let machine = machine();
    let got = refills(&machine, 8);
    assert_eq!(got[0], 63);
    assert!(got.is_sorted() && got[1] == 126 && got[2] == 252, "{got:?}");
    assert!(got[7] <= 63 << 5, "{got:?}");
}

/// High-order refills stay at a batch of frames.
#[test]
fn only_refills_of_single_frames_double() {
    let machine = machine();
    for _ in 0..4 {
        assert_eq!(machine.refill(order(1), Movable), 62);
        (0..30).for_each(|_| _ = machine.alloc(order(1), Movable));
    }
    assert_eq!(refills(&machine, 2), [63, 126]);
}

#[test]
fn a_free_halves_the_refill() {
    let machine = machine();
    assert_eq!(refills(&machine, 2), [63, 126]);
    let pfn = machine.zone_blocks(Order::ZERO, Movable, 3);
    for pfn in pfn {
        machine.free(pfn, Order::ZERO);
    }
    assert_eq!(refills(&machine, 1), [63]);
}

#[test]
fn high_grows_where_memory_is_plenty_and_not_where_it_is_not() {
    let plenty = machine();
    assert!(most_held(&plenty) > 378);
    let short = machine();
    short_of_memory(&short);
    assert!(most_held(&short) <= 378);
    short_of_memory(&plenty);
    plenty.conserved(0);
    short.conserved(0);
}

/// An eighth each time, down to the least.
#[test]
fn what_high_has_grown_to_decays() {
    let machine = machine();
    let most = most_held(&machine);
    short_of_memory(&machine);
    let mut before = machine.lists.frames().min(most);
    for _ in 0..40 {
        machine.lists.decay();
        let now = machine.lists.frames();
        assert!(now <= before);
        before = now;
    }
    assert!(before <= 378, "{before} of {most}");
    machine.conserved(0);
}

/// One free of a high order is no burst; a second one right after it is, if a batch has been freed of late.
#[test]
fn two_high_order_frees_in_a_row_are_a_burst() {
    let machine = machine();
    short_of_memory(&machine);
    let blocks = machine.zone_blocks(order(3), Unmovable, 3);
    let singles = machine.zone_blocks(Order::ZERO, Movable, 100);
    for pfn in singles {
        machine.free(pfn, Order::ZERO);
    }
    machine.free(blocks[0], order(3));
    assert_eq!(machine.lists.frames(), 108);
    let single = machine.zone_blocks(Order::ZERO, Movable, 1)[0];
    machine.free(single, Order::ZERO);
    machine.free(blocks[1], order(3));
    assert_eq!(machine.lists.frames(), 117, "not in a row");
    machine.free(blocks[2], order(3));
    assert_eq!(machine.lists.frames(), 0);
    machine.conserved(0);
}
