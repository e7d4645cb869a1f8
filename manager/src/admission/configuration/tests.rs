use std::collections::BTreeMap;

use rstest::rstest;
use serde_json::{Value, json};

use super::*;
use crate::store::Reach;

fn service() -> Service {
    Service { namespace: "berth-system".to_owned(), name: "berth-manager".to_owned() }
}

fn rules(spec: &Value) -> SetRules {
    let selector = |field: &str| {
        spec.get(field).map(|value| serde_json::from_value::<LabelSelector>(value.clone()).unwrap())
    };
    SetRules {
        reach: Reach {
            selector: selector("selector"),
            namespace: spec["namespace"].as_str().map(str::to_owned),
            namespace_selector: selector("namespaceSelector"),
        },
        ignore: spec["ignore"] == true,
        fault: spec["fault"].as_str().map(str::to_owned),
    }
}

fn computed(sets: &[(&str, Value)]) -> Desired {
    let sets: BTreeMap<_, _> = sets.iter().map(|(name, spec)| ((*name).to_owned(), rules(spec))).collect();
    desired(sets.iter(), b"bundle", &service(), Options::default())
}

fn entries(desired: &Desired) -> Vec<&str> {
    desired.mutating.iter().map(|entry| entry.name.as_str()).collect()
}

/// With no sets nothing is asked about pods.
#[test]
fn without_sets() {
    let desired = computed(&[]);
    assert_eq!(
        entries(&desired),
        [
            "defaults.sidecarsets.berth.dev",
            "containerrecreaterequests.defaults.berth.dev",
            "workloads.defaults.berth.dev",
            "nodeimages.defaults.berth.dev"
        ]
    );
    let policies: Vec<_> = desired.mutating.iter().map(|entry| entry.failure_policy.as_deref()).collect();
    assert_eq!(policies, [Some("Fail"), Some("Ignore"), Some("Ignore"), Some("Ignore")]);
    let validating: Vec<_> = desired.validating.iter().map(|entry| entry.name.as_str()).collect();
    assert_eq!(validating, ["checks.sidecarsets.berth.dev", "checks.workloads.berth.dev"]);
    let policies: Vec<_> = desired.validating.iter().map(|entry| entry.failure_policy.as_deref()).collect();
    assert_eq!(policies, [Some("Fail"), Some("Ignore")], "controllers look at workloads themselves");
    let options = Options { pod_readiness_gate: true, ..Options::default() };
    let gated = super::desired([].into_iter(), b"", &service(), options);
    let gate = gated.mutating.first().unwrap();
    assert_eq!(
        (gate.name.as_str(), gate.failure_policy.as_deref()),
        ("readiness-gate.pods.berth.dev", Some("Ignore"))
    );
}

/// A selector that is given, and the selectors of pods and namespaces that come of it.
#[rstest]
#[case::everywhere(
    json!({"selector": {"matchLabels": {"app": "a"}}}),
    json!({"matchLabels": {"app": "a"}}),
    json!({"matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "berth-system"]}]}))]
#[case::one_namespace(
    json!({"selector": {"matchLabels": {"app": "a"}, "matchExpressions": []}, "namespace": "n"}),
    json!({"matchLabels": {"app": "a"}}),
    json!({"matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "In", "values": ["n"]}]}))]
#[case::namespaces_by_label(
    json!({"selector": {"matchExpressions": [{"key": "example.com/tier", "operator": "Exists", "values": []}]},
        "namespaceSelector": {"matchLabels": {"team": "t"}}}),
    json!({"matchExpressions": [{"key": "example.com/tier", "operator": "Exists"}]}),
    json!({"matchLabels": {"team": "t"}, "matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "berth-system"]}]}))]
#[case::every_namespace(
    json!({"selector": {"matchLabels": {"app": "a"}}, "namespace": "", "namespaceSelector": {}}),
    json!({"matchLabels": {"app": "a"}}),
    json!({"matchExpressions": [
        {"key": "control-plane", "operator": "DoesNotExist"},
        {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["kube-system", "berth-system"]}]}))]
fn an_entry_has_the_selectors_of_its_set(
    #[case] spec: Value,
    #[case] pods: Value,
    #[case] namespaces: Value,
) {
    let desired = computed(&[("s", spec)]);
    let entry = desired.mutating.first().unwrap();
    assert_eq!(entry.name, "s.sidecarset.berth.dev");
    assert_eq!(serde_json::to_value(&entry.object_selector).unwrap(), pods);
    assert_eq!(serde_json::to_value(&entry.namespace_selector).unwrap(), namespaces);
    assert_eq!((entry.failure_policy.as_deref(), entry.timeout_seconds), (Some("Fail"), Some(5)));
    let condition = &entry.match_conditions.as_ref().unwrap()[0];
    assert!(condition.expression.contains("kubernetes.io/config.mirror"));
    let client = &entry.client_config;
    assert_eq!(client.service.as_ref().unwrap().path.as_deref(), Some("/mutate/pods/s"));
    assert_eq!((client.ca_bundle.as_ref().unwrap().0.as_slice(), &client.url), (b"bundle".as_slice(), &None));
}

#[test]
fn an_author_may_let_pods_start_without() {
    let desired = computed(&[("s", json!({"selector": {"matchLabels": {"app": "a"}}, "ignore": true}))]);
    assert_eq!(desired.mutating[0].failure_policy.as_deref(), Some("Ignore"));
}

/// One that the API server would not take is left out, with the field; the others stand.
#[rstest]
#[case::none("s", json!({}), "spec.selector is missing")]
#[case::empty("s", json!({"selector": {}}), "is empty")]
#[case::operator("s", json!({"selector": {"matchExpressions": [{"key": "k", "operator": "Equals"}]}}), "\"Equals\"")]
#[case::no_values("s", json!({"selector": {"matchExpressions": [{"key": "k", "operator": "In"}]}}), "no values")]
#[case::key("s", json!({"selector": {"matchLabels": {"a b": "c"}}}), "\"a b\" is no key")]
#[case::two_slashes("s", json!({"selector": {"matchLabels": {"a/b/c": "c"}}}), "is no key")]
#[case::prefix("s", json!({"selector": {"matchLabels": {"A_/b": "c"}}}), "is no key")]
#[case::no_name("s", json!({"selector": {"matchLabels": {"a/": "c"}}}), "is no key")]
#[case::value("s", json!({"selector": {"matchLabels": {"a": "-c"}}}), "\"-c\" is no value")]
#[case::long_value("s", json!({"selector": {"matchLabels": {"a": "c".repeat(64)}}}), "is no value")]
#[case::bad_namespace("s", json!({"selector": {"matchLabels": {"a": "b"}}, "namespace": "a b"}), "no name of a namespace")]
#[case::namespaces("s", json!({"selector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {"matchLabels": {"a": "b c"}}}), "spec.namespaceSelector: \"b c\"")]
#[case::kube_system("s", json!({"selector": {"matchLabels": {"a": "b"}}, "namespace": "kube-system"}), "nothing is injected in kube-system")]
#[case::our_own("s", json!({"selector": {"matchLabels": {"a": "b"}}, "namespace": "berth-system"}), "nothing is injected in berth-system")]
#[case::unreadable("s", json!({"selector": {"matchLabels": {"a": "b"}}, "fault": "spec.x: is bad"}), "spec.x: is bad")]
#[case::dots("a.b", json!({"selector": {"matchLabels": {"a": "b"}}}), "metadata.name")]
fn one_bad_set_takes_nothing_from_the_others(#[case] name: &str, #[case] spec: Value, #[case] says: &str) {
    let good = json!({"selector": {"matchLabels": {"app": "a"}}});
    let desired = computed(&[(name, spec), ("z", good)]);
    assert_eq!(entries(&desired)[0], "z.sidecarset.berth.dev");
    let (set, reason) = &desired.left_out[0];
    assert!(set == name && reason.contains(says), "{reason}");
}

#[rstest]
#[case::as_many_as_may_be(200, false)]
#[case::one_more(201, true)]
fn too_many_sets_share_an_entry_that_nobody_waits_for(#[case] count: usize, #[case] shared: bool) {
    let name = |index: usize| format!("s{index:03}");
    let sets: BTreeMap<_, _> = (0..count)
        .map(|index| (name(index), rules(&json!({"selector": {"matchLabels": {"app": name(index)}}}))))
        .collect();
    let desired = super::desired(sets.iter(), b"bundle", &service(), Options::default());
    assert_eq!((desired.shared, desired.mutating.len()), (shared, if shared { 5 } else { count + 4 }));
    let first = &desired.mutating[0];
    let policy = if shared { "Ignore" } else { "Fail" };
    assert_eq!(first.failure_policy.as_deref(), Some(policy));
    assert_eq!(first.object_selector == Some(LabelSelector::default()), shared);
}

/// A few sets with very long selectors must not make an object that is refused.
#[test]
fn large_selectors_share_an_entry_too() {
    let values: Vec<_> = (0..512).map(|index| format!("{index:0>60}")).collect();
    let expressions = vec![json!({"key": "k", "operator": "In", "values": values}); 20];
    let desired = computed(&[("s", json!({"selector": {"matchExpressions": expressions}}))]);
    assert!(desired.shared);
    assert!(size::bytes(&desired.mutating) < 8192);
}

/// A renewal of the certificate takes its entry from no set; only bundles of somebody else's can be too
/// large.
#[rstest]
#[case::one_authority(620, false)]
#[case::two(1240, false)]
#[case::three(1860, false)]
#[case::chains(4096, true)]
fn no_set_loses_its_entry_by_a_bundle(#[case] bundle: usize, #[case] shared: bool) {
    let values: Vec<_> = (0..18).map(|index| format!("{index:0>50}")).collect();
    let expression = json!({"key": "app", "operator": "In", "values": values});
    let sets: BTreeMap<_, _> = (0..MOST_SETS)
        .map(|index| {
            (format!("s{index:03}"), rules(&json!({"selector": {"matchExpressions": [expression]}})))
        })
        .collect();
    let desired = super::desired(sets.iter(), &vec![b'x'; bundle], &service(), Options::default());
    assert_eq!(desired.shared, shared);
}

/// Namespaces and definitions without the label are not asked about.
#[test]
fn what_cascading_protects_has_entries() {
    let options = Options { deletion_protection: true, ..Options::default() };
    let desired = super::desired([].into_iter(), b"bundle", &service(), options);
    let [_, _, namespaces, definitions] = desired.validating.as_slice() else { panic!("{desired:?}") };
    for (entry, path, left_out) in [
        (namespaces, "/validate/namespaces", true),
        (definitions, "/validate/customresourcedefinitions", false),
    ] {
        assert_eq!(entry.client_config.service.as_ref().unwrap().path.as_deref(), Some(path));
        let labels = entry.object_selector.as_ref().unwrap().match_labels.as_ref().unwrap();
        assert_eq!(labels["policy.kruise.io/delete-protection"], "Cascading");
        assert_eq!(
            entry.rules.as_ref().unwrap()[0].operations.as_deref(),
            Some(["DELETE".to_owned()].as_slice())
        );
        assert_eq!(entry.namespace_selector != Some(LabelSelector::default()), left_out, "{}", entry.name);
    }
    assert_eq!(super::desired([].into_iter(), b"", &service(), Options::default()).validating.len(), 2);
}

/// The policy of the manager's writes asks this of every entry.
#[test]
fn no_entry_takes_in_what_must_start_without_us() {
    let desired = computed(&[
        ("a", json!({"selector": {"matchLabels": {"app": "a"}}})),
        ("b", json!({"selector": {"matchLabels": {"app": "a"}}, "namespace": "n"})),
        (
            "c",
            json!({"selector": {"matchLabels": {"app": "a"}}, "namespaceSelector": {"matchLabels": {"x": "y"}}}),
        ),
    ]);
    for entry in &desired.mutating {
        let rule = &entry.rules.as_ref().unwrap()[0];
        if rule.scope.as_deref() == Some("Cluster") {
            continue;
        }
        let expressions = entry.namespace_selector.as_ref().unwrap().match_expressions.as_ref().unwrap();
        let last = expressions.last().unwrap();
        assert_eq!(last.key, NAME_OF_NAMESPACE, "{}", entry.name);
        let values = last.values.as_ref().unwrap();
        let named = |namespace: &str| values.iter().any(|value| value == namespace);
        let out = |namespace: &&str| named(namespace) == (last.operator == "NotIn");
        assert!(LEFT_OUT.iter().all(out), "{}", entry.name);
    }
}

#[rstest]
#[case::all_ours("berth", &["defaults.sidecarsets", "containerrecreaterequests.defaults", "workloads.defaults", "nodeimages.defaults"], 2)]
#[case::requests("berth,ContainerRecreateRequest=openkruise", &["defaults.sidecarsets", "workloads.defaults", "nodeimages.defaults"], 2)]
#[case::sets("berth,SidecarSet=openkruise", &["containerrecreaterequests.defaults", "workloads.defaults", "nodeimages.defaults"], 1)]
#[case::images("berth,ImagePullJob=openkruise", &["defaults.sidecarsets", "containerrecreaterequests.defaults", "workloads.defaults"], 2)]
#[case::none_is_ours("openkruise", &[], 0)]
fn kinds_that_are_left_are_not_asked_about(
    #[case] ownership: &str,
    #[case] mutating: &[&str],
    #[case] validating: usize,
) {
    let mut desired = computed(&[]);
    left::leave_out(&mut desired, ownership.parse().unwrap());
    let names: Vec<_> = mutating.iter().map(|name| format!("{name}.{DOMAIN}")).collect();
    assert_eq!(entries(&desired), names);
    assert_eq!(desired.validating.len(), validating);
}

/// One entry is for several kinds: those that are ours stay in it, and what is about pods stays as it is.
#[test]
fn of_an_entry_the_other_kinds_stay() {
    let mut desired = computed(&[("mesh", json!({ "selector": { "matchLabels": { "app": "a" } } }))]);
    left::leave_out(&mut desired, "berth,CloneSet=openkruise,DaemonSet=openkruise".parse().unwrap());
    let resources = |name: &str| {
        let entry = desired.mutating.iter().find(|entry| entry.name == format!("{name}.{DOMAIN}")).unwrap();
        entry.rules.as_ref().unwrap()[0].resources.clone().unwrap()
    };
    let left = ["advancedcronjobs", "broadcastjobs", "statefulsets", "uniteddeployments"];
    assert_eq!(resources("workloads.defaults"), left);
    assert_eq!(resources("mesh.sidecarset"), ["pods"]);
}
