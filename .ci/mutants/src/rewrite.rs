//! Sources in which each mutant is asked for at run time.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};

use crate::sites::{Change, Site};

/// A mutant with its number.
pub type Numbered = (u32, Site);

/// Rewrites the files of these mutants in a tree, of which `pristine` is a copy.
pub fn rewrite(pristine: &Path, tree: &Path, mutants: &[Numbered]) -> Result<()> {
    let mut by_file: BTreeMap<&str, Vec<&Numbered>> = BTreeMap::new();
    mutants.iter().for_each(|mutant| by_file.entry(&mutant.1.file).or_default().push(mutant));
    for (file, mut mutants) in by_file {
        let text = std::fs::read_to_string(pristine.join(file)).with_context(|| file.to_owned())?;
        // Outer ones first.
        mutants.sort_by_key(|(_, site)| (site.start, usize::MAX - site.end));
        let ask = if file.starts_with("crates/frame/") { "crate::is_mutant" } else { "pageblock_frame::is_mutant" };
        std::fs::write(tree.join(file), render(&text, 0..text.len(), &mutants, ask))?;
    }
    Ok(())
}

/// The text of a range with the mutants in it.
fn render(text: &str, range: std::ops::Range<usize>, mutants: &[&Numbered], ask: &str) -> String {
    let mut out = String::new();
    let mut at = range.start;
    let mut rest = mutants;
    while let Some(((number, site), others)) = rest.split_first() {
        let inner_end = others.iter().take_while(|(_, inner)| inner.end <= site.end && inner.start < site.end).count();
        let (inner, after) = others.split_at(inner_end);
        rest = after;
        if site.start < at || site.end > range.end {
            continue;
        }
        out += &text[at..site.start];
        let plain = render(text, site.start..site.end, inner, ask);
        let asked = format!("{ask}({number})");
        let parts = |cut: std::ops::Range<usize>| {
            let part: Vec<_> =
                inner.iter().copied().filter(|(_, i)| i.start >= cut.start && i.end <= cut.end).collect();
            render(text, cut, &part, ask)
        };
        let new = match &site.change {
            Change::Operator { at, end, new }
                if new.ends_with('=') && new.len() == 2 && !["==", "!=", "<=", ">="].contains(new) =>
            {
                let (left, right) = (parts(site.start..*at), parts(*end..site.end));
                format!("{{ if {asked} {{ {left} {new} {right}; }} else {{ {plain}; }} }}")
            }
            Change::Operator { at, end, new } => {
                let (left, right) = (parts(site.start..*at), parts(*end..site.end));
                format!("(if {asked} {{ ({left}) {new} ({right}) }} else {{ {plain} }})")
            }
            Change::Unary => format!("(if {asked} {{ {} }} else {{ {plain} }})", parts(site.start + 1..site.end)),
            Change::Body(value) => {
                let (mark, rest) = plain.split_once('{').unwrap_or_default();
                format!("{mark}{{ if {asked} {{ return {value}; }} {rest}")
            }
            Change::Statement => format!("if !{asked} {{ {plain} }}"),
            Change::Guard("true") => format!("{asked} || ({plain})"),
            Change::Guard(_) => format!("!{asked} && ({plain})"),
            Change::Text(new) => new.replace("MISTAKE", &asked),
        };
        out += &format!("/*<{number}*/{new}/*{number}>*/");
        at = site.end;
    }
    out + &text[at..range.end]
}

/// The innermost mutant around a byte of a rewritten text.
pub fn mutant_at(text: &str, byte: usize) -> Option<u32> {
    let mut open = Vec::new();
    let mut at = 0;
    while let Some(next) = text[at..byte.min(text.len())].find("/*").map(|found| at + found) {
        let end = next + text[next..].find("*/")? + 2;
        let mark = &text[next + 2..end - 2];
        if let Some(number) = mark.strip_prefix('<').and_then(|number| number.parse().ok()) {
            open.push(number);
        } else if mark.strip_suffix('>').and_then(|number| number.parse::<u32>().ok()).is_some() {
            open.pop();
        }
        at = end.min(byte);
    }
    open.last().copied()
}

/// Gives the copy of `frame` the function that mutants ask, and a note of which are reached.
pub fn add_switch(tree: &Path) -> Result<()> {
    let path = tree.join("crates/frame/src/lib.rs");
    let text = std::fs::read_to_string(&path)?;
    ensure!(text.contains("#![no_std]"), "frame is no_std");
    let features = "#![feature(core_intrinsics, const_eval_select)]\n#![allow(internal_features)]\n";
    // Inner attributes come after the documentation.
    let text = text.replacen("#![no_std]", &format!("{features}#![no_std]"), 1);
    std::fs::write(path, text + SWITCH)?;
    Ok(())
}

const SWITCH: &str = r#"

/// True if the environment names this mutant.
#[doc(hidden)]
#[inline(always)]
#[must_use]
pub const fn is_mutant(number: u32) -> bool {
    const fn never(_: u32) -> bool {
        false
    }
    core::intrinsics::const_eval_select((number,), never, mutant::is)
}

#[allow(missing_docs, unsafe_code, clippy::all)]
mod mutant {
    extern crate std;
    use core::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};
    use std::io::Write as _;

    static CHOSEN: AtomicU32 = AtomicU32::new(0);
    static SEEN: [AtomicU8; 1 << 14] = [const { AtomicU8::new(0) }; 1 << 14];
    const NOTING: u32 = u32::MAX;

    unsafe extern "C" {
        fn getenv(name: *const core::ffi::c_char) -> *const core::ffi::c_char;
    }

    // Before `main`, so that no handler of a signal reads the environment.
    #[used]
    #[unsafe(link_section = ".init_array")]
    static READ: extern "C" fn() = {
        extern "C" fn read() {
            let value = unsafe { getenv(c"MUTANT".as_ptr()) };
            if !value.is_null() {
                let text = unsafe { core::ffi::CStr::from_ptr(value) }.to_str().unwrap_or("0");
                CHOSEN.store(text.parse().unwrap_or(NOTING), Relaxed);
            }
        }
        read
    };

    #[inline(always)]
    pub(crate) fn is(number: u32) -> bool {
        match CHOSEN.load(Relaxed) {
            NOTING => note(number),
            chosen => chosen == number,
        }
    }

    #[cold]
    fn note(number: u32) -> bool {
        if SEEN[number as usize].swap(1, Relaxed) == 0
            && let Ok(path) = std::env::var("MUTANTS_REACHED")
        {
            let file = std::fs::OpenOptions::new().append(true).create(true).open(path);
            let _ = std::writeln!(file.expect("a place for the numbers"), "{number}");
        }
        false
    }
}
"#;
