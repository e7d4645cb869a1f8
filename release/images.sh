#!/usr/bin/env bash
# Makes the images of deploy/ from programs that are built, as OCI archives, without a container engine: a program, the libraries that it
# is linked with, and nothing else. Each is run once before it is done.
#
#   release/images.sh PROGRAMS OUT      PROGRAMS: target/release
#
# Libraries are those of this machine: build on the oldest one that the nodes may be of. The installer copies programs out of its image to
# the node, which must have a glibc that is not older.
set -euo pipefail

fail() { echo "images.sh: $1" >&2; exit 1; }

[ $# = 2 ] || fail "give the folder of the programs, and one to write to"
programs=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."
[ "$(id -u)" = 0 ] || fail "run as root: files of an image belong to root, and a program is tried by chroot(8)"

version=$(cargo metadata --locked --offline --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "berthctl").version')
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# image, user, then its programs: the first is what it runs
image() {
    local name=$1 user=$2 root=$work/$1/root layout=$work/$1/layout
    release/root.sh "$programs" "$root" "${@:3}"
    shift 2
    find "$root" -exec touch -h -d @0 {} +
    chroot "$root" "/bin/$1" --version >&2 || fail "$1 does not run with what is in its image"

    umoci init --layout "$layout"
    umoci new --image "$layout:$version"
    umoci insert --image "$layout:$version" "$root" /
    umoci config --image "$layout:$version" --config.entrypoint "/bin/$1" --clear=config.cmd --config.user "$user" \
        --config.env PATH=/bin --author Berth --created 1970-01-01T00:00:00Z \
        --config.label org.opencontainers.image.title="$name" --config.label org.opencontainers.image.version="$version" \
        --config.label org.opencontainers.image.licenses=Apache-2.0
    skopeo copy --quiet "oci:$layout:$version" "oci-archive:$out/$name-$version.tar:$name:$version"
    echo "$out/$name-$version.tar"
}

# The agent's probes are berthctl.
image berthd 0:0 berthd berthctl berth-shim
# The installer copies berthd and berth-shim to the node.
image berthctl 0:0 berthctl berthd berth-shim
image berth-manager 65532:65532 berth-manager
image berth-workloads 65532:65532 berth-workloads
echo "images.sh: for $(uname -m); other architectures: not built here" >&2
