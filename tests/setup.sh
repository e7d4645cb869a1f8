#!/usr/bin/env bash
# Makes a fresh Debian or Ubuntu machine able to build Berth and to run its tests. Run again, it changes nothing.
set -euo pipefail

fail() { # what is missing, how to get it
    echo "setup.sh: $1" >&2
    echo "          $2" >&2
    exit 1
}

# package: a program or file that is there when it is installed
needs=(
    "containerd:/usr/bin/containerd"
    "runc:/usr/sbin/runc"
    "containernetworking-plugins:/usr/lib/cni/bridge"
    "etcd-server:/usr/bin/etcd"
    "umoci:/usr/bin/umoci"
    "buildah:/usr/bin/buildah"
    "skopeo:/usr/bin/skopeo"
    "docker-registry:/usr/bin/docker-registry"
    "busybox-static:/bin/busybox"
    "iproute2:/sbin/ip"
    "iptables:/usr/sbin/iptables"
    "jq:/usr/bin/jq"
    "openssl:/usr/bin/openssl"
    "gcc:/usr/bin/cc"
    "protobuf-compiler:/usr/bin/protoc"
    "libprotobuf-dev:/usr/include/google/protobuf/any.proto"
    "g++:/usr/bin/c++"
    "systemd:/usr/bin/systemd-analyze"
    "prometheus:/usr/bin/promtool"
)

missing=()
for need in "${needs[@]}"; do
    [ -e "${need#*:}" ] || missing+=("${need%%:*}")
done

if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" = 0 ] || fail "not installed: ${missing[*]}" "run this as root, or install them yourself"
    command -v apt-get >/dev/null || fail "not installed: ${missing[*]}" "there is no apt-get here: install them with your own package manager"
    echo "setup.sh: installing ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    # A freshly installed containerd, etcd or registry must not start as a service of the machine: the tests run their own.
    policy=/usr/sbin/policy-rc.d
    if [ ! -e "$policy" ]; then
        trap 'rm -f "$policy"' EXIT
        printf '#!/bin/sh\nexit 101\n' >"$policy"
        chmod +x "$policy"
    fi
    apt-get update -qq
    apt-get install -y -qq --no-install-recommends "${missing[@]}" >&2
fi

[ "$(id -u)" = 0 ] || fail "the node tests start containers" "run as root"

at_least() { # have, want: true when have >= want
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n1)" = "$2" ]
}

command -v cargo >/dev/null && command -v rustc >/dev/null ||
    fail "no Rust toolchain" "install one with rustup, 1.90 or newer"
rust=$(rustc --version | cut -d' ' -f2)
at_least "$rust" 1.90 || fail "rustc $rust is too old" "rustup update stable (1.90 or newer is needed)"

command -v go >/dev/null || fail "no Go toolchain" "install Go 1.24 or newer: it builds the kubelet and the API server of the tests"
go=$(go env GOVERSION)
at_least "${go#go}" 1.24 || fail "$go is too old" "install Go 1.24 or newer"

# The demo needs no more than this; all.sh does: it looks at licences and duplicates, and makes a book of the docs.
has() { command -v "$1" >/dev/null || [ -x "${CARGO_HOME:-$HOME/.cargo}/bin/$1" ]; }
if [ "${1:-}" = --all ]; then
    # They run for a second: built without what makes their own release take minutes.
    export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_PROFILE_RELEASE_OPT_LEVEL=0
    has cargo-deny || cargo install --locked --quiet cargo-deny --version 0.20.2
    has mdbook || cargo install --locked --quiet mdbook --version 0.5.4 --no-default-features --features search
fi
