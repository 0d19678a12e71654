//! Runs one named loop: `driver ROW LENGTH`. `driver --rows` lists the rows; `driver --describe ROW` prints what
//! `benches/instructions` needs to know of one: short length, long length, units in one of length, control or `-`.

use std::process::ExitCode;

use pageblock_benches::machine::become_cpu;
use pageblock_benches::rows::{ROWS, Row, find};
use pageblock_benches::worst::{HISTORIES, History};

fn main() -> ExitCode {
    // Not known when the program is compiled, as no CPU's number is.
    become_cpu(std::hint::black_box(0));
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["--rows"] => ROWS.iter().for_each(|row| println!("{}", row.name)),
        ["--describe", name] => match find(name) {
            Some(Row { lengths: (short, long), units, control, .. }) => {
                println!("{short} {long} {units} {}", control.unwrap_or("-"));
            }
            None => return unknown(name),
        },
        ["--histories"] => println!("{HISTORIES}"),
        ["--history", number] => match number.parse() {
            Ok(number) => println!("{:?}", History::new(number)),
            Err(_) => return usage(),
        },
        [name, length] => match (find(name), length.parse()) {
            (Some(row), Ok(length)) => (row.run)(length),
            (None, _) => return unknown(name),
            (_, Err(_)) => return usage(),
        },
        _ => return usage(),
    }
    ExitCode::SUCCESS
}

fn unknown(name: &str) -> ExitCode {
    eprintln!("driver: no row {name}; `driver --rows` lists them");
    ExitCode::FAILURE
}

fn usage() -> ExitCode {
    eprintln!("usage: driver ROW LENGTH | driver --rows | driver --describe ROW");
    ExitCode::FAILURE
}
