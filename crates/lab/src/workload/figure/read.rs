//! The file of published tables.

use anyhow::{Context, bail, ensure};

use super::{Better, Figure, Figures, Row};

const FILE: &str = include_str!("../../../data/works.csv");

impl Figures {
    /// The published tables of a work, nothing measured yet.
    ///
    /// # Errors
    /// A line of the file that cannot be read, by its number.
    pub(crate) fn read(work: &str) -> anyhow::Result<Self> {
        let all = parse(FILE).context("the published tables are damaged")?;
        let figures: Vec<_> = all.into_iter().filter(|figure| figure.work == work).collect();
        ensure!(!figures.is_empty(), "no table of {work} was published");
        Ok(Self(figures))
    }
}

fn parse(text: &str) -> anyhow::Result<Vec<Figure>> {
    let mut figures: Vec<Figure> = Vec::new();
    let mut reader = csv::ReaderBuilder::new();
    let reader = reader.comment(Some(b'#')).has_headers(false).flexible(true);
    for record in reader.from_reader(text.as_bytes()).records() {
        let record = record?;
        let at = record.position().map_or(0, csv::Position::line);
        line(&mut figures, &record.iter().collect::<Vec<_>>()).with_context(|| format!("line {at}"))?;
    }
    Ok(figures)
}

/// One line of the file.
fn line(figures: &mut Vec<Figure>, fields: &[&str]) -> anyhow::Result<()> {
    if let ["table", work, name, unit, better, columns @ ..] = fields {
        let [work, name, unit] = [work, name, unit].map(|text| (*text).to_owned());
        let columns = columns.iter().map(|&column| column.to_owned()).collect();
        figures.push(Figure { work, name, unit, better: read_better(better)?, columns, rows: Vec::new() });
        return Ok(());
    }
    let figure = figures.last_mut().context("a row without a table")?;
    match fields {
        ["row", name, values @ ..] => {
            let published = values.iter().map(|value| value.parse()).collect::<Result<Vec<f64>, _>>()?;
            ensure!(published.len() == figure.columns.len(), "{name}: {} columns", published.len());
            figure.rows.push(Row { published, ..Row::new(name) });
        }
        ["without", name, why] => {
            let row = figure.rows.iter_mut().find(|row| row.name == *name);
            row.with_context(|| format!("no row {name}"))?.without = Some((*why).to_owned());
        }
        _ => bail!("expected `table`, `row` or `without`"),
    }
    Ok(())
}

fn read_better(word: &str) -> anyhow::Result<Better> {
    match word {
        "more" => Ok(Better::More),
        "less" => Ok(Better::Less),
        "neither" => Ok(Better::Neither),
        _ => bail!("expected more, less or neither, found {word}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some numbers of each document.
    #[test]
    fn the_published_tables_are_those_of_the_documents() {
        let find = |work: &str, name: &str, row: &str| {
            let figures = Figures::read(work).unwrap().0;
            let figure = figures.into_iter().find(|figure| figure.name == name).unwrap();
            figure.rows.into_iter().find(|other| other.name == row).unwrap().published
        };
        assert_eq!(find("compaction", "success nothp", "1 Mean"), [27.5, 25.3, 45.5, 45.9, 46.3]);
        assert_eq!(find("compaction", "counters thp", "Compaction free scanned")[2], 80_150_615.0);
        assert_eq!(find("munlock", "interleaved over two nodes", "mean")[7], 3.48);
        assert_eq!(find("fragmentation", "events", "one node"), [1_023_463.0, 358_574.0, 19_274.0, 1094.0]);
        assert_eq!(find("fair zones", "scanned a second", "DMA32"), [8213.852, 0.0, 6891.421]);
        assert_eq!(find("lists", "Stddev", "16 groups"), [2.1138, 1.5677]);
        assert!(Figures::read("none").is_err());
    }

    #[test]
    fn a_damaged_file_is_refused_with_its_line() {
        let head = "table,lists,Amean,s,less,off,2016\n";
        for (tail, expected) in [
            ("row,1,2\n", "line 2: 1: 1 columns"),
            ("row,1,2,x\n", "line 2: invalid float"),
            ("without,1,no reason\n", "line 2: no row 1"),
            ("rows,1\n", "line 2: expected `table`"),
            ("table,a,b,c,d\n", "line 2: expected more, less or neither, found d"),
        ] {
            let error = format!("{:#}", parse(&format!("{head}{tail}")).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
        assert!(parse("row,1\n").is_err());
    }
}
