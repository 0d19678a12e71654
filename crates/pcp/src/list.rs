//! Which list a block belongs on: the mapping between orders, migrate types and lists.

use pageblock_frame::sync::{STACKS, StackId};
use pageblock_frame::{COSTLY_ORDER, MigrateType, Order, PAGEBLOCK_ORDER, TypeBits};

use crate::config::ListSet;

/// A list of one CPU: of blocks of one order, for one migrate type or for several.
///
/// There is a place for each order and type; those without lists are always empty and always full. Where types share a
/// list ([`ListSet`]), it is at the place of the first of them.
///
/// ```
/// use pageblock_frame::{MigrateType, Order};
/// use pageblock_pcp::{List, ListSet};
/// let order = |o| Order::new(o).unwrap();
/// let list = List::of(ListSet::Typed, order(2), MigrateType::Movable).unwrap();
/// assert_eq!((list.order(), list.migrate_type()), (order(2), Some(MigrateType::Movable)));
/// // The form of 2016: one list an order above 0, whatever the type.
/// let shared = |t| List::of(ListSet::Shared, order(2), t);
/// assert_eq!(shared(MigrateType::Movable), shared(MigrateType::Unmovable));
/// assert_eq!(List::of(ListSet::Typed, order(4), MigrateType::Movable), None);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct List(StackId);

impl List {
    /// The place of an order and a type.
    #[must_use]
    #[inline(always)]
    pub const fn place(order: Order, migrate_type: MigrateType) -> Self {
        Self(StackId::of(order, TypeBits::of(migrate_type)))
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
            ListSet::Typed => order.as_u8() == PAGEBLOCK_ORDER.as_u8() && !matches!(migrate_type, MigrateType::Movable),
        };
        if !migrate_type.is_ordinary() || !has_lists(order) {
            return None;
        }
        Some(Self::place(order, if shared { MigrateType::Unmovable } else { migrate_type }))
    }

    /// All lists of a set, in ascending order of blocks.
    pub fn all(set: ListSet) -> impl Iterator<Item = Self> {
        (0..STACKS).filter_map(Self::from_index).filter(move |list| {
            let own = list.migrate_type().and_then(|t| Self::of(set, list.order(), t));
            own == Some(*list)
        })
    }

    /// The list with this number.
    #[inline]
    pub(crate) const fn from_index(index: usize) -> Option<Self> {
        match StackId::new(index) {
            Some(stack) => Some(Self(stack)),
            None => None,
        }
    }

    /// Order of its blocks.
    #[must_use]
    #[inline]
    pub const fn order(self) -> Order {
        Order::saturating((self.index() / 4) as u8)
    }

    /// Migrate type of its blocks, or the first of several; `None` for a place that no type has.
    #[must_use]
    pub const fn migrate_type(self) -> Option<MigrateType> {
        match self.index() % 4 {
            0 => Some(MigrateType::Unmovable),
            1 => Some(MigrateType::Movable),
            2 => Some(MigrateType::Reclaimable),
            _ => None,
        }
    }

    /// The number, below [`STACKS`].
    #[must_use]
    #[inline(always)]
    pub const fn index(self) -> usize {
        self.0.index()
    }

    /// The stack that it is.
    #[inline(always)]
    pub(crate) const fn stack(self) -> StackId {
        self.0
    }
}

/// True for the orders that have lists in some set: 0 to 3, and the pageblock order.
#[inline(always)]
pub(crate) const fn has_lists(order: Order) -> bool {
    order.as_u8() <= COSTLY_ORDER.as_u8() || order.as_u8() == PAGEBLOCK_ORDER.as_u8()
}

const _: () = assert!(STACKS == 4 * Order::COUNT);

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::vec::Vec;

    const TYPES: [MigrateType; 3] = [MigrateType::Unmovable, MigrateType::Movable, MigrateType::Reclaimable];

    /// Review of the form of 2016: "should it be -1 instead of +1?" Neither: three types and three orders are six lists. Seven
    /// waste one, five overflow at order 3.
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

    /// Review: the index of a list and its order and type must lead back to one another.
    #[test]
    fn lists_and_orders_round_trip() {
        for set in [ListSet::OrderZero, ListSet::Shared, ListSet::Typed] {
            for list in List::all(set) {
                let found: Vec<_> =
                    TYPES.into_iter().filter(|&t| List::of(set, list.order(), t) == Some(list)).collect();
                assert_eq!(found.first().copied(), list.migrate_type());
                assert!(list.index() < STACKS);
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
