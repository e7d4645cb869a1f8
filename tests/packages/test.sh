#!/usr/bin/env bash
# Tests what is installed in clusters, and that the reference pages are those of the code. The programs must have been built: their
# `--help` is part of it.
#
#   test.sh              builds the tests, and passes all
#   test.sh --build      only builds them, and helm
#   test.sh NAME ...     those whose names match; BERTH_WRITE=1 test.sh Reference writes the pages anew
set -euo pipefail
cd "$(dirname "$0")"

# As tests/k8s/build.sh has it: what both are made of is compiled once.
export CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false"
out=${BERTH_CACHE:-$HOME/.cache/berth}/packages
mkdir -p "$out"
# Two runs at once must not write one file.
exec 9>"$out/.lock"
flock 9
go test -vet=off -c -o "$out/.new" .
mv "$out/.new" "$out/packages.test"
exec 9>&-
[ "${1:-}" = --build ] || exec "$out/packages.test" -test.run "$(IFS='|'; echo "${*:-.}")"
# The node suite needs it.
exec ./helm.sh >/dev/null
