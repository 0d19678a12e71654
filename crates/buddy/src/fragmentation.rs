//! Linux's two measures of external fragmentation, from the numbers of free blocks by order.

use pageblock_frame::Order;

/// Free blocks, their frames, and how many blocks of an order they make.
#[derive(Default)]
struct Totals {
    blocks: i64,
    frames: i64,
    suitable: i64,
}

fn totals(free_blocks: &[u64], order: Order) -> Totals {
    let mut totals = Totals::default();
    for (o, &count) in free_blocks.iter().enumerate() {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        totals.blocks += count;
        totals.frames += count << o;
        if o >= order.index() {
            totals.suitable += count << (o - order.index());
        }
    }
    totals
}

/// How likely a failure to allocate `order` would be the fault of fragmentation, in thousandths
/// (`fragmentation_index()`): towards 0 memory is short, towards 1000 it is in pieces. -1000 if the allocation would
/// succeed.
///
/// ```
/// use pageblock_buddy::fragmentation_index;
/// use pageblock_frame::Order;
/// let order = |o| Order::new(o).unwrap();
/// assert_eq!(fragmentation_index(&[8], order(3)), 750); // eight single frames
/// assert_eq!(fragmentation_index(&[0, 0, 1], order(3)), -500); // one block of four
/// assert_eq!(fragmentation_index(&[0, 0, 0, 1], order(3)), -1000);
/// assert_eq!(fragmentation_index(&[], order(3)), 0);
/// ```
#[must_use]
pub fn fragmentation_index(free_blocks: &[u64], order: Order) -> i64 {
    let Totals { blocks, frames, suitable } = totals(free_blocks, order);
    if suitable > 0 {
        return -1000;
    }
    (1000 + frames * 1000 / order.frames() as i64).checked_div(blocks).map_or(0, |part| 1000 - part)
}

/// The part of the free frames that cannot serve a block of `order`, in thousandths (`unusable_free_index()`);
/// 1000 if nothing is free.
///
/// ```
/// use pageblock_buddy::unusable_free_index;
/// use pageblock_frame::Order;
/// let order = |o| Order::new(o).unwrap();
/// assert_eq!(unusable_free_index(&[100], order(3)), 1000);
/// assert_eq!(unusable_free_index(&[92, 0, 0, 1], order(3)), 920);
/// assert_eq!(unusable_free_index(&[], order(0)), 1000);
/// ```
#[must_use]
pub fn unusable_free_index(free_blocks: &[u64], order: Order) -> i64 {
    let Totals { frames, suitable, .. } = totals(free_blocks, order);
    if frames == 0 { 1000 } else { (frames - (suitable << order.as_u8())) * 1000 / frames }
}
