//! The subcommands of the binary `pageblock`.

pub mod map;
