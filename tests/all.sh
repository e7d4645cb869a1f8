#!/usr/bin/env bash
# Sets everything up and passes all tests. What CI runs, and what a person runs before a pull request.
set -euo pipefail
cd "$(dirname "$0")/.."

# A test that is to see a panic waits for no backtrace.
export RUST_BACKTRACE=0

step() { printf '\n\033[1m== %s\033[0m\n' "$*" >&2; }

tests/setup.sh --all

# The Kubernetes programs take some minutes from an empty cache, and most of the Rust work does not need them.
log=$(mktemp) units_log=$(mktemp) fuzz_log=$(mktemp) cell_log=$(mktemp) units= fuzz= cell=
# Each job in the background is a process group: an error before the end must not leave a compiler behind.
set -m
{ tests/k8s/build.sh && tests/containerd/build.sh 2.2 && tests/packages/test.sh --build; } >"$log" 2>&1 &
kubernetes=$!
set +m
trap 'for job in "$kubernetes" $units $fuzz $cell; do kill -- "-$job" 2>/dev/null || true; done
    rm -f "$log" "$units_log" "$fuzz_log" "$cell_log"' EXIT

step "cargo fmt --check"
cargo fmt --all --check

step "cargo clippy"
# With what is tested: fault points and traces, which the programs of a release have not. Both are berthd's.
cargo clippy --workspace --all-targets --features berthd/fault-points --quiet -- -D warnings
cargo clippy -p berthd --lib --quiet -- -D warnings

step "cargo doc"
# With private items in it, links from public to private ones lead somewhere.
RUSTDOCFLAGS="-D warnings -A rustdoc::private_intra_doc_links" cargo doc --workspace --no-deps --document-private-items --quiet

step "cargo deny"
cargo deny --log-level error check licenses bans sources

step "unit, process and in-process tests"
# Random histories are the same each time: what is found by chance is not the fault of the change that is tested.
export PROPTEST_RNG_SEED=1
# With the features that the node suite has, and together with it, so that nothing is built a second time.
suites=(--workspace --features berthd/fault-points --quiet --lib --bins
    --test cases --test cli --test wrong --test crds --test systemd --test takeover --test help --test in_process --test otlp)
cargo test "${suites[@]}" --test node --no-run
# They wait more than they compute, so what follows goes on meanwhile.
set -m
{
    RUST_TEST_THREADS=4 cargo test "${suites[@]}" &&
        # The data path once more, with its gate at the other end of a line, as between two programs.
        BERTH_TESTS_LINE=1 cargo test --workspace --features berthd/fault-points --quiet --test in_process -- --skip two_programs --skip canary
} >"$units_log" 2>&1 &
units=$!
set +m

step "a short fuzz run, in the background"
# It is built in a way of its own, gives way to the nodes, and is the same each time as well. Longer runs look further. Who gives way
# is not late when it had no turn: an input is to be without end to count as one.
set -m
BERTH_FUZZ_SEED=1 BERTH_FUZZ_TIMEOUT=120 nice -n 19 fuzz/run.sh 3 >"$fuzz_log" 2>&1 &
fuzz=$!
set +m

step "the programs of the nodes"
wait "$kubernetes" || { cat "$log" >&2; exit 1; }

step "chart, kustomizations, alerts and reference pages"
# As the node tests build them after it, with the suite: the pages have the help of the programs.
cargo build --workspace --bins --test node --features berthd/fault-points --quiet
tests/packages/test.sh

step "archives and images of a release"
tests/release.sh "$(cargo metadata --format-version 1 --no-deps | jq -r .target_directory)/debug"

step "docs as a book"
tests/book.sh

step "unit, process and in-process tests: the end"
wait "$units" || { cat "$units_log" >&2; exit 1; }
grep -h "^test result" "$units_log" >&2

step "node tests, one try each"
tests/node.sh

step "the same with another containerd, and behind a berth-shim"
# Two cells of the matrix at once: what leans most on the runtime; and two programs as `berthctl install` makes them, which the node
# suite has only where a case says so.
set -m
tests/matrix.sh --two-programs 1.6 1.34 launch_order exit_order early_readiness recreate::in_a_row jobs::codes jobs::faults cri >"$cell_log" 2>&1 &
cell=$!
set +m
tests/matrix.sh 2.2 1.34 launch_order exit_order early_readiness recreate::in_a_row jobs::codes images::pins
wait "$cell" || { cat "$cell_log" >&2; exit 1; }
cat "$cell_log" >&2

step "the short fuzz run"
wait "$fuzz" || { cat "$fuzz_log" >&2; exit 1; }
cat "$fuzz_log" >&2

step "all passed"
