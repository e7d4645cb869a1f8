//! ContainerRecreateRequests, completed as OpenKruise's clients expect them: the labels they select by, and
//! what the pod said when the request was made. Pure.
//!
//! Berth itself needs none of it: the manager and the agent read the pod. So where the pod could not be read
//! the request is let in as it is, and what is wrong with it is said in its status, as without this server.
//! But what nobody can carry out is refused at once, as by OpenKruise.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::{ContainerRecreateRequestSpec, SpecStatusContext};
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod};
use kube::ResourceExt;
use serde_json::{Map, Value, json};

use super::review::{Request, Verdict};
use crate::{
    requests::Unfit,
    store::{POD_UID, PodStage},
};

/// Label of a request to recreate: name of the pod's node.
pub(super) const NODE_NAME: &str = "crr.apps.kruise.io/node-name";
/// Label of a request to recreate: `true` until it has ended.
pub(super) const ACTIVE: &str = "crr.apps.kruise.io/active";

/// Pod of a request, as the API server has it.
#[derive(Clone, Copy, Debug)]
pub(super) enum Found<'a> {
    /// The pod.
    Pod(&'a Pod),
    /// There is none of that name.
    Nothing,
    /// The API server did not say.
    Unknown,
}

/// Completes a new request from its pod.
pub(super) fn complete(request: &Request, found: Found<'_>) -> Verdict {
    let Some(spec) = request.object.get("spec").and_then(read) else { return Verdict::AS_IT_IS };
    let labelled =
        request.object.pointer("/metadata/labels").and_then(|labels| labels.get(POD_UID)).is_some();
    // With the label it was OpenKruise's webhook, which comes before this one.
    if !labelled && let Some(field) = spec.filled_in() {
        return Verdict::invalid(format!("{field}: is filled in by the admission server: leave it out"));
    }
    let pod = match found {
        Found::Pod(pod) => pod,
        Found::Nothing => {
            return Verdict::bad_request(Unfit::NoPod(&request.namespace).message(&spec.pod_name));
        }
        Found::Unknown => {
            let name = &spec.pod_name;
            let warning =
                format!("pod {name:?} could not be read, so the request has not the labels of OpenKruise");
            return Verdict::Allowed { object: None, warnings: vec![warning] };
        }
    };
    let parts = parts(pod);
    if let Some(unfit) = spec.containers.iter().find_map(|container| unfit(pod, &parts, &container.name)) {
        return Verdict::bad_request(unfit.message(&spec.pod_name));
    }
    let mut object = request.object.clone();
    for (label, value) in labels(pod) {
        put(&mut object, &["metadata", "labels"], label, value.into());
    }
    let grace = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    let given = spec.strategy.as_ref().and_then(|strategy| strategy.termination_grace_period_seconds);
    if let (None, Some(grace)) = (given, grace) {
        put(&mut object, &["spec", "strategy"], "terminationGracePeriodSeconds", grace.into());
    }
    let order: BTreeMap<_, _> =
        parts.iter().enumerate().map(|(at, part)| (part.spec.name.as_str(), at)).collect();
    if let Some(containers) = object.pointer_mut("/spec/containers").and_then(Value::as_array_mut) {
        for container in containers.iter_mut().filter_map(Value::as_object_mut) {
            fill(container, &parts);
        }
        if spec.strategy.is_some_and(|strategy| strategy.ordered_recreate) {
            let at = |one: &Value| one["name"].as_str().and_then(|name| order.get(name).copied());
            containers.sort_by_key(|one| at(one).unwrap_or(usize::MAX));
        }
    }
    Verdict::Allowed { object: Some(object), warnings: Vec::new() }
}

/// One that cannot be read is refused by the definition, and so is one that names a container twice. Neither
/// is completed: what is filled in for a container may be as large as its pod.
fn read(spec: &Value) -> Option<ContainerRecreateRequestSpec> {
    let spec: ContainerRecreateRequestSpec = serde_json::from_value(spec.clone()).ok()?;
    let mut names = BTreeSet::new();
    let each_once = spec.containers.iter().all(|container| names.insert(container.name.clone()));
    each_once.then_some(spec)
}

/// Tells why this container of the pod cannot be recreated.
fn unfit<'a>(pod: &Pod, parts: &[Part<'_>], name: &'a str) -> Option<Unfit<'a>> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let stage = PodStage::of(pod.metadata.deletion_timestamp.is_some(), phase);
    if let Some(unfit) = Unfit::of_stage(stage) {
        return Some(unfit);
    }
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    if node.is_none_or(str::is_empty) {
        return Some(Unfit::NotScheduled);
    }
    let Some(part) = parts.iter().find(|part| part.spec.name == name) else {
        let mut inits = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
        let is_init = inits.any(|container| container.name == name);
        return Some(if is_init { Unfit::Init(name) } else { Unfit::NoContainer(name) });
    };
    let id = part.status.and_then(|status| status.container_id.as_deref());
    id.is_none_or(str::is_empty).then_some(Unfit::NeverStarted(name))
}

fn labels(pod: &Pod) -> Vec<(&'static str, String)> {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
    // A node's name may be longer than a label's value.
    let node = node.filter(|node| !node.is_empty() && node.len() <= 63);
    let mut labels = vec![(ACTIVE, "true".to_owned())];
    labels.extend(pod.uid().map(|uid| (POD_UID, uid)));
    labels.extend(node.map(|node| (NODE_NAME, node)));
    labels
}

/// Container of a pod with its status.
struct Part<'a> {
    spec: &'a Container,
    status: Option<&'a ContainerStatus>,
}

/// Containers that can be recreated: sidecars among the init containers, and the others.
fn parts(pod: &Pod) -> Vec<Part<'_>> {
    let shown = pod.status.iter().flat_map(|status| {
        status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
    });
    let mut statuses: BTreeMap<&str, &ContainerStatus> = BTreeMap::new();
    for status in shown {
        statuses.entry(&status.name).or_insert(status);
    }
    let spec = pod.spec.iter();
    let sidecars = spec.clone().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let all = sidecars.chain(spec.flat_map(|spec| spec.containers.iter()));
    all.map(|spec| Part { spec, status: statuses.get(spec.name.as_str()).copied() }).collect()
}

/// Fills in everything that OpenKruise's daemon needed to know of a container.
fn fill(container: &mut Map<String, Value>, parts: &[Part<'_>]) {
    for field in ["statusContext", "preStop", "ports"] {
        container.remove(field);
    }
    let name = container.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    let Some(part) = parts.iter().find(|part| part.spec.name == name) else { return };
    let instance = part.status.and_then(|status| Some((status.container_id.clone()?, status.restart_count)));
    if let Some((container_id, restart_count)) = instance {
        container
            .insert("statusContext".to_owned(), json!(SpecStatusContext { container_id, restart_count }));
    }
    if let Some(hook) = part.spec.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref()) {
        container.insert("preStop".to_owned(), json!(hook));
        // A hook may name one of them.
        if let (Some(_), Some(ports)) = (&hook.http_get, &part.spec.ports) {
            container.insert("ports".to_owned(), json!(ports));
        }
    }
}

/// Puts a member into a map below an object, which is made where there is none.
fn put(object: &mut Value, path: &[&str], key: &str, value: Value) {
    let mut at = object;
    for part in path {
        let Some(map) = at.as_object_mut() else { return };
        at = map.entry(*part).or_insert_with(|| json!({}));
        if at.is_null() {
            *at = json!({});
        }
    }
    if let Some(map) = at.as_object_mut() {
        map.insert(key.to_owned(), value);
    }
}

#[cfg(test)]
mod tests;
