//! Links the kernel for bare metal.

#[path = "../link.rs"]
mod link;

fn main() {
    link::link("pageblock-kernel-image", concat!(env!("CARGO_MANIFEST_DIR"), "/linker.ld"));
}
