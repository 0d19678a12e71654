//! `examples/embedded`, a program without standard library, heap or start files, links against the allocator, does its
//! work, and contains no panic. What diagnosis would need is not in it: the features that are off cost no byte.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the program as it would be shipped.
fn build() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let target = root.join("target/embedded");
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "--quiet", "--manifest-path"])
        .arg(root.join("examples/embedded/Cargo.toml"))
        .arg("--target-dir")
        .arg(&target)
        // The flags of a sanitizer or model run of this test are not the program's.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .status()
        .unwrap();
    assert!(status.success(), "the program does not link");
    target.join("release/pageblock-embedded")
}

/// True if what the program loads has the name of a source file, as the callers' places have that `page_owner` keeps.
fn names_a_source_file(bytes: &[u8]) -> bool {
    let number = |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    // The program headers' place, size and count; then type, place in the file and size there of each.
    let (table, size, count) = (number(0x20, 8), number(0x36, 2), number(0x38, 2));
    let headers = (0..count).map(|i| table + i * size).filter(|header| number(*header, 4) == 1);
    headers.map(|header| (number(header + 8, 8), number(header + 0x20, 8))).any(|(start, len)| {
        let loaded = &bytes[start..start + len];
        loaded.windows(3).any(|window| window == b".rs")
    })
}

/// The names in the program's symbol table.
fn symbols(bytes: &[u8]) -> Vec<String> {
    let number = |at: usize, len: usize| bytes[at..at + len].iter().rev().fold(0, |n, b| n << 8 | usize::from(*b));
    // ELF64, little endian: the section headers' place, size and count; then type, place, size and link of each.
    assert_eq!(bytes[..6], *b"\x7fELF\x02\x01");
    let (table, size, count) = (number(0x28, 8), number(0x3a, 2), number(0x3c, 2));
    let section = |i: usize| table + i * size;
    let mut names = Vec::new();
    for header in (0..count).map(section).filter(|header| number(header + 4, 4) == 2) {
        let (start, len) = (number(header + 0x18, 8), number(header + 0x20, 8));
        let strings = number(section(number(header + 0x28, 4)) + 0x18, 8);
        for symbol in (start..start + len).step_by(24) {
            let text = &bytes[strings + number(symbol, 4)..];
            let end = text.iter().position(|byte| *byte == 0).unwrap();
            names.push(String::from_utf8_lossy(&text[..end]).into_owned());
        }
    }
    names
}

#[test]
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
fn a_program_without_anything_links_runs_and_cannot_panic() {
    let program = build();
    let status = Command::new(&program).status().unwrap();
    assert_eq!(status.code(), Some(0), "the number is the step that went wrong");
    let bytes = std::fs::read(&program).unwrap();
    let names = symbols(&bytes);
    assert!(names.iter().any(|name| name.contains("pageblock")), "the symbols were read: {names:?}");
    let forbidden = ["panic", "unwrap_failed", "expect_failed", "index_fail", "__rust_alloc", "malloc", "_Unwind"];
    let found: Vec<_> = names.iter().filter(|name| forbidden.iter().any(|word| name.contains(word))).collect();
    assert!(found.is_empty(), "{found:?}");
    let found: Vec<_> =
        names.iter().filter(|name| ["page_owner", "poison"].iter().any(|word| name.contains(word))).collect();
    assert!(found.is_empty(), "{found:?}");
    assert!(!names_a_source_file(&bytes), "a place in the source is kept for a feature that is off");
}
