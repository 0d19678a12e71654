//! A CPU leaves all zones or none.

use pageblock::{Gfp, PcpConfig, PcpError};

use crate::machine::{boot_two_zones, interrupt_is_done, on_cpu, on_mask};

/// An interrupt that arrives inside a refill finds the lists of that zone busy, after those of the zones before it were
/// left.
#[test]
fn a_refused_leave_leaves_the_cpu_online_everywhere() {
    let machine = boot_two_zones(PcpConfig::new());
    on_cpu(1, || {
        let cpu = pageblock::CpuId::new(1);
        let inside = machine.clone();
        on_mask(move || match inside.cpus().go_offline() {
            Ok(()) => {
                inside.cpus().come_online().unwrap();
                false
            }
            refused => refused == Err(PcpError::Busy(cpu)),
        });
        let held = machine.alloc(Gfp::HIGHUSER_MOVABLE).unwrap();
        assert!(interrupt_is_done(), "the refill of the second zone was interrupted");
        assert_eq!(machine.cpus().take_over(cpu), Err(PcpError::Online(cpu)), "online in every zone");
        drop(held);
        assert!(machine.stats().listed > 0, "and its lists are used");
        machine.cpus().go_offline().unwrap();
        assert_eq!(machine.cpus().take_over(cpu), Ok(()));
        assert_eq!(machine.stats().listed, 0);
        machine.cpus().come_online().unwrap();
        assert_eq!(machine.cpus().come_online(), Err(PcpError::Online(cpu)));
        drop(machine.alloc(Gfp::KERNEL).unwrap());
        assert!(machine.stats().listed > 0);
    });
    machine.check().unwrap();
}
