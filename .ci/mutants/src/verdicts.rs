//! Verdicts: kept in a file, so that a run that was interrupted goes on, and summed up by crate.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::Path;

use anyhow::Result;

use crate::rewrite::Numbered;
use crate::sites::Site;

/// Verdict and the test that gave it, of each mutant that was judged on the source as it is.
pub struct Verdicts {
    file: std::fs::File,
    known: BTreeMap<String, String>,
}

impl Verdicts {
    /// Those of earlier runs; survivors are forgotten where they are to be judged again.
    pub fn open(path: &Path, again: bool) -> Result<Self> {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        let mut known: BTreeMap<_, _> = lines.map(|(key, verdict)| (key.to_owned(), verdict.to_owned())).collect();
        known.retain(|_, verdict| !again || is_caught(verdict));
        Ok(Self { file: std::fs::OpenOptions::new().append(true).create(true).open(path)?, known })
    }

    pub fn of(&self, site: &Site, root: &Path) -> Option<&str> {
        self.known.get(&key(site, root)).map(String::as_str)
    }

    pub fn note(&mut self, site: &Site, root: &Path, verdict: &str) -> Result<()> {
        let key = key(site, root);
        let place = format!("{}:{}\t{}\t{}", site.file, site.line, site.function, site.what);
        writeln!(self.file, "{key}\t{verdict}\t{place}")?;
        self.known.insert(key, format!("{verdict}\t{place}"));
        Ok(())
    }
}

/// A mutant, and the file that it is in.
fn key(site: &Site, root: &Path) -> String {
    let mut hasher = DefaultHasher::new();
    std::fs::read(root.join(&site.file)).unwrap_or_default().hash(&mut hasher);
    format!("{:?}", site.change).hash(&mut hasher);
    (&site.function, &site.what, site.start, site.end).hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

pub fn is_caught(verdict: &str) -> bool {
    !verdict.starts_with("SURVIVES") && !verdict.starts_with("UNREACHED")
}

/// The reason in the list: lines of file, function, mutation and reason, with tabs between.
pub fn explanation<'a>(site: &Site, explained: &'a str) -> Option<&'a str> {
    explained.lines().find_map(|line| {
        let mut fields = line.split('\t');
        let place = (fields.next()?, fields.next()?, fields.next()?);
        (place == (&site.file, &site.function, &site.what)).then(|| fields.next().unwrap_or_default())
    })
}

/// Mutants of one crate.
#[derive(Default)]
struct Share {
    all: usize,
    caught: usize,
    by_limit: usize,
    equivalent: usize,
}

/// The crate that a mutant is in, or mistakes.
pub fn crate_of(site: &Site) -> &str {
    if site.function == "mistake" { "mistakes" } else { site.file.split('/').nth(1).unwrap_or_default() }
}

/// Prints the share that is caught by crate, and the interval in which it lies (Wilson, 95 %).
pub fn print_shares(judged: &[(&Numbered, String)], explained: &str) {
    let mut by_crate: BTreeMap<&str, Share> = BTreeMap::new();
    for ((_, site), verdict) in judged {
        let sums = if site.function == "mistake" { ["mistakes", ""] } else { [crate_of(site), "mutants"] };
        let is_equivalent = || explanation(site, explained).is_some_and(|reason| reason.starts_with("equivalent"));
        for name in sums.into_iter().filter(|name| !name.is_empty()) {
            let share = by_crate.entry(name).or_default();
            share.all += 1;
            share.caught += usize::from(is_caught(verdict));
            share.by_limit += usize::from(verdict.starts_with("cpu-limit") || verdict.starts_with("stuck"));
            share.equivalent += usize::from(!is_caught(verdict) && is_equivalent());
        }
    }
    println!("crate\tjudged\tcaught\tof these by a limit\tequivalent\tcaught, % (95 %)\twithout equivalents, % (95 %)");
    for (name, share) in by_crate {
        let Share { all, caught, by_limit, equivalent } = share;
        let (whole, differing) = (interval(caught, all), interval(caught, all - equivalent));
        println!("{name}\t{all}\t{caught}\t{by_limit}\t{equivalent}\t{whole}\t{differing}");
    }
}

fn interval(caught: usize, all: usize) -> String {
    let (n, share, z) = (all as f64, caught as f64 / all as f64, 1.96_f64);
    let middle = (share + z * z / (2.0 * n)) / (1.0 + z * z / n);
    let half = z * (share * (1.0 - share) / n + z * z / (4.0 * n * n)).sqrt() / (1.0 + z * z / n);
    format!("{:.0} ({:.0} to {:.0})", 100.0 * share, 100.0 * (middle - half), 100.0 * (middle + half))
}
