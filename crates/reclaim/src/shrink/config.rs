//! What has differed in scanning lists.

/// The rules of scanning.
///
/// ```
/// use pageblock_reclaim::ShrinkConfig;
/// assert_eq!(ShrinkConfig::default(), ShrinkConfig::linux_6_1());
/// assert_eq!(ShrinkConfig::default().swappiness, 60);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ShrinkConfig {
    /// How readily anonymous pages go, against file pages: 0 hardly, 100 as readily, 200 instead (`vm.swappiness`).
    pub swappiness: u8,
    /// An anonymous page that was used once is active (before 5.9).
    pub anon_active_at_once: bool,
    /// The inactive file list is long enough if it is as long as the active one (before 4.7), rather than by the ratio that grows with
    /// memory.
    pub files_half_active: bool,
    /// Pages that wait to be written go to the active list, out of the way (since 4.11), rather than for another turn.
    pub park_dirty: bool,
    /// Other caches are shrunk also while boosted watermarks are all there is to reclaim for (the third version of seed 002's
    /// series; its author saw it hurt).
    pub boost_shrinks_slab: bool,
    /// Pages above a round's zone limit that are stepped over for each page that is wanted.
    pub skips_a_page: u32,
}

impl ShrinkConfig {
    /// Linux 6.1.
    #[must_use]
    pub const fn linux_6_1() -> Self {
        Self {
            swappiness: 60,
            anon_active_at_once: false,
            files_half_active: false,
            park_dirty: true,
            boost_shrinks_slab: false,
            skips_a_page: 1024,
        }
    }

    /// Linux 3.13 and 3.16.
    #[must_use]
    pub const fn linux_3_13() -> Self {
        Self { anon_active_at_once: true, files_half_active: true, park_dirty: false, ..Self::linux_6_1() }
    }
}

impl Default for ShrinkConfig {
    fn default() -> Self {
        Self::linux_6_1()
    }
}
