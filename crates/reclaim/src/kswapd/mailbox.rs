//! Requests to the thread, and whether it sleeps: one word, so that no wake-up is lost.

use pageblock_frame::sync::{AtomicU32, Ordering};
use pageblock_frame::{Order, ZoneKind, const_unless_model};

use crate::config::ReclaimConfig;

/// The thread sleeps, or is about to and has seen that there is nothing to do.
const ASLEEP: u32 = 1 << 16;
/// 1 + the largest order asked for; 0: nothing is asked for.
const ORDER: u32 = 0xff;
const LIMIT_SHIFT: u32 = 8;
/// The zone limit while nothing is asked for: the highest there is.
const TOP: u32 = ZoneKind::COUNT as u32 - 1;

/// A request: a block of the order, in zones up to the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wanted {
    pub(crate) order: Order,
    pub(crate) limit: ZoneKind,
}

/// | bits | legal values | changed by |
/// |---|---|---|
/// | 0 to 7 | 0, or 1 + the largest order asked for | any CPU raises it, the thread takes it |
/// | 8 to 15 | a zone's index | as above |
/// | 16 | asleep | the thread sets it, only while nothing is asked for; a request and the thread clear it |
///
/// The CPU that clears `ASLEEP` wakes the thread. A request that finds it clear knows that the thread has yet to look
/// here before it sleeps.
#[derive(Debug)]
pub(crate) struct Mailbox(AtomicU32);

impl Mailbox {
    const_unless_model! {
        pub(crate) const fn new() -> Self {
            Self(AtomicU32::new(ASLEEP))
        }
    }

    /// Asks; true if the thread must be woken.
    pub(crate) fn post(&self, wanted: Wanted, config: &ReclaimConfig) -> bool {
        // Release: the thread that takes the request sees its cause. Acquire is not needed: the
        // caller does not act on the thread's results.
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let merged = merge(word, wanted, config);
            match self.0.compare_exchange_weak(word, merged, Ordering::Release, Ordering::Relaxed) {
                Ok(before) => return before & ASLEEP != 0,
                Err(seen) => word = seen,
            }
        }
    }

    /// Takes all requests at once; the thread is awake then.
    pub(crate) fn take(&self) -> Option<Wanted> {
        // Acquire: pairs with the release in `post`.
        let word = self.0.swap(0, Ordering::Acquire);
        let order = (word & ORDER).checked_sub(1)?;
        let order = Order::saturating(order.min(ORDER) as u8);
        Some(Wanted { order, limit: kind((word >> LIMIT_SHIFT) & ORDER) })
    }

    /// Notes that the thread goes to sleep, unless something was asked for meanwhile.
    pub(crate) fn sleep(&self) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        // Relaxed: the thread publishes nothing by falling asleep.
        word & ORDER == 0 && self.0.compare_exchange(word, ASLEEP, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    pub(crate) fn is_asleep(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ASLEEP != 0
    }

    pub(crate) fn is_wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed) & ORDER != 0
    }
}

/// Joins a request to those before it. Since 4.8 the largest order and the highest zone win. Before, a larger order
/// brought its zone along, and the lowest won (`wakeup_kswapd()`).
fn merge(word: u32, wanted: Wanted, config: &ReclaimConfig) -> u32 {
    let Wanted { order, limit } = wanted;
    let (asked, new) = (word & ORDER, u32::from(order.as_u8()) + 1);
    let (zone, limit) = ((word >> LIMIT_SHIFT) & ORDER, limit.index() as u32);
    let zone = match asked {
        // Single frames left the zone limit where it was: at the top, unless more had been asked for.
        0 if config.by_zone() && order == Order::ZERO => TOP,
        0 => limit,
        _ if !config.by_zone() => zone.max(limit),
        _ if new > asked => zone.min(limit),
        _ => zone,
    };
    asked.max(new) | zone << LIMIT_SHIFT
}

fn kind(index: u32) -> ZoneKind {
    ZoneKind::ALL.get(index as usize).copied().unwrap_or(ZoneKind::Movable)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    const NINE: Order = Order::saturating(9);

    #[test]
    fn only_the_first_request_wakes() {
        let mailbox = Mailbox::new();
        assert!(mailbox.is_asleep());
        assert!(mailbox.post(Wanted { order: Order::ZERO, limit: ZoneKind::Dma32 }, &ReclaimConfig::new()));
        assert!(!mailbox.post(Wanted { order: NINE, limit: ZoneKind::Dma }, &ReclaimConfig::new()));
        assert!(!mailbox.sleep());
        assert_eq!(mailbox.take(), Some(Wanted { order: NINE, limit: ZoneKind::Dma32 }));
        assert_eq!(mailbox.take(), None);
        assert!(mailbox.sleep() && mailbox.is_asleep());
    }

    #[cfg(feature = "history")]
    #[test]
    fn before_4_8_the_lowest_zone_of_larger_orders_won() {
        let mailbox = Mailbox::new();
        mailbox.post(Wanted { order: Order::ZERO, limit: ZoneKind::Dma }, &ReclaimConfig::linux_3_16());
        assert_eq!(mailbox.take(), Some(Wanted { order: Order::ZERO, limit: ZoneKind::Movable }));
        mailbox.post(Wanted { order: Order::ZERO, limit: ZoneKind::Normal }, &ReclaimConfig::linux_3_16());
        mailbox.post(Wanted { order: NINE, limit: ZoneKind::Dma32 }, &ReclaimConfig::linux_3_16());
        mailbox.post(Wanted { order: Order::ZERO, limit: ZoneKind::Dma }, &ReclaimConfig::linux_3_16());
        assert_eq!(mailbox.take(), Some(Wanted { order: NINE, limit: ZoneKind::Dma32 }));
    }
}
