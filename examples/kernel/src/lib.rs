//! Builds the kernel image and runs it in QEMU: shared by the command `pageblock-kernel` and the tests.
//!
//! The image is a package of its own in `image/`, outside this workspace: it is linked into one `no_std` program, so
//! its dependencies must not be built with the `std` features that the workspace's hosted packages ask for. It needs
//! nothing but stable cargo for the host's own target, which has to be x86_64 Linux.
//!
//! The second image, `tiny/`, is the smallest kernel on the allocator; [`sizes`] lists the parts of its code.
//!
//! Invariant: a run passed if and only if QEMU's status is [`PASS`]. A triple fault ends QEMU with status 0.

#![forbid(unsafe_code)]

mod sizes;

use std::env;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

pub use sizes::{Sizes, sizes};

/// QEMU's exit status when the kernel is content.
pub const PASS: i32 = 33;
/// QEMU's exit status when the kernel found something wrong.
pub const FAIL: i32 = 35;

const QEMU: &str = "qemu-system-x86_64";

/// Which kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The one with everything, in `image/`.
    Kernel,
    /// The smallest one, in `tiny/`.
    Tiny,
}

impl Image {
    fn dir(self) -> &'static str {
        match self {
            Self::Kernel => "image",
            Self::Tiny => "tiny",
        }
    }

    fn program(self) -> &'static str {
        match self {
            Self::Kernel => "pageblock-kernel-image",
            Self::Tiny => "pageblock-tiny-image",
        }
    }
}

/// How the image is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Quick to compile, with the compiler's checks.
    Dev,
    /// As it would be shipped.
    Release,
}

impl Profile {
    /// The profile that this program itself was compiled with.
    #[must_use]
    pub fn of_this_program() -> Self {
        if cfg!(debug_assertions) { Self::Dev } else { Self::Release }
    }

    fn dir(self) -> &'static str {
        match self {
            Self::Dev => "debug",
            Self::Release => "release",
        }
    }
}

/// A virtual machine and its orders.
///
/// ```
/// use std::path::Path;
/// let machine = pageblock_kernel::Machine { memory: "1G".into(), ..Default::default() };
/// let command = machine.command(Path::new("qemu"), Path::new("image"));
/// assert!(command.get_args().any(|word| word == "1G"));
/// ```
#[derive(Clone, Debug)]
pub struct Machine {
    /// QEMU's `-m`.
    pub memory: String,
    /// Number of CPUs.
    pub cpus: u32,
    /// QEMU's `-M`: pc, q35 or microvm.
    pub machine: String,
    /// Counts instructions instead of time: every figure is exact and every run the same.
    pub icount: bool,
    /// The kernel's command line.
    pub append: String,
}

impl Default for Machine {
    fn default() -> Self {
        Self { memory: "512M".into(), cpus: 4, machine: "q35".into(), icount: false, append: String::new() }
    }
}

impl Machine {
    /// The command that boots `image` on this machine, its serial port on standard input and output.
    #[must_use]
    pub fn command(&self, qemu: &Path, image: &Path) -> Command {
        let mut command = Command::new(qemu);
        command.args(["-accel", "tcg", "-nodefaults", "-no-reboot", "-display", "none"]);
        command.args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"]);
        command.args(["-M", &self.machine, "-m", &self.memory, "-smp", &self.cpus.to_string()]);
        if self.icount {
            command.args(["-icount", "shift=0,sleep=off"]);
        }
        command.arg("-kernel").arg(image).args(["-append", &self.append]);
        command
    }

    /// Runs the machine to its end and returns its status and everything it printed.
    ///
    /// # Errors
    /// QEMU cannot be started, or is not done after `limit` and was stopped; the error then has the log.
    pub fn run(&self, qemu: &Path, image: &Path, limit: Duration) -> Result<Run> {
        let mut command = self.command(qemu, image);
        command.args(["-serial", "stdio"]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        finish(command.spawn().context("cannot start QEMU")?, limit)
    }

    /// Runs the machine as [`run`](Self::run) does, typing `input` at its serial port.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn converse(&self, qemu: &Path, image: &Path, input: &str, limit: Duration) -> Result<Run> {
        use std::io::Write;
        let mut command = self.command(qemu, image);
        command.args(["-serial", "stdio"]).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("cannot start QEMU")?;
        let mut keyboard = child.stdin.take().context("no standard input")?;
        keyboard.write_all(input.as_bytes()).context("cannot type")?;
        // The pipe stays open until the machine ends: QEMU need not see an end of input.
        let run = finish(child, limit);
        drop(keyboard);
        run
    }
}

/// A finished run.
#[derive(Debug)]
pub struct Run {
    /// QEMU's exit status; `None` if a signal ended it.
    pub status: Option<i32>,
    /// The kernel's output, and then QEMU's complaints.
    pub log: String,
}

fn collect(mut source: impl Read + Send + 'static) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // The output before an error is complete.
        let _ = source.read_to_end(&mut bytes);
        String::from_utf8_lossy(&bytes).replace('\r', "")
    })
}

fn finish(mut child: Child, limit: Duration) -> Result<Run> {
    let stdout = collect(child.stdout.take().context("no standard output")?);
    let stderr = collect(child.stderr.take().context("no standard error")?);
    let deadline = Instant::now() + limit;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break Some(status.code());
        }
        if Instant::now() > deadline {
            child.kill().context("cannot stop QEMU")?;
            child.wait()?;
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let log = stdout.join().unwrap_or_default() + &stderr.join().unwrap_or_default();
    match status {
        Some(status) => Ok(Run { status, log }),
        None => bail!("the kernel did not finish within {limit:?}; it printed:\n{log}"),
    }
}

/// Finds QEMU on the search path.
///
/// # Errors
/// It is not there; the error says how to install it.
pub fn find_qemu() -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path).map(|dir| dir.join(QEMU)).find(|file| file.is_file());
    found.with_context(|| {
        format!(
            "{QEMU} is not installed. Debian, Ubuntu: apt install qemu-system-x86; Fedora: dnf install \
             qemu-system-x86-core; Arch: pacman -S qemu-system-x86; macOS: brew install qemu"
        )
    })
}

/// Compiles a kernel with the cargo that runs this program, or the one on the search path; returns the file.
///
/// # Errors
/// cargo cannot be started or fails; it has said why on standard error.
pub fn build_image(image: Image, profile: Profile) -> Result<PathBuf> {
    if !cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        bail!("the kernel is compiled for the host's own target, which has to be x86_64 Linux");
    }
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join(image.dir());
    let target = target_dir().unwrap_or_else(|| package.join("target")).join("kernel");
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.arg("build").arg("--manifest-path").arg(package.join("Cargo.toml"));
    cargo.arg("--target-dir").arg(&target);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    // Flags meant for the host, `target-cpu=native` or coverage, make a kernel that does not boot.
    cargo.env("CARGO_ENCODED_RUSTFLAGS", "").env_remove("RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
    let status = cargo.status().context("cannot start cargo")?;
    if !status.success() {
        bail!("cargo could not build the kernel image ({status})");
    }
    Ok(target.join(profile.dir()).join(image.program()))
}

/// The build directory that this program lies in: `TARGET/PROFILE/program`, a test one step deeper in `deps`.
fn target_dir() -> Option<PathBuf> {
    let program = env::current_exe().ok()?;
    let dir = program.parent()?;
    let profile = if dir.ends_with("deps") { dir.parent()? } else { dir };
    profile.parent().map(Path::to_path_buf)
}
