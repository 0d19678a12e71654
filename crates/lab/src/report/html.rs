//! The result as one page: the figures are in it, and it asks no network for anything.

use std::fmt::Write;

use comfy_table::Table;

use super::data;
use super::tables::{remarks, sections};
use super::verdict::sentences;
use super::{commit, slug};
use crate::replay::Outcome;

const PAGE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");
const SCRIPT: &str = include_str!("page/page.js");

/// The page.
pub(crate) fn page(outcome: &Outcome) -> anyhow::Result<String> {
    let [replayed, verdict] = sentences(outcome);
    let (mut tables, mut links) = (String::new(), String::from("<a href=\"result.json\">result.json</a>"));
    for (title, table) in sections(outcome) {
        tables.push_str(&html_table(title, &table));
    }
    for name in sections(outcome).iter().map(|(title, _)| slug(title)).chain(["over-time".to_owned()]) {
        let _ = write!(links, " <a href=\"{name}.csv\">{name}.csv</a>");
    }
    let remarks: String = remarks(outcome).iter().map(|line| format!("<li>{}</li>", escaped(line))).collect();
    // The text between `<script>` and its end must not have another end.
    let data = serde_json::to_string(&data::of(outcome))?.replace('<', "\\u003c");
    let parts = [
        ("title", format!("pageblock: {}", escaped(&outcome.trace))),
        ("style", STYLE.to_owned()),
        ("verdict", escaped(&verdict)),
        ("replayed", escaped(&replayed)),
        ("facts", facts(outcome)),
        ("links", links),
        ("tables", tables),
        ("remarks", remarks),
        ("data", data),
        ("script", SCRIPT.to_owned()),
    ];
    Ok(filled(&parts))
}

/// The page with each `{{name}}` in its place; inserted text is not looked at again.
fn filled(parts: &[(&str, String)]) -> String {
    let mut html = String::with_capacity(1 << 20);
    let mut rest = PAGE;
    while let Some((before, after)) = rest.split_once("{{") {
        html.push_str(before);
        let Some((name, after)) = after.split_once("}}") else { break };
        html.extend(parts.iter().find(|(part, _)| *part == name).map(|(_, text)| text.as_str()));
        rest = after;
    }
    html.push_str(rest);
    html
}

fn facts(outcome: &Outcome) -> String {
    let commit = commit().unwrap_or_else(|| "unknown".to_owned());
    let facts = [
        ("Trace", outcome.trace.clone()),
        ("Command", std::env::args().collect::<Vec<_>>().join(" ")),
        ("Version", env!("CARGO_PKG_VERSION").to_owned()),
        ("Commit", commit),
        ("Recorded", format!("{:.1} s, {} events", outcome.recorded_seconds, super::verdict::grouped(outcome.events))),
    ];
    let fact = |(name, text): &(&str, String)| {
        format!("<div><dt>{name}</dt><dd>{}</dd></div>", escaped(&crate::output::printable(text)))
    };
    facts.iter().map(fact).collect()
}

fn html_table(title: &str, table: &Table) -> String {
    let mut html = format!("<div class=\"scroll\"><table><caption>{title}</caption><thead><tr>");
    for cell in table.header().into_iter().flat_map(|header| header.cell_iter()) {
        let _ = write!(html, "<th scope=\"col\">{}</th>", escaped(&cell.content()));
    }
    html.push_str("</tr></thead><tbody>");
    for row in table.row_iter() {
        let cells = row.cell_iter().map(|cell| format!("<td>{}</td>", escaped(&cell.content())));
        let _ = write!(html, "<tr>{}</tr>", cells.collect::<String>());
    }
    html.push_str("</tbody></table></div>\n");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_has_its_parts_and_needs_no_network() {
        let html = filled(&[("title", "{{data}}".to_owned()), ("data", "{}".to_owned())]);
        assert!(html.contains("<title>{{data}}</title>") && html.contains("id=\"data\">{}</script>"), "{html}");
        for text in [PAGE, STYLE, SCRIPT] {
            let local = text.replace("http://www.w3.org/2000/svg", "");
            assert!(!local.contains("http://") && !local.contains("https://") && !local.contains("@import"));
        }
    }
}
