//! A figure as text: Markdown, which a terminal shows as well.

use std::fmt::Write;

use comfy_table::{CellAlignment, Table, presets};

use super::{Better, Figure, Figures, Row};
use crate::workload::output::least_and_most;

/// Text of a row's cell, by column.
type Cell = fn(&Row, usize) -> String;

impl Figures {
    /// All tables that have a measured value.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for figure in self.0.iter().filter(|figure| figure.is_measured()) {
            let better = match figure.better {
                Better::More => "; more is better",
                Better::Less => "; less is better",
                Better::Neither => "",
            };
            let name = format!("{}: {} ({}{better})", figure.work, figure.name, figure.unit);
            let _ = writeln!(text, "{name}\n\n{}\n", figure.table());
        }
        text
    }
}

impl Figure {
    /// Each row has up to three lines: the published values with their change, ours with the range of the runs, and
    /// our change with
    /// its direction and the factor between both changes. In the first column the factor is between the values.
    fn table(&self) -> Table {
        let mut table = Table::new();
        let columns = ["", ""].into_iter().map(str::to_owned).chain(self.columns.iter().cloned());
        table.load_style(presets::ASCII_MARKDOWN).set_header(columns);
        for column in table.column_iter_mut().skip(2) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        for row in &self.rows {
            let lines: [(&str, Cell); 3] = [("published", published), ("measured", measured), ("change", changed)];
            let mut name = row.name.as_str();
            for (line, cell) in lines {
                let cells: Vec<String> = (0..self.columns.len()).map(|column| cell(row, column)).collect();
                if cells.iter().any(|cell| !cell.is_empty()) {
                    table.add_row([name, line].into_iter().map(str::to_owned).chain(cells));
                    name = "";
                }
            }
        }
        table
    }
}

/// Whole numbers and large ones without digits behind the point.
fn short(value: f64) -> String {
    let digits = match value.abs() {
        _ if value.fract() == 0.0 => 0,
        large if large >= 1000.0 => 0,
        middle if middle >= 1.0 => 2,
        _ => 4,
    };
    format!("{value:.digits$}")
}

fn published(row: &Row, column: usize) -> String {
    let Some(value) = row.published.get(column) else { return String::new() };
    let change = row.published_change(column).filter(|_| column > 0);
    short(*value) + &change.map_or_else(String::new, |change| format!(" ({change:+.1} %)"))
}

fn measured(row: &Row, column: usize) -> String {
    let Some(mean) = row.mean(column) else { return String::new() };
    let values = row.values(column);
    let (least, most) = least_and_most(values.iter().copied());
    let range = if values.len() < 2 { String::new() } else { format!(" [{}-{}]", short(least), short(most)) };
    short(mean) + &range
}

fn changed(row: &Row, column: usize) -> String {
    if column == 0 {
        let pair = row.published.first().zip(row.mean(0)).filter(|(theirs, ours)| **theirs > 0.0 && *ours > 0.0);
        return pair.map_or_else(String::new, |(theirs, ours)| format!("x{} of published", short(ours / theirs)));
    }
    let Some(change) = row.measured_change(column) else { return String::new() };
    let word = row.verdict(column).map_or_else(String::new, |verdict| {
        let word = if verdict.is_right() { " right" } else { " wrong" };
        let factor = verdict.factor().filter(|factor| factor.is_finite());
        let doubt = if verdict.is_apart { "" } else { "?" };
        format!("{word}{doubt}{}", factor.map_or_else(String::new, |factor| format!(" x{factor:.1}")))
    });
    format!("{change:+.1} %{word}")
}

#[cfg(test)]
mod tests {
    use super::super::Place;
    use super::*;

    #[test]
    fn a_row_has_both_values_the_change_and_its_direction() {
        let mut figures = Figures::read("lists").unwrap();
        assert_eq!(figures.text(), "", "nothing was run");
        let place = Place { figure: "Amean", row: "7 groups", column: "off" };
        figures.measure(place, [2.0, 2.2]);
        figures.measure(Place { column: "2016", ..place }, [2.31]);
        figures.measure(Place { column: "default", ..place }, [1.05]);
        let text = figures.text();
        let lines: Vec<Vec<&str>> =
            text.lines().map(|line| line.split('|').map(str::trim).filter(|cell| !cell.is_empty()).collect()).collect();
        assert!(lines.contains(&vec!["7 groups", "published", "24.57", "26.10 (+6.2 %)"]), "{text}");
        assert!(lines.contains(&vec!["measured", "2.10 [2-2.20]", "2.31", "1.05"]), "{text}");
        assert!(lines.contains(&vec!["change", "x0.0855 of published", "+10.0 % right x1.6", "-50.0 %"]), "{text}");
        assert!(text.starts_with("lists: Amean (s; less is better)\n") && !text.contains("Stddev"), "{text}");
    }
}
