//! The result as one page without scripts.

use std::fmt::Write;

use super::plots::{Plot, shades};
use super::tables::{remarks, sections, trimmed};
use crate::replay::Outcome;

const STYLE: &str = "body{font:15px/1.45 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem;color:#222}\
h1{font-size:1.5rem}h2{font-size:1.1rem;margin-top:2rem}\
pre{background:#f6f6f6;padding:.7rem;overflow-x:auto;font-size:12.5px;line-height:1.35}\
svg{max-width:100%;height:auto}.key span{display:inline-block;margin-right:1.2rem}\
.key i{display:inline-block;width:2.4rem;height:.8rem;margin-right:.4rem;vertical-align:middle}";

/// The page, with the plots inside.
pub(crate) fn page(outcome: &Outcome, plots: &[Plot]) -> String {
    let mut html = String::new();
    let title = format!("Replay of {}", escaped(&outcome.trace));
    let _ = write!(
        html,
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title><style>{STYLE}</style></head>\n\
         <body><h1>{title}</h1>\n<pre>{}</pre>\n",
        escaped(&remarks(outcome).join("\n"))
    );
    for (title, table) in sections(outcome) {
        let _ = write!(html, "<h2>{title}</h2>\n<pre>{}</pre>\n", escaped(&trimmed(&table)));
    }
    html.push_str(&key());
    for plot in plots {
        let _ = write!(html, "<h2>{}</h2>\n{}\n", escaped(&plot.title), plot.svg);
    }
    html.push_str("</body></html>\n");
    html
}

/// What the colours of the heat maps mean.
fn key() -> String {
    let mut html = String::from("<h2>Colours of the pageblocks</h2>\n<p class=\"key\">");
    for (kind, (held, free)) in shades() {
        let css = |colour: plotters::style::RGBColor| format!("rgb({},{},{})", colour.0, colour.1, colour.2);
        let _ = write!(
            html,
            "<span><i style=\"background:linear-gradient(90deg,{},{})\"></i>{kind}</span>",
            css(free),
            css(held)
        );
    }
    html.push_str("</p>\n<p>From wholly free (left) to wholly held; white: no memory, or reserved.</p>\n");
    html
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
