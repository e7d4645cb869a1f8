#!/usr/bin/env bash
# The demonstration itself; demo.sh runs it on a node, with berthctl in the PATH.
set -euo pipefail
cd "$(dirname "$0")"

say() { printf '\n\033[1m%s\033[0m\n' "$*"; }

say "berthctl play pod.yaml   (containers listed: web 10, cache 20, database 30)"
berthctl play --timeline --log-dir "$BERTH_NODE_DIR/pod-logs" --data-dir "$BERTH_NODE_DIR/pods" pod.yaml

say "berthctl ps"
berthctl ps

say "berthctl pods"
berthctl pods

say "berthctl order shop"
berthctl order shop

say "berthctl explain shop"
berthctl explain shop

say "berthctl events"
berthctl events

say "berthctl stop-pod shop   (the other way round)"
berthctl stop-pod --timeline shop
