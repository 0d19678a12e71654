//! Linux 6.1's results: measured on a machine of 512 MiB, see the heads of the files.

use serde::Deserialize;

use super::super::output::lines;
use super::scene::Pattern;

/// Memory of the measured machine, in bytes.
pub(crate) const MEASURED: u64 = 512 << 20;

/// One line: three boots.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LinuxRow {
    pub(crate) patience: u32,
    pub(crate) pattern: Pattern,
    pub(crate) share: u64,
    pub(crate) flags: String,
    got: String,
    pub(crate) percent_of_free: f64,
    pub(crate) stalls: u64,
    pub(crate) successes: u64,
    pub(crate) migrate_scanned: u64,
    pub(crate) free_scanned: u64,
    pub(crate) migrated: u64,
    pub(crate) cache_before: u64,
    pub(crate) cache_after: u64,
    rest: String,
}

impl LinuxRow {
    /// Blocks that each boot got.
    pub(crate) fn got(&self) -> Vec<f64> {
        numbers(&self.got)
    }

    /// Blocks of each boot at rest.
    pub(crate) fn rest(&self) -> Vec<f64> {
        numbers(&self.rest)
    }
}

/// How kernel pages spread over pageblocks.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct LinuxBlocks {
    pub(crate) pattern: Pattern,
    pub(crate) share: u64,
    pub(crate) filled: f64,
    pub(crate) fewest: f64,
    pub(crate) halved: f64,
    pub(crate) fewest_halved: f64,
    pub(crate) unusable_index: f64,
}

/// All that was measured.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    pub(crate) rows: Vec<LinuxRow>,
    pub(crate) blocks: Vec<LinuxBlocks>,
}

impl Published {
    /// The files.
    pub(crate) fn read() -> anyhow::Result<Self> {
        Ok(Self {
            rows: lines(include_str!("../../../data/linux_6_1/highalloc.csv"))?,
            blocks: lines(include_str!("../../../data/linux_6_1/highalloc_blocks.csv"))?,
        })
    }

    /// The line of these runs.
    pub(crate) fn row(&self, patience: u32, (pattern, share): (Pattern, u64), flags: &str) -> Option<&LinuxRow> {
        let of_runs = |row: &&LinuxRow| row.patience == patience && (row.pattern, row.share) == (pattern, share);
        self.rows.iter().filter(of_runs).find(|row| row.flags == flags)
    }
}

fn numbers(text: &str) -> Vec<f64> {
    text.split('/').filter_map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measured_line_is_there() {
        let published = Published::read().unwrap();
        assert_eq!((published.rows.len(), published.blocks.len()), (28, 4));
        assert!(published.rows.iter().all(|row| row.got().len() == 3 && row.rest().len() == 3));
        let row = published.row(16, (Pattern::Late, 25), "thpnr").unwrap();
        assert_eq!((row.got(), row.percent_of_free, row.successes), (vec![42.0, 61.0, 51.0], 41.0, 0));
        assert!(published.row(256, (Pattern::Alt, 10), "light").is_none());
    }
}
