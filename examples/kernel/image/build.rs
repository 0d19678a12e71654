//! Links the kernel for bare metal: no start files, no dynamic loader, our own addresses.

fn main() {
    let dir = env!("CARGO_MANIFEST_DIR");
    println!("cargo:rerun-if-changed=linker.ld");
    // The targets of global_asm!(include_str!(..)) are tracked by rustc itself.
    for arg in [
        "-nostartfiles",
        "-nostdlib",
        "-static",
        "-no-pie",
        "-Wl,--build-id=none",
        "-Wl,--no-eh-frame-hdr",
        "-Wl,-z,norelro",
        "-Wl,-z,max-page-size=4096",
    ] {
        println!("cargo:rustc-link-arg-bin=pageblock-kernel-image={arg}");
    }
    println!("cargo:rustc-link-arg-bin=pageblock-kernel-image=-Wl,-T,{dir}/linker.ld");
}
