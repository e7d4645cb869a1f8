#!/usr/bin/env bash
# Berth's main job, on this machine, in one command: sets everything up, starts a private containerd and berthd, plays a pod
# whose containers are listed in the wrong order, shows who started and stopped when, and removes every trace.
set -euo pipefail
cd "$(dirname "$0")/.."

tests/setup.sh
echo "demo.sh: building Berth" >&2
cargo build --quiet --profile "${BERTH_PROFILE:-dev}" -p berthd -p berthctl -p berth-tests --bins
dir=$(cargo metadata --format-version 1 --no-deps | jq -r .target_directory)
case "${BERTH_PROFILE:-dev}" in dev) dir+=/debug ;; *) dir+=/$BERTH_PROFILE ;; esac

exec "$dir/berth-node" with --no-kubelet -- tests/demo/play.sh
