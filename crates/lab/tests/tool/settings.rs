//! `docs/settings.md` is generated from the doc comments of the configurations, and is what they say today.
//!
//! After a change: `UPDATE_SETTINGS=1 cargo test -p pageblock-lab --test tool settings`.

use std::fmt::{Debug, Write};
use std::fs;
use std::path::{Path, PathBuf};

use pageblock::{CompactionConfig, PcpConfig, Policy, ReclaimConfig, ZoneLimits};
use pageblock_compaction::Era;
use pageblock_reclaim::ShrinkConfig;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A documented item: its name, and its doc comment as one line of Markdown.
struct Setting {
    name: String,
    meaning: String,
}

/// The items of a source file below the line that begins with `from`, up to the closing brace in its column, of which
/// `item` knows the name.
fn settings(path: &str, from: &str, item: fn(&str) -> Option<&str>) -> Vec<Setting> {
    let text = fs::read_to_string(root().join("crates").join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let mut lines = text.lines().skip_while(|line| !line.starts_with(from));
    let column = |line: &str| line.len() - line.trim_start().len();
    let first = lines.next().unwrap_or_else(|| panic!("{path} has no line that begins with {from:?}"));
    let inside = lines.take_while(|line| !(line.trim() == "}" && column(line) == column(first)));
    let (mut found, mut doc) = (Vec::new(), String::new());
    for line in inside {
        let trimmed = line.trim_start();
        if let Some(text) = trimmed.strip_prefix("///") {
            doc += text.strip_prefix(' ').unwrap_or(text);
            doc.push('\n');
        } else if let Some(name) = item(trimmed) {
            found.push(Setting { name: name.to_owned(), meaning: markdown(&doc) });
            doc.clear();
        } else if !trimmed.starts_with("#[") {
            doc.clear();
        }
    }
    found
}

/// A doc comment as one line: without examples and sections, links as their text.
fn markdown(doc: &str) -> String {
    let prose = doc.split("```").next().unwrap_or_default().split("\n# ").next().unwrap_or_default();
    let mut rest = prose.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let mut out = String::new();
    while let Some(open) = rest.find("[`") {
        let Some(close) = rest[open..].find("`]") else { break };
        out += &rest[..open];
        out += &rest[open + 1..open + close + 1];
        let mut after = &rest[open + close + 2..];
        if after.starts_with('(') {
            after = after.split_once(')').map_or("", |(_, after)| after);
        }
        rest = after.to_owned();
    }
    out + &rest
}

fn method(line: &str) -> Option<&str> {
    let (name, rest) = line.strip_prefix("pub const fn ")?.split_once('(')?;
    rest.starts_with("mut self").then_some(name)
}

fn field(line: &str) -> Option<&str> {
    let name = line.strip_prefix("pub ")?.split_once(": ")?.0;
    name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_').then_some(name)
}

fn switch(line: &str) -> Option<&str> {
    let (name, value) = line.split_once(": ")?;
    ["true,", "false,"].contains(&value).then_some(name)
}

fn variant(line: &str) -> Option<&str> {
    let name = line.split_once('(')?.0;
    (line.ends_with("),") && name.chars().all(char::is_alphanumeric)).then_some(name)
}

/// The value of each field, as its `Debug` prints it.
fn defaults(value: &impl Debug) -> Vec<(String, String)> {
    let text = format!("{value:#?}");
    let mut found: Vec<(String, String)> = Vec::new();
    for line in text.lines().skip(1) {
        let inner = line.strip_prefix("    ").unwrap_or_default();
        match inner.split_once(": ") {
            Some((name, value)) if !inner.starts_with(' ') => found.push((name.to_owned(), value.to_owned())),
            _ => found.last_mut().into_iter().for_each(|(_, value)| *value += inner.trim()),
        }
    }
    found
        .into_iter()
        .map(|(name, value)| (name, value.trim_end_matches(',').replace(",}", "}").replace(",)", ")")))
        .collect()
}

fn table(page: &mut String, heading: &str, rows: &[Setting], defaults: &[(String, String)]) {
    assert!(!rows.is_empty(), "{heading}");
    let value = |name: &str| defaults.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str());
    writeln!(page, "\n## {heading}\n").unwrap();
    let columns =
        if defaults.is_empty() { ["setting", "meaning"].as_slice() } else { &["setting", "default", "meaning"] };
    writeln!(page, "| {} |\n|{}", columns.join(" | "), "---|".repeat(columns.len())).unwrap();
    for Setting { name, meaning } in rows {
        assert!(!meaning.is_empty(), "{heading}: {name} has no doc comment");
        let default = value(name);
        assert!(defaults.is_empty() || default.is_some(), "{heading}: {name} is not printed");
        match default {
            Some(default) => writeln!(page, "| `{name}` | `{default}` | {meaning} |").unwrap(),
            None => writeln!(page, "| `{name}` | {meaning} |").unwrap(),
        }
    }
}

fn page() -> String {
    let mut page = String::from(
        "# Every setting\n\nGenerated from the doc comments; `UPDATE_SETTINGS=1 cargo test -p pageblock-lab --test tool settings` writes it anew.\n\
         [Choosing a configuration](configuration.md) says which of them a kernel changes.\n",
    );
    let p = &mut page;
    table(p, "`Config`", &settings("pageblock/src/config.rs", "impl Config {", method), &[]);
    table(
        p,
        "`ZoneLimits`",
        &settings("memmap/src/zones.rs", "pub struct ZoneLimits", field),
        &defaults(&ZoneLimits::x86_64()),
    );
    table(
        p,
        "`PcpConfig`",
        &settings("pcp/src/config.rs", "pub struct PcpConfig", field),
        &defaults(&PcpConfig::new()),
    );
    table(p, "`Experiment`", &settings("pageblock/src/config.rs", "pub enum Experiment", variant), &[]);
    table(p, "`Policy`", &settings("buddy/src/policy.rs", "pub struct Policy", field), &defaults(&Policy::new()));
    table(
        p,
        "`CompactionConfig`",
        &settings("compaction/src/config.rs", "pub struct CompactionConfig", field),
        &defaults(&CompactionConfig::new()),
    );
    let switches = |of| settings("compaction/src/era.rs", of, switch);
    table(p, "`Era`: the form of the two scanners", &switches("    Era {"), &defaults(&Era::today()));
    table(p, "`Patches`", &switches("    Patches {"), &defaults(&pageblock::Patches::ALL));
    table(
        p,
        "`ReclaimConfig`",
        &settings("reclaim/src/config.rs", "pub struct ReclaimConfig", field),
        &defaults(&ReclaimConfig::new()),
    );
    table(
        p,
        "`ShrinkConfig`, of `pageblock-reclaim`",
        &settings("reclaim/src/shrink/config.rs", "pub struct ShrinkConfig", field),
        &defaults(&ShrinkConfig::default()),
    );
    page
}

#[test]
fn the_reference_is_what_the_doc_comments_say() {
    let (path, page) = (root().join("docs/settings.md"), page());
    if std::env::var_os("UPDATE_SETTINGS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(kept.lines()).find(|(now, kept)| now != kept);
    assert_eq!(differs, None, "docs/settings.md is out of date");
    assert_eq!(page.lines().count(), kept.lines().count(), "docs/settings.md is out of date");
}

/// A kernel's own settings: those of `Config` and of the two structures that its methods take.
#[test]
fn a_kernel_has_thirty_settings_at_most() {
    let own = settings("pageblock/src/config.rs", "impl Config {", method).len();
    let parts = settings("memmap/src/zones.rs", "pub struct ZoneLimits", field).len()
        + settings("pcp/src/config.rs", "pub struct PcpConfig", field).len();
    assert!((20..=30).contains(&(own + parts)), "{own} and {parts}");
}
