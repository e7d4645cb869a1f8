#!/usr/bin/env bash
# Builds a containerd that the distribution does not have, once, from its public module: the daemon, its shim and its client.
#
#   build.sh 2.2     prints the folder they are in
#
# The distribution's is an older one; runc and the CNI plugins are the distribution's for both.
set -euo pipefail

fail() { echo "containerd/build.sh: $1" >&2; exit 1; }

case "${1:-}" in
    2.2) version=v2.2.5 ;;
    *) fail "${1:-no release}: no such release: 2.2" ;;
esac
module=github.com/containerd/containerd/v2
programs=({containerd,containerd-shim-runc-v2,ctr}"@$version")
out="${BERTH_CACHE:-$HOME/.cache/berth}/containerd/$version"

if [ ! -d "$out" ]; then
    mkdir -p "$(dirname "$out")"
    # Two runs at once would compile the same thing twice: the second waits and then finds it done.
    exec 9>"$out.lock"
    flock 9
    if [ ! -d "$out" ]; then
        echo "containerd/build.sh: building containerd $version" >&2
        rm -rf "$out.new"
        # Outside of every module: the requirements are those of the release.
        cd "$(dirname "$out")"
        GOBIN=$out.new CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go install \
            -ldflags "-s -w -X $module/version.Version=${version#v}" \
            "${programs[@]/#/$module/cmd/}"
        mv "$out.new" "$out"
    fi
fi
echo "$out"
