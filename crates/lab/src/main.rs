//! The binary `pageblock`: see the library's documentation.

#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    pageblock_lab::main()
}
