#!/usr/bin/env bash
# The checks, by name: ./ci.sh JOB... (all of them without arguments). CI calls this and nothing else.
set -euo pipefail
cd "$(dirname "$0")"

# Packages outside the workspace: programs without std, whose dependencies must not share features with hosted ones.
apart=(fuzz/Cargo.toml examples/lock/Cargo.toml examples/loom/Cargo.toml examples/embedded/Cargo.toml examples/virt/Cargo.toml examples/ecosystem/Cargo.toml examples/blog_os/Cargo.toml examples/kernel/image/Cargo.toml examples/kernel/tiny/Cargo.toml benches/size/Cargo.toml)

jobs_in_order=(fmt clippy lint test doc loom schedule sanitize fuzz nostd adapters depend package cross boot)
# On demand, since they take long, or need what not every machine has: sound, experiments, report, audit, orderings, mutants.

say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

job_fmt() { # formatting
    cargo fmt --all --check
    local manifest
    for manifest in "${apart[@]}"; do
        cargo fmt --manifest-path "$manifest" --check
    done
}

job_clippy() { # lints, warnings denied
    cargo clippy --workspace --all-targets --quiet -- -D warnings
    cargo clippy --package pageblock-lab --test experiments --quiet -- -D warnings
    cargo clippy --package pageblock --package pageblock-memmap --all-features --all-targets --quiet -- -D warnings
    local kernel
    for kernel in image tiny; do
        cargo clippy --manifest-path "examples/kernel/$kernel/Cargo.toml" --target-dir target/kernel --quiet -- -D warnings
    done
    local target
    for target in riscv64imac-unknown-none-elf riscv32imac-unknown-none-elf aarch64-unknown-none-softfloat; do
        for_target "$target" target/virt clippy --manifest-path examples/virt/Cargo.toml -- -D warnings
    done
}

job_lint() { # how the tree reads, and how much of it is public: no worse than it was
    cargo test --quiet --package pageblock-lab --test tool words::
    .ci/public-items
}

job_test() { # unit, property, integration and documentation tests (PCP_INTERRUPTS=1000000 for more real interrupts)
    PCP_INTERRUPTS="${PCP_INTERRUPTS:-20000}" cargo test --workspace
}

job_sound() { # what docs/soundness.md lists, under Miri where a nightly toolchain has it
    cargo test --quiet --package pageblock --test front_door
    cargo test --quiet --package pageblock --test allocator -- boot:: faults:: last_resort::
    cargo test --quiet --package pageblock --test lists -- offline:: refused::
    cargo test --quiet --package pageblock --doc -- ZoneView Frames init_simulated
    if cargo +nightly miri --version >/dev/null 2>&1; then
        # Tests lend memory for ever; an address that was exposed comes back where a platform keeps words.
        local borrows flags="-Zmiri-disable-isolation -Zmiri-ignore-leaks"
        for borrows in "" -Zmiri-tree-borrows; do
            MIRIFLAGS="$flags -Zmiri-strict-provenance $borrows" cargo +nightly miri test --package pageblock --test front_door
            MIRIFLAGS="$flags $borrows" cargo +nightly miri test --package pageblock-pcp --lib
        done
        # CPUs at the same time: each seed is another order.
        MIRIFLAGS="$flags -Zmiri-many-seeds=0..8" cargo +nightly miri test --manifest-path examples/loom/Cargo.toml --tests
    else
        say "without Miri: rustup toolchain install nightly --component miri"
    fi
}

job_experiments() { # the experiments' tests, which take minutes
    cargo test --release --package pageblock-lab --test experiments
    cargo test --release --package pageblock-lab --lib -- --ignored
}

job_report() { # the page of a replay, driven in a headless browser
    cargo build --release --package pageblock-lab
    crates/lab/tests/report.sh target/release/pageblock
}

job_doc() { # documentation without warnings
    RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --quiet
}

job_loom() { # model checking, at most two preemptions (LOOM_MAX_PREEMPTIONS=3 for more)
    local manifest package output
    for manifest in crates/*/tests/loom.rs; do
        package=$(sed -n 's/^name = "\(.*\)"/\1/p' "$(dirname "$manifest")/../Cargo.toml" | head -n 1)
        say "models of $package"
        output=$(RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" \
            cargo test --quiet --package "$package" --test loom -- --nocapture 2>&1) || { echo "$output"; return 1; }
        echo "$output"
        # Without the cfg the test binary is empty, and silence would look like success.
        grep -qE '^running [1-9][0-9]* tests?' <<<"$output" || { echo "no model of $package ran"; return 1; }
    done
    say "the guide's program and manifest"
    .ci/loom-page target/loom-page
    output=$(RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom cargo test --quiet --manifest-path target/loom-page/driver/Cargo.toml --test models 2>&1) \
        || { echo "$output"; return 1; }
    # How many executions there are is the allocator's affair; that each branch was met is the kit's.
    diff <(sed -n '/^```text$/,/^```$/{/^```/d;s/[0-9][0-9]*/N/g;p}' docs/loom.md) <(grep executions <<<"$output" | sed 's/[0-9][0-9]*/N/g') \
        || { echo "docs/loom.md tells other branches"; return 1; }
    say "a downstream crate's models"
    output=$(RUSTFLAGS="--cfg loom" CARGO_TARGET_DIR=target/loom LOOM_MAX_PREEMPTIONS="${LOOM_MAX_PREEMPTIONS:-2}" \
        cargo test --quiet --manifest-path examples/loom/Cargo.toml --test models -- --nocapture 2>&1) || { echo "$output"; return 1; }
    grep -E 'executions|test result' <<<"$output"
    grep -q '^running 5 tests' <<<"$output" || { echo "the downstream crate's models did not run"; return 1; }
    CARGO_TARGET_DIR=target/downstream cargo test --quiet --manifest-path examples/loom/Cargo.toml
}

job_schedule() { # four CPUs do everything at once beside an owner map, in orders that seeds decide (SCHEDULE_STEPS, SCHEDULE_SEED)
    SCHEDULE_STEPS="${SCHEDULE_STEPS:-10000000}" RUSTFLAGS="--cfg interleave" CARGO_TARGET_DIR=target/interleave \
        cargo test --quiet --release --package pageblock --test schedule -- --nocapture
}

job_orderings() { # on demand: each memory ordering weakened in turn, and a model that fails for it
    .ci/orderings
}

job_mutants() { # on demand: mistakes made by hand and a sample of mutants, each with a test that fails (MUTANTS="--sample 600 --seed 1 --minutes 20")
    CARGO_TARGET_DIR=target/mutants/tool cargo build --quiet --manifest-path .ci/mutants/Cargo.toml
    read -ra options <<<"${MUTANTS:-}"
    target/mutants/tool/debug/pageblock-mutants "$PWD" "$PWD/target/mutants" "${options[@]}"
}

# run_sanitized KIND STEPS: the stress tests, the standard library itself not instrumented (there is no source of it to build).
run_sanitized() {
    say "$1 sanitizer"
    local target
    target=$(rustc -vV | sed -n 's/^host: //p')
    RUSTC_BOOTSTRAP=1 RUSTFLAGS="-Zsanitizer=$1 -Cunsafe-allow-abi-mismatch=sanitizer" CARGO_TARGET_DIR="target/sanitize-$1" \
        PCP_STRESS_STEPS="$2" TSAN_OPTIONS="suppressions=$PWD/.ci/tsan-suppressions" ASAN_OPTIONS=detect_leaks=0 \
        cargo test --quiet --target "$target" "${@:3}" -- --test-threads=1
}

job_sanitize() { # stress tests under ThreadSanitizer and AddressSanitizer (SANITIZE_STEPS=1000000 for more)
    # Tests lend their storage for ever, so leaks are not looked for. One test at a time: the test runner's own channel is not instrumented.
    run_sanitized thread "${SANITIZE_STEPS:-10000}" --package pageblock-pcp --test stress
    run_sanitized address "${SANITIZE_STEPS:-10000}" --package pageblock-pcp --test stress --test vectors --test signals
}

job_fuzz() { # each fuzz target under libFuzzer, guided by coverage, for a short while (FUZZ_SECONDS, FUZZ="ops trace" for some, FUZZ_KEEP=1)
    local host target name input coverage=-sanitizer-coverage
    host=$(rustc -vV | sed -n 's/^host: //p')
    # With a target named, what runs at build time is not instrumented.
    RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=$coverage-level=4 -Cllvm-args=$coverage-inline-8bit-counters \
        -Cllvm-args=$coverage-pc-table -Cllvm-args=$coverage-trace-compares --cfg interleave" CARGO_TARGET_DIR=target/fuzz \
        cargo build --quiet --release --target "$host" --manifest-path fuzz/Cargo.toml
    for target in fuzz/fuzz_targets/*.rs; do
        name=$(basename "$target" .rs)
        [[ " ${FUZZ:-$name} " == *" $name "* ]] || continue
        say "fuzz target $name, ${FUZZ_SECONDS:-10} s"
        mkdir -p "target/fuzz/corpus/$name" "target/fuzz/found"
        "target/fuzz/$host/release/$name" -max_total_time="${FUZZ_SECONDS:-10}" -timeout=60 -rss_limit_mb=4096 -max_len=4096 \
            -verbosity=0 -print_final_stats=1 -artifact_prefix="target/fuzz/found/$name-" "target/fuzz/corpus/$name" "fuzz/corpus/$name"
        [ -n "${FUZZ_KEEP:-}" ] || continue
        # The fewest inputs that reach every edge go into the tree, beside those that have a name.
        rm -rf target/fuzz/least
        mkdir target/fuzz/least
        "target/fuzz/$host/release/$name" -set_cover_merge=1 -use_counters=0 -max_len=4096 -verbosity=0 \
            target/fuzz/least "target/fuzz/corpus/$name" "fuzz/corpus/$name"
        find "fuzz/corpus/$name" -regextype posix-extended -regex '.*/[0-9a-f]{12}' -delete
        for input in target/fuzz/least/*; do
            cp "$input" "fuzz/corpus/$name/$(basename "$input" | cut -c 1-12)"
        done
    done
}

job_nostd() { # the core crates link without std, without a heap, without panics
    cargo test --package pageblock --test link
}

job_adapters() { # the adapters' tests, and their examples, which assert
    cargo test --quiet --package pageblock --package pageblock-memmap --all-features
    CARGO_TARGET_DIR=target/ecosystem cargo test --quiet --manifest-path examples/ecosystem/Cargo.toml
    RUSTFLAGS="--cfg pageblock_kernel_lock" CARGO_TARGET_DIR=target/lock cargo test --quiet --manifest-path examples/lock/Cargo.toml
    local example
    for example in crates/pageblock/examples/*.rs; do
        cargo run --quiet --package pageblock --all-features --example "$(basename "$example" .rs)"
    done
}

job_package() { # the published crates are packaged, built from their packages, and their documentation tested there
    local manifest excluded=()
    for manifest in crates/*/Cargo.toml benches/Cargo.toml benches/criterion/Cargo.toml examples/*/Cargo.toml; do
        # Not members: examples in workspaces of their own.
        if grep -q '^publish = false' "$manifest" && ! grep -q '^\[workspace\]' "$manifest"; then
            excluded+=(--exclude "$(sed -n 's/^name = "\(.*\)"/\1/p' "$manifest" | head -n 1)")
        fi
    done
    # A new place each time: cargo takes a package's version for its content, so what an earlier run unpacked into its home, and
    # built, would stand for today's code.
    local place status=0
    mkdir -p target
    place=$(mktemp -d "$PWD/target/package-XXXXXX")
    cargo package --workspace "${excluded[@]}" --allow-dirty --target-dir "$place" || status=$?
    [ "$status" != 0 ] || .ci/unpacked "$place/package" || status=$?
    rm -rf "$place" "${CARGO_HOME:-$HOME/.cargo}"/registry/src/-*/pageblock-*
    return "$status"
}

job_depend() { # how many crates come along, the oldest of them, the oldest compiler, each feature alone
    .ci/dependencies
}

job_audit() { # on demand: licences and advisories (cargo-deny), and what a release breaks (cargo-semver-checks); installs them: ten minutes
    cargo deny --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-deny
    cargo deny check
    local before
    before=$(git describe --tags --abbrev=0 2>/dev/null) || { say "no tag: nothing to compare a release with"; return; }
    cargo semver-checks --version >/dev/null 2>&1 || cargo install --quiet --locked cargo-semver-checks
    cargo semver-checks --package pageblock --baseline-rev "$before"
}

# for_target TARGET DIRECTORY COMMAND: cargo's command for a target whose `core` is installed, can be downloaded, or is built here.
for_target() {
    local target=$1 directory=$2 verb=$3 made=target/cross-sysroot
    shift 3
    if rustup target list --installed 2>/dev/null | grep -qx "$target" || rustup target add "$target" >/dev/null 2>&1; then
        cargo "$verb" --quiet --target "$target" --target-dir "$directory" "$@"
    else
        .ci/cross/sysroot.sh "$made" "$target"
        CROSS_SYSROOT="$PWD/$made/sysroot" RUSTC="$PWD/.ci/cross/rustc.sh" \
            cargo "$verb" --quiet --target "$target" --target-dir "$directory-own-core" "$@"
    fi
}

job_cross() { # the core crates build for every architecture, and with each feature of the facade (CROSS_TARGETS="..." for some)
    local targets="${CROSS_TARGETS:-x86_64-unknown-none i686-unknown-linux-gnu aarch64-unknown-none aarch64-unknown-none-softfloat
        riscv64imac-unknown-none-elf riscv64gc-unknown-none-elf riscv32imac-unknown-none-elf armv7a-none-eabi thumbv7em-none-eabi
        loongarch64-unknown-none loongarch64-unknown-none-softfloat}"
    local target crate core=()
    for crate in frame memmap buddy pcp lru compaction mlock reclaim; do core+=(--package "pageblock-$crate"); done
    for target in $targets; do
        say "$target"
        # One directory for all targets: what runs on the host is built once.
        for_target "$target" target/cross build --lib "${core[@]}" --package pageblock
        for_target "$target" target/cross build --lib --package pageblock --features log,page_owner,poison,history
        [ "$target" != x86_64-unknown-none ] || for_target "$target" target/cross build --manifest-path examples/blog_os/Cargo.toml
    done
}

# virt_board ARCHITECTURE TARGET QEMU-ARGUMENTS: builds the kernel for a board, boots it, and demands the status of a good run.
virt_board() {
    local name=$1 target=$2 profile status
    shift 2
    # Without optimisation stacks are deepest; a release build is what ships.
    for profile in dev release; do
        say "$name, profile $profile"
        for_target "$target" target/virt build --manifest-path examples/virt/Cargo.toml --profile "$profile"
        local kernel image
        for kernel in twenty-lines pageblock-virt; do
            image=target/virt/$target/${profile/dev/debug}/$kernel
            [ -e "$image" ] || image=${image/target\/virt/target\/virt-own-core}
            status=0
            timeout "${BOOT_SECONDS:-300}" "qemu-system-$name" -m 256M -smp 4 -nographic -no-reboot "$@" -kernel "$image" </dev/null || status=$?
            # A machine that resets itself ends QEMU with 0, one that hangs ends by the clock.
            [ "$status" = 33 ] || { echo "$kernel on $name: status $status instead of 33" >&2; return 1; }
        done
    done
}

job_size() { # on demand: bytes of code that the facade adds on riscv64, without per-CPU lists and with them (SIZE_LEVEL=z for the smallest)
    local lists directory=target/size
    for lists in "" lists; do
        for_target riscv64imac-unknown-none-elf "$directory" build --release --manifest-path benches/size/Cargo.toml \
            --features "$lists" --config "profile.release.opt-level=\"${SIZE_LEVEL:-s}\""
        printf '%-14s' "${lists:-without lists}"
        size -A "$directory/riscv64imac-unknown-none-elf/release/pageblock-size" | awk '$1 == ".text" { print $2 }'
    done
}

job_boot() { # kernels boot in QEMU: x86-64 on one and four CPUs; riscv64, riscv32 and aarch64 on four (BOOT="riscv64" for some)
    local machine
    for machine in ${BOOT:-x86_64 riscv64 riscv32 aarch64}; do
        if ! command -v "qemu-system-$machine" >/dev/null; then
            echo "NOT BOOTED: qemu-system-$machine is not installed" >&2
            [ "${CI:-}" != true ] || return 1
            continue
        fi
        case $machine in
            x86_64) cargo test --package pageblock-kernel ;;
            riscv64) virt_board riscv64 riscv64imac-unknown-none-elf -machine virt ;;
            riscv32) virt_board riscv32 riscv32imac-unknown-none-elf -machine virt -bios none ;;
            aarch64) virt_board aarch64 aarch64-unknown-none-softfloat -machine virt,gic-version=2 -cpu cortex-a57 \
                -semihosting-config enable=on,target=native ;;
        esac
    done
}

if [ "${1:-all}" = help ]; then
    sed -n 's/^job_\([a-z]*\)() { # /\1\t/p' "$0" | expand -t 10
    exit
fi
[ "${1:-all}" = all ] && set -- "${jobs_in_order[@]}"
for job in "$@"; do
    say "$job"
    SECONDS=0
    "job_$job"
    echo "-- $job: ${SECONDS} s"
done
