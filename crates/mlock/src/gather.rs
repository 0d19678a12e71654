//! The pages of one table, in batches of one list set each.

use arrayvec::ArrayVec;
use pageblock_lru::{Lru, Lrus};

use crate::span::{Span, Vpn};
use crate::table::{Entry, Table};

/// Entries looked at under one hold of a table's lock, at most: one bit each for those that wait for another pass.
pub(crate) const WINDOW: u64 = 512;

/// Pages in a batch: the share of one hold of the LRU lock. With the bitmap it stays below 512 bytes of stack.
const BATCH: usize = 96;

const _: () = assert!(BATCH * size_of::<u32>() + size_of::<Waiting>() <= 512);

/// Pages of the window that wait for a pass over their list set.
type Waiting = [u64; (WINDOW / 64) as usize];

/// Calls `work` with the pages of `window` (at most [`WINDOW`] entries of `table`), as indices into the table of their
/// list set, in order, up to [`BATCH`] at a time. Pages of the first list set come first, then those of the next.
#[inline]
pub(crate) fn each_batch<'a, 'm>(
    table: &impl Table,
    window: Span,
    lrus: Lrus<'a, 'm>,
    mut work: impl FnMut(&'a Lru<'m>, &[u32]),
) {
    let (start, end) = (window.start.as_u64(), window.end.as_u64().min(window.start.as_u64() + WINDOW));
    let page = |at: u64| match table.entry(Vpn::new(at)) {
        Entry::Page(pfn) => Some(pfn),
        _ => None,
    };
    let Some((first, lru)) = (start..end).find_map(|at| Some((at, lrus.of(page(at)?)?))) else { return };
    let mut waiting: Waiting = [0; (WINDOW / 64) as usize];
    let mut others = false;
    let mut batch = [0_u32; BATCH];
    let mut count = 0;
    for at in first..end {
        let Some(pfn) = page(at) else { continue };
        let Some(index) = lru.index_of(pfn) else {
            if let Some(word) = waiting.get_mut(((at - start) / 64) as usize) {
                *word |= 1 << ((at - start) % 64);
                others = true;
            }
            continue;
        };
        if let Some(slot) = batch.get_mut(count) {
            *slot = index;
            count += 1;
        }
        if count == BATCH {
            work(lru, &batch);
            count = 0;
        }
    }
    work(lru, batch.get(..count).unwrap_or_default());
    while others {
        others = each_waiting(table, window, lrus, &mut waiting, &mut work);
    }
}

/// One pass over the waiting pages: those of the list set of the first of them. True if others still wait.
fn each_waiting<'a, 'm>(
    table: &impl Table,
    window: Span,
    lrus: Lrus<'a, 'm>,
    waiting: &mut Waiting,
    work: &mut impl FnMut(&'a Lru<'m>, &[u32]),
) -> bool {
    let mut batch = ArrayVec::<u32, BATCH>::new();
    let mut current: Option<&'a Lru<'m>> = None;
    let mut others = false;
    for (word, bits) in waiting.iter_mut().enumerate() {
        let mut left = core::mem::take(bits);
        while left != 0 {
            let bit = left & left.wrapping_neg();
            left ^= bit;
            let offset = word as u64 * 64 + u64::from(bit.trailing_zeros());
            let Entry::Page(pfn) = table.entry(window.start.add(offset)) else { continue };
            if current.is_none() {
                current = lrus.of(pfn);
            }
            let Some(lru) = current else { continue };
            let Some(index) = lru.index_of(pfn) else {
                *bits |= bit;
                others = true;
                continue;
            };
            batch.push(index);
            if batch.is_full() {
                work(lru, &batch);
                batch.clear();
            }
        }
    }
    if let Some(lru) = current {
        work(lru, &batch);
    }
    others
}
