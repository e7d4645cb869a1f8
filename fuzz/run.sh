#!/usr/bin/env bash
# Fuzzes each target for some seconds: run.sh [seconds [target...]]. What it finds is kept in artifacts/, and what it learns in
# corpus/, so that a longer run goes on where the last one ended. To try a finding again: BERTH_FUZZ_TARGET=TARGET
# fuzz-target/debug/berth-fuzz FILE. BERTH_FUZZ_SEED makes what is tried the same each time. An input that takes longer than
# BERTH_FUZZ_TIMEOUT seconds (10) is a finding. Needs a C++ compiler, for libFuzzer.
set -euo pipefail
cd "$(dirname "$0")"
seconds=${1:-20}
shift || true
targets=("$@")
[ ${#targets[@]} -gt 0 ] || targets=($(ls seeds))

# Overflows and failed assertions are found. What is unsafe is no input's way, so there is nothing for an address sanitizer to find.
RUSTC_WRAPPER=$PWD/rustc.sh cargo build --quiet --target-dir ../fuzz-target
program=../fuzz-target/debug/berth-fuzz

bytes() { # a seed that is no text is kept in hexadecimal
    printf "$(tr -d '\n' <"$1" | sed 's/../\\x&/g')"
}

fuzz() { # target
    local target=$1 log=artifacts/$1/log
    mkdir -p "corpus/$target" "artifacts/$target"
    for seed in "seeds/$target"/*; do
        case $seed in
        *.hex) bytes "$seed" >"corpus/$target/$(basename "$seed" .hex)" ;;
        *) cp "$seed" "corpus/$target/" ;;
        esac
    done
    [ "$target" != config ] || cp ../daemon/src/config/defaults.yaml corpus/config/
    if ! BERTH_FUZZ_TARGET=$target "$program" "corpus/$target" -dict=words.dict -max_total_time="$seconds" -seed="${BERTH_FUZZ_SEED:-0}" \
        -max_len=8192 -timeout="${BERTH_FUZZ_TIMEOUT:-10}" -rss_limit_mb=1024 -artifact_prefix="artifacts/$target/" >"$log" 2>&1; then
        tail -n 60 "$log" >&2
        echo "run.sh: $target failed, see fuzz/$log" >&2
        return 1
    fi
    printf '%-16s %s\n' "$target" "$(grep -a '^Done' "$log" | tail -n1)"
}

# Each is one thread: as many at once as there are processors.
running=0
for target in "${targets[@]}"; do
    if [ "$running" -ge "$(nproc)" ]; then
        wait -n
        running=$((running - 1))
    fi
    fuzz "$target" &
    running=$((running + 1))
done
for ((; running > 0; running--)); do wait -n; done
