#!/bin/sh
# Fuzzes each target for some seconds: run.sh [seconds]. Needs a nightly toolchain, a C++ compiler and cargo-fuzz
# (cargo install --locked cargo-fuzz).
set -eu
cd "$(dirname "$0")"
for target in wire_edit frames append; do
    cargo +nightly fuzz run --fuzz-dir . --target-dir ../../fuzz-target "$target" -- \
        -max_total_time="${1:-20}" -max_len=4096
done
