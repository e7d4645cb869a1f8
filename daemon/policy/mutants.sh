#!/usr/bin/env bash
# Shows that the tests of updates in place notice a core that is wrong: each mutation below is made in a copy, alone, and has
# to turn a test red. A line that changes nothing, or that does not compile, is an error too: it shows nothing any more.
set -euo pipefail
cd "$(dirname "$0")/../.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
# As it stands here, committed or not.
git ls-files -z | tar --null --files-from - --create | tar --extract --directory "$copy"
# What the packages of others are built into stays for the next time.
export CARGO_TARGET_DIR=$PWD/target/mutants
# Random histories are the same each time.
export PROPTEST_RNG_SEED=1 RUST_BACKTRACE=0

core() { (cd "$copy" && timeout 600 cargo test --quiet --package berth-policy --lib "$@") >"$copy/log" 2>&1; }
fail() {
    tail -n 40 "$copy/log" >&2 2>/dev/null || true
    echo "$*" >&2
    exit 1
}

caught=0 survived=()

# A file of the core, what is wrong in it then, and the sed command that makes it so.
mutate() {
    local file=$copy/daemon/policy/src/in_place_update/$1 what=$2 command=$3
    cp "$file" "$copy/before"
    sed --in-place "$command" "$file"
    : >"$copy/log"
    if cmp --silent "$file" "$copy/before"; then
        fail "$1: \"$what\": its sed line changes nothing: $command"
    fi
    core --no-run || fail "$1: \"$what\": it does not compile"
    if core in_place_update; then
        survived+=("$1: $what")
    else
        caught=$((caught + 1))
        # The tests that noticed it.
        echo "caught: $what ($(grep --count '^    tests::' "$copy/log" || true) tests)"
    fi
    cp "$copy/before" "$file"
}

core in_place_update || fail "the tests fail without a mutation"

mutate updates/settled.rs "the kubelet is given twice the time to get a version" \
    's/^const SETTLED: Duration = Duration::from_millis(100);/const SETTLED: Duration = Duration::from_millis(200);/'
mutate updates/turn.rs "one request is enough to leave an image to the kubelet" \
    's/open\.all(|request| request\.leaves_pull)/open.any(|request| request.leaves_pull)/'
mutate updates/turn.rs "it begins before it knows that it may write" \
    's/UpdatePermission::Unknown => Sight::Unknown,/UpdatePermission::Unknown => turn.see(pod),/'
mutate updates/turn.rs "the new values are not set before the patch" \
    's/env::values(view, &patch\.metadata, /env::values(view, \&Metadata::new(), /'
mutate updates/turn.rs "a write is given out while another step is under way" \
    's/!self\.may_ask(pod) || pod\.step\.is_some()/!self.may_ask(pod)/'
mutate updates/mod.rs "restarts of an earlier process are not waited for" \
    's/!unclear || now >= until/true/'
mutate decide.rs "an update ends before it has come about" \
    's/self\.diff\.is_empty() && under_way\.is_none()/self.diff.is_empty()/'
mutate decide.rs "the grace does not pass before the patch" \
    's/(self\.now < until)\.then/(self.now > until).then/'
mutate decide.rs "a container may fall over for five minutes" \
    's/^const CRASHES_FOR: Duration = Duration::from_secs(30);/const CRASHES_FOR: Duration = Duration::from_secs(300);/'
mutate decide.rs "a deadline is exceeded before it" \
    's/|deadline| deadline <= self\.now/|deadline| deadline > self.now/'
mutate decide.rs "images are not pulled before the patch" \
    's/(!missing\.is_empty())\.then_some(Next::Pull(missing))/None/'
mutate batch.rs "all containers go in the first batch" \
    's/container\.priority\.is_none() || container\.priority == highest/container.priority.is_none() || highest.is_some()/'

for one in "${survived[@]}"; do
    echo "NOT caught: $one" >&2
done
echo "$caught mutations are caught, ${#survived[@]} are not"
[ "${#survived[@]}" -eq 0 ]
