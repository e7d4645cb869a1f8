#!/usr/bin/env bash
# Builds an OpenKruise's manager from its module, once, and writes down what its manifests have. Prints the folder of both:
# `manager` and `objects.yaml`.
set -euo pipefail
cd "$(dirname "$0")"

kubectl=$(../k8s/build.sh kubectl)
# A changed list of modules never meets an old binary.
key=$(cat go.mod go.sum build.sh | sha256sum | cut -c1-12)
out=${BERTH_CACHE:-$HOME/.cache/berth}/openkruise/$key
mkdir -p "$out"
exec 9>"$out/.lock"
flock 9
if [ ! -x "$out/manager" ]; then
    echo "build.sh: building OpenKruise's manager" >&2
    CGO_ENABLED=0 GOFLAGS="-trimpath -buildvcs=false" go build -ldflags "-s -w" -o "$out/.new" github.com/openkruise/kruise
    module=$(go list -m -f '{{.Dir}}' github.com/openkruise/kruise)
    # It warns of words of old kustomizations, which are OpenKruise's.
    "$kubectl" kustomize "$module/config/default" >"$out/.objects" 2>"$out/warnings" || { cat "$out/warnings" >&2; exit 1; }
    mv "$out/.objects" "$out/objects.yaml"
    mv "$out/.new" "$out/manager"
fi
echo "$out"
