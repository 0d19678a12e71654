//! Links the kernel to where the board's firmware starts it.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/linker.ld");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    // RAM begins at 2 GiB, with OpenSBI in the first 4 MiB; at 1 GiB, with the device tree in the first 1 MiB.
    let base = if arch == "aarch64" { "0x40200000" } else { "0x80400000" };
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--defsym=image_start={base}");
}
