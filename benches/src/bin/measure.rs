//! Measures rows by name and prints a name, a tab and a value for each: `measure KIND TOOL [PATTERN...]`. Without
//! patterns all rows of the kind (`instructions`, `lines`, `metrics`), with patterns those of any kind that they mean.
//! `measure --list` names all rows. `TOOL` is the folder that `tool/build` made.

use std::process::{Command, ExitCode};

use pageblock_benches::machine::become_cpu;
use pageblock_benches::rows;
use pageblock_benches::table::{Kind, Row, is_meant, written};
use pageblock_benches::traces::{Trace, found};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let rows = rows::all();
    match words.as_slice() {
        ["--list"] => rows.iter().flat_map(|row| &row.names).for_each(|name| println!("{name}")),
        ["--run", name] => match rows.iter().find(|row| row.names.first().is_some_and(|first| first == name)) {
            Some(row) => run(row),
            None => return failure(format_args!("no row {name}")),
        },
        [kind, tool, patterns @ ..] => match Kind::ALL.iter().find(|(_, name)| name == kind) {
            Some(&(kind, _)) => return measure(&rows, kind, tool, patterns),
            None => return failure(format_args!("no kind {kind}")),
        },
        _ => return failure(format_args!("usage: measure KIND TOOL [PATTERN...] | measure --list")),
    }
    ExitCode::SUCCESS
}

fn failure(reason: core::fmt::Arguments<'_>) -> ExitCode {
    eprintln!("measure: {reason}");
    ExitCode::FAILURE
}

/// Measures a row in this process.
fn run(row: &Row) {
    // Not known when the program is compiled, as no CPU's number is.
    become_cpu(core::hint::black_box(0));
    for (name, figure) in row.names.iter().zip((row.run)()) {
        println!("{name}\t{}", written(figure));
    }
}

fn measure(rows: &[Row], kind: Kind, tool: &str, patterns: &[&str]) -> ExitCode {
    let wanted = |name: &String| {
        let exactly = patterns.contains(&name.as_str());
        let other = |pattern: &&str| !rows.iter().any(|row| row.names.iter().any(|name| name == pattern));
        exactly || patterns.iter().any(|pattern| other(pattern) && is_meant(pattern, name))
    };
    let all = patterns.is_empty();
    let chosen: Vec<&Row> =
        rows.iter().filter(|row| if all { row.kind == kind } else { row.names.iter().any(wanted) }).collect();
    if chosen.is_empty() {
        return failure(format_args!("no row is meant by {}", patterns.join(" ")));
    }
    keep_traces(&chosen);
    let mut code = ExitCode::SUCCESS;
    let mut dearest: Option<u64> = None;
    for row in chosen {
        match measured(row, tool) {
            Ok(lines) => {
                dearest = dearest.max(dearest_of(&lines));
                let meant =
                    |line: &&str| all || line.split_once('\t').is_some_and(|(name, _)| wanted(&name.to_owned()));
                lines.lines().filter(meant).for_each(|line| println!("{line}"));
            }
            Err(reason) => code = failure(format_args!("{}: {reason}", row.names.join(" "))),
        }
    }
    if let Some(dearest) = dearest.filter(|_| all || patterns.contains(&DEAREST)) {
        println!("{DEAREST}\t{dearest}");
    }
    code
}

/// The group of rows of which the dearest is printed as well.
const DEAREST: &str = "facade.dearest";

fn dearest_of(lines: &str) -> Option<u64> {
    let figures = lines.lines().filter(|line| line.starts_with(DEAREST)).filter_map(|line| line.split_once('\t'));
    figures.filter_map(|(_, figure)| figure.parse().ok()).max()
}

/// Reads the recordings that are replayed, so that counted programs find their kept form.
fn keep_traces(rows: &[&Row]) {
    let is_used = |name: &str| rows.iter().any(|row| row.names.iter().any(|row| row.contains(name)));
    for (name, folder) in found().into_iter().filter(|(name, _)| is_used(name)) {
        if let Err(error) = Trace::read(&folder) {
            eprintln!("measure: {name}: {error}");
        }
    }
}

/// Output of a process of its own that measures the row.
fn measured(row: &Row, tool: &str) -> Result<String, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let lines = match row.kind {
        Kind::Plain => None,
        Kind::Instructions => Some("--lines=no"),
        Kind::Lines => Some("--lines=yes"),
    };
    let mut command = match lines {
        None => Command::new(program),
        Some(lines) => {
            let mut command = Command::new("valgrind");
            // A stack of the main thread's size, and no limit to a machine's metadata.
            command
                .args(["-q", "--tool=lines", lines, "--max-stackframe=16000000"])
                .arg(program)
                .env("VALGRIND_LIB", tool);
            command
        }
    };
    let output = command.arg("--run").args(row.names.first()).output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr)));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
