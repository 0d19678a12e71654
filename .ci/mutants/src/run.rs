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
use crate::trial::{self, Ending, Test};
use crate::verdicts::{self, Verdicts};

/// CPU seconds of a test that a mutant meets first.
const QUICK: f64 = 0.25;

/// Features whose tests need no other crates.
pub fn features(packages: &[String]) -> &'static [&'static str] {
    let has_facade = packages.iter().any(|package| package == "pageblock");
    if has_facade { &["--features", "pageblock/page_owner,pageblock/poison,pageblock/hosted"] } else { &[] }
}

/// A test binary and the crate, by its folder, that it tests.
struct Built {
    path: PathBuf,
    of: String,
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

fn executables(command: &mut Command) -> Result<Vec<Built>> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the mutants' build fails");
    let mut found = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: serde_json::Value = serde_json::from_str(line)?;
        if let Some(path) = message["executable"].as_str() {
            let manifest = Path::new(message["manifest_path"].as_str().unwrap_or_default());
            let folder = manifest.parent().and_then(Path::file_name).unwrap_or_default();
            found.push(Built { path: path.into(), of: folder.to_string_lossy().into_owned() });
        }
    }
    Ok(found)
}

/// Every test binary with its crate, and the schedule whose CPUs take turns at each access to an atomic.
fn binaries(place: &Path, tree: &Path, packages: &[String]) -> Result<Vec<Built>> {
    let json = ["test", "--no-run", "--quiet", "--message-format=json"];
    let mut found = executables(cargo(tree, &place.join("target")).args(json).args(packages).args(features(packages)))?;
    // A build of another kind, and timers that come as fast as a slow build handles them.
    let left_out = ["link-", "signals-", "stress-"];
    let is_left_out = |name: &str| left_out.iter().any(|start| name.starts_with(start));
    found.retain(|built| !built.path.file_name().is_some_and(|name| is_left_out(&name.to_string_lossy())));
    let mut interleaved = cargo(tree, &place.join("target-interleave"));
    interleaved.env("RUSTFLAGS", "--cfg interleave");
    let schedule = ["--release", "--package", "pageblock", "--test", "schedule"];
    found.extend(executables(interleaved.args(json).args(schedule))?);
    for package in packages.iter().filter(|word| !word.starts_with("--")) {
        found.extend(documentation(place, tree, package)?);
    }
    Ok(found)
}

/// The documentation's tests of a crate, which rustdoc merges into one program.
fn documentation(place: &Path, tree: &Path, package: &str) -> Result<Option<Built>> {
    let kept = place.join("documentation").join(package);
    let mut command = cargo(tree, &place.join("target"));
    command.env("RUSTC_BOOTSTRAP", "1");
    command.env("RUSTDOCFLAGS", format!("-Zunstable-options --persist-doctests {}", kept.display()));
    command.args(["test", "--quiet", "--doc", "--package", package]).args(features(&[package.to_owned()]));
    if !command.stdout(Stdio::null()).stderr(Stdio::null()).status()?.success() {
        println!("some documentation of {package} fails without a mutant");
    }
    let of = package.rsplit_once('-').map_or(package, |(_, name)| name).to_owned();
    let path = kept.join("merged_doctest_2024_0/rust_out");
    Ok(path.is_file().then_some(Built { path, of }))
}

/// Each test by itself without a mutant: what it takes, and the mutants that it reaches.
fn tests(arguments: &Arguments, tree: &Path, packages: &[String], empty: &Path) -> Result<Vec<Test>> {
    let mut found = Vec::new();
    for Built { path, of } in binaries(&arguments.place, tree, packages)? {
        let names = trial::names(&path)?.into_iter();
        found.extend(names.map(|name| (path.clone(), of.clone(), name)));
    }
    println!("{} tests", found.len());
    let queue = Mutex::new(found.into_iter());
    let known = Mutex::new(Vec::new());
    in_parallel(arguments.workers, |worker| {
        let note = arguments.place.join(format!("reached-{worker}"));
        while let Some((binary, of, name)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            let _ = std::fs::remove_file(&note);
            let noting = [("MUTANT", "all".to_owned()), ("MUTANTS_REACHED", note.to_string_lossy().into_owned())];
            let run = trial::run(&binary, &[&name], 1200.0, &noting, empty)?;
            if run.ending != Ending::Passed {
                println!("without a mutant, left out: {:?} of {}", run.ending, binary.display());
                continue;
            }
            let reached = std::fs::read_to_string(&note).unwrap_or_default();
            let reaches = reached.lines().filter_map(|line| line.parse().ok()).collect();
            let test = Test { binary, of, name, seconds: run.seconds, reaches };
            known.lock().map(|mut known| known.push(test)).ok();
        }
        Ok(())
    })?;
    Ok(known.into_inner().unwrap_or_default())
}

fn in_parallel(workers: usize, work: impl Fn(usize) -> Result<()> + Sync) -> Result<()> {
    std::thread::scope(|scope| {
        let work = &work;
        let workers: Vec<_> = (0..workers).map(|worker| scope.spawn(move || work(worker))).collect();
        workers.into_iter().try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a worker panicked")))
    })
}

/// The tests that reach a mutant, by binary: quick ones first, and among these its own crate's.
fn in_stages<'t>((number, site): &Numbered, tests: &'t [Test]) -> Vec<Vec<&'t Test>> {
    let own = site.file.split('/').nth(1).unwrap_or_default();
    let mut stages: BTreeMap<_, Vec<&Test>> = BTreeMap::new();
    for test in tests.iter().filter(|test| test.reaches.contains(number)) {
        stages.entry((test.seconds > QUICK, test.of != own, &test.binary)).or_default().push(test);
    }
    stages.into_values().collect()
}

fn verdict(mutant: &Numbered, tests: &[Test], empty: &Path) -> Result<String> {
    let stages = in_stages(mutant, tests);
    for stage in &stages {
        let names: Vec<_> = stage.iter().map(|test| test.name.as_str()).collect();
        let limit = 4.0 * stage.iter().map(|test| test.seconds).sum::<f64>() + 5.0;
        let run = trial::run(&stage[0].binary, &names, limit, &[("MUTANT", mutant.0.to_string())], empty)?;
        let of = &stage[0].of;
        match run.ending {
            Ending::Passed => {}
            Ending::Failed(test) => return Ok(format!("failed\t{of} {test}")),
            Ending::CpuLimit(test) => return Ok(format!("cpu-limit\t{of} {test}")),
            Ending::Stuck(test) => return Ok(format!("stuck\t{of} {test}")),
        }
    }
    Ok(format!("{}\t-", if stages.is_empty() { "UNREACHED" } else { "SURVIVES" }))
}

/// Judges every mutant that has no verdict yet, as far as the time goes; the survivors.
pub fn all(arguments: &Arguments, tree: &Path, packages: &[String], mutants: &[Numbered]) -> Result<Vec<Site>> {
    let place = &arguments.place;
    // Outside the tree, so that property tests find no place for the seeds of their failures.
    let empty = std::env::temp_dir().join("pageblock-mutants");
    std::fs::create_dir_all(&empty)?;
    let tests = tests(arguments, tree, packages, &empty)?;
    let verdicts = Mutex::new(Verdicts::open(&place.join("verdicts"), arguments.again)?);
    let known = |site: &Site| {
        let verdicts = verdicts.lock().ok()?;
        verdicts.of(site, &arguments.root).map(str::to_owned)
    };
    let left: Vec<_> = in_turn(mutants).into_iter().filter(|(_, site)| known(site).is_none()).collect();
    println!("{} have a verdict, {} are left", mutants.len() - left.len(), left.len());
    let (count, queue) = (left.len(), Mutex::new(left.into_iter().enumerate()));
    let (begun, time) = (Instant::now(), Duration::from_secs(60 * arguments.minutes));
    in_parallel(arguments.workers, |_| {
        while let Some((i, mutant)) = queue.lock().ok().and_then(|mut queue| queue.next()) {
            if begun.elapsed() > time {
                break;
            }
            let (site, verdict) = (&mutant.1, verdict(mutant, &tests, &empty)?);
            println!("{}/{count}\t{verdict}\t{}:{}\t{}\t{}", i + 1, site.file, site.line, site.function, site.what);
            verdicts.lock().map(|mut verdicts| verdicts.note(site, &arguments.root, &verdict)).ok().transpose()?;
        }
        Ok(())
    })?;
    let judged: Vec<_> = mutants.iter().filter_map(|mutant| Some((mutant, known(&mutant.1)?))).collect();
    println!("{} of {} judged", judged.len(), mutants.len());
    verdicts::print_shares(&judged, &arguments.explained);
    let survivors = judged.into_iter().filter(|(_, verdict)| !verdicts::is_caught(verdict));
    Ok(survivors.map(|((_, site), _)| site.clone()).collect())
}

/// The mistakes first, then one mutant of each crate in turn: when the time is over, each has had its share.
fn in_turn(mutants: &[Numbered]) -> Vec<&Numbered> {
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    let mut sorted: Vec<_> = mutants
        .iter()
        .map(|mutant| {
            let place = places.entry(verdicts::crate_of(&mutant.1)).or_default();
            *place += 1;
            (if mutant.1.function == "mistake" { 0 } else { *place }, mutant)
        })
        .collect();
    sorted.sort_by_key(|(place, _)| *place);
    sorted.into_iter().map(|(_, mutant)| mutant).collect()
}
