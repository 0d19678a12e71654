//! The counters of a run, by the names in the published tables.

use pageblock::{NodeId, ZoneKind};
use pageblock_compaction::CompactionVmStat;

use crate::machine::Machine;
use crate::machine::costs::SECOND;

/// The machine's counts from its start to now.
pub(super) fn read(machine: &Machine) -> Vec<(&'static str, f64)> {
    let mut rows = times(machine);
    rows.extend(reclaim(machine));
    rows.extend(compaction(machine));
    rows
}

fn times(machine: &Machine) -> Vec<(&'static str, f64)> {
    let seconds = |nanoseconds: u64| nanoseconds as f64 / SECOND as f64;
    let (user, system) = machine.cpu_times();
    let tally = machine.tally();
    let (read, written) = machine.transferred();
    vec![
        ("User", seconds(user)),
        ("System", seconds(system)),
        ("Elapsed", seconds(machine.now().nanoseconds())),
        ("Minor Faults", tally.minor_faults as f64),
        ("Major Faults", tally.major_faults as f64),
        ("Swap Ins", tally.swapped_in as f64),
        ("Swap Outs", tally.swapped_out as f64),
        ("Page writes by reclaim", (tally.swapped_out + tally.written_by_reclaim) as f64),
        ("Page writes file", tally.written_by_reclaim as f64),
        ("Page writes anon", tally.swapped_out as f64),
        // The kernel's counter is in KiB, whatever the row's name says.
        ("Sector Reads", read as f64 * 4.0),
        ("Sector Writes", written as f64 * 4.0),
        ("Slabs scanned", tally.slabs_scanned as f64),
        ("Direct inode steals", tally.inode_steals[1] as f64),
        ("Kswapd inode steals", tally.inode_steals[0] as f64),
    ]
}

fn reclaim(machine: &Machine) -> Vec<(&'static str, f64)> {
    let elapsed = machine.now().nanoseconds() as f64 / SECOND as f64;
    let zones = [ZoneKind::Normal, ZoneKind::Dma32, ZoneKind::Dma].map(|kind| machine.zone_scan(NodeId::new(0), kind));
    let sum = |of: fn(&pageblock_reclaim::AreaScan) -> u64| zones.iter().map(of).sum::<u64>() as f64;
    let (kswapd, direct) = (sum(|zone| zone.scan_kswapd), sum(|zone| zone.scan_direct));
    let (kswapd_freed, direct_freed) = (sum(|zone| zone.steal_kswapd), sum(|zone| zone.steal_direct));
    let velocity = |scanned: f64| if elapsed > 0.0 { scanned / elapsed } else { 0.0 };
    let percent = |part: f64, whole: f64| if whole > 0.0 { (100.0 * part / whole).floor() } else { 100.0 };
    let of_zone = |place: usize| velocity((zones[place].scan_kswapd + zones[place].scan_direct) as f64);
    vec![
        ("Direct pages scanned", direct),
        ("Kswapd pages scanned", kswapd),
        ("Kswapd pages reclaimed", kswapd_freed),
        ("Direct pages reclaimed", direct_freed),
        ("Kswapd efficiency", percent(kswapd_freed, kswapd)),
        ("Kswapd velocity", velocity(kswapd)),
        ("Direct efficiency", percent(direct_freed, direct)),
        ("Direct velocity", velocity(direct)),
        ("Percentage direct scans", percent(direct, direct + kswapd)),
        ("Zone normal velocity", of_zone(0)),
        ("Zone dma32 velocity", of_zone(1)),
        ("Zone dma velocity", of_zone(2)),
        ("Page reclaim immediate", machine.shrink_stat().immediate as f64),
    ]
}

fn compaction(machine: &Machine) -> Vec<(&'static str, f64)> {
    let stat: CompactionVmStat = machine.memory().allocator().compaction().stats();
    vec![
        ("Compaction stalls", stat.stall as f64),
        ("Compaction success", stat.success as f64),
        ("Compaction failures", stat.fail as f64),
        ("Page migrate success", stat.migrate_success as f64),
        ("Page migrate failure", stat.migrate_fail as f64),
        ("Compaction pages isolated", stat.isolated as f64),
        ("Compaction migrate scanned", stat.migrate_scanned as f64),
        ("Compaction free scanned", stat.free_scanned as f64),
        ("Compaction cost", stat.cost() as f64),
        // Not in the published table: the compaction thread's part, which Linux has since 4.6.
        ("Compaction daemon wakes", stat.daemon_wake as f64),
        ("Compaction daemon migrate scanned", stat.daemon_migrate_scanned as f64),
        ("Compaction daemon free scanned", stat.daemon_free_scanned as f64),
    ]
}
