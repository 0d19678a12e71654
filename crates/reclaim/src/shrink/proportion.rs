//! How much of which list to look at: pure rules over numbers of frames.

use pageblock_frame::reclaim::DEF_PRIORITY;
use pageblock_lru::{LruList, Swap};

use super::config::ShrinkConfig;

/// Whether an inactive list is too short for the active one beside it, so that pages should move over
/// (`inactive_is_low()`).
///
/// The larger the memory, the smaller the part that must be inactive for pages to be found in use in time: half of 100
/// MiB, a quarter of 1 GiB, an eleventh of 10 GiB, a hundredth of 1 TiB. `half` asks for half of any.
///
/// ```
/// use pageblock_reclaim::inactive_is_low;
/// assert!(inactive_is_low(99, 100, false) && !inactive_is_low(100, 100, false));
/// let gigabyte = 1 << 18;
/// assert!(!inactive_is_low(2 * gigabyte, 6 * gigabyte, false)); // of 8 GiB, a ninth would do
/// assert!(inactive_is_low(2 * gigabyte, 6 * gigabyte, true));
/// ```
#[must_use]
pub const fn inactive_is_low(inactive: u64, active: u64, half: bool) -> bool {
    let gigabytes = inactive.saturating_add(active) >> 18;
    let ratio = if half || gigabytes == 0 { 1 } else { gigabytes.saturating_mul(10).isqrt() };
    inactive.saturating_mul(ratio) < active
}

/// Inputs of the proportion.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Balance {
    /// Frames of each list that the round may take.
    pub(crate) frames: [u64; LruList::COUNT],
    pub(crate) priority: u8,
    pub(crate) swap: Swap,
    /// Frames of each sort, anonymous and file, that scans lately found in use or had to write.
    pub(crate) cost: [u64; 2],
    /// Anonymous pages may be written out in this round.
    pub(crate) may_swap: bool,
}

/// Which sorts of pages a round looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Sorts {
    Files,
    Anon,
    Both,
    /// Each in its proportion of this sum.
    Shares([u64; 2]),
}

fn sorts(config: &ShrinkConfig, balance: &Balance) -> Sorts {
    let Balance { frames, priority, swap, cost, may_swap } = *balance;
    let [_, _, inactive, active, _] = frames;
    if swap == Swap::Absent || !may_swap || config.swappiness == 0 {
        return Sorts::Files;
    }
    if priority == 0 {
        return Sorts::Both;
    }
    if inactive.saturating_add(active) == 0 {
        return Sorts::Anon;
    }
    // As long as there are file pages enough that were used once at most, those go.
    if inactive >> priority.min(DEF_PRIORITY) > 0 && !inactive_is_low(inactive, active, config.files_half_active) {
        return Sorts::Files;
    }
    let swappiness = u64::from(config.swappiness.min(200));
    let total = cost[0].saturating_add(cost[1]);
    // The cost of one sort beyond half of all makes the other carry more; neither is ever spared entirely.
    let weight = |swappiness: u64, cost: u64| {
        let (sum, own) = (total.saturating_mul(2).saturating_add(1), total.saturating_add(cost).saturating_add(1));
        (u128::from(swappiness) * u128::from(sum) * 64 / u128::from(own)) as u64
    };
    Sorts::Shares([weight(swappiness, cost[0]), weight(200 - swappiness, cost[1])])
}

/// Frames of each list to look at in a round (`get_scan_count()`): the part that the priority says, of the sorts that
/// are worth it.
///
/// * Without swap, or where nothing may be written, only file pages.
/// * At priority 0, everything.
/// * While the inactive file list is long, only file pages: pages read once go first.
/// * Otherwise both, weighed by swappiness and by the recent cost of scanning each: pages found in use, and pages
///   written.
pub(crate) fn scan_counts(config: &ShrinkConfig, balance: &Balance) -> [u64; LruList::COUNT] {
    let sorts = sorts(config, balance);
    let mut counts = [0; LruList::COUNT];
    for (list, count) in LruList::ALL.into_iter().zip(&mut counts) {
        let file = matches!(list, LruList::InactiveFile | LruList::ActiveFile);
        let scan = balance.frames[list.index()] >> balance.priority.min(DEF_PRIORITY);
        *count = match (sorts, list) {
            (_, LruList::Unevictable) => 0,
            (Sorts::Both, _) => scan,
            (Sorts::Files, _) => {
                if file {
                    scan
                } else {
                    0
                }
            }
            (Sorts::Anon, _) => {
                if file {
                    0
                } else {
                    scan
                }
            }
            (Sorts::Shares([anon, files]), _) => {
                let own = u128::from(if file { files } else { anon });
                (u128::from(scan) * own / (u128::from(anon) + u128::from(files)).max(1)) as u64
            }
        };
    }
    counts
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn counts(frames: [u64; 5], priority: u8, change: impl FnOnce(&mut Balance)) -> [u64; 5] {
        let mut balance = Balance { frames, priority, swap: Swap::Available, cost: [0, 0], may_swap: true };
        change(&mut balance);
        scan_counts(&ShrinkConfig::linux_6_1(), &balance)
    }

    #[test]
    fn without_swap_only_files_go() {
        let frames = [4096, 8192, 4096, 8192, 99];
        assert_eq!(counts(frames, 12, |b| b.swap = Swap::Absent), [0, 0, 1, 2, 0]);
        assert_eq!(counts(frames, 0, |b| b.may_swap = false), [0, 0, 4096, 8192, 0]);
    }

    #[test]
    fn a_long_inactive_file_list_spares_anonymous_pages() {
        assert_eq!(counts([9000, 9000, 8192, 4096, 0], 12, |_| {}), [0, 0, 2, 1, 0]);
        assert_eq!(counts([4096, 8192, 0, 0, 0], 12, |_| {}), [1, 2, 0, 0, 0]);
        // Long against the active list, but too short for this priority: both sorts go.
        let [anon, ..] = counts([100_000, 0, 4000, 0, 0], 12, |_| {});
        assert!(anon > 0);
        assert_eq!(counts([7, 8, 9, 10, 11], 0, |_| {}), [7, 8, 9, 10, 0]);
    }

    #[test]
    fn shares_follow_swappiness_and_cost() {
        let frames = [100_000, 0, 100_000, 400_000, 0];
        let [anon, _, files, ..] = counts(frames, 2, |_| {});
        assert!(anon * 2 < files && anon * 3 > files, "60 to 140: {anon} {files}");
        let [dear, _, cheap, ..] = counts(frames, 2, |b| b.cost = [900, 100]);
        assert!(dear < anon && cheap > files, "{dear} {cheap}");
        assert!(dear > 0);
        let [cheap, _, dear, ..] = counts(frames, 2, |b| b.cost = [100, 900]);
        assert!(cheap > anon && dear < files, "{cheap} {dear}");
    }

    #[test]
    fn extremes_do_not_overflow() {
        let all = counts([u64::MAX; 5], 1, |b| b.cost = [u64::MAX, u64::MAX]);
        assert!(all.iter().all(|count| *count <= u64::MAX / 2));
    }
}
