#!/usr/bin/env bash
# The node suite, against real programs on one small machine. Every case has one try: one that passes only at the second is a
# race in the suite or in Berth, and either is to be found. What a case that failed said is printed at the end.
#
#   node.sh          all cases
#   node.sh CASE...  these, with a line for each
set -euo pipefail
cd "$(dirname "$0")/.."

# The features of the libraries are those of the whole workspace, so that nothing is built a second time.
suite=(cargo test --workspace --features berthd/fault-points --test node)
[ $# -gt 0 ] || exec "${suite[@]}" --quiet -- --test-threads=4
exec "${suite[@]}" -- --test-threads=4 --exact "$@"
