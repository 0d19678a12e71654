//! Wrong frees, on purpose: each is refused and named, and nothing changes.

use pageblock::{FreeError, Gfp, Order, Pfn};

use crate::{mm, println};

/// Tries every way to free wrongly.
///
/// # Panics
/// One is not refused, is refused for another reason, or changes something.
pub fn run() {
    let before = mm::free_frames();
    let (zero, two, three) = (Order::ZERO, order(2), order(3));
    let block = mm::alloc(two, Gfp::KERNEL).expect("memory for a block");
    refused("a wrong order", block, three, FreeError::OrderMismatch { allocated: two });
    refused("the middle of a block", block.add(1), zero, FreeError::NotHead { head: block });
    refused("a frame beyond all memory", Pfn::new(1 << 30), zero, FreeError::OutOfRange);
    assert!(mm::free(block, two).is_ok(), "the right free is not refused");
    refused("a second time", block, two, FreeError::OnList);
    mm::drain();
    refused("a third time", block, two, FreeError::NotAllocated);
    mm::check();
    assert!(mm::free_frames() == before, "refused frees change nothing");
    println!("misuse: every wrong free was refused");
}

fn order(number: u8) -> Order {
    Order::new(number).expect("an order")
}

fn refused(what: &str, pfn: Pfn, order: Order, want: FreeError) {
    let result = mm::free(pfn, order);
    println!("misuse: {what}: {}", result.err().map_or("accepted", |error| error_name(&error)));
    assert!(result == Err(want), "{what}: {result:?} instead of {want:?}");
}

/// The name without the numbers: the same on every machine.
fn error_name(error: &FreeError) -> &'static str {
    match error {
        FreeError::OrderMismatch { .. } => "OrderMismatch",
        FreeError::NotHead { .. } => "NotHead",
        FreeError::OutOfRange => "OutOfRange",
        FreeError::OnList => "OnList",
        FreeError::NotAllocated => "NotAllocated",
        _ => "another error",
    }
}
