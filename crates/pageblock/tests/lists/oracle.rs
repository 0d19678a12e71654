//! Random operations, right and wrong, on whatever CPU, beside the oracle.

use pageblock::{CpuId, Order, PcpConfig, Pfn, PfnRange};
use pageblock_frame::AllocFlags;
use pageblock_testkit::{Driver, Op, Oracle, Subject, strategy};
use proptest::prelude::*;

use crate::machine::{CPUS, FRAMES, answer_kicks, boot, on_cpu};
use crate::subject::Stack;

/// What happens to the machine.
#[derive(Clone, Debug)]
enum Step {
    /// The CPU does one operation.
    Do(Op),
    /// The CPU does the like many times: allocates so many blocks, or frees so many.
    Burst { op: Op, times: u8 },
    /// The next operations are this CPU's.
    Run { cpu: u32 },
    /// The CPU has every CPU's lists emptied.
    Drain,
    /// The same for one CPU's.
    DrainOne { cpu: u32 },
    /// A CPU goes offline, or comes back.
    Plug { cpu: u32 },
    /// What an offline CPU's lists hold is taken over.
    TakeOver { cpu: u32 },
    /// Kicks are answered at once from now on, or late: at the next operation of the CPU that was kicked.
    Kicks { at_once: bool },
}

/// Blocks of the orders that have lists, and some others.
fn listed_order() -> impl Strategy<Value = Order> + Clone {
    prop_oneof![8 => 0u8..=3, 1 => Just(9u8), 1 => 4u8..=10].prop_map(Order::saturating)
}

fn many() -> impl Strategy<Value = Op> + Clone {
    prop_oneof![
        (listed_order(), strategy::ordinary_type()).prop_map(|(order, migrate_type)| Op::Alloc {
            order,
            migrate_type,
            flags: AllocFlags::empty()
        }),
        any::<u32>().prop_map(|victim| Op::Free { victim }),
    ]
}

fn step() -> impl Strategy<Value = Step> + Clone {
    prop_oneof![
        8 => strategy::nasty().prop_map(Step::Do),
        12 => (many(), 1u8..=120).prop_map(|(op, times)| Step::Burst { op, times }),
        6 => (0..CPUS).prop_map(|cpu| Step::Run { cpu }),
        1 => Just(Step::Drain),
        1 => (0..=CPUS).prop_map(|cpu| Step::DrainOne { cpu }),
        1 => (0..CPUS).prop_map(|cpu| Step::Plug { cpu }),
        1 => (0..=CPUS).prop_map(|cpu| Step::TakeOver { cpu }),
        1 => any::<bool>().prop_map(|at_once| Step::Kicks { at_once }),
    ]
}

fn driver(lists: PcpConfig) -> Driver<Stack> {
    let all = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
    let mut oracle = Oracle::new(all);
    oracle.manage(all);
    Driver::new(Stack::new(boot(lists)), oracle, Vec::new())
}

fn apply(driver: &mut Driver<Stack>, step: &Step) {
    let stack = &mut driver.subject;
    match *step {
        Step::Do(ref op) => driver.apply(op).unwrap_or_else(|breach| panic!("{breach}")),
        Step::Burst { ref op, times } => burst(driver, op, times),
        Step::Run { cpu } => stack.cpu = cpu,
        Step::Drain => drop(on_cpu(stack.cpu, || stack.frames.drain())),
        Step::DrainOne { cpu } => {
            let asked = on_cpu(stack.cpu, || stack.frames.cpus().drain(CpuId::new(cpu)));
            assert_eq!(asked.is_err(), cpu >= CPUS);
        }
        Step::Plug { cpu } => stack.plug(cpu),
        Step::TakeOver { cpu } => {
            let taken = on_cpu(stack.cpu, || stack.frames.cpus().take_over(CpuId::new(cpu)));
            assert_eq!(taken.is_ok(), stack.offline.get(cpu as usize) == Some(&true));
        }
        Step::Kicks { at_once } => answer_kicks(at_once.then(|| stack.frames.clone())),
    }
}

/// The like many times; frees choose another victim each time.
fn burst(driver: &mut Driver<Stack>, op: &Op, times: u8) {
    for i in 0..u32::from(times) {
        let op = match op {
            Op::Free { victim } => Op::Free { victim: victim.wrapping_add(i.wrapping_mul(0x9e37_79b9)) },
            other => other.clone(),
        };
        driver.apply(&op).unwrap_or_else(|breach| panic!("{breach}"));
    }
}

/// Single frames of each CPU's own, taken and given back twice: what lists are for.
fn warm_up(driver: &mut Driver<Stack>) {
    for cpu in 0..CPUS {
        driver.subject.cpu = cpu;
        for migrate_type in [pageblock::MigrateType::Movable, pageblock::MigrateType::Unmovable] {
            for op in
                [Op::Alloc { order: Order::ZERO, migrate_type, flags: AllocFlags::empty() }, Op::Free { victim: 0 }]
            {
                burst(driver, &op, 40);
            }
        }
    }
}

fn run(lists: PcpConfig, steps: &[Step]) {
    answer_kicks(None);
    let mut driver = driver(lists);
    warm_up(&mut driver);
    let stack = &driver.subject;
    let (hits, operations) = (stack.hits.get(), stack.operations.get());
    assert!(stack.frames.stats().listed > 0 && hits > 0, "{hits} of {operations} operations were served by lists");
    for step in steps {
        apply(&mut driver, step);
        assert_eq!(driver.subject.free_frames(), driver.oracle.free_frames(), "after {step:?}");
    }
    driver.subject.check().unwrap();
    driver.subject.check_lists();
    // With all lists empty, the zone's free blocks are those of the oracle's free frames.
    driver.subject.drain();
    driver.verify().unwrap();
    while driver.oracle.victim(0).is_some() {
        driver.apply(&Op::Free { victim: 0 }).unwrap_or_else(|breach| panic!("{breach}"));
    }
    driver.subject.drain();
    driver.verify().unwrap();
    assert_eq!(driver.subject.free_frames(), FRAMES);
    answer_kicks(None);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn every_preset_does_what_the_oracle_says(steps in proptest::collection::vec(step(), 0..150)) {
        for (_, lists) in PcpConfig::PRESETS {
            run(lists, &steps);
        }
    }
}
