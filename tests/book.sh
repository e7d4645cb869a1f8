#!/usr/bin/env bash
# Builds docs/ as a book with mdBook, and fails on a warning.
#
#   book.sh [OUT]      default: target/book
set -euo pipefail
cd "$(dirname "$0")/.."

PATH=$PATH:${CARGO_HOME:-$HOME/.cargo}/bin
command -v mdbook >/dev/null || {
    echo "book.sh: mdbook is not there: tests/setup.sh --all installs it" >&2
    exit 1
}
mkdir -p "${1:-target/book}"
out=$(realpath "${1:-target/book}")
log=$(mktemp)
trap 'rm -f "$log"' EXIT
mdbook build --dest-dir "$out" docs >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
if grep -E '\b(WARN|ERROR)\b|\[(WARN|ERROR)\]' "$log" >&2; then
    echo "book.sh: mdBook warns" >&2
    exit 1
fi
# A page that the summary does not name is no page of the book.
for page in docs/*.md; do
    name=$(basename "$page" .md)
    [ "$name" != README ] || name=index
    [ "$name" = SUMMARY ] || [ -s "$out/$name.html" ] || { echo "book.sh: $name.html is missing" >&2; exit 1; }
done
echo "$out/index.html"
