//! Which list a block belongs on: the mapping between orders, migrate types and lists.

use pageblock_frame::{COSTLY_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, StateByte};

use crate::config::ListSet;

/// Migrate types that have lists: the lists of one order stand side by side.
pub(crate) const TYPES: usize = MigrateType::PCP_COUNT;
/// The highest order that has lists in some set.
pub(crate) const HIGHEST_ORDER: u8 = 10;
/// Places for lists.
pub(crate) const LISTS: usize = TYPES * (HIGHEST_ORDER as usize + 1);

/// A list of one CPU: of blocks of one order, for one migrate type or for several.
///
/// There is a place for each order up to 10 and each type; those without lists are always empty and always full. Where
/// types share a list ([`ListSet`]), it is at the place of the first of them.
///
/// ```
/// use pageblock_frame::{MigrateType, Order};
/// use pageblock_pcp::{List, ListSet};
/// let order = |o| Order::new(o).unwrap();
/// let list = List::of(ListSet::Typed, order(2), MigrateType::Movable).unwrap();
/// assert_eq!((list.order(), list.migrate_type()), (order(2), MigrateType::Movable));
/// // The form of 2016: one list an order above 0, whatever the type.
/// let shared = |t| List::of(ListSet::Shared, order(2), t);
/// assert_eq!(shared(MigrateType::Movable), shared(MigrateType::Unmovable));
/// assert_eq!(List::of(ListSet::Typed, order(4), MigrateType::Movable), None);
/// assert_eq!(List::of(ListSet::Every, order(4), MigrateType::Movable).map(List::order), Some(order(4)));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct List {
    /// Below [`LISTS`].
    place: u8,
}

impl List {
    /// The place of an order and a type, if they can have one.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn place(order: Order, migrate_type: MigrateType) -> Option<Self> {
        if order.as_u8() > HIGHEST_ORDER || !migrate_type.is_ordinary() {
            return None;
        }
        Some(Self { place: order.as_u8() * TYPES as u8 + migrate_type as u8 })
    }

    /// All places, in ascending order of blocks.
    pub(crate) fn places() -> impl Iterator<Item = Self> {
        (0..LISTS as u8).map(|place| Self { place })
    }

    /// The list for an order and a type, or `None` if such blocks go to the zone.
    #[must_use]
    pub const fn of(set: ListSet, order: Order, migrate_type: MigrateType) -> Option<Self> {
        let shared = match set {
            ListSet::OrderZero if order.as_u8() > 0 => return None,
            ListSet::OrderZero => false,
            ListSet::Shared if order.as_u8() > COSTLY_ORDER.as_u8() => return None,
            ListSet::Shared => order.as_u8() > 0,
            // Movable, and others.
            ListSet::Typed if order.as_u8() > COSTLY_ORDER.as_u8() && order.as_u8() != PAGEBLOCK_ORDER.as_u8() => {
                return None;
            }
            ListSet::Typed | ListSet::Every => {
                order.as_u8() >= PAGEBLOCK_ORDER.as_u8() && !matches!(migrate_type, MigrateType::Movable)
            }
        };
        if !migrate_type.is_ordinary() {
            return None;
        }
        Self::place(order, if shared { MigrateType::Unmovable } else { migrate_type })
    }

    /// All lists of a set, in ascending order of blocks.
    pub fn all(set: ListSet) -> impl Iterator<Item = Self> {
        Self::places().filter(move |list| Self::of(set, list.order(), list.migrate_type()) == Some(*list))
    }

    /// Order of its blocks.
    #[must_use]
    #[inline]
    pub const fn order(self) -> Order {
        Order::saturating(self.place / TYPES as u8)
    }

    /// Migrate type of its blocks, or the first of several.
    #[must_use]
    pub const fn migrate_type(self) -> MigrateType {
        match self.place % TYPES as u8 {
            0 => MigrateType::Unmovable,
            1 => MigrateType::Movable,
            _ => MigrateType::Reclaimable,
        }
    }

    /// The number, below 33.
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.place as usize
    }
}

/// Blocks of one order and type that a caller holds, and the list on which one of them is put when it is freed: known when
/// the block is allocated, so that its free need not find out.
///
/// ```
/// use pageblock_frame::{MigrateType, Order};
/// use pageblock_pcp::BlockKind;
/// assert_eq!(BlockKind::of(Order::ZERO, MigrateType::Reclaimable).migrate_type(), Some(MigrateType::Reclaimable));
/// assert_eq!(BlockKind::of(Order::ZERO, MigrateType::Cma).migrate_type(), None); // no list
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockKind {
    /// Any, if no head has the state byte.
    pub(crate) list: List,
    /// The state byte of a head, or [`NO_HEAD`] for blocks that have no list.
    pub(crate) allocated: StateByte,
}

/// The state byte of no frame.
const NO_HEAD: StateByte = StateByte::from_raw(u8::MAX);

impl BlockKind {
    /// Of an order and a type.
    #[must_use]
    #[inline(always)]
    pub const fn of(order: Order, migrate_type: MigrateType) -> Self {
        match List::place(order, migrate_type) {
            Some(list) => Self { list, allocated: StateByte::allocated(order, migrate_type) },
            None => Self { list: List { place: 0 }, allocated: NO_HEAD },
        }
    }

    /// The type, if it has lists.
    #[must_use]
    pub const fn migrate_type(self) -> Option<MigrateType> {
        self.allocated.migrate_type()
    }
}

const _: () = assert!(TYPES == 3 && MigrateType::Reclaimable as u8 == 2);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    const TYPES: [MigrateType; 3] = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

    /// Review of the form of 2016: "should it be -1 instead of +1?" Neither: three types and three orders are six
    /// lists. Seven waste one, five overflow at order 3.
    #[test]
    fn the_form_of_2016_has_six_lists() {
        let used: HashSet<List> = Order::LIMIT
            .up_to()
            .flat_map(|order| TYPES.into_iter().filter_map(move |t| List::of(ListSet::Shared, order, t)))
            .collect();
        assert_eq!(used.len(), 6);
        assert_eq!(List::all(ListSet::Shared).collect::<HashSet<_>>(), used);
        assert!(List::of(ListSet::Shared, COSTLY_ORDER, MigrateType::Unmovable).is_some());
    }

    #[test]
    fn mainline_has_fourteen_and_order_zero_has_three() {
        assert_eq!(List::all(ListSet::Typed).count(), 14);
        assert_eq!(List::all(ListSet::OrderZero).count(), 3);
    }

    /// Presets of Linux releases have exactly their orders.
    #[test]
    fn each_set_has_its_orders() {
        let orders = |set| List::all(set).map(|list| list.order().as_u8()).collect::<std::collections::BTreeSet<_>>();
        assert!(orders(ListSet::OrderZero).into_iter().eq([0]));
        assert!(orders(ListSet::Shared).into_iter().eq(0..=3));
        assert!(orders(ListSet::Typed).into_iter().eq([0, 1, 2, 3, 9]));
        assert!(orders(ListSet::Every).into_iter().eq(0..=10));
    }

    /// Review: the index of a list and its order and type must lead back to one another.
    #[test]
    fn lists_and_orders_round_trip() {
        for set in [ListSet::OrderZero, ListSet::Shared, ListSet::Typed, ListSet::Every] {
            for list in List::all(set) {
                let found: Vec<_> =
                    TYPES.into_iter().filter(|&t| List::of(set, list.order(), t) == Some(list)).collect();
                assert_eq!(found.first().copied(), Some(list.migrate_type()));
                assert!(list.index() < LISTS);
            }
            for order in Order::LIMIT.up_to() {
                for t in MigrateType::ALL {
                    let Some(list) = List::of(set, order, t) else { continue };
                    assert_eq!(list.order(), order);
                    assert!(t.is_ordinary());
                }
            }
        }
    }
}
