//! Links the kernel for bare metal, at the same addresses as the large one.

#[path = "../link.rs"]
mod link;

fn main() {
    link::link("pageblock-tiny-image", concat!(env!("CARGO_MANIFEST_DIR"), "/../image/linker.ld"));
}
