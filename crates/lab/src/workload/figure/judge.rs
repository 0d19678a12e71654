//! Whether a measured change goes the way of the published one, and how far.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{Better, Figure, Figures, Row};
use crate::workload::output::least_and_most;

/// A published change below this many percent says nothing of a direction.
const MOVED: f64 = 5.0;
/// A measured change below this many percent is none.
const STILL: f64 = 1.0;
/// Percent by which the default may be behind the best column.
const BEHIND: f64 = 1.0;

/// A measured change beside the published one, both in percent of the first column.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Verdict {
    pub(super) published: f64,
    pub(super) measured: f64,
    /// Of the runs: those of the first column and those of this one have no value in common range.
    pub(super) is_apart: bool,
}

impl Verdict {
    /// True if both go the same way.
    pub(super) fn is_right(&self) -> bool {
        self.measured.abs() >= STILL && self.measured.signum() == self.published.signum()
    }

    /// The larger of the two changes over the smaller one; none where they go different ways.
    pub(super) fn factor(&self) -> Option<f64> {
        let ratio = self.measured / self.published;
        self.is_right().then(|| ratio.max(1.0 / ratio))
    }
}

/// Change against a base, in percent.
pub(super) fn change(base: f64, value: f64) -> Option<f64> {
    (base != 0.0).then(|| 100.0 * (value - base) / base)
}

impl Row {
    /// The measured change of a column against the first, in percent.
    pub(super) fn measured_change(&self, column: usize) -> Option<f64> {
        change(self.mean(0)?, self.mean(column)?)
    }

    /// The published one.
    pub(super) fn published_change(&self, column: usize) -> Option<f64> {
        change(*self.published.first()?, *self.published.get(column)?)
    }

    /// What is to be said of a column's direction; nothing where the publication has none, or it was not run.
    pub(super) fn verdict(&self, column: usize) -> Option<Verdict> {
        let published = self.published_change(column).filter(|change| column > 0 && change.abs() > MOVED)?;
        let (first, other) = (self.mean(0)?, self.mean(column)?);
        // From nothing to something is a change without a number.
        let measured = change(first, other).unwrap_or(if other > 0.0 { f64::INFINITY } else { 0.0 });
        let [(least, most), (low, high)] = [0, column].map(|place| least_and_most(self.values(place).iter().copied()));
        Some(Verdict { published, measured, is_apart: most < low || high < least })
    }
}

/// Percent by which the column `default` is worse than the best of the others; negative if it is better.
pub(super) fn behind(figure: &Figure, row: &Row) -> Option<f64> {
    let own = figure.columns.iter().position(|column| column == "default")?;
    let others = (0..figure.columns.len()).filter(|column| *column != own).filter_map(|column| row.mean(column));
    let (least, most) = least_and_most(others);
    let (best, sign) = match figure.better {
        Better::Neither => return None,
        Better::More => (most, -1.0),
        Better::Less => (least, 1.0),
    };
    let own = row.mean(own).filter(|_| best.is_finite())?;
    Some(if own == best { 0.0 } else { sign * 100.0 * (own - best) / best.abs().max(f64::MIN_POSITIVE) })
}

/// How much of a work comes out.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Tally {
    rows: usize,
    measured: usize,
    /// Names of the rows by reason.
    without: BTreeMap<String, Vec<String>>,
    judged: usize,
    right: usize,
    /// Right, and no run of the first column lies in the range of the other.
    apart: usize,
    near: usize,
    behind: Vec<String>,
    compared: usize,
}

impl Tally {
    /// Of all tables of a work.
    pub(crate) fn of(figures: &Figures) -> Self {
        let mut tally = Self::default();
        for figure in &figures.0 {
            for row in &figure.rows {
                tally.count(figure, row);
            }
        }
        tally
    }

    fn count(&mut self, figure: &Figure, row: &Row) {
        let name = || format!("{}, {}", figure.name, row.name);
        if !row.published.is_empty() {
            self.rows += 1;
            self.measured += usize::from(row.measured.iter().any(|values| !values.is_empty()));
            if let Some(why) = &row.without {
                self.without.entry(why.clone()).or_default().push(name());
            }
        }
        for verdict in (1..row.published.len()).filter_map(|column| row.verdict(column)) {
            self.judged += 1;
            self.right += usize::from(verdict.is_right());
            self.apart += usize::from(verdict.is_right() && verdict.is_apart);
            self.near += usize::from(verdict.factor().is_some_and(|factor| factor <= 2.0));
        }
        if let Some(percent) = behind(figure, row) {
            self.compared += 1;
            let number = if percent > 10_000.0 { "from nothing".to_owned() } else { format!("{percent:.0} %") };
            self.behind.extend((percent > BEHIND).then(|| format!("{} ({number})", name())));
        }
    }

    /// In words.
    pub(crate) fn text(&self, figures: &Figures) -> String {
        let work = figures.0.first().map_or("", |figure| figure.work.as_str());
        let mut text = format!(
            "{work}: {} of {} published rows measured; of {} changes above {MOVED:.0} %, {} go the same way ({} with \
             ranges apart), {} within a factor of 2\n",
            self.measured, self.rows, self.judged, self.right, self.apart, self.near
        );
        let _ = writeln!(text, "* default behind the best column in {} of {} rows", self.behind.len(), self.compared);
        for line in &self.behind {
            let _ = writeln!(text, "  * {line}");
        }
        for (why, rows) in &self.without {
            let _ = writeln!(text, "* without counterpart, {why}: {}", rows.join("; "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(published: &[f64], measured: &[&[f64]]) -> Row {
        let measured = measured.iter().map(|values| values.to_vec()).collect();
        Row { published: published.to_vec(), measured, ..Row::new("row") }
    }

    #[test]
    fn a_direction_is_the_sign_of_a_change_that_was_published() {
        let up = row(&[10.0, 15.0, 10.4], &[&[1.0, 1.2], &[2.0, 2.4], &[9.0]]);
        let verdict = up.verdict(1).unwrap();
        assert!(verdict.is_right() && verdict.is_apart);
        assert!((verdict.published - 50.0).abs() < 1e-9 && (verdict.factor().unwrap() - 2.0).abs() < 1e-9);
        assert_eq!((up.verdict(0), up.verdict(2)), (None, None), "4 % is no direction");
        let down = row(&[10.0, 15.0], &[&[1.0, 3.0], &[1.5]]).verdict(1).unwrap();
        assert!(!down.is_right() && down.factor().is_none() && !down.is_apart);
        let still = row(&[10.0, 15.0], &[&[1.0], &[1.005]]).verdict(1).unwrap();
        assert!(!still.is_right());
        assert!(row(&[10.0, 15.0], &[&[0.0], &[3.0]]).verdict(1).unwrap().is_right());
        assert_eq!(row(&[10.0, 15.0], &[&[], &[3.0]]).verdict(1), None, "not run");
    }

    #[test]
    fn the_default_is_compared_with_the_best_of_the_others() {
        let columns = ["a", "b", "default"].map(str::to_owned).to_vec();
        let row = row(&[1.0, 1.0], &[&[4.0], &[2.0], &[3.0]]);
        let figure = |better| Figure {
            work: "w".into(),
            name: "f".into(),
            unit: "s".into(),
            better,
            columns: columns.clone(),
            rows: vec![row.clone()],
        };
        assert_eq!(behind(&figure(Better::Less), &row), Some(50.0));
        assert_eq!(behind(&figure(Better::More), &row), Some(25.0));
        assert_eq!(behind(&figure(Better::Neither), &row), None);
        let tally = Tally::of(&Figures(vec![figure(Better::Less)]));
        assert_eq!((tally.rows, tally.measured, tally.judged, tally.behind.len()), (1, 1, 0, 1));
    }
}
