//! Mutants of the core crates, all switchable in one build: lists them, draws a sample, rewrites a copy of the tree,
//! drops those that do not compile, runs each against the test binaries that reach it, and lists the survivors.
//!
//! `mutants TREE PLACE [--sample N] [--seed S] [--crates a,b] [--files a,b] [--minutes M] [--workers W] [--only mistakes] [--again]`
//!
//! With files, or parts of their names, all of their mutants are judged rather than a sample.
//!
//! Verdicts are kept in `PLACE/verdicts`: a run that was interrupted, or out of time, goes on where it was. A verdict
//! holds as long as the mutant's file stays as it is; `--again` judges survivors once more, for tests that are new.

mod rewrite;
mod run;
mod sites;
mod trial;
mod verdicts;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use rewrite::Numbered;
use sites::{Change, Site};

const CRATES: [&str; 9] = ["frame", "memmap", "buddy", "pcp", "lru", "compaction", "mlock", "reclaim", "pageblock"];
/// Bodies of another configuration, what only tests have, and the primitives under every atomic.
const LEFT_OUT: [&str; 9] =
    ["/model", "/tests", "/adapt", "/split.rs", "/sync/real.rs", "/sync/interleave.rs", "/no_", "/history", "/arch.rs"];

/// What is asked for.
pub struct Arguments {
    /// The tree as it is.
    root: PathBuf,
    /// Where everything is written.
    place: PathBuf,
    sample: usize,
    seed: u64,
    crates: Vec<String>,
    /// Parts of names of files.
    files: Vec<String>,
    /// For the runs; the mutants that are left then are not judged.
    minutes: u64,
    workers: usize,
    mistakes_only: bool,
    /// Survivors are judged again.
    again: bool,
    /// The list of survivors with their reasons.
    explained: String,
}

impl Arguments {
    fn parse() -> Result<Self> {
        let mut words = std::env::args().skip(1);
        let root: PathBuf = words.next().context("the tree")?.into();
        let place = words.next().context("a place for everything")?.into();
        let crates = CRATES.iter().map(|&name| name.to_owned()).collect();
        let explained = std::fs::read_to_string(root.join(".ci/mutants-explained")).unwrap_or_default();
        let (sample, seed, minutes, workers) = (600, 1, 20, 2);
        let (mistakes_only, again) = (false, false);
        let files = Vec::new();
        let mut this =
            Self { root, place, sample, seed, crates, files, minutes, workers, mistakes_only, again, explained };
        while let Some(word) = words.next() {
            let mut value = || words.next().with_context(|| format!("a value for {word}"));
            match word.as_str() {
                "--sample" => this.sample = value()?.parse()?,
                "--seed" => this.seed = value()?.parse()?,
                "--minutes" => this.minutes = value()?.parse()?,
                "--workers" => this.workers = value()?.parse()?,
                "--again" => this.again = true,
                "--crates" => this.crates = value()?.split(',').map(str::to_owned).collect(),
                "--files" => this.files = value()?.split(',').map(str::to_owned).collect(),
                "--only" => this.mistakes_only = value()? == "mistakes",
                _ => bail!("{word}?"),
            }
        }
        Ok(this)
    }
}

fn sources(root: &Path, name: &str) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut folders = vec![root.join("crates").join(name).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let text = path.strip_prefix(root)?.to_string_lossy().into_owned();
            if path.is_dir() {
                folders.push(path);
            } else if text.ends_with(".rs") && !LEFT_OUT.iter().any(|part| text.contains(part)) {
                found.push(text);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// So many of each crate, as its share of all sites is, but a twelfth of the sample at least. The seed ranks sites by
/// name, so that a change of one function leaves the rest of the sample as it is.
fn sample(arguments: &Arguments) -> Result<Vec<Site>> {
    let mut by_crate: BTreeMap<&str, Vec<Site>> = BTreeMap::new();
    for name in &arguments.crates {
        for file in sources(&arguments.root, name)? {
            if !arguments.files.is_empty() && !arguments.files.iter().any(|part| file.contains(part)) {
                continue;
            }
            let text = std::fs::read_to_string(arguments.root.join(&file))?;
            by_crate.entry(name).or_default().extend(sites::find(&file, &text)?);
        }
    }
    let all: usize = by_crate.values().map(Vec::len).sum();
    let mut chosen = Vec::new();
    for (name, mut sites) in by_crate {
        let all_of_it = !arguments.files.is_empty();
        let wanted = if all_of_it {
            sites.len()
        } else {
            (arguments.sample * sites.len() / all).max(arguments.sample / 12).min(sites.len())
        };
        println!("{name}: {wanted} of {}", sites.len());
        sites.sort_by_cached_key(|site| rank(arguments.seed, site));
        sites.truncate(wanted);
        chosen.extend(sites);
    }
    Ok(chosen)
}

fn rank(seed: u64, site: &Site) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, &site.file, &site.function, &site.what).hash(&mut hasher);
    hasher.finish()
}

/// The mistakes made by hand: blocks of a heading, the file, the text as it is and as it is with the mistake.
fn mistakes(root: &Path) -> Result<Vec<Site>> {
    let text = std::fs::read_to_string(root.join(".ci/mistakes"))?;
    let mut found = Vec::new();
    for block in text.split("\n## ").skip(1) {
        let (what, rest) = block.split_once('\n').context("a heading")?;
        let (file, rest) = rest.split_once("\n<<<<\n").with_context(|| format!("{what}: <<<<"))?;
        let (old, rest) = rest.split_once("\n====\n").with_context(|| format!("{what}: ===="))?;
        let (new, _) = rest.split_once("\n>>>>").with_context(|| format!("{what}: >>>>"))?;
        let source = std::fs::read_to_string(root.join(file))?;
        ensure!(source.matches(old).count() == 1, "{what}: the text is not once in {file}");
        let start = source.find(old).context("it was just found")?;
        let line = source[..start].lines().count() + 1;
        let (file, function, change) = (file.to_owned(), "mistake".to_owned(), Change::Text(new.to_owned()));
        found.push(Site { file, line, function, start, end: start + old.len(), change, what: what.to_owned() });
    }
    Ok(found)
}

/// What does not compile, by the innermost mutant around each error.
fn misfits(tree: &Path, target: &Path, packages: &[String]) -> Result<BTreeSet<u32>> {
    let mut command = run::cargo(tree, target);
    command
        .args(["check", "--quiet", "--message-format=json", "--keep-going"])
        .args(packages)
        .args(run::features(packages));
    let output = command.output()?;
    let mut found = BTreeSet::new();
    let mut unexplained = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        let inner = &message["message"];
        if message["reason"] != "compiler-message" || inner["level"] != "error" {
            continue;
        }
        let spans = inner["spans"].as_array().into_iter().flatten();
        let culprit = spans.filter(|span| span["is_primary"] == true).find_map(|span| {
            let text = std::fs::read_to_string(tree.join(span["file_name"].as_str()?)).ok()?;
            rewrite::mutant_at(&text, span["byte_start"].as_u64()? as usize + 1)
        });
        match culprit {
            Some(number) => _ = found.insert(number),
            None => unexplained.push(inner["rendered"].as_str().unwrap_or_default().to_owned()),
        }
    }
    if found.is_empty() && !output.status.success() {
        bail!("does not compile, and no mutant is to blame:\n{}", unexplained.concat());
    }
    Ok(found)
}

fn main() -> Result<()> {
    let arguments = Arguments::parse()?;
    let (pristine, tree) = (&arguments.root, arguments.place.join("tree"));
    run::copy_tree(pristine, &tree)?;
    let mut sites = mistakes(pristine)?;
    if !arguments.mistakes_only {
        let mut sampled = sample(&arguments)?;
        // A mistake replaces its text, with what is inside.
        let is_inside = |a: &Site, b: &Site| a.file == b.file && a.start >= b.start && a.end <= b.end;
        sampled.retain(|site| !sites.iter().any(|mistake| is_inside(site, mistake)));
        sites.extend(sampled);
    }
    let mut mutants: Vec<Numbered> = (1..).zip(sites).collect();
    rewrite::add_switch(&tree)?;
    let packages: Vec<String> =
        arguments.crates.iter().flat_map(|name| ["--package".to_owned(), run::package(name)]).collect();
    let target = arguments.place.join("target");
    let (drawn, mut broken) = (mutants.len(), 0);
    loop {
        rewrite::rewrite(pristine, &tree, &mutants)?;
        let misfits = misfits(&tree, &target, &packages)?;
        if misfits.is_empty() {
            break;
        }
        for (_, site) in mutants.iter().filter(|(number, _)| misfits.contains(number)) {
            if matches!(site.change, Change::Text(_)) {
                println!("{} does not compile", site.what);
                broken += 1;
            }
            run::restore(pristine, &tree, &site.file)?;
        }
        mutants.retain(|(number, _)| !misfits.contains(number));
    }
    println!("{} of {drawn} compile", mutants.len());
    ensure!(broken == 0, "{broken} mistakes do not compile");
    let survivors = run::all(&arguments, &tree, &packages, &mutants)?;
    let explained = &arguments.explained;
    let unexplained: Vec<_> =
        survivors.iter().filter(|site| verdicts::explanation(site, explained).is_none()).collect();
    for site in &unexplained {
        println!("{}:{}\t{}\t{}", site.file, site.line, site.function, site.what);
    }
    ensure!(unexplained.is_empty(), "{} survivors are not explained", unexplained.len());
    Ok(())
}
