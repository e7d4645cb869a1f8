#!/usr/bin/env bash
# Builds the command helm from its module, once: what is in the cache is not built again. Prints where it is.
set -euo pipefail
cd "$(dirname "$0")"

# A changed list of modules never meets an old binary.
key=$(cat go.mod go.sum helm.sh | sha256sum | cut -c1-12)
out=${BERTH_CACHE:-$HOME/.cache/berth}/packages/helm-$key
mkdir -p "$out"
if [ ! -x "$out/helm" ]; then
    # Two runs at once would compile the same thing twice: the second waits and then finds it done.
    exec 9>"$out/.lock"
    flock 9
    if [ ! -x "$out/helm" ]; then
        echo "helm.sh: building helm" >&2
        # As tests/k8s/build.sh has it: what both are made of is compiled once.
        CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go build -ldflags "-s -w" -o "$out/.new" helm.sh/helm/v3/cmd/helm
        mv "$out/.new" "$out/helm"
    fi
    exec 9>&-
fi
echo "$out/helm"
