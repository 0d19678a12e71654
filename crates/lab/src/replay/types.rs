//! Migrate types of the pageblocks at the start.
//!
//! The type of each pageblock is not recorded, only how many there are of each (`pagetypeinfo`), how many free blocks
//! of each order and type, and the state of each frame. Wholly free pageblocks are matched by the orders of the free
//! blocks; of the others those with most slab frames are reclaimable, those with most page tables, slab and untyped
//! kernel frames unmovable, the rest movable.

use pageblock_frame::{MigrateType, Order, PAGEBLOCK_FRAMES, PAGEBLOCK_ORDER};

/// Contents of a pageblock, for the choice of its type.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Census {
    /// Number of the pageblock: its first frame divided by 512.
    pub(crate) block: u64,
    /// Free frames.
    pub(crate) free: u32,
    /// Slab.
    pub(crate) slab: u32,
    /// Page tables and other kernel frames, typed or not.
    pub(crate) kernel: u32,
    /// Anonymous memory and page cache.
    pub(crate) movable: u32,
    /// Reserved frames.
    pub(crate) reserved: u32,
}

impl Census {
    fn is_wholly_free(&self) -> bool {
        u64::from(self.free) == PAGEBLOCK_FRAMES
    }
}

/// A zone's types in the recording.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wanted {
    /// Pageblocks by type.
    pub(crate) blocks: [u64; MigrateType::COUNT],
    /// Free blocks by type and order.
    pub(crate) free: [[u64; Order::COUNT]; MigrateType::COUNT],
}

/// Frames on per-CPU lists, which the map of frames shows without a type, are not the kernel's. The census is in the
/// order of its pageblocks.
pub(crate) fn leave_out_listed(census: &mut [Census], listed: impl Iterator<Item = u64>) {
    for pfn in listed {
        let found = census.binary_search_by_key(&(pfn / PAGEBLOCK_FRAMES), |census| census.block);
        if let Some(census) = found.ok().and_then(|at| census.get_mut(at)) {
            census.kernel = census.kernel.saturating_sub(1);
        }
    }
}

/// Types that are assigned before the rest becomes movable, in this order.
const ASSIGNED: [MigrateType; 4] =
    [MigrateType::Reclaimable, MigrateType::Unmovable, MigrateType::HighAtomic, MigrateType::Cma];

/// Chooses a type for each pageblock of a zone; those that are not in the result are movable.
pub(crate) fn assign(census: &[Census], wanted: &Wanted) -> Vec<(u64, MigrateType)> {
    let mut chosen: Vec<(u64, MigrateType)> = Vec::new();
    let mut left = wanted.blocks;
    whole_blocks(census, wanted, &mut left, &mut chosen);
    let mut rest: Vec<&Census> = census.iter().filter(|block| !block.is_wholly_free()).collect();
    for kind in ASSIGNED {
        // Descending by the score of the type; equal ones by address.
        rest.sort_by_key(|block| (std::cmp::Reverse(score(block, kind)), block.block));
        let count = usize::try_from(left[kind.index()]).unwrap_or(usize::MAX).min(rest.len());
        chosen.extend(rest.drain(..count).map(|block| (block.block, kind)));
    }
    chosen
}

/// Score of a type, with 4 points a frame.
fn score(block: &Census, kind: MigrateType) -> i64 {
    let [free, slab, kernel, movable, reserved] =
        [block.free, block.slab, block.kernel, block.movable, block.reserved].map(i64::from);
    match kind {
        MigrateType::Reclaimable => 4 * slab - 2 * kernel - 4 * movable,
        MigrateType::HighAtomic => 4 * kernel + free - 4 * movable,
        MigrateType::Cma => free - slab - kernel,
        // Reserved frames decide only where nothing else does: the kernel's image lies in unmovable pageblocks.
        _ => 4096 * (slab + kernel) + reserved,
    }
}

/// Gives types to wholly free pageblocks: for each type as many free blocks of each order as were recorded.
fn whole_blocks(
    census: &[Census],
    wanted: &Wanted,
    left: &mut [u64; MigrateType::COUNT],
    chosen: &mut Vec<(u64, MigrateType)>,
) {
    let mut runs = whole_runs(census);
    for kind in ASSIGNED {
        for order in (PAGEBLOCK_ORDER.index()..Order::COUNT).rev() {
            let blocks = 1u64 << (order - PAGEBLOCK_ORDER.index());
            for _ in 0..wanted.free[kind.index()][order] {
                let Some(at) = runs.iter().position(|&(_, run)| run == blocks) else { break };
                if left[kind.index()] < blocks {
                    break;
                }
                let (first, _) = runs.swap_remove(at);
                left[kind.index()] -= blocks;
                chosen.extend((first..first + blocks).map(|block| (block, kind)));
            }
        }
    }
}

/// The maximal aligned runs of wholly free pageblocks, up to the default largest order: first block and length.
fn whole_runs(census: &[Census]) -> Vec<(u64, u64)> {
    let longest = Order::MAX.frames() / PAGEBLOCK_FRAMES;
    let mut runs = Vec::new();
    let free: std::collections::BTreeSet<u64> =
        census.iter().filter(|block| block.is_wholly_free()).map(|block| block.block).collect();
    let mut skip_to = 0;
    for &block in &free {
        if block < skip_to {
            continue;
        }
        let mut run = 1;
        while run < longest && block % (2 * run) == 0 && (block..block + 2 * run).all(|other| free.contains(&other)) {
            run *= 2;
        }
        runs.push((block, run));
        skip_to = block + run;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_get_types_by_what_they_hold() {
        let census = [
            Census { block: 0, free: 512, ..Census::default() },
            Census { block: 1, free: 512, ..Census::default() },
            Census { block: 2, movable: 512, ..Census::default() },
            Census { block: 3, slab: 500, kernel: 12, ..Census::default() },
            Census { block: 4, slab: 100, kernel: 300, free: 112, ..Census::default() },
            Census { block: 5, free: 512, ..Census::default() },
            Census { block: 6, movable: 400, kernel: 30, ..Census::default() },
        ];
        let mut wanted = Wanted { blocks: [2, 4, 1, 0, 0, 0], ..Wanted::default() };
        wanted.free[MigrateType::Unmovable.index()][9] = 1;
        let mut chosen = assign(&census, &wanted);
        chosen.sort_unstable();
        use MigrateType::{Reclaimable, Unmovable};
        assert_eq!(chosen, [(3, Reclaimable), (4, Unmovable), (5, Unmovable)]);
    }

    /// A movable pageblock with many frames on lists is not taken for one of the kernel's.
    #[test]
    fn frames_on_lists_are_not_the_kernels() {
        let mut census = [
            Census { block: 7, movable: 200, kernel: 312, ..Census::default() },
            Census { block: 9, kernel: 100, free: 412, ..Census::default() },
        ];
        let wanted = Wanted { blocks: [1, 1, 0, 0, 0, 0], ..Wanted::default() };
        assert_eq!(assign(&census, &wanted), [(7, MigrateType::Unmovable)]);
        let listed = (7 * 512..7 * 512 + 312).chain([8 * 512, 10 * 512]);
        leave_out_listed(&mut census, listed);
        assert_eq!(census.map(|census| census.kernel), [0, 100]);
        assert_eq!(assign(&census, &wanted), [(9, MigrateType::Unmovable)]);
    }

    #[test]
    fn runs_are_aligned_and_maximal() {
        let census: Vec<_> = [1, 2, 3, 6, 7, 8].map(|block| Census { block, free: 512, ..Census::default() }).into();
        assert_eq!(whole_runs(&census), [(1, 1), (2, 2), (6, 2), (8, 1)]);
    }
}
