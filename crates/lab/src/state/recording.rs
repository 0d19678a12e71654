//! The files of a recording together.

use std::io;
use std::path::{Path, PathBuf};

use super::{Buddyinfo, FrameMap, Iomem, Pagetypeinfo, Zoneinfo};
use crate::InputError;

/// The machine at one time, by the files of one directory.
///
/// ```
/// use pageblock_lab::state::State;
/// let error = State::load("no/such/directory".as_ref()).unwrap_err();
/// assert!(error.to_string().starts_with("no/such/directory/iomem: expected a memory map"));
/// ```
#[derive(Clone, Debug)]
pub struct State {
    /// The directory.
    pub directory: PathBuf,
    /// Which addresses are memory.
    pub iomem: Iomem,
    /// Free blocks by order.
    pub buddyinfo: Buddyinfo,
    /// Free blocks by type and order.
    pub pagetypeinfo: Pagetypeinfo,
    /// Extents and watermarks.
    pub zoneinfo: Zoneinfo,
    /// Every frame, where it was recorded.
    pub frames: Option<FrameMap>,
}

impl State {
    /// Reads `iomem`, `buddyinfo`, `pagetypeinfo`, `zoneinfo` and, where it is there, `kpageflags.rle.zst` or
    /// `kpageflags.rle`.
    ///
    /// # Errors
    /// The first file that is missing or malformed.
    pub fn load(directory: &Path) -> Result<Self, InputError> {
        let frames = ["kpageflags.rle.zst", "kpageflags.rle"].map(|name| directory.join(name));
        let frames = frames.into_iter().find(|path| path.exists());
        Ok(Self {
            directory: directory.to_owned(),
            iomem: Iomem::load(&directory.join("iomem"))?,
            buddyinfo: Buddyinfo::load(&directory.join("buddyinfo"))?,
            pagetypeinfo: Pagetypeinfo::load(&directory.join("pagetypeinfo"))?,
            zoneinfo: Zoneinfo::load(&directory.join("zoneinfo"))?,
            frames: frames.map(|path| FrameMap::load(&path)).transpose()?,
        })
    }
}

/// The state before a trace and, where it was recorded, after it.
///
/// ```
/// use pageblock_lab::state::Recording;
/// let error = Recording::load("no/such/directory".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "no/such/directory: expected a directory with the machine's state");
/// ```
#[derive(Clone, Debug)]
pub struct Recording {
    /// Before.
    pub before: State,
    /// After.
    pub after: Option<State>,
}

impl Recording {
    /// Reads `before` and, if it is there, `after` in `directory`; or `directory` itself as the state before.
    ///
    /// # Errors
    /// The directory is missing, or the first file that is missing or malformed.
    pub fn load(directory: &Path) -> Result<Self, InputError> {
        if !directory.is_dir() {
            let (file, expected) = (directory.to_owned(), "a directory with the machine's state");
            return Err(InputError::Open { file, expected, source: io::ErrorKind::NotADirectory.into() });
        }
        let before = directory.join("before");
        if !before.is_dir() && directory.join("buddyinfo").exists() {
            return Ok(Self { before: State::load(directory)?, after: None });
        }
        let after = directory.join("after");
        Ok(Self {
            before: State::load(&before)?,
            after: if after.is_dir() { Some(State::load(&after)?) } else { None },
        })
    }
}
