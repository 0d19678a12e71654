use std::rc::Rc;

use pageblock_frame::reclaim::Actor;
use pageblock_frame::{NodeId, Order};

use super::*;
use crate::machine::objects::BATCH;
use crate::machine::{Setup, Shrinking, Time, costs};

/// A machine with this file system, or with another, and files of one page.
fn machine(is_xfs: bool, files: u32) -> (Rc<Machine>, Vec<FileId>) {
    let setup = Setup { shrinking: Shrinking::ByPriority, ..Setup::small() };
    let machine = Machine::boot(&Setup { is_xfs, ..setup }).unwrap();
    let files = (0..files).map(|_| machine.create_file(1)).collect();
    (machine, files)
}

fn free(machine: &Machine) -> u64 {
    machine.memory().allocator().stats().free
}

/// Looks at every buffer `times` times. Priority 0 makes that of one call two looks at each.
fn shrink(machine: &Machine, priority: u8) {
    let slab =
        Slab { node: NodeId::new(0), actor: Actor::Direct, gfp: Gfp::KERNEL, priority, scanned: 32, eligible: 32 };
    machine.shrink_buffers(&slab);
}

/// Buffers without a machine: a frame each.
fn buffers(clusters: u32) -> Buffers {
    let mut all = Buffers::default();
    for cluster in 0..clusters {
        all.buffers.insert(cluster, (vec![Pfn::new(u64::from(cluster))], LOOKS));
        all.queue.push_back(cluster);
    }
    all
}

#[test]
fn files_created_one_after_the_other_share_a_buffer_of_four_frames() {
    let (machine, files) = machine(true, CLUSTER + 1);
    let before = free(&machine);
    for file in &files[..CLUSTER as usize] {
        assert_eq!(machine.use_buffer(*file), None, "{file:?}: what is new is not read");
        assert_eq!(before - free(&machine), 4);
    }
    assert_eq!(machine.use_buffer(files[CLUSTER as usize]), None);
    assert_eq!(before - free(&machine), 8, "the next cluster has a buffer of its own");
    assert_eq!(machine.transferred(), (0, 0));
    machine.memory().check().unwrap();
}

#[test]
fn other_file_systems_keep_nothing() {
    let (machine, files) = machine(false, 1);
    machine.open(files[0]);
    let before = free(&machine);
    assert_eq!(machine.use_buffer(files[0]), None);
    machine.log_inode(files[0]);
    assert_eq!(free(&machine), before);
    assert_eq!(machine.slab_usage(Kind::LogItem), (0, 0));
}

#[test]
fn a_buffer_goes_at_the_third_look_since_its_last_use() {
    let mut all = buffers(2);
    for _ in 0..2 * LOOKS {
        assert_eq!(all.look(), []);
    }
    // The first is used again, so the second goes before it.
    all.buffers.get_mut(&0).unwrap().1 = LOOKS;
    assert_eq!([all.look(), all.look()], [vec![], vec![Pfn::new(1)]]);
    assert_eq!([all.look(), all.look(), all.look()], [vec![], vec![Pfn::new(0)], vec![]]);
    assert!(all.buffers.is_empty() && all.queue.is_empty());
}

#[test]
fn a_cluster_that_was_given_up_is_read_from_its_place() {
    let (machine, files) = machine(true, 200 * CLUSTER);
    let before = free(&machine);
    for file in files.iter().step_by(CLUSTER as usize) {
        assert_eq!(machine.use_buffer(*file), None);
    }
    assert_eq!(before - free(&machine), 200 * FRAMES as u64);
    // Two looks at each take the marks away, the next two all of them.
    shrink(&machine, 0);
    assert_eq!(before - free(&machine), 200 * FRAMES as u64, "all were used a moment ago");
    shrink(&machine, 0);
    assert_eq!(free(&machine), before, "every frame came back");
    let done = machine.use_buffer(files[40]).expect("it is read");
    assert!(done > machine.now());
    machine.run_until(Time::new(costs::SECOND));
    assert_eq!(machine.transferred(), (FRAMES as u64, 0));
    assert_eq!(machine.use_buffer(files[41]), None, "a neighbour is there with it");
    machine.memory().check().unwrap();
}

#[test]
fn small_shares_add_up_to_a_batch() {
    let (machine, files) = machine(true, 32 * CLUSTER);
    for file in files.iter().step_by(CLUSTER as usize) {
        machine.use_buffer(*file);
    }
    let looks = |machine: &Machine| {
        let all = machine.buffers.borrow();
        all.buffers.values().map(|(_, looks)| u64::from(LOOKS - looks)).sum::<u64>()
    };
    // An eighth of 32 buffers, twice: 8 of the 64 that may be owed at most, which is less than a batch.
    for _ in 0..20 {
        shrink(&machine, 3);
        assert_eq!(looks(&machine), 0, "{BATCH} are a batch, and of 32 buffers that is never owed");
    }
    let more: Vec<_> = (0..64 * CLUSTER).map(|_| machine.create_file(1)).collect();
    more.iter().step_by(CLUSTER as usize).for_each(|file| _ = machine.use_buffer(*file));
    let mut calls = 0;
    while looks(&machine) == 0 {
        shrink(&machine, 3);
        calls += 1;
    }
    // 24 of 96 each time, and 64 are owed from before.
    assert_eq!((calls, looks(&machine)), (3, 136));
}

#[test]
fn a_changed_inode_has_one_log_item_for_as_long_as_it_is_known() {
    let (machine, files) = machine(true, 1);
    machine.log_inode(files[0]);
    assert_eq!(machine.slab_usage(Kind::LogItem).0, 0, "it is not in memory");
    machine.open(files[0]);
    machine.log_inode(files[0]);
    machine.log_inode(files[0]);
    assert_eq!(machine.slab_usage(Kind::LogItem).0, 1);
    machine.delete_file(files[0]);
    assert_eq!(machine.slab_usage(Kind::LogItem).0, 0);
}

#[test]
fn a_buffer_without_memory_for_all_of_it_loses_nothing() {
    let (machine, files) = machine(true, 1);
    let mut taken = Vec::new();
    while let Some(pfn) = machine.kernel_block(Order::ZERO, Gfp::KERNEL | Gfp::NOWARN | Gfp::NORETRY) {
        taken.push(pfn);
    }
    let before = free(&machine);
    machine.use_buffer(files[0]);
    taken.into_iter().for_each(|pfn| _ = machine.memory().free(pfn));
    let held = machine.buffers.borrow().buffers.values().map(|(frames, _)| frames.len() as u64).sum::<u64>();
    assert!(held <= FRAMES as u64 && before >= held, "{held} of {before}");
    machine.memory().check().unwrap();
}
