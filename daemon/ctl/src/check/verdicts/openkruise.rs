//! Verdicts on an OpenKruise beside Berth: its parts that run, kinds that both act on, statuses that it may
//! not write, webhooks that it has left. Pure.

use super::super::ownership::{Division, SHARED, Shared, is_of_berth, kind_of};
use super::{BTreeMap, Check, Facts, MIGRATION, Program, is_kruise, names, unknown};

const MANAGER: &str = "Deployment/kruise-controller-manager";
/// Programs of Berth that decide on kinds.
const OWNERS: [&str; 3] =
    ["Deployment/berth-manager", "Deployment/berth-workloads", "Deployment/berth-distribution"];
/// Accounts that the component `openkruise` lets write statuses.
const OF_COMPONENT: [&str; 2] = ["kruise-system:kruise-daemon", "kruise-system:kruise-manager"];

/// Judges the parts of an OpenKruise that are there.
pub(super) fn openkruise(programs: &BTreeMap<String, Program>, facts: &Facts) -> Vec<Check> {
    let manager = wanted(programs, MANAGER);
    let mut checks = Vec::new();
    if let Some(manager) = manager {
        let said = OWNERS.iter().filter_map(|name| programs.get(*name)?.ownership.as_deref());
        checks.extend(match said.clone().find(|owner| *owner != "detect") {
            Some(owner) => divided(owner, manager, programs, facts),
            None => vec![Check::warn(
                "openkruise",
                "its manager runs: the kinds that both have are left to it, all of them",
                format!("{}, or say with --ownership whose the kinds are; {MIGRATION}", stop(manager)),
            )],
        });
        checks.extend(statuses(programs, facts));
    }
    if let Some(daemon) = wanted(programs, "DaemonSet/kruise-daemon") {
        let namespace = &daemon.namespace;
        let remedy = format!("kubectl -n {namespace} delete daemonset kruise-daemon; {MIGRATION}");
        let found = "its daemon runs: two programs pull images, probe and recreate containers";
        checks.push(Check::warn("openkruise", found, remedy));
    }
    let left = facts.webhooks.iter().flatten().filter(|(name, all)| is_kruise(name) && all.entries > 0);
    let left: Vec<&str> = left.map(|(name, _)| name.as_str()).collect();
    if manager.is_none() && !left.is_empty() {
        let found = "its webhooks are left: what they are asked about is refused while nobody answers";
        let remedy = format!("kubectl delete {}; {MIGRATION}", left.join(" "));
        checks.push(Check::fail("openkruise", found, remedy));
    }
    if checks.is_empty() {
        checks.push(Check::ok("openkruise", "none runs"));
    }
    checks
}

/// Tells whether a resource is left to an OpenKruise whose manager runs.
pub(super) fn is_left(resource: &str, programs: &BTreeMap<String, Program>) -> bool {
    let kind = kind_of(resource);
    wanted(programs, MANAGER).is_some() && kind.is_some_and(|kind| !has(programs, kind))
}

fn wanted<'a>(programs: &'a BTreeMap<String, Program>, name: &str) -> Option<&'a Program> {
    programs.get(name).filter(|program| program.wanted > 0)
}

/// Tells whether a program of Berth has a kind while an OpenKruise decides.
fn has(programs: &BTreeMap<String, Program>, kind: &Shared) -> bool {
    let mut said = OWNERS.iter().filter_map(|name| programs.get(*name)?.ownership.as_deref());
    said.any(|ownership| is_of_berth(ownership, kind))
}

fn stop(manager: &Program) -> String {
    format!("kubectl -n {} scale deployment kruise-controller-manager --replicas=0", manager.namespace)
}

/// Kinds that somebody has given to Berth while OpenKruise's manager runs.
fn divided(
    owner: &str,
    manager: &Program,
    programs: &BTreeMap<String, Program>,
    facts: &Facts,
) -> Vec<Check> {
    let page = format!("{MIGRATION}#whose-a-kind-is");
    let ours = || SHARED.iter().filter(|kind| has(programs, kind));
    let of = |division: Division| {
        ours().filter(|kind| kind.division == division).map(|kind| kind.name).collect::<Vec<_>>()
    };
    let mut checks = Vec::new();
    let never = of(Division::Never);
    if !never.is_empty() {
        let found = format!("its manager runs, and acts on kinds of Berth's as well: {}", names(&never));
        let remedy = format!("{}, or give these kinds to openkruise with --ownership; {page}", stop(manager));
        checks.push(Check::fail("openkruise", found, remedy));
    }
    for kind in ours() {
        let Division::By(gate) = &kind.division else { continue };
        let asked = |name: &str| {
            let mut all = facts.webhooks.iter().flatten().filter(|(name, _)| is_kruise(name));
            all.any(|(_, one)| one.resources.contains(name))
        };
        if gate.is_on(&manager.gates) {
            let found = format!("its manager acts on {} as well, which is Berth's", kind.name);
            let remedy = format!("--feature-gates={}=false for its manager; {page}", gate.name);
            checks.push(Check::fail("openkruise", found, remedy));
        } else if kind.resources.iter().any(|resource| asked(resource)) {
            let found = format!("its webhooks refuse {}, which is Berth's: {} is off", kind.name, gate.name);
            let remedy = format!("take their entries out, and out of the annotation `template`; {page}");
            checks.push(Check::fail("openkruise", found, remedy));
        }
    }
    let untried = of(Division::Untried);
    if !untried.is_empty() {
        let found = format!("nobody has tried to keep its manager from {}", names(&untried));
        checks.push(Check::warn("openkruise", found, format!("give them to openkruise; {page}")));
    }
    if checks.is_empty() {
        checks.push(Check::ok("openkruise", format!("its manager runs; owners of kinds: {owner}")));
    }
    checks
}

/// Statuses of kinds left to OpenKruise that the policy `berth-status` does not let its programs write.
fn statuses(programs: &BTreeMap<String, Program>, facts: &Facts) -> Vec<Check> {
    let refused = match &facts.refused {
        Ok(refused) => refused,
        Err(error) => return vec![unknown("openkruise", error)],
    };
    let checks = refused.iter().filter_map(|(account, resources)| {
        let left = resources.iter().copied().filter(|resource| is_left(resource, programs));
        let left: Vec<&str> = left.collect();
        let found = format!("{account} may not write the status of {}", names(&left));
        let remedy = match OF_COMPONENT.contains(&account.as_str()) {
            true => {
                "add the component openkruise: kubectl apply --server-side -f deploy/openkruise/writers.yaml"
                    .to_owned()
            }
            false => format!(
                "kubectl create clusterrolebinding {}-writes-statuses --clusterrole=berth-status-writer \
                 --serviceaccount={account}",
                account.replace(':', "-")
            ),
        };
        (!left.is_empty()).then(|| Check::fail("openkruise", found, format!("{remedy}; {MIGRATION}")))
    });
    checks.collect()
}
