//! Parts of an image's code, by its symbols.

use std::fmt;
use std::path::Path;

use anyhow::{Context, Result};
use object::{Object, ObjectSymbol, SymbolKind};

/// Bytes of code by origin. A function that was inlined counts where it went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sizes {
    /// `pageblock-buddy`.
    pub buddy: u64,
    /// `pageblock`, without code that runs once at boot.
    pub facade: u64,
    /// Code that runs once at boot: the memory map made clean, zones and watermarks set up.
    pub boot: u64,
    /// The rest: the kernel's own code, and the compiler's libraries.
    pub rest: u64,
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { buddy, facade, boot, rest } = self;
        writeln!(f, "code: buddy {buddy}, facade {facade}, boot {boot}, the rest {rest} bytes")
    }
}

/// Adds up the functions of an image.
///
/// # Errors
/// The file cannot be read, or is no ELF file.
pub fn sizes(image: &Path) -> Result<Sizes> {
    let bytes = std::fs::read(image).with_context(|| format!("cannot read {}", image.display()))?;
    let file = object::File::parse(&*bytes).context("not an ELF file")?;
    let mut sizes = Sizes::default();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let name = format!("{:#}", rustc_demangle::demangle(symbol.name().unwrap_or("")));
        *sizes.place(&name) += symbol.size();
    }
    Ok(sizes)
}

impl Sizes {
    /// Where a function of this name belongs.
    fn place(&mut self, name: &str) -> &mut u64 {
        let boot = ["pageblock_memmap", "pageblock::init", "_image::boot", "PageAllocator<P>::init"];
        if boot.iter().any(|part| name.contains(part)) {
            &mut self.boot
        } else if name.contains("pageblock_buddy") {
            &mut self.buddy
        } else if name.contains("pageblock::") || name.contains("pageblock_frame") {
            &mut self.facade
        } else {
            &mut self.rest
        }
    }
}
