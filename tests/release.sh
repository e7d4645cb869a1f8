#!/usr/bin/env bash
# Tries the scripts of release/ on programs that are built, of whatever profile: archives with their checksums, and images. Nothing is
# kept. The images of containers.sh are tried on a node (`deployed::deploy_works_as_it_is`).
#
#   release.sh PROGRAMS
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "release.sh: $1" >&2; exit 1; }

[ $# = 1 ] || fail "give the folder of the programs"
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT

# The programs of the tests have the feature.
release/archives.sh "$1" "$out/archives" "$1" >/dev/null
(cd "$out/archives" && sha256sum --quiet --check SHA256SUMS) || fail "checksums are not those of the archives"
tar -tzf "$out"/archives/berth-node-otlp-*.tar.gz | grep /berthd$ >/dev/null || fail "no berthd in the archive with otlp"
tar -tzf "$out"/archives/berth-kubectl-*.tar.gz | grep /kubectl-berth$ >/dev/null || fail "no plugin of kubectl in its archive"
for file in man/man1/berthctl-stop-pod.1 completions/berthctl completions/_berthctl completions/berthctl.fish; do
    tar -tzf "$out"/archives/berth-node-[0-9]*.tar.gz | grep "/$file$" >/dev/null || fail "no $file in the archive of nodes"
done
# One of what most install, and one of the archive with otlp, which has crates more.
version=$(jq -r '.packages[] | select(.name == "berthd").versionInfo' "$out"/archives/berth-[0-9]*.spdx.json)
for sbom in "berth-$version" "berth-otlp-$version"; do
    [ "$(jq -r .spdxVersion "$out/archives/$sbom.spdx.json")" = SPDX-2.3 ] || fail "no SBOM $sbom"
done
jq -e 'any(.packages[]; .name == "kubectl-berth")' "$out/archives/berth-$version.spdx.json" >/dev/null || fail "the SBOM has no plugin of kubectl"
crates() { jq '.packages | length' "$out/archives/$1-$version.spdx.json"; }
[ "$(crates berth-otlp)" -gt "$(crates berth)" ] || fail "the SBOM with otlp has no crate more"
release/images.sh "$1" "$out/images" >/dev/null
for image in berthd berthctl berth-manager berth-workloads; do
    compgen -G "$out/images/$image-*.tar" >/dev/null || fail "no image of $image"
done

# berth-shim is compiled without them (tests/src/repository.rs), and what is published shows it. berthd has them: a
# pattern that finds nothing there says nothing here.
foreign='(^|[^:[:alnum:]_])(kube|kube_[a-z]+|k8s_openapi|rustls|ring|tonic|hyper|redb)::|ring_core_'
for program in berthd berth-shim; do nm -C "$1/$program" >"$out/$program.symbols"; done
grep -qE "$foreign" "$out/berthd.symbols" || fail "berthd has no symbols of a Kubernetes client: the pattern is out of date"
grep -q berth_shim:: "$out/berth-shim.symbols" || fail "berth-shim has no symbols"
! grep -m 5 -E "$foreign" "$out/berth-shim.symbols" >&2 || fail "berth-shim has a Kubernetes client, TLS or a store in it"
