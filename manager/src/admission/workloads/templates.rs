//! Templates of CloneSets, StatefulSets, DaemonSets and BroadcastJobs that no pod could be made of, or none
//! that the set would know: refused where their author sees it, and not by pods that never come.
//!
//! A definition cannot say it, since templates are kept as they were given. Only what is new is looked at: an
//! object that is there can be scaled, and deleted, whatever its template is.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_proto::names::is_dns_label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::{admission::review::Request, selector::Selector};

/// The kinds whose templates are looked at.
const KINDS: [&str; 4] = ["CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob"];
/// Lists of containers, whose names are told apart among all of them.
const LISTS: [&str; 2] = ["containers", "initContainers"];
/// The longest name of a container.
const LONGEST_NAME: usize = 63;

/// Reason why the object cannot be let in; `None`: its template is right, or was there before.
pub(in crate::admission) fn fault(request: &Request) -> Option<String> {
    let kind = request.object["kind"].as_str().filter(|kind| KINDS.contains(kind))?;
    let is_new = |path| request.object.pointer(path) != request.old_object.pointer(path);
    if !["/spec/template", "/spec/selector"].into_iter().any(is_new) {
        return None;
    }
    let fault = selected(&request.object).or_else(|| containers(&request.object))?;
    Some(format!("{kind} {}/{}: {fault}", request.namespace, request.name))
}

/// Tells what is wrong with the selector, or with labels that it does not select. One that is no selector, or
/// empty, the definition refuses; a BroadcastJob has none.
fn selected(object: &Value) -> Option<String> {
    let selector: LabelSelector = serde_json::from_value(object.pointer("/spec/selector")?.clone()).ok()?;
    let (labels, expressions) =
        (selector.match_labels.unwrap_or_default(), selector.match_expressions.unwrap_or_default());
    let selector = match Selector::parse(&labels, &expressions) {
        Ok(selector) => selector,
        Err(fault) => return Some(format!("spec.selector.{fault}")),
    };
    let given = object.pointer("/spec/template/metadata/labels").and_then(Value::as_object);
    // Sorted by key.
    let labels: BTreeMap<Arc<str>, Arc<str>> = given
        .into_iter()
        .flatten()
        .filter_map(|(key, value)| Some((key.as_str().into(), value.as_str()?.into())))
        .collect();
    let labels: Vec<(Arc<str>, Arc<str>)> = labels.into_iter().collect();
    (!selector.matches(&labels)).then(|| {
        // In the words of the definition, which looks at matchLabels alone.
        "spec.template.metadata.labels are not those of selector: give the template the labels that are selected"
            .to_owned()
    })
}

/// Tells what is wrong with the containers.
fn containers(object: &Value) -> Option<String> {
    let spec = object.pointer("/spec/template/spec");
    let mut seen = BTreeSet::new();
    for list in LISTS {
        let path = format!("spec.template.spec.{list}");
        let all = spec.and_then(|spec| spec.get(list)).and_then(Value::as_array).map(Vec::as_slice);
        let all = all.unwrap_or_default();
        if all.is_empty() && list == LISTS[0] {
            return Some(format!("{path} is empty: give the pod a container"));
        }
        for (at, one) in all.iter().enumerate() {
            let name = one.get("name").and_then(Value::as_str).unwrap_or_default();
            let field = format!("{path}[{at}].name");
            if name.is_empty() {
                return Some(format!("{field} is empty: name the container"));
            }
            if !is_dns_label(name) {
                let name: String = name.chars().take(LONGEST_NAME).collect();
                return Some(format!(
                    "{field} is {name:?}: give at most {LONGEST_NAME} small letters, digits and dashes, with no \
                     dash at either end"
                ));
            }
            if !seen.insert(name) {
                return Some(format!("{field} repeats {name:?}: give each container a name of its own"));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn request(kind: &str, spec: Value) -> Request {
        let object = json!({ "kind": kind, "metadata": { "name": "web" }, "spec": spec });
        Request { namespace: "shop".to_owned(), name: "web".to_owned(), object, ..Request::default() }
    }

    fn spec(selector: Value, pod: Value) -> Value {
        let metadata = json!({ "labels": { "app": "web", "tier": "1" } });
        json!({ "selector": selector, "template": { "metadata": metadata, "spec": pod } })
    }

    fn by_label() -> Value {
        json!({ "matchLabels": { "app": "web" } })
    }

    fn one() -> Value {
        json!({ "containers": [{ "name": "main", "image": "i" }] })
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
    }

    #[rstest]
    #[case::right(by_label(), one(), None)]
    #[case::with_its_sidecars(by_label(), json!({ "containers": [{ "name": "a" }, { "name": "b" }], "initContainers": [{ "name": "c" }] }), None)]
    #[case::no_spec(by_label(), Value::Null, Some("spec.template.spec.containers is empty: give"))]
    #[case::no_containers(by_label(), json!({ "containers": [] }), Some("spec.template.spec.containers is empty: give"))]
    #[case::no_list(by_label(), json!({ "containers": "x" }), Some("spec.template.spec.containers is empty: give"))]
    #[case::no_name(by_label(), json!({ "containers": [{ "name": "a" }, {}] }), Some("spec.template.spec.containers[1].name is empty: name"))]
    #[case::no_object(by_label(), json!({ "containers": [7] }), Some("spec.template.spec.containers[0].name is empty: name"))]
    #[case::a_wrong_name(by_label(), json!({ "containers": [{ "name": "A_b" }] }), Some("containers[0].name is \"A_b\": give"))]
    #[case::a_dash_at_its_end(by_label(), json!({ "containers": [{ "name": "a-" }] }), Some("containers[0].name is \"a-\": give"))]
    #[case::twice(by_label(), json!({ "containers": [{ "name": "a" }, { "name": "a" }] }), Some("containers[1].name repeats \"a\": give"))]
    #[case::twice_in_both(by_label(), json!({ "containers": [{ "name": "a" }], "initContainers": [{ "name": "a" }] }),
        Some("spec.template.spec.initContainers[0].name repeats \"a\": give"))]
    #[case::a_wrong_init_container(by_label(), json!({ "containers": [{ "name": "a" }], "initContainers": [{}] }),
        Some("spec.template.spec.initContainers[0].name is empty: name"))]
    #[case::not_selected(json!({ "matchLabels": { "app": "x" } }), one(), Some("spec.template.metadata.labels are not those of selector: give"))]
    #[case::expression(expression("tier", "In", &["1", "2"]), one(), None)]
    #[case::not_in(expression("tier", "NotIn", &["1"]), one(), Some("spec.template.metadata.labels are not"))]
    #[case::absent(expression("zone", "Exists", &[]), one(), Some("spec.template.metadata.labels are not"))]
    #[case::no_operator(expression("tier", "Is", &["1"]), one(), Some("spec.selector.matchExpressions: the operator of \"tier\" is \"Is\"; use"))]
    #[case::no_selector(json!("x"), one(), None)]
    fn what_no_pod_can_be_made_of_is_refused(
        #[case] selector: Value,
        #[case] pod: Value,
        #[case] says: Option<&str>,
    ) {
        for kind in KINDS {
            let told = fault(&request(kind, spec(selector.clone(), pod.clone())));
            match says {
                None => assert_eq!(told, None, "{kind}"),
                Some(says) => {
                    let told = told.unwrap();
                    assert!(told.starts_with(&format!("{kind} shop/web: ")) && told.contains(says), "{told}");
                }
            }
        }
        assert_eq!(fault(&request("UnitedDeployment", spec(selector, pod))), None);
    }

    /// As with OpenKruise, which checks the template of a job as well.
    #[test]
    fn a_job_has_a_container() {
        let job = |pod: Value| request("BroadcastJob", json!({ "template": { "spec": pod } }));
        assert_eq!(fault(&job(one())), None);
        let told = fault(&job(json!({ "restartPolicy": "Never" }))).unwrap();
        assert_eq!(
            told,
            "BroadcastJob shop/web: spec.template.spec.containers is empty: give the pod a container"
        );
    }

    /// One that was let in before can be scaled, and its finalizers taken off.
    #[test]
    fn a_template_that_is_there_is_not_looked_at() {
        let bad = spec(by_label(), json!({ "containers": [] }));
        let mut update = request("CloneSet", bad);
        update.old_object = update.object.clone();
        update.object["spec"]["replicas"] = json!(3);
        assert_eq!(fault(&update), None);
        update.object["spec"]["template"]["spec"]["hostNetwork"] = json!(true);
        assert!(fault(&update).is_some());
    }

    #[test]
    fn a_long_name_is_cut() {
        let pod = json!({ "containers": [{ "name": "ä".repeat(100_000) }] });
        assert!(fault(&request("DaemonSet", spec(by_label(), pod))).unwrap().len() < 512);
    }
}
