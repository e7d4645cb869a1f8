#!/usr/bin/env bash
# Sets everything up and passes all tests. What CI runs, and what a person runs before a pull request.
set -euo pipefail
cd "$(dirname "$0")/.."

# A test that is to see a panic waits for no backtrace.
export RUST_BACKTRACE=0

step() { printf '\n\033[1m== %s\033[0m\n' "$*" >&2; }

tests/setup.sh --all

# The Kubernetes programs take some minutes from an empty cache, and most of the Rust work does not need them.
log=$(mktemp) fuzz_log=$(mktemp) fuzz=
# Each job in the background is a process group: an error before the end must not leave a compiler behind.
set -m
{ tests/k8s/build.sh && tests/containerd/build.sh 2.2 && tests/packages/test.sh --build; } >"$log" 2>&1 &
kubernetes=$!
set +m
trap 'for job in "$kubernetes" $fuzz; do kill -- "-$job" 2>/dev/null || true; done; rm -f "$log" "$fuzz_log"' EXIT

step "cargo fmt --check"
cargo fmt --all --check

step "cargo clippy"
cargo clippy --workspace --all-targets --quiet -- -D warnings
# The tests are run with it, the programs of a release are built without.
cargo clippy --workspace --lib --features berthd/otlp --quiet -- -D warnings

step "cargo doc"
# With private items in it, links from public to private ones lead somewhere.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

step "cargo deny"
cargo deny --log-level error check licenses bans sources

step "unit, process and in-process tests"
# Random histories are the same each time: what is found by chance is not the fault of the change that is tested.
export PROPTEST_RNG_SEED=1
# With the features that the node suite has, so that nothing is built a second time.
cargo test --workspace --features berthd/fault-points --quiet \
    --lib --bins --test cases --test cli --test wrong --test crds --test systemd --test takeover --test help --test in_process --test otlp

step "a short fuzz run, in the background"
# It is built in a way of its own, gives way to the nodes, and is the same each time as well. Longer runs look further.
set -m
BERTH_FUZZ_SEED=1 nice -n 19 fuzz/run.sh 3 >"$fuzz_log" 2>&1 &
fuzz=$!
set +m

step "the programs of the nodes"
wait "$kubernetes" || { cat "$log" >&2; exit 1; }

step "chart, kustomizations, alerts and reference pages"
# As the node tests build them after it, with the suite: the pages have the help of the programs.
cargo build --workspace --bins --test node --features berthd/fault-points --quiet
tests/packages/test.sh

step "archives and images of a release"
tests/release.sh target/debug

step "docs as a book"
tests/book.sh

step "node tests, one try each"
tests/node.sh

step "the same with another containerd"
# One cell of the matrix: what leans most on the runtime.
tests/matrix.sh 2.2 1.34 launch_order exit_order early_readiness recreate::in_a_row jobs::codes images::pins

step "the same behind a berth-shim"
# As `berthctl install` makes it; the node suite has one program but where a case says otherwise.
tests/matrix.sh --two-programs 1.6 1.34 launch_order exit_order early_readiness recreate::in_a_row cri

step "the short fuzz run"
wait "$fuzz" || { cat "$fuzz_log" >&2; exit 1; }
cat "$fuzz_log" >&2

step "all passed"
