//! The behaviour of each era as values.

use pageblock_frame::Order;

/// How sources and targets are found.
///
/// ```
/// use pageblock_compaction::{Config, Search};
/// assert_eq!(Config::default().search, Search::Occupancy);
/// assert_eq!(Config::linux_6_1().search, Search::FreeLists);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Search {
    /// Two scanners walk the zone from its ends (Linux up to 5.0).
    Linear,
    /// The same, but the free lists are asked first for a promising pageblock (Linux 5.1).
    FreeLists,
    /// Sources are the emptiest pageblocks, targets the fullest; a pageblock is emptied only if all of it can be.
    Occupancy,
}

/// The six patches of the 2013 series (*Memory compaction efficiency improvements*), each before and after.
///
/// ```
/// use pageblock_compaction::Patches;
/// assert_eq!(Patches::up_to(0), Patches::NONE);
/// assert_eq!(Patches::up_to(6), Patches::ALL);
/// assert!(Patches::up_to(4).detect_meeting && !Patches::up_to(3).detect_meeting);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Patches {
    /// 1: begin and end of a run are events.
    pub trace_runs: bool,
    /// 2: deferral is reset by one helper rather than at two places. Changes nothing that can be observed.
    pub defer_helper: bool,
    /// 3: positions are reset before a run reads them rather than after.
    pub reset_before_read: bool,
    /// 4: a free scanner that finds nothing moves its position, so that the meeting of the scanners is seen; running
    /// out of targets ends a run early only if they have not met.
    pub detect_meeting: bool,
    /// 5: an asynchronous run leaves no skip bit on pageblocks that only it cannot use.
    pub async_no_skip: bool,
    /// 6: positions are reset at once when the scanners meet.
    pub reset_on_meeting: bool,
}

impl Patches {
    /// Before the series.
    pub const NONE: Self = Self::up_to(0);
    /// After the series.
    pub const ALL: Self = Self::up_to(6);

    /// With the first `patches` of the series.
    #[must_use]
    pub const fn up_to(patches: u8) -> Self {
        Self {
            trace_runs: patches >= 1,
            defer_helper: patches >= 2,
            reset_before_read: patches >= 3,
            detect_meeting: patches >= 4,
            async_no_skip: patches >= 5,
            reset_on_meeting: patches >= 6,
        }
    }
}

/// Everything about compaction that has differed between versions, and what is new here.
///
/// ```
/// use pageblock_compaction::{Config, Patches};
/// let before = Config::linux_3_13(Patches::up_to(2));
/// let after = Config::linux_3_13(Patches::ALL);
/// assert!(!before.patches.reset_on_meeting && after.patches.reset_on_meeting);
/// assert_eq!(Config { patches: Patches::ALL, ..before }, after);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Config {
    /// How sources and targets are found.
    pub search: Search,
    /// The patches of *Memory compaction efficiency improvements* (2013).
    pub patches: Patches,
    /// Asynchronous and synchronous runs remember positions of their own for the migrate scanner (3.16).
    pub split_positions: bool,
    /// Positions are remembered only until a run first isolates something (before 5.x).
    pub remember_until_isolated: bool,
    /// A pageblock of which only the tail was scanned may get a skip bit (before 5.1).
    pub tail_sets_skip: bool,
    /// Asynchronous runs look into the pageblock with frame 0 whatever its type (3.13).
    pub first_block_quirk: bool,
    /// Runs that ignore skip bits set them all the same (before 3.14).
    pub ignoring_sets_skip: bool,
    /// The free scanner starts at the last pageblock rather than at the zone's end (3.15).
    pub aligned_free_start: bool,
    /// A wholly free pageblock may be a target (before 3.16).
    pub large_free_targets: bool,
    /// The free scanner takes the whole pageblock rather than as much as is needed, and looks at each of its frames
    /// (before 3.16).
    pub whole_targets: bool,
    /// The migrate scanner steps over a free block as a whole (3.17).
    pub jump_free_blocks: bool,
    /// Meeting is when both scanners are in one pageblock, rather than when positions cross (4.x).
    pub meet_by_block: bool,
    /// A pageblock is finished before success is looked for (5.1).
    pub finish_block: bool,
    /// Direct asynchronous runs leave the rest of an aligned block when one frame of it cannot move (4.8).
    pub skip_on_failure: bool,
    /// The free scanner looks at a part of the frames of pageblocks that gave nothing (5.1).
    pub strided: bool,
    /// A block that a direct run frees goes to its caller at once (the aim of the series of 2013; merged for 5.1).
    pub capture: bool,
    /// Deferral is looked at in every zone, rather than in the preferred one (3.18).
    pub defer_each_zone: bool,
    /// The fragmentation index is asked for costly orders only (4.x).
    pub index_for_costly_only: bool,
    /// A run is finished only if the watermark for the order holds too (before 4.x).
    pub finished_asks_watermark: bool,
    /// Skip bits are reset on restart only after scanners met (5.x).
    pub restart_needs_flush: bool,
    /// The run that 3.13 made at the low watermark plus a gap, rather than at min (costly orders: low).
    pub suitable_at_low: bool,
    /// A run by occupancy needs no more free frames than the block that it makes, down to the request's own watermark;
    /// Linux asks for twice the block above low, as its scanners may hold as much on the way.
    pub exact_need: bool,
    /// Movable blocks may fill pageblocks of other types, those of the most free frames last, once movable pageblocks
    /// have no room left. What is free in a pageblock that the kernel half gave up would otherwise help no large
    /// block.
    pub foreign_targets: bool,
    /// Fragmentation index, in thousandths, up to which memory is short rather than scattered (`extfrag_threshold`).
    pub extfrag_threshold: u16,
    /// Times that a move which answers "again" is tried.
    pub passes: u8,
    /// How eagerly memory is compacted before it is asked for, 0 (never) to 100 (`compaction_proactiveness`).
    pub proactiveness: u8,
    /// Largest movable block that is moved, rather than stepped over; at most order 5.
    pub largest_move: Order,
    /// Pageblocks that a search by occupancy compares at most, for zones larger than that.
    pub window: u32,
}

impl Config {
    /// Linux 3.13-rc2 with these patches of the series: the columns of *Memory compaction efficiency improvements*
    /// (2013).
    #[must_use]
    pub const fn linux_3_13(patches: Patches) -> Self {
        Self {
            search: Search::Linear,
            patches,
            split_positions: false,
            remember_until_isolated: true,
            tail_sets_skip: true,
            first_block_quirk: true,
            ignoring_sets_skip: true,
            aligned_free_start: false,
            large_free_targets: true,
            whole_targets: true,
            jump_free_blocks: false,
            meet_by_block: false,
            finish_block: false,
            skip_on_failure: false,
            strided: false,
            capture: false,
            defer_each_zone: false,
            index_for_costly_only: false,
            finished_asks_watermark: true,
            restart_needs_flush: false,
            suitable_at_low: true,
            exact_need: false,
            foreign_targets: false,
            extfrag_threshold: 500,
            passes: 10,
            proactiveness: 0,
            largest_move: Order::ZERO,
            window: u32::MAX,
        }
    }

    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            search: Search::FreeLists,
            patches: Patches::ALL,
            split_positions: true,
            remember_until_isolated: false,
            tail_sets_skip: false,
            first_block_quirk: false,
            ignoring_sets_skip: false,
            aligned_free_start: true,
            large_free_targets: false,
            whole_targets: false,
            jump_free_blocks: true,
            meet_by_block: true,
            finish_block: true,
            skip_on_failure: true,
            strided: true,
            capture: true,
            defer_each_zone: true,
            index_for_costly_only: true,
            finished_asks_watermark: false,
            restart_needs_flush: true,
            suitable_at_low: false,
            exact_need: false,
            foreign_targets: false,
            extfrag_threshold: 500,
            passes: 10,
            proactiveness: 20,
            largest_move: Order::ZERO,
            window: u32::MAX,
        }
    }

    /// The default: the best known of everything. Emptying the emptiest pageblocks moves about half as much for each
    /// as Linux's scanners do (`pageblock run highalloc`), so that twice the share of what is free is kept in whole
    /// pageblocks.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            search: Search::Occupancy,
            largest_move: Order::saturating(5),
            window: 1 << 14,
            exact_need: true,
            foreign_targets: true,
            proactiveness: 40,
            ..Self::linux_6_1()
        }
    }
}

impl Default for Config {
    fn default() -> Self {
        Self::new()
    }
}
