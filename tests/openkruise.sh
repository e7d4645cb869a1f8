#!/usr/bin/env bash
# A cluster moves from a real OpenKruise to Berth and back: no pod is made anew, and no container restarts. It is not among the
# tests of every day, because OpenKruise's manager takes minutes to build.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh
tests/k8s/build.sh >/dev/null
BERTH_TESTS_OPENKRUISE=$(tests/openkruise/build.sh)
export BERTH_TESTS_OPENKRUISE
cargo test --package berth-tests --features berthd/fault-points --test node -- --ignored --nocapture openkruise::
