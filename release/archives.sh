#!/usr/bin/env bash
# Makes what is published of a release from programs that are built: archives, a list of what is in them (SBOM), and checksums.
#
#   release/archives.sh PROGRAMS OUT [OTLP]      PROGRAMS: target/release; OTLP: the folder of a berthd with the feature otlp
#
# With OTLP there is one more archive, berth-node-otlp: as berth-node, with a berthd that can send traces.
# The same programs give the same archives, byte by byte.
set -euo pipefail

fail() { echo "archives.sh: $1" >&2; exit 1; }

[ $# = 2 ] || [ $# = 3 ] || fail "give the folder of the programs, one to write to, and where there is one that of a berthd with otlp"
programs=$(realpath "$1") otlp=
[ $# = 2 ] || otlp=$(realpath "$3")
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

# What readers and shells need of berthctl, made by it: man pages, and scripts that complete its words.
manuals() { # folder
    local to=$work/$1
    "$programs/berthctl" man "$to/man/man1"
    mkdir "$to/completions"
    "$programs/berthctl" completion bash >"$to/completions/berthctl"
    "$programs/berthctl" completion zsh >"$to/completions/_berthctl"
    "$programs/berthctl" completion fish >"$to/completions/berthctl.fish"
    chmod -R u=rwX,go=rX "$to/man" "$to/completions"
}

# `install` needs both in one folder; the units are in berthctl.
pack "berth-node-$version" berthctl berthd berth-shim
manuals "berth-node-$version"
pack "berth-centre-$version" berth-manager berth-workloads
# For the machines of people: kubectl finds it on their PATH.
pack "berth-kubectl-$version" kubectl-berth
names="node centre kubectl"
if [ -n "$otlp" ]; then
    "$otlp/berthd" --version | grep otlp >/dev/null || fail "$otlp/berthd has not the feature otlp: cargo build --release -p berthd --features otlp"
    pack "berth-node-otlp-$version" berthctl berth-shim
    manuals "berth-node-otlp-$version"
    install -m 755 "$otlp/berthd" "$work/berth-node-otlp-$version/berthd"
    strip "$work/berth-node-otlp-$version/berthd"
    names+=" node-otlp"
    release/sbom.sh berthd/otlp >"$out/berth-otlp-$version.spdx.json"
fi
for name in $names; do tar_of "berth-$name-$version" "berth-$name-$version-linux-$arch.tar.gz"; done

mkdir -p "$work/berth-deploy-$version"
cp -r deploy complete "$work/berth-deploy-$version/"
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
