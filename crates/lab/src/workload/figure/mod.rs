//! Tables of the five works: declared in `data/works.csv`, filled by the experiments, printed and drawn in one way.
//!
//! A [`Figure`] is a table as it was published. An experiment gives each cell the values of its runs
//! ([`Figures::measure`]); rows, columns
//! and tables that were not published come behind those that were.
//!
//! * `read`: the file; `judge`: direction and factor of a change; `print`: a figure as text; `chart`: as a picture.

mod chart;
mod judge;
mod print;
mod read;

use serde::{Deserialize, Serialize};

pub(crate) use judge::Tally;

/// Which of two values of a figure is the better one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Better {
    /// The larger one.
    More,
    /// The smaller one.
    Less,
    /// It says how, not how well.
    Neither,
}

/// A table: rows, and columns of which the first is the one that changes are against.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub(crate) struct Figure {
    pub(crate) work: String,
    pub(crate) name: String,
    pub(crate) unit: String,
    pub(crate) better: Better,
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Row>,
}

/// A row of a table.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    /// By column; none if the row is this project's.
    pub(crate) published: Vec<f64>,
    /// By column: a value for each run.
    pub(crate) measured: Vec<Vec<f64>>,
    /// Why the simulated machine has no such row.
    pub(crate) without: Option<String>,
}

/// Where a value belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place<'a> {
    /// Name of the figure.
    pub(crate) figure: &'a str,
    pub(crate) row: &'a str,
    pub(crate) column: &'a str,
}

/// The tables of a work, in the order of the file.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
#[serde(transparent)]
pub(crate) struct Figures(pub(crate) Vec<Figure>);

impl Row {
    fn new(name: &str) -> Self {
        Self { name: name.to_owned(), ..Self::default() }
    }

    /// A column's values; none if it was not run.
    pub(crate) fn values(&self, column: usize) -> &[f64] {
        self.measured.get(column).map_or(&[], Vec::as_slice)
    }

    /// Their mean.
    pub(crate) fn mean(&self, column: usize) -> Option<f64> {
        let values = self.values(column);
        (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
    }
}

impl Figure {
    /// Place of a thing in a list by its name; it is added if it is not there.
    fn column(&mut self, name: &str) -> usize {
        let found = self.columns.iter().position(|column| column == name);
        found.unwrap_or_else(|| {
            self.columns.push(name.to_owned());
            self.columns.len() - 1
        })
    }

    fn row(&mut self, name: &str) -> &mut Row {
        let place = self.rows.iter().position(|row| row.name == name).unwrap_or_else(|| {
            self.rows.push(Row::new(name));
            self.rows.len() - 1
        });
        &mut self.rows[place]
    }

    /// True if some run gave it a value.
    pub(crate) fn is_measured(&self) -> bool {
        self.rows.iter().any(|row| row.measured.iter().any(|values| !values.is_empty()))
    }
}

impl Figures {
    /// A table that was not published; one that was, or is there already, stays as it is.
    pub(crate) fn add(&mut self, name: &str, unit: &str, better: Better) {
        let work = self.0.first().map(|figure| figure.work.clone()).unwrap_or_default();
        let (name, unit) = (name.to_owned(), unit.to_owned());
        if self.0.iter().any(|figure| figure.name == name) {
            return;
        }
        self.0.push(Figure { work, name, unit, better, columns: Vec::new(), rows: Vec::new() });
    }

    /// Leaves out what was published, where it is of another machine.
    pub(crate) fn forget_published(&mut self) {
        self.0.iter_mut().flat_map(|figure| &mut figure.rows).for_each(|row| row.published.clear());
    }

    /// Takes the measured tables of another experiment of the same work.
    pub(crate) fn merge(&mut self, other: Self) {
        for figure in other.0.into_iter().filter(Figure::is_measured) {
            match self.0.iter_mut().find(|own| own.name == figure.name) {
                Some(own) => *own = figure,
                None => self.0.push(figure),
            }
        }
    }

    /// The table of this name that has the row, if the row was published.
    pub(crate) fn of_row(&self, ending: &str, row: &str) -> Option<&Figure> {
        self.0.iter().find(|figure| figure.name.ends_with(ending) && figure.rows.iter().any(|other| other.name == row))
    }

    /// Gives a cell the values of its runs. A figure that neither the file nor [`Figures::add`] has is passed over.
    pub(crate) fn measure(&mut self, place: Place<'_>, values: impl IntoIterator<Item = f64>) {
        let Some(figure) = self.0.iter_mut().find(|figure| figure.name == place.figure) else { return };
        let column = figure.column(place.column);
        let measured = &mut figure.row(place.row).measured;
        measured.resize(measured.len().max(column + 1), Vec::new());
        measured[column] = values.into_iter().collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_that_was_not_published_comes_behind_those_that_were() {
        let mut figures = Figures::read("lists").unwrap();
        let place = Place { figure: "Amean", row: "1 groups", column: "2016" };
        figures.measure(place, [1.0, 3.0]);
        figures.measure(Place { column: "default", ..place }, [2.0]);
        figures.measure(Place { row: "32 groups", ..place }, [9.0]);
        figures.measure(Place { figure: "none", ..place }, [9.0]);
        let figure = &figures.0[0];
        assert_eq!(figure.columns, ["off", "2016", "default"]);
        assert_eq!(
            (figure.rows[0].mean(0), figure.rows[0].mean(1), figure.rows[0].mean(2)),
            (None, Some(2.0), Some(2.0))
        );
        assert_eq!(
            (figure.rows.len(), figure.rows[6].name.as_str(), figure.rows[6].published.len()),
            (7, "32 groups", 0)
        );
    }
}
