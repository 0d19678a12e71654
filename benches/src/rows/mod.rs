//! All rows: each file has a group of them.

mod dearest;
mod facade;
mod parts;
mod peers;
mod replay;
mod shared;
mod sizes;
mod times;
mod whole;

use crate::table::Row;

/// Every row, in the order in which they are printed.
#[must_use]
pub fn all() -> Vec<Row> {
    let groups = [
        facade::rows(),
        dearest::rows(),
        parts::rows(),
        shared::rows(),
        whole::rows(),
        replay::rows(),
        sizes::rows(),
        times::rows(),
        peers::rows(),
    ];
    groups.into_iter().flatten().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    #[test]
    fn names_are_unique() {
        let rows = super::all();
        let names: Vec<&String> = rows.iter().flat_map(|row| &row.names).collect();
        assert_eq!(names.iter().collect::<HashSet<_>>().len(), names.len());
    }
}
