//! Errors and statistics through `defmt`, as their `Display` says them.

use defmt::{Display2Format, Format, Formatter, write};

use crate::{AddError, AllocError, CompactError, ConfigError, InitError, Stats, VmStat};

macro_rules! format_as_displayed {
    ($($name:ty),* $(,)?) => {$(
        #[cfg_attr(docsrs, doc(cfg(feature = "defmt")))]
        impl Format for $name {
            fn format(&self, f: Formatter<'_>) {
                write!(f, "{}", Display2Format(self));
            }
        }
    )*};
}

format_as_displayed!(AddError, AllocError, CompactError, ConfigError, InitError, Stats, VmStat);
