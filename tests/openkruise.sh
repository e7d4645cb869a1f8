#!/usr/bin/env bash
# A cluster moves from a real OpenKruise to Berth and back: no pod is made anew, and no container restarts. It is not among the
# tests of every day, because OpenKruise's manager takes minutes to build.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh
tests/k8s/build.sh >/dev/null
BERTH_TESTS_OPENKRUISE=$(tests/openkruise/build.sh)
export BERTH_TESTS_OPENKRUISE
# The features of the libraries are those of the whole workspace, so that nothing is built a second time.
cargo test --workspace --features berthd/fault-points --test node -- --ignored openkruise::
