//! One page for all that was run into a directory: the replay's, and after it a part for each experiment.
//!
//! A part stands between two comments with its name. So a later run finds it and takes its place, and a later replay
//! keeps all of them.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use anyhow::Context;

const END: &str = "</body></html>\n";
#[cfg(feature = "experiments")]
const EMPTY: &str = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>pageblock</title>\
    <style>body{font:15px system-ui,sans-serif;max-width:80rem;margin:2rem auto}\
    pre{overflow-x:auto;font-size:12.5px}svg{max-width:100%;height:auto}</style></head>\n<body>\n</body></html>\n";

fn opening(name: &str) -> String {
    format!("<!-- experiment {name} -->\n")
}

fn closing(name: &str) -> String {
    format!("<!-- end of {name} -->\n")
}

/// The page with this part, in its place if it was there, else at the end.
fn with_part(page: &str, name: &str, part: &str) -> String {
    let part = format!("{}{part}\n{}", opening(name), closing(name));
    let found =
        page.split_once(&opening(name)).and_then(|(before, rest)| Some((before, rest.split_once(&closing(name))?.1)));
    match found {
        Some((before, after)) => format!("{before}{part}{after}"),
        None => format!("{}{part}{END}", page.strip_suffix(END).unwrap_or(page)),
    }
}

/// The parts of a page: name and content.
fn parts(page: &str) -> Vec<(String, String)> {
    let after = page.split("<!-- experiment ").skip(1);
    let part = |text: &str| {
        let (name, rest) = text.split_once(" -->\n")?;
        let (part, _) = rest.split_once(&closing(name))?;
        Some((name.to_owned(), part.trim_end().to_owned()))
    };
    after.filter_map(part).collect()
}

/// The existing index; `None` if there is no page.
fn read(directory: &Path) -> anyhow::Result<Option<String>> {
    let path = directory.join("index.html");
    match fs::read_to_string(&path) {
        Ok(page) => Ok(Some(page)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Adds an experiment's part to the directory's page, which is made if there is none.
#[cfg(feature = "experiments")]
pub(crate) fn add(directory: &Path, name: &str, part: &str) -> anyhow::Result<()> {
    let page = read(directory)?.unwrap_or_else(|| EMPTY.to_owned());
    let path = directory.join("index.html");
    crate::output::write_whole(&path, with_part(&page, name, part).as_bytes())
}

/// A new page for the directory, with the parts that the one before had.
pub(super) fn renew(directory: &Path, page: String) -> anyhow::Result<String> {
    let kept = read(directory)?.map_or(Vec::new(), |before| parts(&before));
    Ok(kept.iter().fold(page, |page, (name, part)| with_part(&page, name, part)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_takes_the_place_of_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let page = || fs::read_to_string(directory.path().join("index.html")).unwrap();
        add(directory.path(), "one", "<h2>1</h2>").unwrap();
        add(directory.path(), "two", "<h2>2</h2>").unwrap();
        add(directory.path(), "one", "<h2>again</h2>").unwrap();
        let found = [("one".to_owned(), "<h2>again</h2>".to_owned()), ("two".to_owned(), "<h2>2</h2>".to_owned())];
        assert_eq!(parts(&page()), found);
        assert!(page().ends_with(END) && !page().contains("<h2>1</h2>"), "{}", page());
    }

    #[test]
    fn a_new_replay_keeps_the_experiments() {
        let directory = tempfile::tempdir().unwrap();
        let bare = format!("<html><body><h1>replay</h1>\n{END}");
        assert_eq!(renew(directory.path(), bare.clone()).unwrap(), bare);
        add(directory.path(), "one", "<h2>1</h2>").unwrap();
        let page = renew(directory.path(), bare).unwrap();
        assert!(page.starts_with("<html><body><h1>replay</h1>\n<!-- experiment one -->\n<h2>1</h2>\n"), "{page}");
        assert_eq!(page.matches(END).count(), 1, "{page}");
    }

    #[test]
    fn a_page_that_is_no_text_is_an_error_with_its_name() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("index.html"), [0xff, 0xfe]).unwrap();
        let error = format!("{:#}", add(directory.path(), "one", "").unwrap_err());
        assert!(error.contains("index.html cannot be read"), "{error}");
    }
}
