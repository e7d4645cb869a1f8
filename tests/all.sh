#!/usr/bin/env bash
# Sets everything up and passes all tests. What CI runs, and what a person runs before a pull request.
set -euo pipefail
cd "$(dirname "$0")/.."

step() { printf '\n\033[1m== %s\033[0m\n' "$*" >&2; }

tests/setup.sh --all

# The Kubernetes programs take some minutes from an empty cache, and most of the Rust work does not need them.
log=$(mktemp)
{ tests/k8s/build.sh && tests/containerd/build.sh 2.2; } >"$log" 2>&1 &
kubernetes=$!
# An error before the end must not leave a compiler behind.
trap 'kill "$kubernetes" 2>/dev/null || true; rm -f "$log"' EXIT

step "cargo fmt --check"
cargo fmt --all --check

step "cargo clippy"
cargo clippy --workspace --all-targets --quiet -- -D warnings

step "cargo doc"
# With private items in it, links from public to private ones lead somewhere.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

step "unit, process and in-process tests"
cargo test --workspace --quiet --lib --bins --test cases --test cli --test crds --test systemd --test takeover --test in_process

step "cargo deny"
cargo deny --log-level error check licenses bans sources

step "a short fuzz run"
# The same each time: what is found by chance is not the fault of the change that is tested. Longer runs look further.
BERTH_FUZZ_SEED=1 fuzz/run.sh 3

step "the programs of the nodes"
wait "$kubernetes" || { cat "$log" >&2; exit 1; }

step "node tests, one try each"
tests/node.sh

step "the same with another containerd"
# One cell of the matrix: what leans most on the runtime.
tests/matrix.sh 2.2 1.34 launch_order exit_order early_readiness recreate::in_a_row jobs::codes images::pins

step "all passed"
