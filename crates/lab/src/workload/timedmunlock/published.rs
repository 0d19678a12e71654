//! The tables of the series.

use anyhow::Context;
use pageblock_mlock::Placement;

/// Seconds of one set, as published: by row (min, mean, stddev, max, range) and column.
pub(crate) struct Published {
    pub(crate) placement: Placement,
    pub(crate) rows: Vec<PublishedRow>,
}

/// One row: its name, and for each column seconds and percent gained against the first.
pub(crate) struct PublishedRow {
    pub(crate) name: String,
    pub(crate) columns: Vec<(f64, f64)>,
}

impl Published {
    /// Percent gained by a column against the first, in the mean.
    pub(crate) fn mean_gain(&self, column: usize) -> Option<f64> {
        let mean = self.rows.iter().find(|row| row.name == "mean")?;
        mean.columns.get(column).map(|(_, gain)| *gain)
    }
}

/// All three sets.
pub(crate) fn all() -> anyhow::Result<Vec<Published>> {
    [
        (Placement::OneNode, include_str!("../../../data/munlock-2013/one_node.csv")),
        (Placement::Interleaved, include_str!("../../../data/munlock-2013/interleaved.csv")),
        (Placement::Huge, include_str!("../../../data/munlock-2013/huge.csv")),
    ]
    .into_iter()
    .map(|(placement, text)| Ok(Published { placement, rows: rows(text).context("the published table is damaged")? }))
    .collect()
}

fn rows(text: &str) -> anyhow::Result<Vec<PublishedRow>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record?;
        let name = record.get(0).context("a row without a name")?.to_owned();
        let numbers = record.iter().skip(1).map(str::parse).collect::<Result<Vec<f64>, _>>()?;
        let (pairs, _) = numbers.as_chunks::<2>();
        rows.push(PublishedRow { name, columns: pairs.iter().map(|pair| (pair[0], pair[1])).collect() });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_means_are_those_of_the_document() {
        let sets = all().unwrap();
        assert!(sets.iter().all(|set| set.rows.len() == 5 && set.rows.iter().all(|row| row.columns.len() == 8)));
        let gains: Vec<_> = sets.iter().map(|set| set.mean_gain(7)).collect();
        assert_eq!(gains, [Some(43.46), Some(16.59), Some(5.22)]);
    }
}
