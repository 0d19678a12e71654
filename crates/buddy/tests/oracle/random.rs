//! Long random sequences against `check()` and the conservation of frames.

use core::mem::MaybeUninit;
use core::ptr::NonNull;
use pageblock_testkit::simulated::SimulatedZone;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::{AllocFlags, Carver, MigrateType, NodeId, Order, Pfn, PfnRange, Platform, ZoneKind};

struct Host;

// SAFETY: one thread, no interrupts, no memory asked for.
unsafe impl Platform for Host {
    const MAX_CPUS: usize = 1;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

fn with_zone(span: PfnRange, max_order: u8, test: impl FnOnce(&Zone<'_>)) {
    let mut config = ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span);
    config.max_order = Order::new(max_order).unwrap();
    let mut raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, config.max_order)];
    let storage = ZoneStorage::carve(span, config.max_order, &mut Carver::new(&mut raw)).unwrap();
    let zone = Zone::new::<Host>(config, storage).unwrap();
    test(&zone);
}

fn churn(zone: &Zone<'_>, seed: u64, steps: usize) {
    let mut random = Random(seed | 1);
    let mut held: Vec<(Pfn, Order)> = Vec::new();
    let initial = zone.counts();
    let managed = zone.managed();
    let mut target = managed / 2;
    for step in 0..steps {
        if step % 1000 == 0 {
            target = managed * (1 + random.next(19)) / 20;
        }
        let used = managed - zone.free_frames();
        if held.is_empty() || (used < target && random.next(4) != 0) {
            let top = u64::from(zone.max_order().as_u8());
            let order = if random.next(4) == 0 { random.next(top + 1) } else { random.next(4) };
            let order = Order::new(order as u8).unwrap();
            let t = MigrateType::ALL[random.next(3) as usize];
            if let Some(pfn) = zone.alloc::<Host>(order, t, AllocFlags::empty()) {
                assert!(pfn.is_aligned(order));
                held.push((pfn, order));
            }
        } else {
            let (pfn, order) = held.swap_remove(random.next(held.len() as u64) as usize);
            zone.free_simulated::<Host>(pfn, order).unwrap();
            assert!(zone.free_simulated::<Host>(pfn, order).is_err());
        }
        if step % 64 == 0 {
            zone.check().unwrap_or_else(|v| panic!("step {step}: {v}"));
            let sum: u64 = held.iter().map(|h| h.1.frames()).sum();
            assert_eq!(sum + zone.free_frames(), managed);
        }
    }
    for (pfn, order) in held {
        zone.free_simulated::<Host>(pfn, order).unwrap();
    }
    zone.check().unwrap();
    assert_eq!(zone.counts().by_order, initial.by_order);
}

#[test]
fn aligned_zone() {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(64 * 512));
    with_zone(span, 10, |zone| {
        zone.release_simulated::<Host>(span).unwrap();
        zone.check().unwrap();
        churn(zone, 1, 40_000);
    });
}

#[test]
fn large_blocks_and_ragged_ends() {
    let span = PfnRange::new(Pfn::new(4099), Pfn::new(4099 + 70 * 512 + 77));
    with_zone(span, 12, |zone| {
        zone.release_simulated::<Host>(PfnRange::new(Pfn::new(4100), Pfn::new(9000))).unwrap();
        zone.release_simulated::<Host>(PfnRange::new(Pfn::new(9001), span.end)).unwrap();
        zone.check().unwrap();
        churn(zone, 2, 40_000);
    });
}

#[test]
fn less_than_a_pageblock() {
    let span = PfnRange::new(Pfn::new(5), Pfn::new(300));
    with_zone(span, 10, |zone| {
        zone.release_simulated::<Host>(span).unwrap();
        churn(zone, 3, 10_000);
    });
}

#[test]
fn bulk_calls_agree_with_single_ones() {
    let span = PfnRange::new(Pfn::new(0), Pfn::new(32 * 512));
    with_zone(span, 10, |zone| {
        zone.release_simulated::<Host>(span).unwrap();
        let initial = zone.counts();
        let mut random = Random(77);
        let mut held: Vec<(Order, Vec<u32>)> = Vec::new();
        let mut singles = Vec::new();
        for _ in 0..20_000 {
            match random.next(5) {
                0 | 1 => {
                    let order = Order::new(random.next(4) as u8).unwrap();
                    let mut out = vec![0; random.next(70) as usize];
                    let got = zone.alloc_bulk::<Host>(order, MigrateType::ALL[random.next(3) as usize], &mut out);
                    out.truncate(got);
                    held.push((order, out));
                }
                2 => {
                    let t = MigrateType::ALL[random.next(3) as usize];
                    singles.extend(zone.alloc::<Host>(Order::ZERO, t, AllocFlags::empty()));
                }
                3 if !singles.is_empty() => {
                    let pfn = singles.swap_remove(random.next(singles.len() as u64) as usize);
                    zone.free_simulated::<Host>(pfn, Order::ZERO).unwrap();
                }
                _ if !held.is_empty() => {
                    let (order, mut blocks) = held.swap_remove(random.next(held.len() as u64) as usize);
                    if random.next(2) == 0 {
                        for i in (1..blocks.len()).rev() {
                            blocks.swap(i, random.next(i as u64 + 1) as usize);
                        }
                    }
                    assert_eq!(zone.free_bulk_simulated::<Host>(order, &blocks), 0);
                }
                _ => {}
            }
            if random.next(16) == 0 {
                zone.check().unwrap();
            }
        }
        for (order, blocks) in held {
            assert_eq!(zone.free_bulk_simulated::<Host>(order, &blocks), 0);
            assert_eq!(zone.free_bulk_simulated::<Host>(order, &blocks), blocks.len(), "a second time: refused");
        }
        for pfn in singles {
            zone.free_simulated::<Host>(pfn, Order::ZERO).unwrap();
        }
        zone.check().unwrap();
        assert_eq!(zone.counts().by_order, initial.by_order);
    });
}

struct SmallHost;

// SAFETY: as for `Host`.
unsafe impl Platform for SmallHost {
    const MAX_CPUS: usize = 1;
    const SMALL_CODE: bool = true;
    const HAS_MEMORY: bool = false;

    fn phys_to_virt(_: u64) -> NonNull<u8> {
        NonNull::dangling()
    }
}

/// The same code for all orders chooses the same frames as the copies for the common ones.
#[test]
fn small_code_does_the_same() {
    let span = PfnRange::from_len(Pfn::new(0), 16 * 512);
    with_zone(span, 10, |zone| {
        with_zone(span, 10, |small| {
            zone.release_simulated::<Host>(span).unwrap();
            small.release_simulated::<Host>(span).unwrap();
            let (mut random, mut held, mut failed) = (Random(77), Vec::new(), 0);
            for step in 0..200_000 {
                if random.next(100) < 52 || held.is_empty() {
                    let order =
                        Order::new(if random.next(3) == 0 { random.next(11) } else { random.next(4) } as u8).unwrap();
                    let t = MigrateType::ALL[random.next(3) as usize];
                    let pfn = zone.alloc::<Host>(order, t, AllocFlags::empty());
                    assert_eq!(pfn, small.alloc::<SmallHost>(order, t, AllocFlags::empty()), "step {step}");
                    failed += u32::from(pfn.is_none());
                    held.extend(pfn.map(|pfn| (pfn, order)));
                } else {
                    let (pfn, order) = held.swap_remove(random.next(held.len() as u64) as usize);
                    assert_eq!(zone.free_simulated::<Host>(pfn, order), Ok(()));
                    assert_eq!(small.free_simulated::<SmallHost>(pfn, order), Ok(()));
                    assert_eq!(zone.free_simulated::<Host>(pfn, order), small.free_simulated::<SmallHost>(pfn, order));
                }
            }
            assert!(failed > 0, "memory ran out, so that types fell back");
            assert_eq!((zone.check(), small.check()), (Ok(()), Ok(())));
            assert_eq!(zone.counts(), small.counts());
        });
    });
}
