//! How the tree reads: persons, "what", width and tuples by crate; long sentences and figures by chapter of the guide.
//!
//! Each place has a limit that it must not pass. Lower a limit when a place gets better; `--nocapture` prints today's
//! figures.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Limits of a crate: persons and "what" in 1,000 words of comment, lines above 120 columns, functions with a tuple
/// among their parameters.
struct Limits {
    name: &'static str,
    persons: f64,
    what: f64,
    wide: usize,
    tuples: usize,
}

const fn limits(name: &'static str, persons: f64, what: f64, wide: usize, tuples: usize) -> Limits {
    Limits { name, persons, what, wide, tuples }
}

const CRATES: [Limits; 11] = [
    limits("buddy", 3.0, 10.2, 30, 10),
    limits("compaction", 1.0, 6.0, 0, 0),
    limits("frame", 2.6, 7.4, 25, 0),
    limits("lab", 5.6, 12.4, 250, 17),
    limits("lru", 1.5, 6.0, 0, 0),
    limits("memmap", 1.6, 9.0, 8, 1),
    limits("mlock", 2.0, 6.0, 0, 0),
    limits("pageblock", 4.0, 7.8, 95, 4),
    limits("pcp", 3.8, 8.0, 20, 10),
    limits("reclaim", 2.5, 10.6, 0, 0),
    limits("testkit", 5.4, 12.4, 30, 3),
];

/// Percent of a chapter's sentences that may have more than 30 words, and figures in 1,000 words, outside tables.
const GUIDE: (f64, f64) = (8.0, 30.0);

/// Texts that are above it, with limits of their own: the walks count files, and rules have limits.
const LONG: [(&str, f64, f64); 2] = [("ARCHITECTURE.md", 8.0, 80.0), ("CONTRIBUTING.md", 8.0, 40.0)];

fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        if entry.is_dir() && entry.file_name().is_some_and(|name| name != "tests") {
            found.extend(sources(&entry));
        } else if entry.extension().is_some_and(|extension| extension == "rs") {
            found.push(entry);
        }
    }
    found
}

/// Comments of a source file, its examples left out.
fn comments(text: &str) -> String {
    let mut example = false;
    let mut found = String::new();
    for line in text.lines() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            found.push('\n');
            example = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        example ^= comment.starts_with("```");
        if !example && !comment.starts_with("```") && !comment.starts_with(['|', '#']) {
            found += comment;
        }
        found.push('\n');
    }
    found
}

/// The prose of a chapter: no code, no tables, no headings.
fn prose(text: &str) -> String {
    let parts = text.split("```").step_by(2).flat_map(str::lines);
    parts.map(|line| if line.starts_with(['|', '#']) || line.starts_with("    ") { "" } else { line }).fold(
        String::new(),
        |text, line| {
            // An item of a list is a paragraph.
            let break_before = if line.starts_with("* ") { "\n" } else { "" };
            text + break_before + line + "\n"
        },
    )
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphabetic() || "'_-".contains(c))).filter(|word| !word.is_empty())
}

/// How often these words come in 1,000.
fn share(text: &str, known: &[&str]) -> f64 {
    let found = words(text).filter(|word| known.contains(&word.to_lowercase().as_str())).count();
    1000.0 * found as f64 / words(text).count().max(1) as f64
}

const PERSONS: [&str; 10] =
    ["who", "whoever", "whom", "whose", "somebody", "someone", "nobody", "anybody", "anyone", "everybody"];

/// Functions with a tuple among their parameters.
fn tuples(text: &str) -> usize {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let code: String =
        code.lines().filter(|line| !line.trim_start().starts_with("//")).map(|line| format!("{line} ")).collect();
    let signatures = code.split(" fn ").skip(1).map(|rest| rest.split(['{', ';']).next().unwrap_or(rest));
    signatures.filter(|signature| has_tuple(signature.split("->").next().unwrap_or(signature))).count()
}

/// A parenthesis directly behind another, a comma or a colon: not the one of a function type.
fn has_tuple(parameters: &str) -> bool {
    let tight: String = parameters.chars().filter(|c| !c.is_whitespace()).collect();
    ["((", ",(", ",mut("].iter().any(|pattern| tight.contains(pattern))
}

/// The numbers of words of a text's sentences.
fn sentences(text: &str) -> Vec<usize> {
    let paragraphs = text.split("\n\n").map(|paragraph| paragraph.split_whitespace().collect::<Vec<_>>().join(" "));
    let ends = |text: String| {
        text.split_inclusive(['.', '!', '?', ':', ';'])
            .fold(vec![String::new()], |mut all, part| {
                // An abbreviation, a version or a path is no end: a space must follow, which the next part begins with.
                if part.starts_with(' ') {
                    all.push(String::new());
                }
                all.last_mut().into_iter().for_each(|last| *last += part);
                all
            })
            .iter()
            .map(|sentence| words(sentence).count())
            .collect::<Vec<_>>()
    };
    paragraphs.flat_map(ends).filter(|length| *length >= 3).collect()
}

fn figures(text: &str) -> f64 {
    let mut found = 0;
    let mut inside = false;
    for c in text.chars() {
        let digit = c.is_ascii_digit();
        found += usize::from(digit && !inside);
        inside = digit || (inside && (c.is_alphanumeric() || ",._-".contains(c)));
    }
    1000.0 * found as f64 / words(text).count().max(1) as f64
}

#[test]
fn crates_read_no_worse_than_they_did() {
    for Limits { name, persons, what, wide, tuples: most } in CRATES {
        let texts: Vec<_> = sources(&root().join("crates").join(name).join("src"))
            .into_iter()
            .map(|path| fs::read_to_string(path).unwrap())
            .collect();
        let comments: String = texts.iter().map(|text| comments(text)).collect();
        let is_wide = |line: &&str| line.chars().count() > 120;
        let found = (
            share(&comments, &PERSONS),
            share(&comments, &["what"]),
            texts.iter().flat_map(|text| text.lines()).filter(is_wide).count(),
            texts.iter().map(|text| tuples(text)).sum::<usize>(),
        );
        println!("limits(\"{name}\", {:.1}, {:.1}, {}, {}),", found.0, found.1, found.2, found.3);
        assert!(found.0 <= persons, "{name}: {:.1} persons in 1,000 words", found.0);
        assert!(found.1 <= what, "{name}: {:.1} times \"what\" in 1,000 words", found.1);
        assert!(found.2 <= wide, "{name}: {} lines above 120 columns", found.2);
        assert!(found.3 <= most, "{name}: {} functions take tuples", found.3);
    }
}

#[test]
fn the_guide_is_short_of_breath_and_of_figures() {
    let chapters = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let more = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|name| root().join(name));
    let mut checked = 0;
    for path in chapters.filter(|path| path.extension().is_some_and(|extension| extension == "md")).chain(more) {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let text = prose(&fs::read_to_string(&path).unwrap());
        let lengths = sentences(&text);
        let long = 100.0 * lengths.iter().filter(|length| **length > 30).count() as f64 / lengths.len().max(1) as f64;
        let figures = figures(&text);
        let own = LONG.iter().find(|(known, ..)| *known == name).map_or(GUIDE, |(_, long, figures)| (*long, *figures));
        println!("(\"{name}\", {long:.1}, {figures:.1}),");
        // In few sentences one long one is many percent, and so it is with figures in few words.
        assert!(
            long <= own.0 || lengths.len() < 13,
            "{name}: {long:.1} percent of the sentences have more than 30 words"
        );
        assert!(figures <= own.1 || lengths.len() < 13, "{name}: {figures:.1} figures in 1,000 words");
        checked += 1;
    }
    assert!(checked >= 12);
}

#[test]
fn the_counts_count() {
    let text = "/// Whoever asks: what for? `who`.\n/// ```\n/// who()\n/// ```\nfn f((a, b): (u8, u8)) {}\nfn g(h: impl Fn(u8)) {}\nconst fn k(a: u8, (b, c): (u8, u8)) {}";
    let prose = comments(text);
    assert_eq!((share(&prose, &PERSONS) / share(&prose, &["what"])).round(), 2.0);
    assert_eq!(tuples(&format!(" {text}").replace('\n', "\n ")), 2);
    let long = ["word"; 31].join(" ") + ". Two words and one, e.g. this one. Linux 6.1 is one word and a figure.";
    assert_eq!(sentences(&long).iter().filter(|length| **length > 30).count(), 1);
    assert_eq!((figures("a 6.1 b 10,000 c d3 e") / 1000.0 * 5.0).round(), 3.0);
}
