#!/usr/bin/env bash
# Tries the scripts of release/ on programs that are built, of whatever profile: archives with their checksums, and images. Nothing is
# kept. The images of containers.sh are tried on a node (`deployed::deploy_works_as_it_is`).
#
#   release.sh PROGRAMS
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release.sh: $1" >&2; exit 1; }

[ $# = 1 ] || fail "give the folder of the programs"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

release/archives.sh "$1" "$out/archives" >/dev/null
(cd "$out/archives" && sha256sum --quiet --check SHA256SUMS) || fail "checksums are not those of the archives"
[ "$(jq -r .spdxVersion "$out"/archives/*.spdx.json)" = SPDX-2.3 ] || fail "no SBOM"
release/images.sh "$1" "$out/images" >/dev/null
for image in berthd berthctl berth-manager berth-workloads; do
    compgen -G "$out/images/$image-*.tar" >/dev/null || fail "no image of $image"
done
