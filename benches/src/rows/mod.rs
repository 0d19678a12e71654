//! All rows: each file has a group of them.

mod facade;
mod parts;
mod shared;
mod whole;

use crate::table::Row;

/// Every row, in the order in which they are printed.
#[must_use]
pub fn all() -> Vec<Row> {
    [facade::rows(), parts::rows(), shared::rows(), whole::rows()].into_iter().flatten().collect()
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
