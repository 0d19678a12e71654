//! The one writer of standard output and standard error.

use std::io::{self, IsTerminal, Write};

use clap::ValueEnum;

/// The reader of standard output has gone: the program ends without a word.
#[derive(Debug)]
pub(crate) struct StreamClosed;

impl std::fmt::Display for StreamClosed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("standard output is closed")
    }
}

impl std::error::Error for StreamClosed {}

/// Writes to standard output.
///
/// # Errors
/// [`StreamClosed`] if the reader has gone; otherwise the fault of the device, such as a full disk.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut stream = io::stdout().lock();
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(StreamClosed.into()),
        Err(error) => Err(anyhow::Error::new(error).context("standard output cannot be written")),
    }
}

/// Writes a line to standard error, with control characters escaped. A fault there has no place to be told.
pub(crate) fn tell(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(line));
}

/// The text with everything escaped that a terminal would obey rather than show; ends of lines and tabs stay.
pub(crate) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        let hidden = matches!(character, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
        if hidden || (character.is_control() && !matches!(character, '\n' | '\t')) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    shown
}

/// When colours are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Colour {
    /// On a terminal, unless NO_COLOR is set
    #[default]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// How much is said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Level {
    /// Results that were asked for, and faults.
    Quiet,
    /// The verdict and one table.
    Ordinary,
    /// Every table and remark.
    Verbose,
}

/// How results are shown.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Console {
    /// How much is said.
    pub(crate) level: Level,
    colour: bool,
}

impl Console {
    /// By the options, and by the kind of standard output.
    pub(crate) fn new(level: Level, colour: Colour) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let colour = match colour {
            Colour::Auto => io::stdout().is_terminal() && !set("NO_COLOR") && !dumb,
            Colour::Always => true,
            Colour::Never => false,
        };
        Self { level, colour }
    }

    /// True if progress may be shown: standard error is a terminal, and silence was not asked for.
    pub(crate) fn shows_progress(&self) -> bool {
        self.level > Level::Quiet && io::stderr().is_terminal()
    }

    /// The text in bold.
    pub(crate) fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_nothing_that_it_would_obey() {
        assert_eq!(printable("a\x1b[31m\x07\u{202e}b\n\tc\u{feff}é"), "a\\u{1b}[31m\\u{7}\\u{202e}b\n\tc\\u{feff}é");
    }

    #[test]
    fn colours_are_used_where_they_are_wanted() {
        let bold = |colour| Console::new(Level::Ordinary, colour).bold("x");
        assert_eq!((bold(Colour::Always), bold(Colour::Never)), ("\x1b[1mx\x1b[0m".to_owned(), "x".to_owned()));
    }
}
