//! Verdicts on the facts of a cluster. Pure.

mod openkruise;

use std::collections::BTreeMap;

use berth_proto::remedy::APPLY;
use jiff::{SignedDuration, Timestamp};

use super::facts::{Definition, Facts, Known, Program};
use super::releases;
use crate::findings::Check;
use crate::install::doctor::cluster::{API, at_least};

/// Age of an agent's last sign of life from which on workloads do without it.
const SILENT: SignedDuration = SignedDuration::from_mins(10);
/// Most names in a finding.
const MOST_NAMES: usize = 5;
/// Remedy for definitions that are another's: their fields have another owner.
const TAKE: &str = "apply your kustomization again, as a whole, with --server-side --force-conflicts; docs/migration.md#the-change";
/// Service that converts Berth's kinds.
const CONVERTER: &str = "berth-system/berth-manager";
/// Ways to see the agents that are pods, and the page on those that are services.
const AGENTS: &str =
    "those of the DaemonSet: kubectl -n berth-system get pods -o wide; services: docs/install.md";
/// Page that says more on everything of OpenKruise.
const MIGRATION: &str = "docs/migration.md";

/// Definitions of `deploy/crds`, and the version that Berth serves.
pub(super) const ALWAYS: [(&str, &str); 11] = [
    ("containerrecreaterequests.apps.kruise.io", "v1alpha1"),
    ("containerupdaterequests.berth.dev", "v1alpha1"),
    ("imagepulljobs.apps.kruise.io", "v1alpha1"),
    ("nodeimages.apps.kruise.io", "v1alpha1"),
    ("nodepodprobes.apps.kruise.io", "v1alpha1"),
    ("nodepodupdates.berth.dev", "v1alpha1"),
    ("persistentpodstates.apps.kruise.io", "v1alpha1"),
    ("podprobemarkers.apps.kruise.io", "v1alpha1"),
    ("podunavailablebudgets.policy.kruise.io", "v1alpha1"),
    ("sidecarsets.apps.kruise.io", "v1alpha1"),
    ("workloadspreads.apps.kruise.io", "v1alpha1"),
];
/// Definitions of components, and the versions that Berth serves.
pub(super) const COMPONENTS: [(&str, &[&str]); 7] = [
    ("advancedcronjobs.apps.kruise.io", &["v1alpha1"]),
    ("broadcastjobs.apps.kruise.io", &["v1alpha1"]),
    ("clonesets.apps.kruise.io", &["v1alpha1"]),
    ("daemonsets.apps.kruise.io", &["v1alpha1"]),
    ("resourcedistributions.apps.kruise.io", &["v1alpha1"]),
    ("statefulsets.apps.kruise.io", &["v1alpha1", "v1beta1"]),
    ("uniteddeployments.apps.kruise.io", &["v1alpha1"]),
];
/// Policies of `deploy/policies`.
pub(super) const POLICIES: [&str; 16] = [
    "berth-agent",
    "berth-agent-events",
    "berth-agent-nodes",
    "berth-agent-pods",
    "berth-agent-token",
    "berth-identity",
    "berth-kubelet",
    "berth-launch-priority",
    "berth-manager",
    "berth-manager-status",
    "berth-node-objects",
    "berth-node-requests",
    "berth-probe-markers",
    "berth-requests",
    "berth-status",
    "berth-update-requests",
];

/// Judges all facts. `pre`: only what would be in Berth's way.
pub(super) fn checks(facts: &Facts, pre: bool, now: Timestamp) -> Vec<Check> {
    let mut checks = vec![match &facts.version {
        Ok(version) => at_least("api", "API server", version, API, "upgrade the cluster"),
        Err(error) => {
            Check::fail("api", error, "kubectl get --raw /version has to answer with that kubeconfig")
        }
    }];
    if facts.version.is_err() {
        return checks;
    }
    checks.extend(of("programs", &facts.programs, |programs| openkruise::openkruise(programs, facts)));
    checks.extend(of("definitions", &facts.definitions, |all| stored(all, facts.programs.as_ref().ok())));
    if pre {
        return checks;
    }
    checks.extend(of("definitions", &facts.definitions, |all| definitions(all, facts)));
    checks.extend(facts.definitions.iter().flat_map(|all| conversions(all, facts)));
    checks.extend(of("programs", &facts.programs, programs));
    checks.extend(of("webhooks", &facts.webhooks, |_| webhooks(facts)));
    checks.extend(of("policies", &facts.policies, |bound| policies(bound)));
    checks.extend(match (&facts.nodes, &facts.agents) {
        (Ok(nodes), Ok(agents)) => agents_of(nodes, agents, now),
        (Err(error), _) | (_, Err(error)) => vec![unknown("agents", error)],
    });
    checks
}

fn of<T>(check: &'static str, fact: &Known<T>, judge: impl FnOnce(&T) -> Vec<Check>) -> Vec<Check> {
    match fact {
        Ok(fact) => judge(fact),
        Err(error) => vec![unknown(check, error)],
    }
}

fn unknown(check: &'static str, error: &str) -> Check {
    Check::warn(check, format!("not known: {error}"), "run it as somebody who may read that")
}

/// Reports whether a webhook configuration, as `KIND/NAME`, is OpenKruise's.
pub(super) fn is_kruise(name: &str) -> bool {
    name.contains("/kruise-")
}

/// Versions that Berth serves of a kind; `None`: it does not serve the kind.
fn served(name: &str) -> Option<&'static [&'static str]> {
    let component = COMPONENTS.iter().find(|(known, _)| *known == name).map(|(_, versions)| *versions);
    let always = || ALWAYS.iter().any(|(known, _)| *known == name).then_some(&["v1alpha1"][..]);
    component.or_else(always)
}

/// Number of definitions that are OpenKruise's, and their release: as its manager's image names it, or else
/// as the definitions have signs of it.
fn whose(foreign: &[(&String, &Definition)], programs: Option<&BTreeMap<String, Program>>) -> String {
    let manager = programs.and_then(|programs| programs.get("Deployment/kruise-controller-manager"));
    let named = manager.and_then(|manager| releases::of_image(manager.image.as_deref()?));
    let least = foreign.iter().map(|(_, one)| one.release).max().unwrap_or(releases::FIRST);
    let count = foreign.len();
    match named {
        Some(release) => format!("{count} are OpenKruise's, whose manager is {release}"),
        None if least == releases::FIRST => format!("{count} are OpenKruise's, of 1.{least} or before"),
        None => format!("{count} are OpenKruise's, of 1.{least} at least"),
    }
}

/// Definitions of others: what is stored in them that Berth's would not serve, and kinds that Berth has not.
fn stored(all: &BTreeMap<String, Definition>, programs: Option<&BTreeMap<String, Program>>) -> Vec<Check> {
    let foreign: Vec<_> = all.iter().filter(|(_, one)| !one.is_ours).collect();
    if foreign.is_empty() {
        return Vec::new();
    }
    let mut checks = vec![Check::ok("definitions", whose(&foreign, programs))];
    for (name, one) in &foreign {
        let Some(versions) = served(name) else { continue };
        let other = one.stored.iter().find(|version| !versions.contains(&version.as_str()));
        if let Some(version) = other {
            let found = format!("{name} has stored objects as {version}, which Berth's does not serve");
            let remedy =
                format!("store them as {} first; {MIGRATION}#stored-versions", versions.join(" or "));
            checks.push(Check::fail("definitions", found, remedy));
        }
    }
    let strange: Vec<&str> =
        foreign.iter().filter(|(name, _)| served(name).is_none()).map(|(name, _)| name.as_str()).collect();
    if !strange.is_empty() {
        let remedy = format!("nobody acts on them without OpenKruise; {MIGRATION}");
        checks.push(Check::warn("definitions", format!("Berth has no {}", names(&strange)), remedy));
    }
    checks
}

/// Definitions that Berth needs.
fn definitions(all: &BTreeMap<String, Definition>, facts: &Facts) -> Vec<Check> {
    let has = |program: &str| facts.programs.as_ref().is_ok_and(|programs| programs.contains_key(program));
    let mut needed: Vec<&str> = ALWAYS.iter().map(|(name, _)| *name).collect();
    if has("Deployment/berth-workloads") {
        needed.extend([
            "clonesets.apps.kruise.io",
            "daemonsets.apps.kruise.io",
            "statefulsets.apps.kruise.io",
        ]);
    }
    if has("Deployment/berth-distribution") {
        needed.push("resourcedistributions.apps.kruise.io");
    }
    let missing: Vec<&str> = needed.iter().copied().filter(|name| !all.contains_key(*name)).collect();
    let others = needed.iter().copied().filter(|name| all.get(*name).is_some_and(|one| !one.is_ours));
    let others: Vec<&str> = others.collect();
    let mut checks = Vec::new();
    if !missing.is_empty() {
        checks.push(Check::fail("definitions", format!("there is no {}", names(&missing)), APPLY));
    }
    if !others.is_empty() {
        let found = format!("not Berth's: {}; fields of Berth are lost in them", names(&others));
        checks.push(Check::warn("definitions", found, TAKE));
    }
    if checks.is_empty() {
        checks.push(Check::ok("definitions", format!("all {} are there", needed.len())));
    }
    checks
}

/// Definitions that Berth serves, and that somebody else converts, or nobody. One that is left to an
/// OpenKruise is converted by that.
fn conversions(all: &BTreeMap<String, Definition>, facts: &Facts) -> Vec<Check> {
    let mut checks = Vec::new();
    let converted = all.iter().filter_map(|(name, one)| Some((name, one.converter.as_deref()?)));
    let converted: Vec<_> = converted.filter(|(name, _)| served(name).is_some()).collect();
    let endpoints = facts.endpoints.as_ref();
    for (name, converter) in &converted {
        let resource = name.split('.').next().unwrap_or(name);
        let is_left = facts.programs.as_ref().is_ok_and(|programs| openkruise::is_left(resource, programs));
        let without = "no endpoint: its other version cannot be read";
        checks.extend(match endpoints.ok().and_then(|counts| counts.get(*converter)) {
            Some(0) if *converter == CONVERTER => {
                let found = format!("{name} is converted by {converter}, which has {without}");
                Some(Check::fail("definitions", found, look_at("Deployment/berth-manager")))
            }
            Some(0) => {
                let found = format!("{name} is converted by {converter}, not Berth's, which has {without}");
                Some(Check::fail("definitions", found, TAKE))
            }
            _ if *converter == CONVERTER || is_left => None,
            _ => {
                let found = format!("{name} is converted by {converter}, which is not Berth's");
                Some(Check::fail("definitions", found, TAKE))
            }
        });
    }
    let unknown = endpoints.err().map(|error| unknown("definitions", error));
    checks.extend(unknown.filter(|_| !converted.is_empty()));
    checks
}

/// Commands that say why a program is not Ready.
fn look_at(name: &str) -> String {
    format!("kubectl -n berth-system describe {name}; kubectl -n berth-system logs {name}")
}

fn programs(all: &BTreeMap<String, Program>) -> Vec<Check> {
    let mut checks = Vec::new();
    if !all.contains_key("Deployment/berth-manager") {
        checks.push(Check::fail("programs", "there is no Deployment berth-system/berth-manager", APPLY));
    }
    for (name, program) in all.iter().filter(|(name, _)| name.contains("/berth-")) {
        let found = format!("{name}: {} of {} Ready", program.ready, program.wanted);
        let remedy = look_at(name);
        let rollout = rollout(program);
        checks.push(match (program.ready, rollout) {
            (ready, _) if ready <= 0 && program.wanted > 0 => Check::fail("programs", found, remedy),
            // Two templates at once act by two configurations, and one that never gets Ready ends it never.
            (_, Some(rollout)) if name.starts_with("Deployment/") => {
                let remedy = format!("kubectl -n berth-system rollout status {name}; {remedy}");
                Check::fail("programs", format!("{found}, {rollout}"), remedy)
            }
            (_, Some(rollout)) => Check::warn("programs", format!("{found}, {rollout}"), remedy),
            (ready, None) if ready < program.wanted => Check::warn("programs", found, remedy),
            (_, None) => Check::ok("programs", found),
        });
    }
    checks
}

/// State of a rollout that has not ended.
fn rollout(program: &Program) -> Option<String> {
    let Program { wanted, updated, older, .. } = program;
    match program.unseen {
        true => Some("its newest template not begun".to_owned()),
        false if *older > 0 => Some(format!("{updated} of the newest template and {older} of older ones")),
        false if updated < wanted => Some(format!("{updated} of the newest template")),
        false => None,
    }
}

fn webhooks(facts: &Facts) -> Vec<Check> {
    let ours = facts.webhooks.iter().flatten().filter(|(name, _)| name.ends_with("/berth-manager"));
    let checks = ours.map(|(name, one)| match (one.entries, one.without_bundle) {
        (entries, 0) => Check::ok("webhooks", format!("{name}: {entries} entries")),
        (_, without) => {
            let found = format!("{name}: {without} entries without a bundle of CAs");
            let remedy = "the manager writes them: kubectl -n berth-system logs Deployment/berth-manager";
            Check::fail("webhooks", found, remedy)
        }
    });
    let checks: Vec<Check> = checks.collect();
    match checks.is_empty() {
        true => vec![Check::warn("webhooks", "none: no sidecars, budgets or spreads", APPLY)],
        false => checks,
    }
}

fn policies(bound: &[String]) -> Vec<Check> {
    let missing: Vec<&str> =
        POLICIES.into_iter().filter(|name| !bound.iter().any(|known| known == name)).collect();
    vec![match missing.as_slice() {
        [] => Check::ok("policies", format!("all {} are bound", POLICIES.len())),
        missing => Check::fail(
            "policies",
            format!("not there, or bound by nothing: {}", names(missing)),
            format!("{APPLY}: without them a stolen credential is good for more than its own"),
        ),
    }]
}

fn agents_of(
    nodes: &BTreeMap<String, bool>,
    agents: &BTreeMap<String, Option<Timestamp>>,
    now: Timestamp,
) -> Vec<Check> {
    let untold = nodes.iter().filter(|(node, _)| !agents.contains_key(*node));
    let (kubelets, without): (Vec<_>, Vec<_>) = untold.partition(|(_, is_inline)| **is_inline);
    let kubelets: Vec<&str> = kubelets.into_iter().map(|(node, _)| node.as_str()).collect();
    let without: Vec<&str> = without.into_iter().map(|(node, _)| node.as_str()).collect();
    let is_silent = |sign: &Option<Timestamp>| sign.is_none_or(|sign| now.duration_since(sign) > SILENT);
    let silent = nodes.keys().filter(|node| agents.get(*node).is_some_and(is_silent));
    let silent: Vec<&str> = silent.map(String::as_str).collect();
    let with = nodes.len().saturating_sub(without.len());
    let mut checks = Vec::new();
    if with == 0 {
        let found = format!("none of {} nodes has one", nodes.len());
        checks.push(Check::fail("agents", found, format!("install it on the nodes; {AGENTS}")));
    } else if !without.is_empty() {
        let found = format!("{with} of {} nodes have one; not {}", nodes.len(), names(&without));
        checks.push(Check::warn("agents", found, format!("install it there; {AGENTS}")));
    }
    // Order and restarts work there: only what changes pods needs more than the kubelet's rights.
    if !kubelets.is_empty() {
        let found =
            format!("these act as the kubelet, without updates in place, or have gone: {}", names(&kubelets));
        let remedy = "berthctl status on that node says who it is; docs/install.md#permissions-for-updates";
        checks.push(Check::warn("agents", found, remedy));
    }
    if !silent.is_empty() {
        let found = format!("no sign of life for 10 minutes: {}", names(&silent));
        let remedy = format!("berthctl doctor on that node; {AGENTS}");
        checks.push(Check::fail("agents", found, remedy));
    }
    if checks.is_empty() {
        checks.push(Check::ok("agents", format!("all {} nodes have one", nodes.len())));
    }
    checks
}

/// The first names, and how many more there are.
fn names(all: &[&str]) -> String {
    let shown = all.iter().take(MOST_NAMES).copied().collect::<Vec<_>>().join(", ");
    match all.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests;
