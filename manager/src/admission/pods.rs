//! Pods: the readiness gate KruisePodReady, and sidecars. Pure.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, Hasher, RandomState},
};

use berth_sidecarset::{Context, Set, inject, names};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::review::{Request, Verdict};

/// The condition of the gate, which the agent sets.
const GATE: &str = "KruisePodReady";

/// Completes a new pod.
pub(super) fn complete(
    request: &Request,
    sets: &[&Set],
    namespace_labels: Option<&BTreeMap<String, String>>,
    readiness_gate: bool,
    now: Timestamp,
) -> Verdict {
    let mut pod = request.object.clone();
    if readiness_gate {
        add_readiness_gate(&mut pod);
    }
    let left_out = namespace_labels.is_some_and(|labels| labels.contains_key(names::CONTROL_PLANE));
    let sets = if left_out { &[] } else { sets };
    let context = Context { namespace: &request.namespace, namespace_labels, draw: &mut draw, now };
    match inject(&mut pod, sets, context) {
        Ok(injected) => Verdict::Allowed { object: Some(pod), warnings: injected.warnings },
        Err(refusal) => Verdict::invalid(refusal.to_string()),
    }
}

/// Tells whether a set selects the pod. The API server asks for the entry of a set about no other pods: if it
/// does not, what is known of the set or of the namespace is older than what the API server knows.
pub(super) fn takes(
    set: &Set,
    request: &Request,
    namespace_labels: Option<&BTreeMap<String, String>>,
) -> bool {
    let labels = request.object.pointer("/metadata/labels").and_then(Value::as_object);
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    let labels = labels.into_iter().flatten().filter_map(text).collect();
    set.takes(&labels, &request.namespace, namespace_labels)
}

/// A number below 100 that nobody foresees: it spreads pods over two revisions, and is no secret.
fn draw() -> u8 {
    u8::try_from(RandomState::new().build_hasher().finish() % 100).unwrap_or_default()
}

/// Gives a pod the readiness gate, if it has it not.
fn add_readiness_gate(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let gates = spec.entry("readinessGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    if let Some(gates) = gates.as_array_mut()
        && !gates.iter().any(|gate| gate["conditionType"] == GATE)
    {
        gates.push(json!({ "conditionType": GATE }));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(json!({"spec": {}}), json!([{"conditionType": GATE}]))]
    #[case::null(json!({"spec": {"readinessGates": null}}), json!([{"conditionType": GATE}]))]
    #[case::another(json!({"spec": {"readinessGates": [{"conditionType": "a"}]}}),
        json!([{"conditionType": "a"}, {"conditionType": GATE}]))]
    #[case::there(json!({"spec": {"readinessGates": [{"conditionType": GATE}]}}),
        json!([{"conditionType": GATE}]))]
    #[case::no_list(json!({"spec": {"readinessGates": 1}}), json!(1))]
    #[case::no_pod(json!([]), Value::Null)]
    fn gates(#[case] mut pod: Value, #[case] wanted: Value) {
        add_readiness_gate(&mut pod);
        assert_eq!(pod.pointer("/spec/readinessGates").cloned().unwrap_or_default(), wanted);
    }

    #[test]
    fn a_pod_gets_the_gate_and_its_sidecars() {
        let set = serde_json::from_value(json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": {"name": "s"},
            "spec": {"selector": {"matchLabels": {"app": "a"}}, "containers": [{"name": "log", "image": "log:1"}]},
        }));
        let set = Set::parse(&set.unwrap()).unwrap();
        let pod = |label: &str| Request {
            namespace: "n".to_owned(),
            object: json!({"metadata": {"labels": {"app": label}}, "spec": {"containers": [{"name": "app", "image": "a"}]}}),
            ..Request::default()
        };
        let completed =
            |label: &str, gate: bool| match complete(&pod(label), &[&set], None, gate, Timestamp::UNIX_EPOCH)
            {
                Verdict::Allowed { object: Some(object), .. } => object,
                other => panic!("{other:?}"),
            };
        let names = |pod: &Value| pod["spec"]["containers"].as_array().unwrap().len();
        assert_eq!((names(&completed("a", false)), names(&completed("b", false))), (2, 1));
        assert_eq!(completed("b", false), pod("b").object);
        assert_eq!(completed("a", true)["spec"]["readinessGates"], json!([{"conditionType": GATE}]));
        let control_plane = BTreeMap::from([(names::CONTROL_PLANE.to_owned(), String::new())]);
        let left = complete(&pod("a"), &[&set], Some(&control_plane), false, Timestamp::UNIX_EPOCH);
        assert!(matches!(left, Verdict::Allowed { object: Some(object), .. } if names(&object) == 1));
        let mut bad = pod("a");
        bad.object["spec"]["containers"] = json!(1);
        let refused = complete(&bad, &[&set], None, false, Timestamp::UNIX_EPOCH);
        assert!(matches!(refused, Verdict::Refused { code: 422, .. }), "{refused:?}");
    }

    /// The entry of a set is asked for pods that the set selects; others are news of the set or the
    /// namespace.
    #[rstest]
    #[case::selected(json!({"metadata": {"labels": {"app": "a"}}}), json!({"namespaceSelector": {"matchLabels": {"team": "t"}}}), true)]
    #[case::other_labels(json!({"metadata": {"labels": {"app": "b"}}}), json!({}), false)]
    #[case::no_labels(json!({"metadata": {"labels": null}}), json!({}), false)]
    #[case::other_namespace(json!({"metadata": {"labels": {"app": "a"}}}), json!({"namespace": "m"}), false)]
    #[case::labels_of_the_namespace(json!({"metadata": {"labels": {"app": "a"}}}), json!({"namespaceSelector": {"matchLabels": {"team": "u"}}}), false)]
    #[case::paused(json!({"metadata": {"labels": {"app": "a"}}}), json!({"injectionStrategy": {"paused": true}}), true)]
    fn a_pod_that_is_asked_about(#[case] object: Value, #[case] spec: Value, #[case] expect: bool) {
        let mut set = json!({"metadata": {"name": "s"}, "spec": {"selector": {"matchLabels": {"app": "a"}}}});
        set["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        set["apiVersion"] = json!("apps.kruise.io/v1alpha1");
        set["kind"] = json!("SidecarSet");
        let set = Set::parse(&serde_json::from_value(set).unwrap()).unwrap();
        let request = Request { namespace: "n".to_owned(), object, ..Request::default() };
        let labels = BTreeMap::from([("team".to_owned(), "t".to_owned())]);
        assert_eq!(takes(&set, &request, Some(&labels)), expect);
    }

    #[test]
    fn draws_are_spread() {
        let drawn: std::collections::BTreeSet<u8> = (0..2000).map(|_| draw()).collect();
        assert!(drawn.len() > 90 && drawn.iter().all(|draw| *draw < 100), "{}", drawn.len());
    }
}
