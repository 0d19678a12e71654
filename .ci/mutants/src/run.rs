//! Builds and runs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};

use crate::Arguments;
use crate::rewrite::Numbered;
use crate::sites::Site;

/// Mutants that run side by side.
const WORKERS: usize = 2;

/// Features whose tests need no other crates.
pub fn features(packages: &[String]) -> &'static [&'static str] {
    let has_facade = packages.iter().any(|package| package == "pageblock");
    if has_facade { &["--features", "pageblock/page_owner,pageblock/hosted"] } else { &[] }
}

/// A test binary.
struct Binary {
    path: PathBuf,
    seconds: f64,
    reaches: BTreeSet<u32>,
}

pub fn package(name: &str) -> String {
    if name == "pageblock" { name.to_owned() } else { format!("pageblock-{name}") }
}

/// Cargo over the rewritten tree. `frame` may use what only a nightly compiler offers: a function that is another at
/// compile time.
pub fn cargo(tree: &Path, target: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(tree).env("CARGO_TARGET_DIR", target).env("RUSTC_BOOTSTRAP", "pageblock_frame");
    command
}

/// What the index names, as it is in the working tree.
pub fn copy_tree(root: &Path, tree: &Path) -> Result<()> {
    let list = Command::new("git")
        .current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .output()?;
    let mut kept = BTreeSet::new();
    for file in String::from_utf8(list.stdout)?.lines().filter(|file| root.join(file).is_file()) {
        let to = tree.join(file);
        std::fs::create_dir_all(to.parent().context("a folder")?)?;
        copy_if_changed(&root.join(file), &to)?;
        kept.insert(to);
    }
    Ok(())
}

/// Keeps the time of what has not changed, so that cargo does not build it again.
fn copy_if_changed(from: &Path, to: &Path) -> Result<()> {
    let new = std::fs::read(from)?;
    if std::fs::read(to).ok().as_ref() != Some(&new) {
        std::fs::write(to, new)?;
    }
    Ok(())
}

pub fn restore(root: &Path, tree: &Path, file: &str) -> Result<()> {
    copy_if_changed(&root.join(file), &tree.join(file))
}

/// Runs the binary; true if it passed in time.
fn passes(binary: &Path, limit: Duration, variables: &[(&str, String)], empty: &Path) -> Result<bool> {
    let mut command = Command::new("nice");
    command.arg(binary).current_dir(empty).stdout(Stdio::null()).stderr(Stdio::null());
    // The same few cases every time, none of them remembered, and no search for the shortest.
    command.env("PROPTEST_RNG_SEED", "1").env("PROPTEST_MAX_SHRINK_ITERS", "0").env("PROPTEST_CASES", "24");
    command.env("SCHEDULE_STEPS", "300000").env("RUST_BACKTRACE", "0");
    command.envs(variables.iter().map(|(name, value)| (name, value)));
    let mut child = command.spawn()?;
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.success());
        }
        if begun.elapsed() > limit {
            child.kill()?;
            child.wait()?;
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn executables(command: &mut Command) -> Result<Vec<PathBuf>> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the mutants' build fails");
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        if let Some(path) = message["executable"].as_str() {
            found.push(path.into());
        }
    }
    Ok(found)
}

/// Every test binary, and the schedule whose CPUs take turns at each access to an atomic.
fn binaries(place: &Path, tree: &Path, packages: &[String]) -> Result<Vec<PathBuf>> {
    let json = ["test", "--no-run", "--quiet", "--message-format=json"];
    let mut found = executables(cargo(tree, &place.join("target")).args(json).args(packages).args(features(packages)))?;
    // A build of another kind, and timers that come as fast as a slow build handles them.
    let left_out = ["link-", "signals-", "stress-"];
    let is_left_out = |name: &str| left_out.iter().any(|start| name.starts_with(start));
    found.retain(|path| !path.file_name().is_some_and(|name| is_left_out(&name.to_string_lossy())));
    let mut interleaved = cargo(tree, &place.join("target-interleave"));
    interleaved.env("RUSTFLAGS", "--cfg interleave");
    found.extend(executables(interleaved.args(json).args([
        "--release",
        "--package",
        "pageblock",
        "--test",
        "schedule",
    ]))?);
    Ok(found)
}

/// Runs every mutant, as far as the time goes; the survivors.
pub fn all(arguments: &Arguments, tree: &Path, packages: &[String], mutants: &[Numbered]) -> Result<Vec<Site>> {
    let place = &arguments.place;
    let empty = place.join("empty");
    std::fs::create_dir_all(&empty)?;
    let mut known = Vec::new();
    for path in binaries(place, tree, packages)? {
        let note = place.join("reached");
        let _ = std::fs::remove_file(&note);
        let noting = [("MUTANT", "all".to_owned()), ("MUTANTS_REACHED", note.to_string_lossy().into_owned())];
        let begun = Instant::now();
        let usual = passes(&path, Duration::from_secs(1200), &noting, &empty)?;
        let seconds = begun.elapsed().as_secs_f64();
        ensure!(usual, "{} fails without a mutant", path.display());
        let reached = std::fs::read_to_string(&note).unwrap_or_default();
        known.push(Binary { path, seconds, reaches: reached.lines().filter_map(|line| line.parse().ok()).collect() });
    }
    known.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let results = Mutex::new(BTreeMap::new());
    let queue = Mutex::new(in_turn(mutants).into_iter());
    let (begun, time) = (Instant::now(), Duration::from_secs(60 * arguments.minutes));
    let work = || -> Result<()> {
        loop {
            let next = queue.lock().map(|mut queue| queue.next()).ok().flatten();
            let Some((number, site)) = next.filter(|_| begun.elapsed() < time) else { return Ok(()) };
            let mut killer = None;
            for binary in known.iter().filter(|binary| binary.reaches.contains(number)) {
                let limit = Duration::from_secs_f64(binary.seconds * 4.0 + 10.0);
                if !passes(&binary.path, limit, &[("MUTANT", number.to_string())], &empty)? {
                    killer = Some(binary.path.file_name().unwrap_or_default().to_string_lossy().into_owned());
                    break;
                }
            }
            let reached = known.iter().any(|binary| binary.reaches.contains(number));
            let verdict = killer.unwrap_or_else(|| if reached { "SURVIVES".into() } else { "UNREACHED".into() });
            println!("{verdict}\t{}:{}\t{}\t{}", site.file, site.line, site.function, site.what);
            results.lock().map(|mut results| results.insert(*number, verdict)).ok();
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
    })?;
    let results = results.into_inner().unwrap_or_default();
    let judged: Vec<Numbered> = mutants.iter().filter(|(number, _)| results.contains_key(number)).cloned().collect();
    println!("{} of {} judged", judged.len(), mutants.len());
    let survives =
        |number: &u32| results.get(number).is_some_and(|verdict| verdict == "SURVIVES" || verdict == "UNREACHED");
    shares(&judged, |number| !survives(&number));
    Ok(judged.into_iter().filter(|(number, _)| survives(number)).map(|(_, site)| site).collect())
}

/// The mistakes first, then one mutant of each crate in turn: when the time is over, each has had its share.
fn in_turn(mutants: &[Numbered]) -> Vec<&Numbered> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sorted: Vec<_> = mutants
        .iter()
        .map(|mutant| {
            let place = places.entry(crate_of(&mutant.1)).or_default();
            *place += 1;
            (if mutant.1.function == "mistake" { 0 } else { *place }, mutant)
        })
        .collect();
    sorted.sort_by_key(|(place, _)| *place);
    sorted.into_iter().map(|(_, mutant)| mutant).collect()
}

/// The crate that a mutant is in, or mistakes.
fn crate_of(site: &Site) -> &str {
    if site.function == "mistake" { "mistakes" } else { site.file.split('/').nth(1).unwrap_or_default() }
}

fn shares(mutants: &[Numbered], is_caught: impl Fn(u32) -> bool) {
    let mut by_crate: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (number, site) in mutants {
        let share = by_crate.entry(crate_of(site)).or_default();
        *share = (share.0 + usize::from(is_caught(*number)), share.1 + 1);
    }
    for (name, (caught, all)) in by_crate {
        println!("{name}: {caught} of {all} caught, {:.0} %", 100.0 * caught as f64 / all as f64);
    }
}

/// Lines of file, function, mutation and reason, with tabs between.
pub fn is_explained(site: &Site, explained: &str) -> bool {
    explained.lines().any(|line| {
        let mut fields = line.split('\t');
        (fields.next(), fields.next(), fields.next()) == (Some(&site.file), Some(&site.function), Some(&site.what))
    })
}
