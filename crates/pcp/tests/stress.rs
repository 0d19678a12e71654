//! More CPUs than the machine has cores, freeing one another's blocks, going offline and back, drained at random.
//!
//! `PCP_STRESS_STEPS=1000000 cargo test --release -p pageblock-pcp --test stress` runs for longer.
#![cfg(not(loom))]

use pageblock_testkit::simulated::{SimulatedLists, SimulatedZone};
use std::mem::MaybeUninit;

use pageblock_buddy::{Zone, ZoneConfig, ZoneStorage};
use pageblock_frame::sync::Lock;
use pageblock_frame::{AllocFlags, Carver, CpuId, MigrateType, NodeId, Order, Pfn, PfnRange, ZoneKind};
use pageblock_pcp::{PcpConfig, PcpLists};
use pageblock_testkit::host::Host;

const FRAMES: u64 = 1 << 17;
const CPUS: u32 = 8;

struct Fixture<const N: usize> {
    zone: &'static Zone<'static>,
    lists: PcpLists<'static, Host<N>>,
    /// Blocks on their way from one CPU to another. Not behind the standard library's lock, whose slow path no
    /// sanitizer sees.
    market: Lock<Vec<(Pfn, Order)>>,
}

impl<const N: usize> Fixture<N> {
    fn new(config: PcpConfig) -> Self {
        let span = PfnRange::new(Pfn::new(0), Pfn::new(FRAMES));
        let raw = vec![MaybeUninit::uninit(); ZoneStorage::bytes(span, Order::MAX)].leak();
        let storage = ZoneStorage::carve(span, Order::MAX, &mut Carver::new(raw)).unwrap();
        let zone = Zone::new::<Host<N>>(ZoneConfig::new(ZoneKind::Normal, NodeId::new(0), span), storage).unwrap();
        zone.release_simulated::<Host<N>>(span).unwrap();
        let zone: &_ = Box::leak(Box::new(zone));
        let raw = vec![MaybeUninit::uninit(); PcpLists::<Host<N>>::bytes(&config, span, CPUS)].leak();
        let lists = PcpLists::carve(config, zone, CPUS, &mut Carver::new(raw)).unwrap();
        assert_eq!(lists.cpus(), CPUS as usize);
        Self { zone, lists, market: Lock::new(Vec::new()) }
    }

    fn alloc(&self, order: Order, t: MigrateType) -> Option<Pfn> {
        self.lists.alloc(order, t).or_else(|| self.lists.alloc_slow(order, t, AllocFlags::empty()))
    }

    /// One CPU's life. Returns what it holds in the end.
    fn live(&self, seed: u64, steps: u64) -> Vec<(Pfn, Order)> {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut random = |below: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % below
        };
        let mut held: Vec<(Pfn, Order)> = Vec::new();
        for _ in 0..steps {
            match random(2000) {
                0 => drop(self.lists.drain_cpu(CpuId::new(random(u64::from(CPUS)) as u32))),
                1 => drop(self.lists.drain_all()),
                2 => {
                    self.lists.go_offline().unwrap();
                    for _ in 0..random(50) {
                        let pfn = self.alloc(Order::ZERO, MigrateType::Movable);
                        held.extend(pfn.map(|pfn| (pfn, Order::ZERO)));
                    }
                    self.lists.come_online().unwrap();
                }
                3 => {
                    self.lists.begin_isolation();
                    self.lists.end_isolation();
                }
                4..40 => self.trade(&mut held),
                n if n % 2 == 0 && held.len() < 1000 => {
                    let order = Order::new([0, 0, 0, 0, 1, 2, 3, 4, 6, 9][random(10) as usize]).unwrap();
                    let pfn = self.alloc(order, MigrateType::ALL[random(3) as usize]);
                    held.extend(pfn.map(|pfn| (pfn, order)));
                }
                _ if !held.is_empty() => {
                    let (pfn, order) = held.swap_remove(random(held.len() as u64) as usize);
                    self.lists.free_simulated(pfn, order).unwrap();
                    if random(64) == 0 {
                        // Freed twice. By now another CPU may have the frame, in a block of any order that is used
                        // here; this one is not.
                        assert!(self.lists.free_simulated(pfn, Order::new(5).unwrap()).is_err());
                    }
                }
                _ => {}
            }
        }
        held
    }

    /// Gives ten blocks away and takes whatever is there.
    fn trade(&self, held: &mut Vec<(Pfn, Order)>) {
        let mut market = self.market.lock();
        let theirs = std::mem::take(&mut *market);
        let from = held.len().saturating_sub(10);
        market.extend(held.drain(from..));
        held.extend(theirs);
    }
}

fn stress<const N: usize>(config: PcpConfig) {
    let steps = std::env::var("PCP_STRESS_STEPS").ok().map_or(20_000, |steps| steps.parse().unwrap());
    let fixture = Fixture::<N>::new(config);
    let held: Vec<Vec<_>> = std::thread::scope(|scope| {
        let spawn = |cpu| {
            let fixture = &fixture;
            scope.spawn(move || Host::<N>::on_cpu(cpu, || fixture.live(u64::from(cpu) + 1, steps)).unwrap())
        };
        let threads: Vec<_> = (0..CPUS).map(spawn).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut held: Vec<_> = held.into_iter().flatten().collect();
    held.append(&mut fixture.market.lock());
    let frames: u64 = held.iter().map(|block| block.1.frames()).sum();
    fixture.zone.check().unwrap();
    assert_eq!(fixture.zone.free_frames() + fixture.lists.frames() + frames, FRAMES);
    for cpu in 0..CPUS {
        Host::<N>::on_cpu(cpu, || fixture.lists.check()).unwrap().unwrap();
    }
    for (i, (pfn, order)) in held.into_iter().enumerate() {
        Host::<N>::on_cpu(i as u32 % CPUS, || fixture.lists.free_simulated(pfn, order)).unwrap().unwrap();
    }
    fixture.lists.drain_all();
    for cpu in 0..CPUS {
        Host::<N>::on_cpu(cpu, || fixture.lists.handle_kick());
    }
    assert_eq!(fixture.lists.wait(0), Ok(()));
    assert_eq!((fixture.zone.free_frames(), fixture.lists.frames()), (FRAMES, 0));
    fixture.zone.check().unwrap();
}

#[test]
fn eight_cpus_with_bounded_lists() {
    stress::<40>(PcpConfig::new());
}

#[test]
fn eight_cpus_as_linux_6_1() {
    stress::<41>(PcpConfig::linux_6_1());
}

#[test]
fn eight_cpus_as_linux_6_7() {
    stress::<42>(PcpConfig::linux_6_7());
}

#[test]
fn eight_cpus_as_seed_004() {
    stress::<43>(PcpConfig::seed_2016());
}
