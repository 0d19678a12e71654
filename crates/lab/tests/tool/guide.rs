//! The guide and the READMEs: commands and paths that they name exist, chapters are in the table of contents, links
//! lead somewhere.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn read(path: impl AsRef<Path>) -> String {
    let path = root().join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The chapters, by name.
fn chapters() -> Vec<String> {
    let names =
        fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<_> = names.filter(|name| name.ends_with(".md") && name != "SUMMARY.md").collect();
    names.sort();
    names
}

/// All that is read as documentation of the project as a whole.
fn texts() -> Vec<(String, String)> {
    let more = [
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "examples/kernel/README.md",
        "benches/README.md",
        "crates/lab/README.md",
    ];
    let names = chapters().into_iter().map(|name| format!("docs/{name}")).chain(more.map(String::from));
    names.map(|name| (read(&name), name)).map(|(text, name)| (name, text)).collect()
}

/// The code blocks of a text: language and content.
fn blocks(text: &str) -> Vec<(&str, String)> {
    let (mut found, mut open) = (Vec::new(), None);
    for line in text.lines() {
        match (line.strip_prefix("```"), &mut open) {
            (Some(language), None) => open = Some((language, String::new())),
            (Some(_), Some(_)) => found.extend(open.take()),
            (None, Some((_, content))) => *content += &format!("{line}\n"),
            (None, None) => {}
        }
    }
    assert!(open.is_none(), "a block that is never closed");
    found
}

/// The commands of a text: all lines of `sh` blocks, and those after a `$` in `console` blocks.
fn commands(text: &str) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    for (language, content) in blocks(text) {
        let lines: Vec<&str> = match language {
            "sh" => content.lines().collect(),
            "console" => content.lines().filter_map(|line| line.strip_prefix("$ ")).collect(),
            _ => continue,
        };
        let words = |line: &str| shlex::split(line.split(" #").next().unwrap_or(line)).expect("quotes in pairs");
        found.extend(lines.into_iter().map(words).filter(|words| !words.is_empty()));
    }
    found
}

/// The value behind one of these options.
fn value<'a>(words: &'a [String], names: &[&str]) -> Option<&'a str> {
    words.iter().position(|word| names.contains(&word.as_str())).and_then(|at| words.get(at + 1)).map(String::as_str)
}

/// Names of the packages of the repository.
fn packages() -> Vec<String> {
    let places = ["crates", "examples", "examples/kernel", "."].map(|place| root().join(place));
    let entries = places.into_iter().flat_map(|place| fs::read_dir(place).unwrap());
    let manifests = entries.map(|entry| entry.unwrap().path().join("Cargo.toml")).filter(|path| path.is_file());
    let name = |path: PathBuf| {
        let text = fs::read_to_string(path).unwrap();
        text.lines().find_map(|line| line.strip_prefix("name = ")).map(|name| name.trim_matches('"').to_owned())
    };
    manifests.filter_map(name).collect()
}

/// What is wrong with the arguments of our binary, if anything: an unknown subcommand or option.
fn fault_of_pageblock(words: &[String]) -> Option<String> {
    let mut path = Vec::new();
    let help = |path: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_pageblock")).args(path).arg("--help").output().unwrap();
        output.status.success().then(|| String::from_utf8(output.stdout).unwrap())
    };
    let mut text = help(&[])?;
    for word in words {
        let is_subcommand = text.lines().any(|line| line.trim_start().split(' ').next() == Some(word.as_str()));
        if is_subcommand && text.contains("Commands:") {
            path.push(word.as_str());
            text = help(&path)?;
        } else if text.contains("Commands:") && !word.starts_with('-') {
            return Some(format!("`{word}` is no subcommand"));
        } else if word.starts_with("--") && !text.contains(word.as_str()) {
            return Some(format!("{path:?} has no option `{word}`"));
        }
    }
    None
}

fn fault_of_cargo(words: &[String]) -> Option<String> {
    if let Some(package) = value(words, &["-p", "--package"])
        && !packages().iter().any(|name| name == package)
    {
        return Some(format!("there is no package `{package}`"));
    }
    let ours = ["run", "test", "bench", "doc", "check", "build", "package", "install", "deny", "add"];
    let known = words.first().is_some_and(|word| ours.contains(&word.as_str()));
    let whole = value(words, &["-p", "--package"]).is_none() && value(words, &["--manifest-path"]).is_none();
    if words.first().is_some_and(|word| word == "experiment") {
        // An alias of .cargo/config.toml.
        return fault_of_pageblock(&[&["run".to_owned()], &words[1..]].concat());
    }
    if words.first().is_some_and(|word| word == "run") && whole {
        let rest = words.iter().skip_while(|word| *word != "--").skip(1).cloned().collect::<Vec<_>>();
        return fault_of_pageblock(&rest);
    }
    (!known).then(|| format!("cargo {words:?}"))
}

/// What is wrong with a command, if anything.
fn fault(words: &[String]) -> Option<String> {
    let words = words.iter().skip_while(|word| word.contains('=')).cloned().collect::<Vec<_>>();
    let (first, rest) = words.split_first()?;
    match first.as_str() {
        "pageblock" => fault_of_pageblock(rest),
        "cargo" => fault_of_cargo(rest),
        "./ci.sh" => {
            let jobs = read("ci.sh");
            let missing = rest
                .iter()
                .find(|job| !["help", "JOB"].contains(&job.as_str()) && !jobs.contains(&format!("\njob_{job}() {{")));
            missing.map(|job| format!("ci.sh has no job `{job}`"))
        }
        "mdbook" => None,
        path if path.contains('/') => (!root().join(path).is_file()).then(|| format!("there is no `{path}`")),
        _ => Some("this test does not know the command: teach it".into()),
    }
}

#[test]
fn commands_exist() {
    let mut checked = 0;
    for (name, text) in texts() {
        for words in commands(&text) {
            checked += 1;
            assert_eq!(fault(&words), None, "{name}: {}", words.join(" "));
        }
    }
    assert!(checked >= 20, "{checked} commands found");
}

#[test]
fn wrong_commands_are_found() {
    for line in [
        "pageblock nonsense",
        "pageblock replay T --nonsense",
        "pageblock run nonsense",
        "cargo run --release -- nonsense",
        "cargo experiment nonsense",
        "cargo test -p nonsense",
        "cargo nonsense",
        "./ci.sh nonsense",
        "benches/nonsense",
        "nonsense",
    ] {
        let words = shlex::split(line).unwrap();
        assert!(fault(&words).is_some(), "{line}");
    }
}

#[test]
fn chapters_are_listed_and_their_programs_run() {
    let (summary, ours) = (read("docs/SUMMARY.md"), read("crates/lab/src/guide.rs"));
    for name in chapters() {
        assert!(summary.contains(&format!("({name})")), "{name} is not in SUMMARY.md");
        let include = format!("include_str!(\"../../../docs/{name}\")");
        assert!(ours.contains(&include), "the programs of {name} are not compiled");
    }
    let languages = ["rust", "rust,no_run", "toml", "text", "sh", "console"];
    for (name, text) in texts() {
        for (language, _) in blocks(&text) {
            let looked_at = languages.contains(&language) || language == "rust,ignore";
            assert!(looked_at, "{name}: a block of `{language}` would not be looked at");
        }
    }
}

#[test]
fn programs_that_are_not_compiled_here_are_parts_of_examples_that_are() {
    for (name, text) in texts() {
        for (_, body) in blocks(&text).into_iter().filter(|(language, _)| *language == "rust,ignore") {
            if let Some((path, program)) = body.strip_prefix("// ").and_then(|body| body.split_once('\n')) {
                assert_eq!(read(path), program, "{name}: {path}");
                continue;
            }
            let include = body.trim().strip_prefix("{{#include ../").and_then(|rest| rest.strip_suffix("}}"));
            let (path, anchor) = include.and_then(|include| include.split_once(':')).unwrap_or_else(|| {
                panic!("{name}: a block that is ignored is text beside the code, not the code:\n{body}");
            });
            let program = read(path);
            for mark in [format!("// ANCHOR: {anchor}\n"), format!("// ANCHOR_END: {anchor}\n")] {
                assert!(program.contains(&mark), "{name}: {path} has no `{}`", mark.trim());
            }
        }
    }
}

/// The line of facts: compiler, dependencies and licence are those of the manifests.
#[test]
fn the_readme_tells_the_facts_of_the_manifests() {
    let (readme, manifest) = (read("README.md"), read("Cargo.toml"));
    let value = |key: &str| manifest.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).unwrap();
    let facts = readme.lines().find(|line| line.contains(" · ")).unwrap();
    assert!(facts.contains(&format!("Rust {} or later", value("rust-version").trim_matches('"'))), "{facts}");
    assert_eq!(value("license").trim_matches('"').replace("OR", "or"), facts.rsplit(" · ").next().unwrap());
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--offline", "--package", "pageblock", "--edges", "normal", "--prefix", "none"])
        .current_dir(root())
        .output()
        .unwrap();
    let tree = String::from_utf8(output.stdout).unwrap();
    let mut others: Vec<_> =
        tree.lines().filter_map(|line| line.split(' ').next()).filter(|name| !name.starts_with("pageblock")).collect();
    others.sort_unstable();
    others.dedup();
    let named: Vec<_> = facts.split('`').skip(1).step_by(2).filter(|word| *word != "std").collect();
    assert_eq!(others, named);
}

#[test]
fn links_lead_somewhere() {
    for (name, text) in texts() {
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| !link.contains("://") && !link.starts_with('#')) {
            let target = root().join(&name).parent().unwrap().join(link.split('#').next().unwrap_or(link));
            assert!(target.exists(), "{name}: {link}");
        }
    }
}

/// The paths of a text: words in backticks, outside code blocks, that begin with a folder of the repository or end as a
/// file does.
fn paths(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    let words = prose.flat_map(|part| part.split('`').skip(1).step_by(2));
    let folders = [".ci/", "benches/", "crates/", "docs/", "examples/", "fuzz/", "traces/"];
    let files = [".rs", ".md", ".toml", ".sh"];
    words
        .filter(|word| word.contains('/') && !word.contains(|c: char| c.is_whitespace() || c == '*'))
        .filter(|word| folders.iter().any(|f| word.starts_with(f)) || files.iter().any(|end| word.ends_with(end)))
        .collect()
}

/// Files of a reader's own crate.
const READERS: [&str; 1] = ["tests/loom.rs"];

fn exists(document: &str, path: &str) -> bool {
    root().join(path).exists() || root().join(document).parent().is_some_and(|folder| folder.join(path).exists())
}

#[test]
fn paths_exist() {
    let mut checked = 0;
    for (name, text) in texts() {
        for path in paths(&text).into_iter().filter(|path| !READERS.contains(path)) {
            checked += 1;
            assert!(exists(&name, path), "{name}: there is no `{path}`");
        }
    }
    assert!(checked >= 60, "{checked} paths found");
}

#[test]
fn wrong_paths_are_found() {
    let text =
        "`crates/nonsense.rs`, `nonsense/lib.rs`\n```sh\n`crates/code`\n```\n`a / b`, `docs/*.md`, `docs/loom.md`";
    let found = paths(text);
    assert_eq!(found, ["crates/nonsense.rs", "nonsense/lib.rs", "docs/loom.md"]);
    assert_eq!(found.iter().map(|path| exists("README.md", path)).collect::<Vec<_>>(), [false, false, true]);
}
