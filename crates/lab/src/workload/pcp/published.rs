//! The tables of High-order per-CPU lists (2016): hackbench, pipes and processes, one socket.

use anyhow::Context;

/// A table: for each number of groups, seconds before and after, and percent gained.
pub(super) struct Published {
    pub(super) name: &'static str,
    pub(super) rows: Vec<PublishedRow>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct PublishedRow {
    pub(super) groups: u32,
    pub(super) vanilla: f64,
    pub(super) patched: f64,
    pub(super) gain: f64,
}

/// Mean and standard deviation.
pub(super) fn all() -> anyhow::Result<[Published; 2]> {
    let [mean, deviation] = [
        include_str!("../../../data/high-order-lists-2016/amean.csv"),
        include_str!("../../../data/high-order-lists-2016/stddev.csv"),
    ]
    .map(rows);
    Ok([Published { name: "Amean", rows: mean? }, Published { name: "Stddev", rows: deviation? }])
}

fn rows(text: &str) -> anyhow::Result<Vec<PublishedRow>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    let record = |record: Result<csv::StringRecord, csv::Error>| {
        let (groups, vanilla, _, patched, gain): (u32, f64, f64, f64, f64) = record?.deserialize(None)?;
        anyhow::Ok(PublishedRow { groups, vanilla, patched, gain })
    };
    reader.records().map(record).collect::<anyhow::Result<_>>().context("the published table is damaged")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "Higher values are better or worse?", the review asks: seconds, so worse, and a gain is a fall.
    #[test]
    fn gains_are_falls() {
        for table in all().unwrap() {
            assert_eq!(table.rows.len(), 6);
            for row in table.rows {
                let gain = 100.0 * (row.vanilla - row.patched) / row.vanilla;
                assert!((gain - row.gain).abs() < 0.05, "{}: {row:?}", table.name);
            }
        }
    }
}
