//! Events through the `log` crate.

use log::Level;
use pageblock_frame::trace::Event;

/// Logs an event with target `pageblock`: events that cost the system something at level debug, the rest at trace. For
/// [`Hooks::trace`](pageblock_frame::Hooks::trace), which is called with no lock held; the logger must not allocate
/// from the allocator that it watches.
///
/// ```
/// use core::ptr::NonNull;
/// use pageblock::{Hooks, Platform};
/// struct Kernel;
/// // SAFETY: one CPU, no interrupts, no memory asked for.
/// unsafe impl Platform for Kernel {
///     const MAX_CPUS: usize = 1;
///     fn phys_to_virt(_: u64) -> NonNull<u8> { NonNull::dangling() }
///     fn hooks() -> impl Hooks { Kernel }
/// }
/// impl Hooks for Kernel {
///     fn trace(&self, event: &pageblock_frame::trace::Event) { pageblock::adapt::log_event(event) }
/// }
/// # let event = pageblock_frame::trace::Event::Free { pfn: pageblock::Pfn::new(1), order: pageblock::Order::ZERO };
/// # Kernel::hooks().trace(&event);
/// ```
pub fn log_event(event: &Event) {
    let level = match event {
        Event::Alloc { .. } | Event::Free { .. } => Level::Trace,
        _ => Level::Debug,
    };
    log::log!(target: "pageblock", level, "{event:?}");
}
