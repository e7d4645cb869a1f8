#!/usr/bin/env bash
# The node suite, against real programs on one small machine. What does not pass beside others is run once more, alone, and fails
# if it does not pass then either; its name and what it said the first time are printed in any case, because a test that needs
# two tries is one to look at.
#
#   node.sh          all cases
#   node.sh CASE...  these, with a line for each
set -euo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT
# The features of the libraries are those of the whole workspace, so that nothing is built a second time.
suite=(cargo test --workspace --test node --quiet -- --test-threads=4)
[ $# -eq 0 ] || suite=(cargo test --workspace --test node -- --test-threads=4 --exact "$@")

"${suite[@]}" 2>&1 | tee "$log" && exit
# The last list of the output, a name a line.
mapfile -t failed < <(tac "$log" | sed -n '/^failures:$/q; s/^    \([a-z_0-9:]*\)$/\1/p')
# More of them are no chance, and none is a suite that broke off.
if [ ${#failed[@]} -eq 0 ] || [ ${#failed[@]} -gt 8 ]; then exit 1; fi
printf 'node.sh: once more, alone: %s\n' "${failed[*]}" >&2
cargo test --workspace --test node -- --test-threads=1 --exact "${failed[@]}"
printf 'node.sh: needed a second try: %s\n' "${failed[*]}" >&2
