//! Errors through `defmt`, as their `Display` says them.

use defmt::{Display2Format, Format, Formatter, write};

use crate::FreeError;

impl Format for FreeError {
    fn format(&self, f: Formatter<'_>) {
        write!(f, "{}", Display2Format(self));
    }
}
