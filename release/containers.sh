#!/usr/bin/env bash
# Builds the images of the Containerfile with buildah from programs that are built already, as OCI archives: its compiling stage is left
# out, so no base image is fetched. Needs buildah (apt-get install buildah).
#
#   release/containers.sh PROGRAMS OUT [IMAGE...]
set -euo pipefail

fail() { echo "containers.sh: $1" >&2; exit 1; }

[ $# -ge 2 ] || fail "give the folder of the programs, and one to write to"
command -v buildah >/dev/null || fail "buildah is not there: apt-get install --no-install-recommends buildah"
programs=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
# Storage of its own: nothing of this is left on the machine. vfs, for it may itself lie on an overlay.
storage=(--root "$work/storage" --runroot "$work/run" --storage-driver vfs)
trap 'buildah "${storage[@]}" rm -a >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

release/root.sh "$programs" "$work/roots/berthd" berthd berthctl berth-shim
release/root.sh "$programs" "$work/roots/berthctl" berthctl berthd berth-shim
release/root.sh "$programs" "$work/roots/berth-manager" berth-manager
release/root.sh "$programs" "$work/roots/berth-workloads" berth-workloads
[ $# -gt 0 ] || set -- berthd berthctl berth-manager berth-workloads
mkdir "$work/empty"
for image in "$@"; do
    buildah "${storage[@]}" build --quiet --isolation chroot --build-context "build=$work/roots" -f release/Containerfile \
        --target "$image" -t "$image" "$work/empty" >/dev/null
    buildah "${storage[@]}" push --quiet "$image" "oci-archive:$out/$image.tar:$image"
    echo "$out/$image.tar"
done
