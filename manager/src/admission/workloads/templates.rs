//! Templates of CloneSets, StatefulSets, DaemonSets, BroadcastJobs and the jobs of AdvancedCronJobs that no
//! pod could be made of, or none that the set would know: refused where their author sees it, and not by pods
//! that never come.
//!
//! A definition cannot say it, since templates are kept as they were given. Only what is new is looked at: an
//! object that is there can be scaled, and deleted, whatever its template is. `parts` looks at what is in a
//! container.

mod parts;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use berth_proto::names::is_dns_label;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use serde_json::Value;

use crate::{admission::review::Request, selector::Selector};

/// The kinds whose own templates are looked at, and where they have them.
const KINDS: [&str; 4] = ["CloneSet", "StatefulSet", "DaemonSet", "BroadcastJob"];
const OWN: [&str; 1] = ["/spec/template"];
/// The kind whose jobs have one, and where.
const OF_JOBS: &str = "AdvancedCronJob";
const JOBS: [&str; 2] =
    ["/spec/template/jobTemplate/spec/template", "/spec/template/broadcastJobTemplate/spec/template"];
/// The one kind whose images, volumes and parts of containers are not looked at: OpenKruise does not, and its
/// pods may get what is missing from a SidecarSet or another webhook.
const FILLED_LATER: &str = "StatefulSet";
/// Lists of containers, whose names are told apart among all of them.
const LISTS: [&str; 2] = ["containers", "initContainers"];
/// Members of a container that name volumes.
const USES: [&str; 2] = ["volumeMounts", "volumeDevices"];
/// The longest name of a container or volume.
const LONGEST_NAME: usize = 63;

/// Reason why the object cannot be let in; `None`: its template is right, or was there before.
pub(in crate::admission) fn fault(request: &Request) -> Option<String> {
    let kind = request.object["kind"].as_str()?;
    let places: &[&str] = match kind {
        OF_JOBS => &JOBS,
        kind if KINDS.contains(&kind) => &OWN,
        _ => return None,
    };
    let is_new = |path: &str| request.object.pointer(path) != request.old_object.pointer(path);
    let is_whole = kind != FILLED_LATER;
    let fault = places.iter().find_map(|path| {
        if !is_new(path) && !is_new("/spec/selector") {
            return None;
        }
        let template = request.object.pointer(path).filter(|template| !template.is_null());
        // One of the two jobs is not there.
        if template.is_none() && kind == OF_JOBS {
            return None;
        }
        let (spec, field) = (template.and_then(|template| template.get("spec")), path[1..].replace('/', "."));
        selected(&request.object)
            .or_else(|| containers(spec, &field, is_whole))
            .or_else(|| parts::fault(template, &field, is_whole))
            .or_else(|| if is_whole { volumes(&request.object, spec, &field) } else { None })
    })?;
    Some(format!("{kind} {}/{}: {fault}", request.namespace, request.name))
}

/// Tells what is wrong with the selector, or with labels that it does not select. One that is no selector, or
/// empty, the definition refuses; jobs have none.
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

/// Tells what is wrong with the containers of a template; where they are whole, with their images too.
fn containers(spec: Option<&Value>, template: &str, is_whole: bool) -> Option<String> {
    let mut seen = BTreeSet::new();
    for list in LISTS {
        let path = format!("{template}.spec.{list}");
        let all = members(spec, list);
        if all.is_empty() && list == LISTS[0] {
            return Some(format!("{path} is empty: give the pod a container"));
        }
        for (at, one) in all.iter().enumerate() {
            let name = text(one, "name");
            let field = format!("{path}[{at}].name");
            if name.is_empty() {
                return Some(format!("{field} is empty: name the container"));
            }
            if !is_dns_label(name) {
                return Some(wrong_name(&field, name));
            }
            if !seen.insert(name) {
                return Some(format!("{field} repeats {name:?}: give each container a name of its own"));
            }
            if is_whole && text(one, "image").is_empty() {
                return Some(format!("{path}[{at}].image is empty: give the container an image"));
            }
        }
    }
    None
}

/// Tells what is wrong with the volumes, or with a container that asks for one that is not there. A claim of
/// the set is a volume of its pods.
fn volumes(object: &Value, spec: Option<&Value>, template: &str) -> Option<String> {
    let mut names = BTreeSet::new();
    for (at, volume) in members(spec, "volumes").iter().enumerate() {
        let (name, field) = (text(volume, "name"), format!("{template}.spec.volumes[{at}].name"));
        if name.is_empty() {
            return Some(format!("{field} is empty: name the volume"));
        }
        if !is_dns_label(name) {
            return Some(wrong_name(&field, name));
        }
        if !names.insert(name) {
            return Some(format!("{field} repeats {:?}: give each volume a name of its own", short(name)));
        }
    }
    let claims = members(object.get("spec"), "volumeClaimTemplates").iter();
    names.extend(claims.filter_map(|claim| claim.pointer("/metadata/name")?.as_str()));
    for list in LISTS {
        for (at, container) in members(spec, list).iter().enumerate() {
            for using in USES {
                let named = members(Some(container), using).iter().map(|one| text(one, "name"));
                if let Some((number, name)) = named.enumerate().find(|(_, name)| !names.contains(name)) {
                    return Some(format!(
                        "{template}.spec.{list}[{at}].{using}[{number}].name is {:?}: give the pod that \
                         volume, or leave this out",
                        short(name),
                    ));
                }
            }
        }
    }
    None
}

/// Says what a name of a container or volume has to be.
fn wrong_name(field: &str, name: &str) -> String {
    format!(
        "{field} is {:?}: give at most {LONGEST_NAME} small letters, digits and dashes, with no \
         dash at either end",
        short(name),
    )
}

/// Members of a list; none where there is no list.
fn members<'a>(of: Option<&'a Value>, name: &str) -> &'a [Value] {
    of.and_then(|of| of.get(name)).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(of: &'a Value, name: &str) -> &'a str {
    of.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// A name that somebody gave, as much of it as is told.
fn short(name: &str) -> String {
    name.chars().take(LONGEST_NAME).collect()
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

    fn named(name: &str) -> Value {
        json!({ "name": name, "image": "i" })
    }

    fn mounting(volume: &str) -> Value {
        json!({ "name": "m", "image": "i", "volumeMounts": [{ "name": volume, "mountPath": "/v" }] })
    }

    fn expression(key: &str, operator: &str, values: &[&str]) -> Value {
        json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] })
    }

    #[rstest]
    #[case::right(by_label(), one(), None)]
    #[case::with_its_sidecars(by_label(), json!({ "containers": [named("a"), named("b")], "initContainers": [named("c")] }), None)]
    #[case::no_spec(by_label(), Value::Null, Some("spec.template.spec.containers is empty: give"))]
    #[case::no_containers(by_label(), json!({ "containers": [] }), Some("spec.template.spec.containers is empty: give"))]
    #[case::no_list(by_label(), json!({ "containers": "x" }), Some("spec.template.spec.containers is empty: give"))]
    #[case::no_name(by_label(), json!({ "containers": [named("a"), {}] }), Some("spec.template.spec.containers[1].name is empty: name"))]
    #[case::no_object(by_label(), json!({ "containers": [7] }), Some("spec.template.spec.containers[0].name is empty: name"))]
    #[case::a_wrong_name(by_label(), json!({ "containers": [{ "name": "A_b" }] }), Some("containers[0].name is \"A_b\": give"))]
    #[case::a_dash_at_its_end(by_label(), json!({ "containers": [{ "name": "a-" }] }), Some("containers[0].name is \"a-\": give"))]
    #[case::twice(by_label(), json!({ "containers": [named("a"), named("a")] }), Some("containers[1].name repeats \"a\": give"))]
    #[case::twice_in_both(by_label(), json!({ "containers": [named("a")], "initContainers": [named("a")] }),
        Some("spec.template.spec.initContainers[0].name repeats \"a\": give"))]
    #[case::a_wrong_init_container(by_label(), json!({ "containers": [named("a")], "initContainers": [{}] }),
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

    /// A StatefulSet is let in, as with OpenKruise: a SidecarSet may have the volume.
    #[rstest]
    #[case::no_image(json!({ "containers": [{ "name": "a" }] }), Some("spec.template.spec.containers[0].image is empty: give"))]
    #[case::volumes(json!({ "volumes": [{ "name": "v" }, { "name": "w" }], "containers": [mounting("v")] }), None)]
    #[case::two_volumes(json!({ "volumes": [{ "name": "v" }, { "name": "v" }], "containers": [named("a")] }),
        Some("spec.template.spec.volumes[1].name repeats \"v\": give"))]
    #[case::no_name_of_a_volume(json!({ "volumes": [{}], "containers": [named("a")] }), Some("volumes[0].name is empty: name"))]
    #[case::a_wrong_volume(json!({ "volumes": [{ "name": "V" }], "containers": [named("a")] }), Some("volumes[0].name is \"V\": give at most"))]
    #[case::a_wrong_variable(json!({ "containers": [{ "name": "a", "image": "i", "env": [{ "name": "A=B" }] }] }),
        Some("spec.template.spec.containers[0].env[0].name is \"A=B\": give"))]
    #[case::no_volume(json!({ "volumes": [{ "name": "v" }], "containers": [named("a"), mounting("w")] }),
        Some("spec.template.spec.containers[1].volumeMounts[0].name is \"w\": give"))]
    #[case::no_volume_of_an_init_container(json!({ "containers": [named("a")], "initContainers": [mounting("w")] }),
        Some("spec.template.spec.initContainers[0].volumeMounts[0].name is \"w\": give"))]
    #[case::no_device(json!({ "containers": [{ "name": "a", "image": "i", "volumeDevices": [{ "name": "d" }] }] }),
        Some("containers[0].volumeDevices[0].name is \"d\": give"))]
    fn what_nobody_fills_is_refused_where_pods_are_whole(#[case] pod: Value, #[case] says: Option<&str>) {
        for kind in KINDS {
            let told = fault(&request(kind, spec(by_label(), pod.clone())));
            match says.filter(|_| kind != "StatefulSet") {
                None => assert_eq!(told, None, "{kind}"),
                Some(says) => assert!(told.unwrap().contains(says), "{kind}"),
            }
        }
    }

    #[test]
    fn a_claim_is_a_volume() {
        let mut set = spec(by_label(), json!({ "containers": [mounting("data")] }));
        set["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
        assert_eq!(fault(&request("CloneSet", set.clone())), None);
        set["volumeClaimTemplates"] = json!([{}]);
        assert!(fault(&request("CloneSet", set)).unwrap().contains("volumeMounts[0].name is \"data\""));
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

    /// So is the template of the jobs that an AdvancedCronJob makes, by its own path.
    #[rstest]
    #[case::right("jobTemplate", one(), None)]
    #[case::no_containers("jobTemplate", json!({}), Some("spec.template.jobTemplate.spec.template.spec.containers is empty: give"))]
    #[case::a_mount("broadcastJobTemplate", json!({ "containers": [mounting("v")] }),
        Some("spec.template.broadcastJobTemplate.spec.template.spec.containers[0].volumeMounts[0].name is \"v\": give"))]
    #[case::a_port("broadcastJobTemplate", json!({ "containers": [{ "name": "a", "image": "i", "ports": [{}] }] }),
        Some("spec.template.broadcastJobTemplate.spec.template.spec.containers[0].ports[0].containerPort is 0: give"))]
    fn jobs_of_a_cron_job(#[case] of: &str, #[case] pod: Value, #[case] says: Option<&str>) {
        let job = |pod: &Value| {
            let job = json!({ "spec": { "template": { "spec": pod } } });
            request("AdvancedCronJob", json!({ "template": { of: job } }))
        };
        let told = fault(&job(&pod));
        match says {
            None => assert_eq!(told, None),
            Some(says) => assert!(told.as_deref().is_some_and(|told| told.contains(says)), "{told:?}"),
        }
        let mut paused = job(&pod);
        paused.old_object = paused.object.clone();
        paused.object["spec"]["paused"] = json!(true);
        assert_eq!(fault(&paused), None);
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
