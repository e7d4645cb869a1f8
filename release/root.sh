#!/usr/bin/env bash
# Makes the root of an image: programs, the libraries that they are linked with, and nothing else. The images of images.sh and of the
# Containerfile are made by it.
#
#   release/root.sh PROGRAMS ROOT PROGRAM...
set -euo pipefail

fail() { echo "root.sh: $1" >&2; exit 1; }

[ $# -ge 3 ] || fail "give the folder of the programs, one to write to, and the programs"
programs=$1 root=$2
shift 2
mkdir -p "$root"/{bin,etc,tmp,run,var/run}
for program in "$@"; do
    [ -x "$programs/$program" ] || fail "$programs/$program is not there: cargo build --release --workspace --bins"
    strip -o "$root/bin/$program" "$programs/$program"
    while read -r library; do
        mkdir -p "$root$(dirname "$library")"
        cp -L "$library" "$root$library"
    done < <(ldd "$root/bin/$program" | grep -o '/[^ :]*' | sort -u)
done
echo "root:x:0:0:root:/:/bin/false
berth:x:65532:65532:berth:/:/bin/false" >"$root/etc/passwd"
chmod 1777 "$root/tmp"
