#!/usr/bin/env bash
# mksysroot.sh TOOLCHAIN SRC SYSROOT TARGET [rustflags...]
# core, compiler_builtins (of the registry, feature "mem") and alloc for TARGET (a name that rustc knows, or a .json), as
# rlibs under SYSROOT/lib/rustlib/TARGET/lib. SYSROOT also has links to the toolchain's host part, so that it can stand in
# for it: `rustc --sysroot SYSROOT --target TARGET`. See rustc.sh.
set -euo pipefail
tc=$1 src=$2 sysroot=$3 target=$4; shift 4
real=$(rustc +"$tc" --print sysroot) rustc=$real/bin/rustc host=$(rustc -vV | sed -n "s/^host: //p")
name=$(basename "$target" .json)
export RUSTC_BOOTSTRAP=1
lib=$sysroot/lib/rustlib/$name/lib
rm -rf "$lib"; mkdir -p "$lib" "$sysroot/lib/rustlib"
[[ -e $sysroot/lib/rustlib/$host ]] || ln -s "$real/lib/rustlib/$host" "$sysroot/lib/rustlib/$host"
[[ -e $sysroot/bin ]] || ln -s "$real/bin" "$sysroot/bin"
flags=(--target "$target" -Zunstable-options -Zforce-unstable-if-unmarked --cap-lints allow -Copt-level=3 -Cdebuginfo=0 -Cembed-bitcode=yes
  -Ccodegen-units=4 -Cpanic=abort "$@")
"$rustc" --crate-name core --edition 2024 --crate-type rlib -o "$lib/libcore.rlib" "${flags[@]}" "$src/library/core/src/lib.rs"
# compiler_builtins: let cargo fetch it and run its build script.
w=$(mktemp -d); trap 'rm -rf "$w"' EXIT
mkdir -p "$w/src"; echo '#![no_std]' > "$w/src/lib.rs"
cat > "$w/Cargo.toml" <<'T'
[package]
name = "cb"
version = "0.1.0"
edition = "2021"
[dependencies]
compiler_builtins = { version = "=0.1.160", features = ["mem"] }
[profile.release]
panic = "abort"
opt-level = 3
[profile.release.package.compiler_builtins]
codegen-units = 10000
debug-assertions = false
overflow-checks = false
T
jf=(); [[ $target = *.json ]] && jf=(-Zjson-target-spec)
( cd "$w" && RUSTC=$rustc RUSTFLAGS="-Awarnings --sysroot $sysroot -Zunstable-options -Zforce-unstable-if-unmarked $*" \
  CARGO_TARGET_DIR=$w/t "$real/bin/cargo" build -q --release --target "$target" "${jf[@]}" -p compiler_builtins )
cp "$w"/t/"$name"/release/deps/libcompiler_builtins-*.rlib "$lib/libcompiler_builtins.rlib"
"$rustc" --crate-name alloc --edition 2024 --crate-type rlib -o "$lib/liballoc.rlib" "${flags[@]}" --sysroot "$sysroot" \
  "$src/library/alloc/src/lib.rs"
test -e "$lib/liballoc.rlib"
