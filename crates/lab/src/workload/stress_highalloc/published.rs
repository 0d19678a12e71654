//! The tables of the series, transcribed into CSV files in `data/compaction-2013`.

use anyhow::Context;

use super::phase::Flags;

/// Columns of the seed: patches 2 to 6.
pub(super) const COLUMNS: usize = 5;

/// One row: its name, and a value a column.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct PublishedRow {
    pub(super) name: String,
    pub(super) values: [f64; COLUMNS],
}

/// The series' results with one set of flags.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Published {
    /// "Success 1 Min" and so on, in percent.
    pub(super) success: Vec<PublishedRow>,
    /// Times in seconds, then the counters.
    pub(super) rows: Vec<PublishedRow>,
}

/// The published tables for these flags.
pub(super) fn of(flags: Flags) -> anyhow::Result<Published> {
    let (success, time, vmstat) = match flags {
        Flags::Nothp => (
            include_str!("../../../data/compaction-2013/success_nothp.csv"),
            include_str!("../../../data/compaction-2013/time_nothp.csv"),
            include_str!("../../../data/compaction-2013/vmstat_nothp.csv"),
        ),
        Flags::Thp => (
            include_str!("../../../data/compaction-2013/success_thp.csv"),
            include_str!("../../../data/compaction-2013/time_thp.csv"),
            include_str!("../../../data/compaction-2013/vmstat_thp.csv"),
        ),
    };
    let success = rows(success, 2, 2).context("the published table of successes is damaged")?;
    let mut all = rows(time, 1, 1).context("the published table of times is damaged")?;
    all.extend(rows(vmstat, 1, 1).context("the published table of counters is damaged")?);
    Ok(Published { success, rows: all })
}

/// Rows: the first `names` fields are their name, and of the others every `step`-th is a value.
fn rows(text: &str, names: usize, step: usize) -> anyhow::Result<Vec<PublishedRow>> {
    let mut all = Vec::new();
    for record in csv::Reader::from_reader(text.as_bytes()).records() {
        let record = record?;
        let name = record.iter().take(names).collect::<Vec<_>>().join(" ");
        let name = if names == 2 { format!("Success {name}") } else { name };
        let values = record
            .iter()
            .skip(names)
            .step_by(step)
            .map(|field| field.trim_end_matches('%').parse())
            .collect::<Result<Vec<f64>, _>>()?;
        let values = values.try_into().map_err(|found: Vec<f64>| anyhow::anyhow!("{name}: {} columns", found.len()))?;
        all.push(PublishedRow { name, values });
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_rows_are_those_of_the_document() {
        let of = |flags| of(flags).unwrap();
        let find = |rows: &[PublishedRow], name: &str| rows.iter().find(|row| row.name == name).unwrap().values;
        let (nothp, thp) = (of(Flags::Nothp), of(Flags::Thp));
        assert_eq!((nothp.success.len(), nothp.rows.len(), thp.rows.len()), (9, 50, 50));
        assert_eq!(find(&nothp.success, "Success 1 Mean"), [27.5, 25.3, 45.5, 45.9, 46.3]);
        assert_eq!(find(&thp.success, "Success 3 Min"), [62.0, 62.0, 85.0, 75.0, 64.0]);
        assert_eq!(find(&nothp.rows, "Compaction free scanned")[2], 356_529_027.0);
        assert_eq!(find(&thp.rows, "Elapsed")[0], 1835.43);
    }
}
