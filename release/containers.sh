#!/usr/bin/env bash
# Builds the images of the Containerfile with buildah from programs that are built already, as OCI archives: its compiling stage is left
# out, so no base image is fetched. Each is run once before it is done. As root it needs no user namespaces; what may be missing is
# buildah (apt-get install --no-install-recommends buildah).
#
#   release/containers.sh PROGRAMS OUT [IMAGE...]
#
# They are for the machine that they are made on: other architectures are not built here, for which cargo and ldd would have to be theirs.
set -euo pipefail

fail() { echo "containers.sh: $1" >&2; exit 1; }

[ $# -ge 2 ] || fail "give the folder of the programs, and one to write to"
command -v buildah >/dev/null || fail "buildah is not there: apt-get install --no-install-recommends buildah"
[ "$(id -u)" = 0 ] || fail "run as root: files of an image belong to root"
programs=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
shift 2
cd "$(dirname "$0")/.."
work=$(mktemp -d)
# Storage of its own: nothing of this is left on the machine. vfs, for it may itself lie on an overlay.
buildah() { command buildah --root "$work/storage" --runroot "$work/run" --storage-driver vfs "$@"; }
trap 'buildah rm -a >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

[ $# -gt 0 ] || set -- berthd berthctl berth-manager berth-workloads
mkdir "$work/empty"
for image in "$@"; do
    # As the Containerfile has it. The agent's probes are berthctl, and on path takeover it starts berth-shim; the installer copies
    # berthd and berth-shim to the node.
    case $image in
        berthd) more=(berthctl berth-shim) ;;
        berthctl) more=(berthd berth-shim) ;;
        berth-manager | berth-workloads) more=() ;;
        *) fail "$image: no such image: berthd, berthctl, berth-manager, berth-workloads" ;;
    esac
    release/root.sh "$programs" "$work/roots/$image" "$image" ${more[@]+"${more[@]}"}
    buildah build --quiet --isolation chroot --build-context "build=$work/roots" -f release/Containerfile \
        --target "$image" -t "$image" "$work/empty" >/dev/null
    container=$(buildah from --pull-never "$image")
    buildah run --isolation chroot "$container" "/bin/$image" --version >&2 || fail "$image does not run with what is in its image"
    buildah rm "$container" >/dev/null
    buildah push --quiet "$image" "oci-archive:$out/$image.tar:$image"
    echo "$out/$image.tar"
done
echo "containers.sh: for $(uname -m); other architectures: not built here" >&2
