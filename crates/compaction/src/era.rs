//! In which form the scanners run: one switch for each that Linux changed. Without the feature `history` each has
//! today's value.

/// A structure of switches with the value that each has today; without the feature `history`, the values alone.
macro_rules! switches {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $switch:ident: $today:expr,)* }) => {
        $(#[$meta])*
        #[cfg(feature = "history")]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name {
            $($(#[$doc])* pub $switch: bool,)*
        }

        #[cfg(not(feature = "history"))]
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) struct $name;

        impl $name {
            /// As Linux 6.1.
            #[cfg(feature = "history")]
            #[must_use]
            pub const fn today() -> Self {
                Self { $($switch: $today,)* }
            }

            /// As Linux 6.1.
            #[cfg(not(feature = "history"))]
            pub(crate) const fn today() -> Self {
                Self
            }

            $(
                #[cfg(feature = "history")]
                pub(crate) const fn $switch(self) -> bool {
                    self.$switch
                }

                #[cfg(not(feature = "history"))]
                pub(crate) const fn $switch(self) -> bool {
                    $today
                }
            )*
        }
    };
}

switches! {
    /// The six patches of *Memory compaction efficiency improvements* (2013), each before and after.
    ///
    /// ```
    /// use pageblock_compaction::Patches;
    /// assert_eq!(Patches::first(0), Patches::NONE);
    /// assert_eq!(Patches::first(6), Patches::ALL);
    /// assert!(Patches::first(4).detect_meeting && !Patches::first(3).detect_meeting);
    /// ```
    Patches {
        /// 1: begin and end of a run are events.
        trace_runs: true,
        /// 2: deferral is reset by one helper rather than at two places. Changes nothing that can be observed.
        defer_helper: true,
        /// 3: positions are reset before a run reads them rather than after.
        reset_before_read: true,
        /// 4: a free scanner that finds nothing moves its position, so that the meeting of the scanners is seen;
        /// running out of targets ends a run early only if they have not met.
        detect_meeting: true,
        /// 5: an asynchronous run leaves no skip bit on pageblocks that only it cannot use.
        async_no_skip: true,
        /// 6: positions are reset at once when the scanners meet.
        reset_on_meeting: true,
    }
}

switches! {
    /// Changes since 3.13 in Linux's scanners, and in the rules of when they run.
    ///
    /// ```
    /// use pageblock_compaction::{CompactionConfig, Era};
    /// let whole = Era { finish_block: false, ..Era::today() };
    /// assert_ne!(CompactionConfig { era: whole, ..CompactionConfig::linux_6_1() }, CompactionConfig::linux_6_1());
    /// ```
    Era {
        /// Asynchronous and synchronous runs remember positions of their own for the migrate scanner (3.16).
        split_positions: true,
        /// Positions are remembered only until a run first isolates something (before 5.x).
        remember_until_isolated: false,
        /// A pageblock of which only the tail was scanned may get a skip bit (before 5.1).
        tail_sets_skip: false,
        /// Asynchronous runs look into the pageblock with frame 0 whatever its type (3.13).
        first_block_quirk: false,
        /// Runs that ignore skip bits set them all the same (before 3.14).
        ignoring_sets_skip: false,
        /// The free scanner starts at the last pageblock rather than at the zone's end (3.15).
        aligned_free_start: true,
        /// A wholly free pageblock may be a target (before 3.16).
        large_free_targets: false,
        /// The free scanner takes the whole pageblock rather than as much as is needed, and looks at each of its frames
        /// (before 3.16).
        whole_targets: false,
        /// The migrate scanner steps over a free block as a whole (3.17).
        jump_free_blocks: true,
        /// Meeting is when both scanners are in one pageblock, rather than when positions cross (4.x).
        meet_by_block: true,
        /// A pageblock is finished before success is looked for (5.1).
        finish_block: true,
        /// Direct asynchronous runs leave the rest of an aligned block when one frame of it cannot move (4.8).
        skip_on_failure: true,
        /// The free scanner looks at a part of the frames of pageblocks that gave nothing (5.1).
        strided: true,
        /// Deferral is looked at in every zone, rather than in the preferred one (3.18).
        defer_each_zone: true,
        /// The fragmentation index is asked for costly orders only (4.x).
        index_for_costly_only: true,
        /// A run is finished only if the watermark for the order holds too (before 4.x).
        finished_asks_watermark: false,
        /// Skip bits are reset on restart only after scanners met (5.x).
        restart_needs_flush: true,
        /// The run that 3.13 made at the low watermark plus a gap, rather than at min (costly orders: low).
        suitable_at_low: false,
    }
}
