//! For the build scripts of the images.

/// Links `program` for bare metal: no start files, no dynamic loader, at the addresses of the script.
pub fn link(program: &str, script: &str) {
    println!("cargo:rerun-if-changed={script}");
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
        println!("cargo:rustc-link-arg-bin={program}={arg}");
    }
    println!("cargo:rustc-link-arg-bin={program}=-Wl,-T,{script}");
}
