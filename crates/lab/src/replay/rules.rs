//! Rule sets by name: the default, and Linux releases.

use clap::ValueEnum;
use pageblock::Config;

/// Rules by which our machine allocates.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Rules {
    /// Ours: the best known of everything
    #[value(name = "default")]
    Default,
    /// Linux 3.13
    #[value(name = "linux-3.13")]
    Linux3_13,
    /// Linux 4.20-rc1, before the series against fragmentation
    #[value(name = "linux-4.20")]
    Linux4_20,
    /// Linux 6.1
    #[value(name = "linux-6.1")]
    Linux6_1,
    /// Linux 6.18
    #[value(name = "linux-6.18")]
    Linux6_18,
}

impl Rules {
    /// The name on the command line and in tables.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Linux3_13 => "linux-3.13",
            Self::Linux4_20 => "linux-4.20",
            Self::Linux6_1 => "linux-6.1",
            Self::Linux6_18 => "linux-6.18",
        }
    }

    /// Their configuration of the allocator.
    pub(crate) const fn config(self) -> Config {
        match self {
            Self::Default => Config::new(),
            Self::Linux3_13 => Config::linux_3_13(),
            Self::Linux4_20 => Config::linux_4_20(0),
            Self::Linux6_1 => Config::linux_6_1(),
            Self::Linux6_18 => Config::linux_6_18(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for rules in Rules::value_variants() {
            assert_eq!(rules.to_possible_value().unwrap().get_name(), rules.name());
        }
    }
}
