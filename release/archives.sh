#!/usr/bin/env bash
# Makes what is published of a release from programs that are built: archives, a list of what is in them (SBOM), and checksums.
#
#   release/archives.sh PROGRAMS OUT      PROGRAMS: target/release
#
# The same programs give the same archives, byte by byte.
set -euo pipefail

fail() { echo "archives.sh: $1" >&2; exit 1; }

[ $# = 2 ] || fail "give the folder of the programs, and one to write to"
programs=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
cd "$(dirname "$0")/.."

version=$(cargo metadata --locked --offline --no-deps --format-version 1 | jq -r '.packages[] | select(.name == "berthctl").version')
arch=$(uname -m)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# archive, then what is in it: files of the repository, and programs
pack() {
    local name=$1 program
    shift
    mkdir -p "$work/$name"
    for program in "$@"; do
        [ -x "$programs/$program" ] || fail "$programs/$program is not there: cargo build --release --workspace --bins"
        install -m 755 "$programs/$program" "$work/$name/$program"
        # What debuggers need is nine tenths of a debug build, and nothing of a release.
        strip "$work/$name/$program"
    done
    install -m 644 LICENSE README.md CHANGELOG.md "$work/$name/"
}

tar_of() { # folder, archive
    tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -C "$work" -c "$1" | gzip -n >"$out/$2"
}

# `install` needs both in one folder; the units are in berthctl.
pack "berth-node-$version" berthctl berthd berth-shim
pack "berth-centre-$version" berth-manager berth-workloads
for name in node centre; do tar_of "berth-$name-$version" "berth-$name-$version-linux-$arch.tar.gz"; done

mkdir -p "$work/berth-deploy-$version"
cp -r deploy "$work/berth-deploy-$version/"
mkdir -p "$work/berth-deploy-$version/charts"
cp -r charts/berth "$work/berth-deploy-$version/charts/"
tar_of "berth-deploy-$version" "berth-deploy-$version.tar.gz"

# The chart by itself has the files that it reads in it, and not beside it.
cp -rL charts/berth "$work/berth"
rm -r "$work/berth/files/samples"
tar_of berth "berth-$version.tgz"

release/sbom.sh >"$out/berth-$version.spdx.json"

(cd "$out" && sha256sum -- *.tar.gz *.tgz *.spdx.json >SHA256SUMS)
echo "archives.sh: in $out:" >&2
cat "$out/SHA256SUMS"
echo "archives.sh: for $arch; other architectures: not built here" >&2
