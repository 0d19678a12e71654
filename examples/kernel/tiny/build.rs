//! Links the kernel for bare metal: no start files, no dynamic loader, our own addresses.

fn main() {
    let dir = env!("CARGO_MANIFEST_DIR");
    let script = format!("{dir}/../image/linker.ld");
    println!("cargo:rerun-if-changed={script}");
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
        println!("cargo:rustc-link-arg-bin=pageblock-tiny-image={arg}");
    }
    println!("cargo:rustc-link-arg-bin=pageblock-tiny-image=-Wl,-T,{script}");
}
