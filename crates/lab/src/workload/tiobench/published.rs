//! The published tables.

use serde::Deserialize;

use super::super::output::lines;
use super::phase::Op;

/// One line: a phase under three kernels.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Line {
    pub(crate) op: Op,
    pub(crate) threads: u32,
    #[serde(rename = "v3.16-rc1")]
    pub(crate) linux: f64,
    #[serde(rename = "seqreadv4r8")]
    pub(crate) series: f64,
    #[serde(rename = "seqreadv4r8_classzone_reverted", default)]
    pub(crate) restored: Option<f64>,
}

/// A figure of a whole run under three kernels: pages scanned a second in a zone, or seconds ("User", "System",
/// "Elapsed").
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Named {
    #[serde(alias = "zone", alias = "metric")]
    pub(crate) name: String,
    #[serde(rename = "v3.16-rc1")]
    pub(crate) linux: f64,
    #[serde(rename = "seqreadv4r8")]
    pub(crate) series: f64,
    #[serde(rename = "seqreadv4r8_classzone_reverted")]
    pub(crate) restored: f64,
}

/// Sequential reading on another machine, the least of its runs.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Other {
    pub(crate) op: Op,
    pub(crate) threads: u32,
    #[serde(rename = "v3.16-rc2_vanilla")]
    pub(crate) linux: f64,
    #[serde(rename = "v3.0.0_vanilla")]
    pub(crate) linux_3_0: f64,
    #[serde(rename = "fairzone-v4r5")]
    pub(crate) series: f64,
}

/// One of its kernels' figures.
type FigureOfOther = fn(&Other) -> f64;

impl Named {
    /// Under 3.16, the series, and the series with the class zone restored.
    fn find(lines: &[Self], name: &str) -> [f64; 3] {
        let line = lines.iter().find(|line| line.name == name);
        line.map_or([0.0; 3], |line| [line.linux, line.series, line.restored])
    }
}

/// All tables.
#[derive(Clone, Debug)]
pub(crate) struct Published {
    /// MB a second.
    pub(crate) throughput: Vec<Line>,
    pub(crate) restored: Vec<Line>,
    /// Milliseconds.
    pub(crate) latency: Vec<Line>,
    pub(crate) velocity: Vec<Named>,
    pub(crate) seconds: Vec<Named>,
    pub(crate) other: Vec<Other>,
}

/// A row of a table: kernel, and a value for each number of threads, if it was published.
pub(crate) type PublishedRow = (&'static str, Vec<Option<f64>>);

impl Published {
    /// The files.
    pub(crate) fn read() -> anyhow::Result<Self> {
        Ok(Self {
            throughput: lines(include_str!("../../../data/fair-zones-2014/throughput.csv"))?,
            restored: lines(include_str!("../../../data/fair-zones-2014/class_zone_restored.csv"))?,
            latency: lines(include_str!("../../../data/fair-zones-2014/latency.csv"))?,
            velocity: lines(include_str!("../../../data/fair-zones-2014/velocity.csv"))?,
            seconds: lines(include_str!("../../../data/fair-zones-2014/seconds.csv"))?,
            other: lines(include_str!("../../../data/fair-zones-2014/first_machine.csv"))?,
        })
    }

    /// The rows of a phase's table.
    pub(crate) fn rows(&self, op: Op, latency: bool, threads: &[u32]) -> Vec<PublishedRow> {
        let from = |lines: &[Line], of: fn(&Line) -> Option<f64>| {
            let one = |threads: &u32| lines.iter().find(|line| (line.op, line.threads) == (op, *threads)).and_then(of);
            threads.iter().map(one).collect::<Vec<_>>()
        };
        let lines = if latency { &self.latency } else { &self.throughput };
        let mut rows = vec![
            ("Seed: 3.16-rc1", from(lines, |line| Some(line.linux))),
            ("Seed: series v4r8", from(lines, |line| Some(line.series))),
        ];
        if !latency {
            rows.push(("Seed: series, class zone restored", from(&self.restored, |line| line.restored)));
        }
        rows.retain(|(_, values)| values.iter().any(Option::is_some));
        rows
    }

    /// The rows of a phase's throughput on the other machine.
    pub(crate) fn other_rows(&self, op: Op, threads: &[u32]) -> Vec<PublishedRow> {
        let columns: [(&str, FigureOfOther); 3] = [
            ("Seed, other machine, least: 3.16-rc2", |line| line.linux),
            ("Seed, other machine, least: 3.0", |line| line.linux_3_0),
            ("Seed, other machine, least: series v4r5", |line| line.series),
        ];
        let row = |of: FigureOfOther| {
            let one = |threads: &u32| self.other.iter().find(|line| (line.op, line.threads) == (op, *threads)).map(of);
            threads.iter().map(one).collect::<Vec<_>>()
        };
        let rows = columns.into_iter().map(|(name, of)| (name, row(of)));
        rows.filter(|(_, values)| values.iter().any(Option::is_some)).collect()
    }

    /// How long a run took, in seconds: as the velocities.
    pub(crate) fn elapsed(&self) -> [f64; 3] {
        Named::find(&self.seconds, "Elapsed")
    }

    /// By zone ("dma32", "normal"): pages a second under 3.16, the series, and the series with the class zone restored.
    pub(crate) fn velocity(&self, zone: &str) -> [f64; 3] {
        Named::find(&self.velocity, zone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_tables_are_those_of_the_document() {
        let published = Published::read().unwrap();
        let counts = (published.throughput.len(), published.restored.len(), published.latency.len());
        assert_eq!(counts, (10, 5, 20));
        assert_eq!(published.velocity("dma32"), [8213.852, 0.0, 6891.421]);
        let rows = published.rows(Op::SeqRead, false, &[1, 16, 64]);
        assert_eq!(rows[1], ("Seed: series v4r8", vec![Some(156.16), Some(91.57), None]));
        assert_eq!(published.rows(Op::RandRead, false, &[1]).len(), 2);
        assert_eq!(published.rows(Op::RandWrite, true, &[8])[0].1, [Some(1.83)]);
        assert_eq!(published.elapsed(), [4589.17, 4356.23, 4584.57]);
        let other = published.other_rows(Op::SeqRead, &[1, 3, 16]);
        assert_eq!(other[2].1, [Some(140.68), None, Some(70.49)]);
        assert!(published.other_rows(Op::RandRead, &[1]).is_empty());
    }
}
