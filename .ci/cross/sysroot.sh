#!/usr/bin/env bash
# sysroot.sh DIR TARGET...: `core`, `compiler_builtins` and `alloc` for bare-metal targets below DIR/sysroot, from the sources that the
# component rust-docs shows. Then: CROSS_SYSROOT=DIR/sysroot RUSTC=.ci/cross/rustc.sh cargo build --target TARGET
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
mkdir -p "$1"
dir=$(readlink -f "$1")
shift
toolchain=$(rustup show active-toolchain | cut -d ' ' -f 1)
version=$(rustc --version)
# What an older compiler made is of no use to this one.
if [ "$(cat "$dir/version" 2>/dev/null)" != "$version" ]; then
    rm -rf "$dir/src" "$dir/sysroot"
    echo "$version" >"$dir/version"
fi
[ -d "$dir/src/library/core" ] || "$here/extract-rust-src.sh" "$toolchain" "$dir/src" >/dev/null
for target; do
    [ -e "$dir/sysroot/lib/rustlib/$target/lib/liballoc.rlib" ] || "$here/mksysroot.sh" "$toolchain" "$dir/src" "$dir/sysroot" "$target"
done
