//! Files that are written whole or not at all.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;

/// Writes a file beside its place and renames it: a reader sees the file of before or all of the new one. A device or a
/// pipe is written to and never replaced; a link leads to its file.
///
/// # Errors
/// The file's name, and the system's message; a former file is unchanged.
pub(crate) fn write_whole(path: &Path, content: &[u8]) -> anyhow::Result<()> {
    let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if fs::metadata(&place).is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        let written = fs::File::options().write(true).open(&place).and_then(|mut stream| stream.write_all(content));
        return written.with_context(|| format!("{} cannot be written", path.display()));
    }
    let name = place.file_name().unwrap_or_default().to_string_lossy();
    let part = place.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let write = || {
        let mut file = fs::File::create(&part)?;
        file.write_all(content)?;
        drop(file);
        fs::rename(&part, &place)
    };
    let written = write();
    if written.is_err() {
        let _ = fs::remove_file(&part);
    }
    written.with_context(|| format!("{} cannot be written", path.display()))
}

/// Makes a directory and writes into it, so that it is known before the work whether that can be.
///
/// # Errors
/// The directory's name, and the system's message.
pub(crate) fn prepare(directory: &Path) -> anyhow::Result<()> {
    fs::create_dir_all(directory).with_context(|| format!("{} cannot be made", directory.display()))?;
    let probe = directory.join(format!(".probe.{}", std::process::id()));
    let write = fs::File::create(&probe).and_then(|mut file| file.write_all(&[0]));
    let _ = fs::remove_file(&probe);
    write.with_context(|| format!("{} cannot be written to", directory.display()))
}

/// Where a report goes: the directory that was asked for; else below `target` of the current directory, if there is
/// one; else into a new temporary directory.
///
/// # Errors
/// The directory cannot be made or written to.
pub(crate) fn report_directory(asked: Option<&Path>) -> anyhow::Result<PathBuf> {
    let directory = match asked {
        Some(directory) => directory.to_owned(),
        None if Path::new("target").is_dir() => PathBuf::from("target/report"),
        None => temporary()?,
    };
    prepare(&directory)?;
    Ok(directory)
}

/// A directory that did not exist before.
fn temporary() -> anyhow::Result<PathBuf> {
    let parent = std::env::temp_dir();
    let mut number = std::process::id();
    loop {
        let directory = parent.join(format!("pageblock-report-{number}"));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number = number.wrapping_add(1),
            Err(error) => return Err(error).with_context(|| format!("{} cannot be made", directory.display())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_cannot_be_written_leaves_the_one_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        write_whole(&path, b"first").unwrap();
        write_whole(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let error = write_whole(&path, b"third").unwrap_err().to_string();
        assert!(error.ends_with("page cannot be written"), "{error}");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1, "no part of a file stays");
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn a_device_is_written_to_and_a_link_followed() {
        use std::os::unix::fs::{FileTypeExt, symlink};
        let directory = tempfile::tempdir().unwrap();
        let link = directory.path().join("link");
        symlink("/dev/full", &link).unwrap();
        assert!(write_whole(&link, b"more than nothing").is_err());
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
        fs::remove_file(&link).unwrap();
        symlink(directory.path().join("file"), &link).unwrap();
        fs::write(&link, b"old").unwrap();
        write_whole(&link, b"new").unwrap();
        assert_eq!(fs::read(directory.path().join("file")).unwrap(), b"new");
    }

    #[test]
    fn a_file_in_the_place_of_a_directory_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("page");
        fs::write(&path, "").unwrap();
        let error = report_directory(Some(&path)).unwrap_err().to_string();
        assert!(error.ends_with("page cannot be made"), "{error}");
    }
}
