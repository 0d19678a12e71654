//! How types are mixed at a moment: an explanation of the number of events.

use pageblock::Zone;
use pageblock_frame::MigrateType;
use serde::Serialize;

use crate::machine::owner::Holder;
use crate::machine::{Kind, Machine};

/// Unmovable, movable, reclaimable, and all others.
const TYPES: usize = 4;

/// Contents of pageblocks at the end of a phase; everything but the objects in frames.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub(crate) struct Mixing {
    /// Pageblocks by type: unmovable, movable, reclaimable, others.
    pub(crate) pageblocks: [u64; TYPES],
    /// Free frames by the type of their pageblock.
    pub(crate) free: [u64; TYPES],
    /// Pages of files by the type of their pageblock.
    pub(crate) cached: [u64; TYPES],
    /// Frames of slabs by the type of their pageblock.
    pub(crate) slabs: [u64; TYPES],
    /// Other frames of the kernel, the same.
    pub(crate) kernel: [u64; TYPES],
    /// Objects in slabs: dentries, inodes, tree nodes.
    pub(crate) objects: [u64; 3],
}

fn column(migrate_type: MigrateType) -> usize {
    migrate_type.index().min(TYPES - 1)
}

impl Mixing {
    /// Looks at every frame.
    pub(super) fn of(machine: &Machine) -> Self {
        let mut found = Self::default();
        let zones: Vec<(&Zone<'_>, Vec<MigrateType>)> =
            machine.memory().zones().iter().map(|zone| (zone, found.look(zone))).collect();
        for (pfn, holder) in machine.memory().held() {
            let of = |(zone, types): &(&Zone<'_>, Vec<MigrateType>)| {
                let index = zone.index_of(pfn)?;
                types.get((index / pageblock_frame::PAGEBLOCK_FRAMES as u32) as usize).copied()
            };
            let Some(place) = zones.iter().find_map(of).map(column) else { continue };
            let counts = match holder {
                Holder::File { .. } => &mut found.cached,
                Holder::Slab { .. } => &mut found.slabs,
                Holder::Kernel { .. } => &mut found.kernel,
                _ => continue,
            };
            counts[place] += holder.order().frames();
        }
        let kinds = [Kind::Dentry, Kind::Inode, Kind::RadixNode];
        found.objects = kinds.map(|kind| machine.slab_usage(kind).0);
        found
    }

    /// The types of a zone's pageblocks, which are counted.
    fn look(&mut self, zone: &Zone<'_>) -> Vec<MigrateType> {
        let mut types = Vec::new();
        zone.for_each_pageblock(|_, block| {
            if block.managed() > 0 {
                self.pageblocks[column(block.migrate_type())] += 1;
                self.free[column(block.migrate_type())] += u64::from(block.free());
            }
            types.push(block.migrate_type());
        });
        types
    }
}
