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
# Most of these threads wait for their turn on a node; how many cases run at once is in tests/cases/node/slots.rs.
threads=32
# Kubernetes' programs collect their garbage half as often: memory is there, and processors are short.
export GOGC=200
case $# in
0) how=(--quiet -- --test-threads=$threads) ;;
*) how=(-- --test-threads=$threads --exact "$@") ;;
esac
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"${suite[@]}" "${how[@]}" | tee "$log" && exit 0
# What a failed case said is long, and the end of a log is what everybody sees first: the reasons once more, in short.
awk '/^---- .* stdout ----$/ { name = $2; left = 0 }
    /^Error: |panicked at / { left = 8; print ""; print name }
    left > 0 && $0 != "" { print "    " substr($0, 1, 300); left-- }' "$log"
exit 1
