#!/usr/bin/env bash
# The cases of the node suite that lean most on what the kubelet and the runtime do, with each of those that Berth is tested with.
#
#   matrix.sh                             every cell
#   matrix.sh 2.2 1.36                    one: containerd, kubelet
#   matrix.sh 2.2 1.36 launch_order jobs  these cases of it; what their names begin with
#   matrix.sh --two-programs ...          the same with a berth-shim before each berthd, as `berthctl install` makes it; and the CRI suite
#
# Prints a table of what has passed, and the names of what has not. What each cell said is kept in the cache, in matrix/.
set -euo pipefail
cd "$(dirname "$0")/.."

fail() { echo "matrix.sh: $1" >&2; exit 1; }
is_one_of() { # what, those there are
    local what=$1 one
    shift
    for one in "$@"; do [ "$one" = "$what" ] && return; done
    return 1
}

runtimes=(1.6 2.2)
kubelets=(1.33 1.34 1.36)
groups=(releases launch_order exit_order early_readiness recreate jobs update images::pins)
programs=one
if [ "${1:-}" = --two-programs ]; then
    shift
    programs=two
    export BERTH_TESTS_TWO_PROGRAMS=1
    groups+=(cri)
fi
if [ $# -gt 0 ]; then
    [ $# -ge 2 ] || fail "$1 with which kubelet? (matrix.sh 2.2 1.36)"
    is_one_of "$1" "${runtimes[@]}" || fail "no containerd $1 here: ${runtimes[*]}"
    is_one_of "$2" "${kubelets[@]}" || fail "no kubelet $2 here: ${kubelets[*]}"
    runtimes=("$1")
    kubelets=("$2")
    shift 2
    [ $# -eq 0 ] || groups=(releases "$@")
fi

tests/setup.sh
logs="${BERTH_CACHE:-$HOME/.cache/berth}/matrix"
mkdir -p "$logs"

# Before the tests, whose patience is for pods and not for compilers.
for kubelet in "${kubelets[@]}"; do
    BERTH_TESTS_KUBERNETES=$kubelet tests/k8s/build.sh kubelet kube-apiserver kube-controller-manager kube-scheduler >/dev/null
done
for runtime in "${runtimes[@]}"; do
    [ "$runtime" = 1.6 ] || tests/containerd/build.sh "$runtime" >/dev/null
done
all=$(cargo test --workspace --features berthd/fault-points --quiet --test node -- --list | sed -n 's/: test$//p')
cases_of() { grep -E "^$1(::|\$)" <<<"$all" || fail "no case is called $1"; }
of=()
for group in "${groups[@]}"; do
    cases=$(cases_of "$group")
    mapfile -t -O ${#of[@]} of <<<"$cases"
done

version() { "$@" --version | grep -oE '[0-9]+\.[0-9]+\.[0-9]+' | head -n1; }
containerd_of() { # release
    case "$1" in 1.6) echo containerd ;; *) echo "$(tests/containerd/build.sh "$1")/containerd" ;; esac
}
kubernetes_of() { # release, program
    BERTH_TESTS_KUBERNETES=$1 tests/k8s/build.sh "$2"
}

table="| containerd | kubelet | API server | programs |"
rule="|---|---|---|---|"
for group in "${groups[@]}"; do table+=" $group |" rule+="---|"; done
table+=$'\n'"$rule"$'\n'
missed=() passed=0 red=0

for runtime in "${runtimes[@]}"; do
    for kubelet in "${kubelets[@]}"; do
        echo "matrix.sh: containerd $runtime, kubelet $kubelet, programs: $programs" >&2
        log=$logs/$runtime-$kubelet-$programs.log
        # How the cases end is told by their lines: one for each that has passed.
        BERTH_TESTS_CONTAINERD=$runtime BERTH_TESTS_KUBERNETES=$kubelet \
            tests/node.sh "${of[@]}" >"$log" 2>&1 || {
            red=1
            # What those that failed said; all of it where it never came to a list of them.
            { grep -q '^failures:$' "$log" && sed -n '/^failures:$/,$p' "$log" || cat "$log"; } >&2
        }
        table+="| $(version "$(containerd_of "$runtime")") | $(version "$(kubernetes_of "$kubelet" kubelet)") |"
        table+=" $(version "$(kubernetes_of "$kubelet" kube-apiserver)") | $programs |"
        for group in "${groups[@]}"; do
            mapfile -t cases < <(cases_of "$group")
            good=0
            for name in "${cases[@]}"; do
                if grep -qxF "test $name ... ok" "$log"; then
                    good=$((good + 1))
                else
                    missed+=("containerd $runtime, kubelet $kubelet: $name ($log)")
                fi
            done
            passed=$((passed + good))
            table+=" $good of ${#cases[@]} |"
        done
        table+=$'\n'
    done
done

printf '\n%s' "$table"
for one in "${missed[@]}"; do echo "did not pass: $one"; done
echo "$passed passed, ${#missed[@]} failed"
[ ${#missed[@]} -eq 0 ] && [ $red -eq 0 ]
