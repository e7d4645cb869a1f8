#!/usr/bin/env bash
# Builds the Kubernetes programs of a test node, each once: what is in the cache is not built again.
#
#   build.sh                 all five
#   build.sh kubelet ...     only these
#   build.sh --print-dir     where they are (built or not), and nothing else
#
# The folder is named by the release and by what it was built from, so a changed main or dependency never meets an old binary.
set -euo pipefail
cd "$(dirname "$0")"

version=$(sed -n 's|^\tk8s.io/kubernetes \(v[0-9.]*\)$|\1|p' go.mod)
[ -n "$version" ] || { echo "build.sh: no k8s.io/kubernetes release in go.mod" >&2; exit 1; }
key=$(cat go.mod go.sum cmd/*/main.go build.sh | sha256sum | cut -c1-12)
out="${BERTH_CACHE:-$HOME/.cache/berth}/k8s/$version-$key"

if [ "${1:-}" = --print-dir ]; then
    echo "$out"
    exit
fi

# The ones a node cannot do without come first, so that a test can begin while the rest is built.
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(kubelet kube-apiserver kubectl kube-controller-manager kube-scheduler)

mkdir -p "$out"
exec 9>"$out/.lock"

IFS=. read -r major minor _ <<<"${version#v}"
ldflags="-s -w"
# Without a version the API server tells its clients v0.0.0, and they misbehave.
for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    ldflags+=" -X $package.gitVersion=$version -X $package.gitMajor=$major -X $package.gitMinor=$minor"
    ldflags+=" -X $package.gitTreeState=clean -X $package.buildDate=1970-01-01T00:00:00Z"
done

for program in "${programs[@]}"; do
    [ -d "cmd/$program" ] || { echo "build.sh: no such program: $program" >&2; exit 1; }
    [ -x "$out/$program" ] && continue
    # Two runs at once would compile the same thing twice: the second waits and then finds it done.
    flock 9
    if [ ! -x "$out/$program" ]; then
        echo "build.sh: building $program $version" >&2
        CGO_ENABLED=0 GOFLAGS="-mod=readonly -trimpath -buildvcs=false" \
            go build -ldflags "$ldflags" -o "$out/.$program.new" "./cmd/$program"
        mv "$out/.$program.new" "$out/$program"
    fi
    flock -u 9
done
echo "$out"
