//! The figures of a page, for its script: series as numbers, pictures as runs in base64.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use crate::replay::{Outcome, ZonePlace};

/// Everything that the page draws.
#[derive(Debug, Serialize)]
pub(crate) struct Data<'a> {
    schema_version: u32,
    zones: &'a [ZonePlace],
    samples: Vec<Moment<'a>>,
    sides: Vec<Pictures>,
}

/// All machines at one time: Linux's figure, then those of ours.
#[derive(Debug, Serialize)]
struct Moment<'a> {
    micros: u64,
    whole: &'a [u64],
    free: &'a [u64],
    fallbacks: &'a [u64],
}

/// One machine in pictures.
#[derive(Debug, Serialize)]
struct Pictures {
    name: &'static str,
    /// A picture a moment, each as its difference from the one before.
    film: String,
    /// Every frame at the end.
    frames: String,
}

/// The figures of an outcome.
pub(crate) fn of(outcome: &Outcome) -> Data<'_> {
    let samples = outcome.samples.iter().map(|sample| Moment {
        micros: sample.micros,
        whole: &sample.free_pageblocks,
        free: &sample.free_frames,
        fallbacks: &sample.fallbacks,
    });
    let pictures = |(side, name): (usize, &'static str)| Pictures {
        name,
        film: STANDARD.encode(film(outcome.samples.iter().map(|sample| sample.cells[side].as_slice()))),
        frames: STANDARD.encode(runs(&outcome.frames[side])),
    };
    Data {
        schema_version: super::SCHEMA,
        zones: &outcome.zones,
        samples: samples.collect(),
        sides: outcome.names().enumerate().map(pictures).collect(),
    }
}

/// Appends a number, 7 bits a byte, the lowest first.
fn number(mut value: usize, out: &mut Vec<u8>) {
    while value > 127 {
        out.push(value as u8 | 128);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Pictures as differences from the one before: cells to skip, cells that follow, their value; a length of 0 ends a
/// picture.
fn film<'a>(pictures: impl Iterator<Item = &'a [u8]>) -> Vec<u8> {
    let (mut out, mut before) = (Vec::new(), Vec::new());
    for cells in pictures {
        before.resize(cells.len(), 0);
        let (mut at, mut written) = (0, 0);
        while at < cells.len() {
            if cells[at] == before[at] {
                at += 1;
                continue;
            }
            let end = (at..cells.len()).find(|&other| cells[other] != cells[at] || cells[other] == before[other]);
            let end = end.unwrap_or(cells.len());
            number(at - written, &mut out);
            number(end - at, &mut out);
            out.push(cells[at]);
            (at, written) = (end, end);
        }
        number(0, &mut out);
        number(0, &mut out);
        before.copy_from_slice(cells);
    }
    out
}

/// Bytes as runs: length, value.
fn runs(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    for run in bytes.chunk_by(|a, b| a == b) {
        number(run.len(), &mut out);
        out.push(run[0]);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_film_is_what_differs() {
        let pictures: [&[u8]; 3] = [&[1, 1, 2, 0], &[1, 1, 2, 0], &[1, 3, 3, 0]];
        // Two of 1, one of 2; nothing; after 1 two of 3.
        assert_eq!(film(pictures.into_iter()), [0, 2, 1, 0, 1, 2, 0, 0, 0, 0, 1, 2, 3, 0, 0]);
    }

    #[test]
    fn long_runs_take_few_bytes() {
        assert_eq!(runs(&[[7; 300].as_slice(), &[1]].concat()), [0xac, 2, 7, 1, 1]);
    }
}
