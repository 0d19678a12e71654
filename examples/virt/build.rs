//! Links the kernel to where the board's firmware starts it.

fn main() {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/linker.ld");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    let base = match arch.as_str() {
        // Above the device tree, which is at the start of RAM.
        "aarch64" => "0x40200000",
        // Above OpenSBI, which is at the start of RAM.
        "riscv64" => "0x80200000",
        _ => "0x80000000",
    };
    println!("cargo:rerun-if-changed={script}");
    println!("cargo:rustc-link-arg-bins=-T{script}");
    println!("cargo:rustc-link-arg-bins=--defsym=image_start={base}");
}
