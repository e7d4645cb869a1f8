//! Commands that README and the pages show, and the tests that run them: each is in a list here, or its page
//! says why it is not run.

/// Mark on a page, before a block: the reason why the commands that no list has are not run.
const NOT_RUN: &str = "<!-- not run: ";

/// One command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Line of the page, from 1.
    pub line: usize,
    /// Command without its comment.
    pub command: String,
    /// Reason why it is not run, that stands before its block.
    pub not_run: Option<String>,
}

/// The commands of the pages that the node case `documented` runs as they are, in this order: a cluster from
/// nothing is installed, looked at, and taken apart. `NODE` is its node.
pub const AT_API_SERVER: &[&str] = &[
    "kubectl apply -f deploy/namespace.yaml",
    "helm install berth charts/berth -n berth-system -f values.yaml",
    "helm upgrade berth charts/berth -n berth-system -f values.yaml",
    "kubectl apply -f deploy/samples/recreate.yaml",
    "kubectl get crr -w",
    "kubectl annotate namespace default --overwrite berth.dev/agent-labels=example.com/app-config",
    "kubectl apply -f deploy/samples/update.yaml",
    "kubectl get cur -w",
    "kubectl apply -f deploy/samples/images.yaml",
    "kubectl annotate namespace default --overwrite berth.dev/agent-labels=gameserver-idle,controller.kubernetes.io/pod-deletion-cost",
    "kubectl apply -f deploy/samples/probe-marker.yaml",
    "kubectl get pods -L gameserver-idle -w",
    "kubectl annotate namespace shop berth.dev/agent-labels=gameserver-idle,controller.kubernetes.io/pod-deletion-cost",
    "kubectl get berth -A",
    "kubectl get crr,cur -A -o wide",
    "kubectl get podprobemarkers,nodepodprobes,nodepodupdates -A",
    "kubectl get nodes -L berth.dev/path,berth.dev/order",
    "kubectl get nodepodprobe NODE -o yaml",
    "kubectl label node NODE berth.dev/install=systemd",
    "kubectl -n berth-system get pods -o wide -w",
    "kubectl api-resources -o name | grep -E 'kruise.io$' \
     | xargs -n1 kubectl get -A --ignore-not-found -o name | cut -d/ -f1 | sort | uniq -c",
    "helm uninstall berth -n berth-system",
    "kubectl apply --server-side -k deploy",
    "kubectl apply --server-side -k .",
    "kubectl apply --server-side -k complete",
    "kubectl apply --server-side -f deploy/openkruise/writers.yaml",
    "kubectl apply -f deploy/samples/broadcast-job.yaml",
    "kubectl apply -f deploy/samples/cron-job.yaml",
    "kubectl apply -f deploy/samples/resource-distribution.yaml",
    "kubectl apply -f deploy/samples/persistent-pod-state.yaml",
    "kubectl apply -f deploy/samples/workload-spread.yaml",
    "kubectl apply -f deploy/samples/united-deployment.yaml",
    "kubectl get uniteddeployments",
    "kubectl apply --server-side -f deploy/samples/clone-set.yaml",
    "kubectl apply --server-side -f deploy/samples/statefulset.yaml",
    "kubectl apply --server-side -f deploy/samples/daemonset.yaml",
    "kubectl apply --server-side -f deploy/samples/sidecarset.yaml",
    "kubectl apply --server-side -f deploy/samples/hot-upgrade.yaml",
    "kubectl get sidecarsets",
    "kubectl delete --ignore-not-found -f deploy/workloads/workloads.yaml -f deploy/distribution/distribution.yaml",
    "kubectl delete --ignore-not-found -f deploy/workloads/role.yaml -f deploy/workloads/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/jobs/broadcastjobs/role.yaml -f deploy/jobs/cronjobs/role.yaml -f deploy/jobs/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/uniteddeployments/role.yaml -f deploy/uniteddeployments/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/spreads/role.yaml -f deploy/spreads/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/podstates/role.yaml -f deploy/podstates/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/marker-finalizers/role.yaml -f deploy/marker-finalizers/policy.yaml",
    "kubectl delete --ignore-not-found -f deploy/distribution/role.yaml -f deploy/distribution/policy.yaml",
    "kubectl delete --ignore-not-found -k deploy/manager",
    "kubectl -n berth-system delete --ignore-not-found daemonset berth-agent berth-installer",
    "kubectl delete --ignore-not-found -f deploy/agent-metrics/rbac.yaml -f deploy/agent-metrics/service.yaml",
    "kubectl delete --ignore-not-found -k deploy/policies",
    "kubectl delete --ignore-not-found -k deploy/protection",
    "kubectl delete --ignore-not-found -k deploy/rbac",
    "kubectl delete --ignore-not-found -f deploy/token-renewal/role.yaml -f deploy/requests-by-create/authors.yaml",
    "kubectl delete --ignore-not-found -f complete/filed-revisions.yaml",
    "kubectl delete --ignore-not-found -f deploy/openkruise/writers.yaml -f deploy/count-custom-resources/role.yaml",
    "kubectl -n berth-system delete --ignore-not-found configmap berth-dashboard",
];

/// Commands that the node case `documented` runs before anything is changed in a cluster with an OpenKruise
/// that Helm has installed.
pub const BEFORE: &[&str] = &[
    "kubectl get crd -o json | jq '.items |= map(select(.spec.group | endswith(\"kruise.io\")) | del(.status, .metadata.resourceVersion, .metadata.uid, .metadata.managedFields))' > definitions.json",
    "kubectl api-resources --verbs=list -o name | grep -E 'kruise.io$' | paste -sd, | xargs kubectl get -A -o json > objects.json",
    "kubectl get secret -A -l owner=helm,name=kruise",
    "kubectl delete secret -A -l owner=helm,name=kruise",
];

/// Commands that it runs to have the definitions of that OpenKruise again.
pub const WAY_BACK: &[&str] = &["kubectl replace -f definitions.json"];

/// Commands that the node case `documented` runs on a kind of a later OpenKruise. Its name takes the place
/// of `NAME`.
pub const STORED_ANEW: &[&str] = &[
    "kubectl get crd NAME -o json | jq '.spec.versions |= map(.storage = (.name == \"v1alpha1\"))' | kubectl replace -f -",
    "kubectl get NAME -A -o json | kubectl replace -f -",
    "kubectl patch crd NAME --subresource=status --type=merge -p '{\"status\":{\"storedVersions\":[\"v1alpha1\"]}}'",
];

/// Commands that a test or CI runs with paths, names or flags of its own: each with the file, and the words
/// of it that do so.
#[cfg(test)]
const ELSEWHERE: &[(&str, &str, &str)] = &[
    ("tests/demo.sh", "tests/cases/node/played.rs", "demo/play.sh"),
    ("tests/all.sh", ".ci/run", "exec tests/all.sh"),
    ("tests/setup.sh --all", "tests/all.sh", "tests/setup.sh --all"),
    ("tests/packages/test.sh", "tests/all.sh", "tests/packages/test.sh"),
    ("tests/book.sh", "tests/all.sh", "tests/book.sh"),
    ("tests/matrix.sh 2.2 1.36", "tests/all.sh", "tests/matrix.sh 2.2 1.34"),
    ("tests/matrix.sh --two-programs 2.2 1.36", "tests/all.sh", "tests/matrix.sh --two-programs 1.6 1.34"),
    ("cargo build", "tests/all.sh", "cargo build --workspace"),
    ("cargo test --workspace --lib NAME", "tests/all.sh", "--lib --bins"),
    ("cargo test --workspace --test in_process NAME", "tests/all.sh", "--test in_process"),
    (
        "cargo clippy --workspace --all-targets -- -D warnings",
        "tests/all.sh",
        "cargo clippy --workspace --all-targets",
    ),
    ("release/archives.sh target/release OUT", "tests/release.sh", "release/archives.sh"),
    (
        "release/archives.sh target/release OUT target/otlp/release",
        "tests/release.sh",
        "\"$out/archives\" \"$1\"",
    ),
    ("release/images.sh target/release OUT", "tests/release.sh", "release/images.sh"),
    ("release/containers.sh target/release OUT", "tests/cases/node/deployed.rs", "release/containers.sh"),
    ("apt-get install -y gcc protobuf-compiler libprotobuf-dev", "tests/setup.sh", "libprotobuf-dev"),
    (
        "target/release/berthctl install --dry-run",
        "tests/cases/node/install/lifecycle.rs",
        "[\"install\", \"--dry-run\"]",
    ),
    ("target/release/berthctl install", "tests/cases/node/install/lifecycle.rs", "[\"install\", LONG]"),
    ("berthctl doctor", "tests/cases/node/install/lifecycle.rs", "ctl(&[\"doctor\"])"),
    ("berthctl upgrade", "tests/cases/node/install/kept_calls.rs", "[\"upgrade\", \"--watch=2s\""),
    ("berthctl upgrade --shim", "tests/cases/node/install/two_programs.rs", "[\"upgrade\", \"--shim\"]"),
    ("berthctl drain", "tests/cases/node/install/two_programs.rs", "[\"drain\", \"--shim\"]"),
    ("berthctl check", "tests/cases/node/deployed.rs", "check(node, &[])"),
    ("berthctl check --pre", "tests/cases/node/deployed.rs", "check(node, &[\"--pre\"])"),
    ("berthctl status", "tests/cases/node/policies_missing.rs", "ctl(&[\"status\"])"),
    ("berthctl play pod.yaml", "tests/demo/play.sh", "berthctl play"),
    ("berthctl ps", "tests/demo/play.sh", "berthctl ps"),
    ("berthctl pods", "tests/demo/play.sh", "berthctl pods"),
    ("berthctl order web", "tests/demo/play.sh", "berthctl order shop"),
    ("berthctl explain web", "tests/demo/play.sh", "berthctl explain shop"),
    ("berthctl events", "tests/demo/play.sh", "berthctl events"),
    ("berthctl stop-pod web", "tests/demo/play.sh", "berthctl stop-pod"),
    ("berthctl recreate web proxy", "tests/cases/node/install/units.rs", "[\"recreate\", \"web\", \"one\"]"),
    ("berthctl recreate web proxy --grace 5s", "tests/cases/node/standalone_requests.rs", "\"--grace\""),
    ("berthctl get crr", "tests/cases/node/standalone_requests.rs", "ctl(&[\"get\", \"crr\"])"),
    ("berthctl get requests", "daemon/tests/cli.rs", "[\"get\", \"requests\""),
    ("berthctl get updates", "daemon/tests/cli.rs", "[\"get\", \"updates\"]"),
    (
        "berthctl pull registry.example.com/web:v2",
        "tests/cases/node/images/berthctl.rs",
        "[\"pull\", &reference]",
    ),
    ("berthctl pulls", "tests/cases/node/images/berthctl.rs", "ctl(&[\"pulls\"])"),
    (
        "berthctl update web main=web:v2 --annotation config=two --rollback-on-failure",
        "tests/cases/node/update/by_hand.rs",
        "\"--annotation\", \"config=two\", \"--rollback-on-failure\"",
    ),
    (
        "berthctl update web proxy=berth.test/busybox:2 --annotation example.com/app-config=v2 --rollback-on-failure",
        "tests/cases/node/update/by_hand.rs",
        "\"--annotation\", \"config=two\", \"--rollback-on-failure\"",
    ),
    ("kubectl berth nodes", "tests/cases/node/workloads/kubectl.rs", "says(\"nodes\")"),
    ("kubectl berth waiting -A", "tests/cases/node/workloads/kubectl.rs", "says(\"waiting -A\")"),
    ("kubectl berth requests -A", "tests/cases/node/workloads/kubectl.rs", "says(\"requests -A\")"),
    ("kubectl berth sidecarsets", "tests/cases/node/workloads/kubectl.rs", "says(\"sidecarsets\")"),
    ("kubectl berth revisions mesh", "tests/cases/node/workloads/kubectl.rs", "\"revisions nobody\""),
    (
        "kubectl berth recreate web-0 -c main --wait",
        "tests/cases/node/workloads/kubectl.rs",
        "recreate {pod} -c main --wait",
    ),
    (
        "kubectl berth update web-0 main=web:2 --wait",
        "tests/cases/node/workloads/kubectl.rs",
        "update {pod} main=a:2 --wait",
    ),
    ("berthctl explain --file pod.yaml", "daemon/ctl/tests/cli.rs", "[\"explain\", \"--file\""),
    ("berthctl probes", "daemon/tests/cli.rs", "[\"probes\"]"),
    ("berthctl swap web mesh mesh:v2", "tests/src/faults/ways/swap.rs", "[\"swap\", &target, \"mesh\""),
];

/// The commands of a page: lines of its blocks of `sh`, and those after a `$` in its other blocks.
pub fn shown(page: &str) -> Vec<Shown> {
    let (mut found, mut block, mut reason) = (Vec::new(), None, None);
    for (at, line) in page.lines().enumerate() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        if let Some(language) = text.strip_prefix("```") {
            if block.take().is_some() {
                reason = None;
            } else {
                block = Some((language == "sh", indent));
            }
            continue;
        }
        let Some((is_shell, column)) = block else {
            if let Some(said) = text.strip_prefix(NOT_RUN) {
                reason = said.strip_suffix(" -->").filter(|said| !said.is_empty()).map(str::to_owned);
            } else if !text.is_empty() {
                reason = None;
            }
            continue;
        };
        // What stands further in goes on with the line before it.
        let line = if is_shell { (indent == column).then_some(text) } else { text.strip_prefix("$ ") };
        let command = line.map(|line| line.split(" #").next().unwrap_or(line).trim_end());
        if let Some(command) = command.filter(|command| !command.is_empty() && !command.starts_with('#')) {
            found.push(Shown { line: at + 1, command: command.to_owned(), not_run: reason.clone() });
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::{AT_API_SERVER, BEFORE, ELSEWHERE, STORED_ANEW, Shown, WAY_BACK, shown};
    use crate::pages::{self, read};
    use crate::repository::root;

    /// Commands of all pages, each with the page and line it stands on.
    fn of_pages() -> Vec<(String, Shown)> {
        let below = |page: &std::path::Path| page.strip_prefix(root()).unwrap().display().to_string();
        pages::pages()
            .iter()
            .flat_map(|page| {
                let found = shown(&read(page)).into_iter();
                found.map(|shown| (format!("{}:{}", below(page), shown.line), shown)).collect::<Vec<_>>()
            })
            .collect()
    }

    /// Lines at which a block begins that has no fences.
    fn further_in(page: &str) -> Vec<usize> {
        let (mut fenced, mut before, mut found) = (false, "", Vec::new());
        for (at, line) in page.lines().enumerate() {
            fenced ^= line.trim_start().starts_with("```");
            if !fenced && before.is_empty() && line.starts_with("    ") {
                found.push(at + 1);
            }
            before = line.trim();
        }
        found
    }

    fn runs() -> BTreeSet<&'static str> {
        AT_API_SERVER
            .iter()
            .chain(BEFORE)
            .chain(STORED_ANEW)
            .chain(WAY_BACK)
            .copied()
            .chain(ELSEWHERE.iter().map(|(command, ..)| *command))
            .collect()
    }

    #[test]
    fn every_command_is_run_or_says_why_not() {
        let (runs, pages) = (runs(), of_pages());
        assert!(pages.len() > 80, "only {} commands", pages.len());
        let silent = pages
            .iter()
            .filter(|(_, shown)| shown.not_run.is_none() && !runs.contains(shown.command.as_str()));
        let silent: Vec<_> = silent.map(|(place, shown)| format!("{place}: {}", shown.command)).collect();
        assert!(
            silent.is_empty(),
            "no list of tests/src/commands.rs has them, and no `<!-- not run: WHY -->` stands before their \
             block:\n{}",
            silent.join("\n")
        );
    }

    #[test]
    fn what_runs_them_is_there() {
        let pages = of_pages();
        let is_shown = |command: &str| pages.iter().any(|(_, shown)| shown.command == command);
        let of_no_page: Vec<_> = runs().into_iter().filter(|command| !is_shown(command)).collect();
        assert!(of_no_page.is_empty(), "no page shows {of_no_page:#?}");
        for (command, file, words) in ELSEWHERE {
            let text =
                fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
            assert!(text.contains(words), "{file} does not run {command:?}: it has no {words:?}");
        }
    }

    #[test]
    fn no_reason_is_left_over() {
        let runs = runs();
        for page in pages::pages() {
            let (text, name) = (read(&page), page.display());
            // A reason that no command has is out of its place, or not written as it should be.
            let marks = text.lines().filter(|line| line.trim_start().starts_with("<!-- not run")).count();
            let shown = shown(&text).into_iter();
            let needing: BTreeSet<_> = shown
                .filter(|shown| !runs.contains(shown.command.as_str()))
                .filter_map(|shown| shown.not_run)
                .collect();
            assert_eq!(
                needing.len(),
                marks,
                "{name}: a reason that no command needs; those that are: {needing:#?}"
            );
        }
    }

    /// Text that stands further in is no block with a language: nobody can tell commands in it.
    #[test]
    fn blocks_stand_between_fences() {
        for page in pages::pages() {
            let found = further_in(&read(&page));
            assert!(found.is_empty(), "{}: blocks without fences at lines {found:?}", page.display());
        }
        assert_eq!(further_in("a\n\n    b\n    c\n- d\n    e\n```sh\n\n    f\n```\n\n   g\n"), [3]);
    }

    /// A component that is applied by itself takes back what others have added to the same objects.
    #[test]
    fn no_part_is_applied_alone() {
        let wholes = ["deploy", ".", "complete"];
        for page in pages::pages() {
            let text = read(&page);
            let applied = text.split("kubectl apply").skip(1).filter_map(|rest| rest.lines().next());
            let folders = applied.filter_map(|line| line.split("-k ").nth(1));
            for folder in folders.filter_map(|rest| rest.split([' ', '`', ',', ';', ':', ')']).next()) {
                assert!(wholes.contains(&folder), "{}: -k {folder}", page.display());
            }
        }
    }

    #[test]
    fn commands_are_found() {
        let page = "text\n<!-- not run: why -->\n```sh\na --b   # c\n# d\n  more\n\ne 'f'\n```\n```\n$ g h # i\nj\n```\n\
                    1. x\n   ```sh\n   k\n   ```\n```yaml\nl: m\n```\n<!-- not run: gone -->\nprose\n```sh\nn\n```\n";
        let found: Vec<_> =
            shown(page).into_iter().map(|shown| (shown.line, shown.command, shown.not_run)).collect();
        let reason = Some("why".to_owned());
        assert_eq!(
            found,
            [
                (4, "a --b".to_owned(), reason.clone()),
                (8, "e 'f'".to_owned(), reason),
                (11, "g h".to_owned(), None),
                (16, "k".to_owned(), None),
                (24, "n".to_owned(), None),
            ]
        );
    }
}
