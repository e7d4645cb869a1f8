#!/usr/bin/env bash
# Builds the Kubernetes programs of a test node, each once: what is in the cache is not built again.
#
#   build.sh                 all five
#   build.sh kubelet ...     only these
#   build.sh --print-dir     where they are (built or not), and nothing else
#
# Prints where each of them is. BERTH_TESTS_KUBERNETES (1.33, 1.34, 1.36) names the release; without it it is that of go.mod.
# A kubelet must not be newer than its API server, and may be older: beside an older kubelet the other programs are those of go.mod.
#
# A folder is named by the release and by what it was built from, so a changed main or dependency never meets an old binary.
set -euo pipefail
cd "$(dirname "$0")"

fail() { echo "build.sh: $1" >&2; exit 1; }

pinned=$(sed -n 's|^\tk8s.io/kubernetes \(v[0-9.]*\)$|\1|p' go.mod)
[ -n "$pinned" ] || fail "no k8s.io/kubernetes release in go.mod"
minor_of() { cut -d. -f1,2 <<<"${1#v}"; }

# The releases besides the one of go.mod.
case "${BERTH_TESTS_KUBERNETES:-$(minor_of "$pinned")}" in
    "$(minor_of "$pinned")") version=$pinned ;;
    1.33) version=v1.33.13 ;;
    1.36) version=v1.36.3 ;;
    *) fail "BERTH_TESTS_KUBERNETES=$BERTH_TESTS_KUBERNETES: no such release: 1.33, $(minor_of "$pinned") or 1.36" ;;
esac

version_of() { # program
    if [ "$1" != kubelet ] && [ "$(printf '%s\n' "$version" "$pinned" | sort -V | tail -n1)" = "$pinned" ]; then
        echo "$pinned"
    else
        echo "$version"
    fi
}

dir_of() { # version
    local key
    key=$(cat go.mod go.sum cmd/*/main.go build.sh | sha256sum | cut -c1-12)
    echo "${BERTH_CACHE:-$HOME/.cache/berth}/k8s/$1-$key"
}

if [ "${1:-}" = --print-dir ]; then
    dir_of "$version"
    exit
fi

# Of another release the module is made from what that release itself builds on: its own requirements and sums, with the
# staging modules, which it has in folders, as they are published.
module_of() { # version, folder
    local release staging module
    release=$(go mod download -json "k8s.io/kubernetes@$1" | jq -r .Dir)
    staging=v0.${1#v1.}
    install -m 644 "$release/go.mod" "$2/.go.mod"
    install -m 644 "$release/go.sum" "$2/go.sum"
    go mod edit -module berth.dev/tests/k8s -require "k8s.io/kubernetes@$1" "$2/.go.mod"
    for module in $(go mod edit -json "$release/go.mod" | jq -r '.Replace[].Old.Path'); do
        go mod edit -replace "$module=$module@$staging" "$2/.go.mod"
    done
    mv "$2/.go.mod" "$2/go.mod"
}

build() { # program, version, folder
    local ldflags="-s -w" package mod=(-mod=readonly) major minor
    IFS=. read -r major minor _ <<<"${2#v}"
    # Without a version the API server tells its clients v0.0.0, and they misbehave.
    for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
        ldflags+=" -X $package.gitVersion=$2 -X $package.gitMajor=$major -X $package.gitMinor=$minor"
        ldflags+=" -X $package.gitTreeState=clean -X $package.buildDate=1970-01-01T00:00:00Z"
    done
    if [ "$2" != "$pinned" ]; then
        if [ ! -e "$3/go.mod" ]; then module_of "$2" "$3"; fi
        mod=(-mod=mod -modfile="$3/go.mod")
    fi
    echo "build.sh: building $1 $2" >&2
    CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" \
        go build "${mod[@]}" -ldflags "$ldflags" -o "$3/.$1.new" "./cmd/$1"
    mv "$3/.$1.new" "$3/$1"
}

# The ones a node cannot do without come first, so that a test can begin while the rest is built.
programs=("$@")
[ ${#programs[@]} -gt 0 ] || programs=(kubelet kube-apiserver kubectl kube-controller-manager kube-scheduler)

for program in "${programs[@]}"; do
    [ -d "cmd/$program" ] || fail "no such program: $program"
    of=$(version_of "$program")
    out=$(dir_of "$of")
    mkdir -p "$out"
    if [ ! -x "$out/$program" ]; then
        # Two runs at once would compile the same thing twice: the second waits and then finds it done.
        exec 9>"$out/.lock"
        flock 9
        if [ ! -x "$out/$program" ]; then build "$program" "$of" "$out"; fi
        exec 9>&-
    fi
    echo "$out/$program"
done
