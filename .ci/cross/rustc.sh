#!/usr/bin/env bash
# As cargo's RUSTC: the toolchain's compiler with the sysroot that sysroot.sh made (CROSS_SYSROOT).
exec "$(rustc --print sysroot)/bin/rustc" --sysroot "${CROSS_SYSROOT:?}" "$@"
