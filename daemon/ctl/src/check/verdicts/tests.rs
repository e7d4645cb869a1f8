mod beside;

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::json;

use super::super::facts::Webhooks;
use super::super::read::{add, definition, namespaces};
use super::*;
use crate::findings::Verdict;

const NOW: &str = "2026-01-01T01:00:00Z";

fn now() -> Timestamp {
    NOW.parse().unwrap()
}

fn ours(versions: &[&str]) -> Definition {
    let versions: Vec<String> = versions.iter().map(|version| (*version).to_owned()).collect();
    Definition { served: versions.clone(), stored: versions, is_ours: true, release: 4, converter: None }
}

fn program(wanted: i32, ready: i32) -> Program {
    Program { namespace: "berth-system".to_owned(), wanted, ready, updated: wanted, ..Program::default() }
}

/// A cluster in which all is well.
fn well() -> Facts {
    let bundled = Webhooks { entries: 3, ..Webhooks::default() };
    Facts {
        version: Ok("v1.34.4".to_owned()),
        definitions: Ok(ALWAYS.map(|(name, version)| (name.to_owned(), ours(&[version]))).into()),
        programs: Ok([
            ("Deployment/berth-manager".to_owned(), program(2, 2)),
            ("DaemonSet/berth-agent".to_owned(), program(2, 2)),
        ]
        .into()),
        webhooks: Ok(["mutating", "validating"]
            .map(|kind| (format!("{kind}webhookconfiguration/berth-manager"), bundled.clone()))
            .into()),
        policies: Ok(POLICIES.map(str::to_owned).into()),
        refused: Ok(BTreeMap::new()),
        endpoints: Ok(BTreeMap::new()),
        nodes: Ok(["a", "b"].map(|node| (node.to_owned(), false)).into()),
        agents: Ok(["a", "b"].map(|node| (node.to_owned(), Some(now()))).into()),
    }
}

/// A cluster with an OpenKruise, and no Berth.
fn kruise(running: bool) -> Facts {
    let version = |versions: &[&str]| Definition { is_ours: false, ..ours(versions) };
    Facts {
        definitions: Ok([("clonesets.apps.kruise.io".to_owned(), version(&["v1alpha1"]))].into()),
        programs: Ok([
            ("Deployment/kruise-controller-manager".to_owned(), program(i32::from(running), 0)),
            ("DaemonSet/kruise-daemon".to_owned(), program(2, 2)),
        ]
        .into()),
        webhooks: Ok([(
            "mutatingwebhookconfiguration/kruise-mutating-webhook-configuration".to_owned(),
            Webhooks { entries: 9, ..Webhooks::default() },
        )]
        .into()),
        policies: Ok(Vec::new()),
        agents: Ok(BTreeMap::new()),
        ..well()
    }
}

/// Findings of one verdict, as `check: found`.
fn findings(facts: &Facts, pre: bool, verdict: Verdict) -> Vec<String> {
    let all = checks(facts, pre, now()).into_iter().filter(|check| check.verdict == verdict);
    all.map(|check| format!("{}: {}", check.check, check.found)).collect()
}

#[test]
fn all_is_well() {
    let all = checks(&well(), false, now());
    assert!(all.iter().all(|check| check.verdict == Verdict::Ok && check.remedy.is_empty()), "{all:?}");
    let said = findings(&well(), false, Verdict::Ok);
    assert_eq!(
        said,
        [
            "api: API server v1.34.4",
            "openkruise: none runs",
            "definitions: all 11 are there",
            "programs: DaemonSet/berth-agent: 2 of 2 Ready",
            "programs: Deployment/berth-manager: 2 of 2 Ready",
            "webhooks: mutatingwebhookconfiguration/berth-manager: 3 entries",
            "webhooks: validatingwebhookconfiguration/berth-manager: 3 entries",
            "policies: all 16 are bound",
            "agents: all 2 nodes have one",
        ]
    );
}

#[test]
fn an_openkruise_that_runs_is_found() {
    assert!(findings(&kruise(true), true, Verdict::Fail).is_empty());
    let warned = findings(&kruise(true), true, Verdict::Warn);
    assert_eq!(
        warned,
        [
            "openkruise: its manager runs: the kinds that both have are left to it, all of them",
            "openkruise: its daemon runs: two programs pull images, probe and recreate containers",
        ]
    );
}

#[test]
fn webhooks_that_nobody_answers_are_in_the_way() {
    let all = checks(&kruise(false), true, now());
    let failed = all.iter().find(|check| check.verdict == Verdict::Fail).unwrap();
    assert!(failed.found.starts_with("its webhooks are left"), "{failed:?}");
    assert!(
        failed.remedy.starts_with(
            "kubectl delete mutatingwebhookconfiguration/kruise-mutating-webhook-configuration;"
        ),
        "{failed:?}"
    );
}

/// OpenKruise's chart puts it into any namespace, and its webhooks say which.
#[test]
fn an_openkruise_elsewhere_is_found() {
    let mut facts = kruise(true);
    for one in facts.webhooks.as_mut().unwrap().values_mut() {
        one.namespace = Some("elsewhere".to_owned());
    }
    let looked: Vec<String> = namespaces(facts.webhooks.as_ref().ok()).into_iter().collect();
    assert_eq!(looked, ["berth-system", "elsewhere", "kruise-system"]);
    assert_eq!(namespaces(None).into_iter().collect::<Vec<_>>(), ["berth-system", "kruise-system"]);
    let ours: Vec<String> = namespaces(well().webhooks.as_ref().ok()).into_iter().collect();
    assert_eq!(ours, ["berth-system", "kruise-system"]);

    // The one that wants pods counts, wherever another one was left behind.
    for order in [["elsewhere", "kruise-system"], ["kruise-system", "elsewhere"]] {
        let programs = facts.programs.as_mut().unwrap();
        programs.clear();
        for namespace in order {
            let wanted = if namespace == "elsewhere" { 2 } else { 0 };
            let one = || Program { namespace: namespace.to_owned(), ..program(wanted, wanted) };
            add(programs, "Deployment/kruise-controller-manager".to_owned(), one());
            add(programs, "DaemonSet/kruise-daemon".to_owned(), one());
        }
        assert!(findings(&facts, true, Verdict::Fail).is_empty(), "its webhooks are answered");
        let all = checks(&facts, true, now());
        let remedies: Vec<_> = all.iter().filter(|check| check.check == "openkruise").collect();
        assert_eq!(remedies.len(), 2);
        for (check, words) in remedies.iter().zip(["scale deployment", "delete daemonset"]) {
            assert!(check.remedy.starts_with(&format!("kubectl -n elsewhere {words}")), "{check:?}");
        }
    }
}

/// A part that is applied by itself takes back what components have added: the base sends agents of path
/// `takeover` back to `beside`.
#[test]
fn no_remedy_applies_a_part_alone() {
    let mut facts = well();
    facts.definitions = Ok([("clonesets.apps.kruise.io".to_owned(), Definition::default())].into());
    facts.programs = Ok([("Deployment/berth-workloads".to_owned(), program(1, 0))].into());
    facts.webhooks = Ok(BTreeMap::new());
    facts.policies = Ok(Vec::new());
    let all = checks(&facts, false, now());
    assert!(all.iter().filter(|check| check.remedy.contains("as a whole")).count() >= 5, "{all:?}");
    assert!(all.iter().all(|check| !check.remedy.contains("-k ")), "{all:?}");
}

#[test]
fn versions_that_are_stored_are_told() {
    let mut facts = kruise(true);
    let all = facts.definitions.as_mut().unwrap();
    let of = |served: &[&str], stored: &[&str]| Definition {
        is_ours: false,
        served: ours(served).served,
        stored: ours(stored).stored,
        release: 9,
        converter: None,
    };
    all.insert("clonesets.apps.kruise.io".to_owned(), of(&["v1alpha1", "v1beta1"], &["v1alpha1", "v1beta1"]));
    all.insert("sidecarsets.apps.kruise.io".to_owned(), of(&["v1alpha1", "v1beta1"], &["v1alpha1"]));
    all.insert("statefulsets.apps.kruise.io".to_owned(), of(&["v1alpha1", "v1beta1"], &["v1beta1"]));
    all.insert("ephemeraljobs.apps.kruise.io".to_owned(), of(&["v1alpha1"], &["v1alpha1"]));
    assert_eq!(
        findings(&facts, true, Verdict::Fail),
        ["definitions: clonesets.apps.kruise.io has stored objects as v1beta1, which Berth's does not serve"]
    );
    let said = findings(&facts, true, Verdict::Ok);
    assert!(said.contains(&"definitions: 4 are OpenKruise's, of 1.9 at least".to_owned()), "{said:?}");
    let warned = findings(&facts, true, Verdict::Warn);
    assert!(
        warned.contains(&"definitions: Berth has no ephemeraljobs.apps.kruise.io".to_owned()),
        "{warned:?}"
    );
    let old = findings(&kruise(true), true, Verdict::Ok);
    assert!(old.contains(&"definitions: 1 are OpenKruise's, of 1.4 or before".to_owned()));
    // The manager's image says it to the last digit.
    let image = Some("openkruise/kruise-manager:v1.9.1".to_owned());
    let manager = Program { image, ..program(2, 2) };
    facts.programs.as_mut().unwrap().insert("Deployment/kruise-controller-manager".to_owned(), manager);
    let said = findings(&facts, true, Verdict::Ok);
    assert!(said.contains(&"definitions: 4 are OpenKruise's, whose manager is 1.9.1".to_owned()), "{said:?}");
}

#[test]
fn what_is_missing_fails() {
    let mut facts = well();
    facts.definitions.as_mut().unwrap().remove("sidecarsets.apps.kruise.io");
    facts.policies.as_mut().unwrap().retain(|name| name != "berth-identity");
    facts.programs = Ok([("Deployment/berth-manager".to_owned(), program(2, 0))].into());
    facts.agents = Ok(BTreeMap::new());
    let bare = Webhooks { entries: 3, without_bundle: 3, ..Webhooks::default() };
    facts.webhooks = Ok([("mutatingwebhookconfiguration/berth-manager".to_owned(), bare)].into());
    assert_eq!(
        findings(&facts, false, Verdict::Fail),
        [
            "definitions: there is no sidecarsets.apps.kruise.io",
            "programs: Deployment/berth-manager: 0 of 2 Ready",
            "webhooks: mutatingwebhookconfiguration/berth-manager: 3 entries without a bundle of CAs",
            "policies: not there, or bound by nothing: berth-identity",
            "agents: none of 2 nodes has one",
        ]
    );
    // Kinds of a component that is installed.
    facts.programs.as_mut().unwrap().insert("Deployment/berth-workloads".to_owned(), program(1, 1));
    let failed = findings(&facts, false, Verdict::Fail);
    assert!(
        failed[0].contains("clonesets.apps.kruise.io, daemonsets.apps.kruise.io, statefulsets"),
        "{failed:?}"
    );
}

#[test]
fn agents_are_counted() {
    let mut facts = well();
    let nodes: BTreeMap<String, bool> = (0..10_000).map(|at| (format!("n{at:04}"), false)).collect();
    facts.agents = Ok([("n0000".to_owned(), Some(now())), ("n0001".to_owned(), None)].into());
    facts.nodes = Ok(nodes);
    let warned = findings(&facts, false, Verdict::Warn);
    assert_eq!(
        warned,
        ["agents: 2 of 10000 nodes have one; not n0002, n0003, n0004, n0005, n0006 and 9993 more"]
    );
    assert_eq!(findings(&facts, false, Verdict::Fail), ["agents: no sign of life for 10 minutes: n0001"]);
    let old = now() - SignedDuration::from_mins(11);
    facts.agents = Ok([("n0000".to_owned(), Some(old))].into());
    assert_eq!(findings(&facts, false, Verdict::Fail), ["agents: no sign of life for 10 minutes: n0000"]);
}

/// A service has the kubelet's identity until a pod of the account `berth-agent` comes to its node.
#[test]
fn an_agent_that_acts_as_the_kubelet_is_one() {
    let mut facts = well();
    facts.nodes = Ok(["a", "b"].map(|node| (node.to_owned(), true)).into());
    facts.agents = Ok([("a".to_owned(), Some(now()))].into());
    assert!(findings(&facts, false, Verdict::Fail).is_empty());
    let warned = ["agents: these act as the kubelet, without updates in place, or have gone: b"];
    assert_eq!(findings(&facts, false, Verdict::Warn), warned);
    facts.agents = Ok(BTreeMap::new());
    assert!(findings(&facts, false, Verdict::Fail).is_empty(), "order and restarts work there");
}

#[test]
fn what_may_not_be_read_is_said_and_the_rest_goes_on() {
    let mut facts = well();
    facts.webhooks = Err("forbidden".to_owned());
    facts.nodes = Err("forbidden".to_owned());
    assert_eq!(
        findings(&facts, false, Verdict::Warn),
        ["webhooks: not known: forbidden", "agents: not known: forbidden"]
    );
    assert_eq!(findings(&facts, false, Verdict::Ok).len(), 6);
    facts.version = Err("no route".to_owned());
    assert_eq!(checks(&facts, false, now()).len(), 1, "nothing else is told of a server that is not there");
}

#[test]
fn a_definition_is_read() {
    let read = definition(
        "clonesets.apps.kruise.io",
        &json!({
            "spec": {
                "names": { "categories": ["berth"] },
                "versions": [{ "name": "v1alpha1", "served": true }, { "name": "v1beta1", "served": false }],
                "conversion": { "strategy": "Webhook", "webhook": { "clientConfig": {
                    "service": { "namespace": "kruise-system", "name": "kruise-webhook-service" } } } },
            },
            "status": { "storedVersions": ["v1alpha1", "v1beta1"] },
        }),
    );
    assert_eq!(
        read,
        Definition {
            served: vec!["v1alpha1".to_owned()],
            stored: vec!["v1alpha1".to_owned(), "v1beta1".to_owned()],
            is_ours: true,
            release: 9,
            converter: Some("kruise-system/kruise-webhook-service".to_owned()),
        }
    );
    let by_url =
        json!({ "spec": { "conversion": { "webhook": { "clientConfig": { "url": "https://a/b" } } } } });
    assert_eq!(definition("", &by_url).converter, Some("https://a/b".to_owned()));
    let nothing = definition("", &json!({ "spec": 1, "status": { "storedVersions": 7 } }));
    assert_eq!(nothing, Definition { release: 4, ..Definition::default() });
}

#[test]
fn the_lists_are_those_of_the_manifests() {
    let mut known: BTreeMap<&str, Vec<&str>> = ALWAYS.map(|(name, version)| (name, vec![version])).into();
    known.extend(COMPONENTS.map(|(name, versions)| (name, versions.to_vec())));
    let documents: Vec<_> = berth_proto::crd::documents()
        .into_iter()
        .map(|(_, document)| serde_json::to_value(document).unwrap())
        .collect();
    for document in &documents {
        let name = document["metadata"]["name"].as_str().unwrap();
        let versions = known.remove(name).unwrap_or_else(|| panic!("{name} is in no list"));
        assert_eq!(
            BTreeSet::from_iter(definition(name, document).served),
            versions.into_iter().map(str::to_owned).collect()
        );
        assert!(definition(name, document).is_ours, "{name}");
    }
    assert!(known.is_empty(), "{known:?}");

    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/policies");
    let mut names = BTreeSet::new();
    for file in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(file.unwrap().path()).unwrap();
        let policies =
            text.split("\n---\n").filter(|part| part.contains("\nkind: ValidatingAdmissionPolicy\n"));
        let name = |part: &str| Some(part.split_once("\n  name: ")?.1.lines().next()?.to_owned());
        names.extend(policies.filter_map(name));
    }
    assert_eq!(names, POLICIES.map(str::to_owned).into());
}
