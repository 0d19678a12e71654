//! Whether a page at the tail of an inactive list goes, stays, or is in use: pure rules.

use pageblock_frame::DescFlags;
use pageblock_frame::reclaim::{Actor, DEF_PRIORITY, Shrink};
use pageblock_lru::Swap;

use super::config::ShrinkConfig;
use super::owner::Mapped;

/// Decision on a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is in use: to the active list.
    Activate,
    /// Another turn on the inactive list.
    Keep,
    /// It is asked for.
    Reclaim,
    /// It is under write-back, and goes when that ends.
    Writing,
    /// It is dirty, and writing back should be faster than reclaim; it goes when it is written.
    Dirty,
}

/// Whether a page was used since it came to the tail (`folio_check_references()`, 6.1). A page used once through a
/// mapping gets another turn; one that is used again in that turn, or was used through two mappings, is active; so is
/// a program's code at first use. Being read without being mapped, once, gives nothing but a mark.
fn references(config: &ShrinkConfig, flags: DescFlags, mapped: Mapped) -> Verdict {
    let (marked, file) = (flags.contains(DescFlags::REFERENCED), flags.contains(DescFlags::FILE));
    if mapped.locked {
        // Its list is the unevictable one, where it is sent when it is put back.
        return Verdict::Keep;
    }
    if mapped.references == 0 {
        return Verdict::Reclaim;
    }
    let at_once = !file && config.anon_active_at_once;
    if marked || mapped.references > 1 || at_once || (mapped.executable && file) {
        Verdict::Activate
    } else {
        Verdict::Keep
    }
}

/// The verdict on a page for this round.
pub(crate) fn judge(config: &ShrinkConfig, round: &Shrink, swap: Swap, flags: DescFlags, mapped: Mapped) -> Verdict {
    let file = flags.contains(DescFlags::FILE);
    if flags.contains(DescFlags::WRITEBACK) {
        return Verdict::Writing;
    }
    let verdict = references(config, flags, mapped);
    if verdict != Verdict::Reclaim {
        return verdict;
    }
    if !file && (swap == Swap::Absent || !round.may_write) {
        return Verdict::Activate;
    }
    if !flags.contains(DescFlags::DIRTY) {
        return Verdict::Reclaim;
    }
    if !round.may_write || !round.gfp.contains(pageblock_frame::Gfp::IO) {
        return Verdict::Keep;
    }
    // A file's pages are written in the order of the file by the write-back threads. Only the background thread,
    // and only in need, writes single ones.
    let in_need = round.actor == Actor::Kswapd && round.priority < DEF_PRIORITY - 2;
    if file && (!in_need || flags.contains(DescFlags::REFERENCED)) {
        return Verdict::Dirty;
    }
    Verdict::Reclaim
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use pageblock_frame::{Gfp, NodeId, ZoneKind};

    const FILE: DescFlags = DescFlags::FILE;

    fn of(flags: DescFlags, references: u32, change: impl FnOnce(&mut Shrink)) -> Verdict {
        let mut round = Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL);
        change(&mut round);
        let mapped = Mapped { references, ..Mapped::default() };
        judge(&ShrinkConfig::linux_6_1(), &round, Swap::Available, flags, mapped)
    }

    #[test]
    fn a_second_chance_is_one_use() {
        assert_eq!(of(FILE, 0, |_| {}), Verdict::Reclaim);
        assert_eq!(of(FILE | DescFlags::REFERENCED, 0, |_| {}), Verdict::Reclaim);
        assert_eq!(of(FILE, 1, |_| {}), Verdict::Keep);
        assert_eq!(of(FILE | DescFlags::REFERENCED, 1, |_| {}), Verdict::Activate);
        assert_eq!(of(FILE, 2, |_| {}), Verdict::Activate);
    }

    #[test]
    fn code_and_old_anonymous_pages_are_active_at_first_use() {
        let code = Mapped { references: 1, executable: true, locked: false };
        let round = Shrink::direct(NodeId::new(0), ZoneKind::Normal, Gfp::KERNEL);
        let now = ShrinkConfig::linux_6_1();
        assert_eq!(judge(&now, &round, Swap::Available, FILE, code), Verdict::Activate);
        let (none, anon) = (DescFlags::empty(), Mapped { executable: false, ..code });
        assert_eq!(judge(&now, &round, Swap::Available, none, anon), Verdict::Keep);
        assert_eq!(judge(&ShrinkConfig::linux_3_13(), &round, Swap::Available, none, anon), Verdict::Activate);
        assert_eq!(judge(&now, &round, Swap::Absent, none, Mapped::default()), Verdict::Activate);
    }

    #[test]
    fn dirty_files_are_written_by_the_thread_in_need() {
        let dirty = FILE | DescFlags::DIRTY;
        assert_eq!(of(dirty, 0, |_| {}), Verdict::Dirty);
        assert_eq!(of(dirty, 0, |round| round.actor = Actor::Kswapd), Verdict::Dirty);
        let need = |round: &mut Shrink| (round.actor, round.priority) = (Actor::Kswapd, 9);
        assert_eq!(of(dirty, 0, need), Verdict::Reclaim);
        let not_yet = |round: &mut Shrink| (round.actor, round.priority) = (Actor::Kswapd, 10);
        assert_eq!(of(dirty, 0, not_yet), Verdict::Dirty);
        assert_eq!(of(dirty | DescFlags::REFERENCED, 0, need), Verdict::Dirty);
        assert_eq!(of(DescFlags::DIRTY, 0, |_| {}), Verdict::Reclaim); // to swap
    }

    #[test]
    fn nothing_is_written_where_that_is_forbidden() {
        assert_eq!(of(DescFlags::DIRTY, 0, |round| round.gfp = Gfp::NOIO), Verdict::Keep);
        assert_eq!(of(FILE | DescFlags::DIRTY, 0, |round| round.may_write = false), Verdict::Keep);
        assert_eq!(of(FILE | DescFlags::WRITEBACK, 9, |_| {}), Verdict::Writing);
    }
}
