//! Reading of the facts: conversion only.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use berth_proto::crd::{NodePodUpdate, Partly};
use berthd::cluster::node_labels::PATH;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, RuleWithOperations, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::authorization::v1::{ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec};
use k8s_openapi::api::core::v1::{Node, PodTemplateSpec};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DynamicObject, ListParams, PostParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::time::timeout;

use super::facts::{Definition, Facts, Known, Program, Webhooks};
use super::releases::at_least;
use super::verdicts::is_kruise;

/// One question.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);
/// Objects of a page: a definition has up to a megabyte, an object of a node some hundred kilobytes.
const PAGE: u32 = 50;
/// More pages of a kind are not read.
const PAGES: usize = 400;
/// Namespaces of the programs, by the defaults of both.
const NAMESPACES: [&str; 2] = ["berth-system", "kruise-system"];

/// Programs of OpenKruise, and the resources of whose status each writes some part.
const WRITERS: [(&str, &[&str]); 2] = [
    (
        "Deployment/kruise-controller-manager",
        &[
            "containerrecreaterequests",
            "imagepulljobs",
            "podprobemarkers",
            "podunavailablebudgets",
            "sidecarsets",
        ],
    ),
    ("DaemonSet/kruise-daemon", &["containerrecreaterequests", "nodeimages", "nodepodprobes"]),
];

/// Asks for everything, one after the other.
pub(super) async fn facts(client: &Client) -> Facts {
    let webhooks = known(webhooks(client)).await;
    let definitions = known(definitions(client)).await;
    let programs = known(programs(client, namespaces(webhooks.as_ref().ok()))).await;
    let policies = known(policies(client)).await;
    let converters = definitions.iter().flatten().filter_map(|(_, one)| one.converter.clone());
    let writers = writers(programs.as_ref().ok(), policies.as_ref().ok());
    Facts {
        version: known(async { Ok(client.apiserver_version().await?.git_version) }).await,
        refused: known(refused(client, writers)).await,
        endpoints: known(endpoints(client, converters.collect())).await,
        definitions,
        programs,
        webhooks,
        policies,
        nodes: known(nodes(client)).await,
        agents: known(agents(client)).await,
    }
}

/// An answer, or why there is none.
async fn known<T>(asked: impl Future<Output = kube::Result<T>>) -> Known<T> {
    match timeout(CALL_TIMEOUT, asked).await {
        Ok(answer) => answer.map_err(|error| match error {
            kube::Error::Api(status) => status.message,
            error => format!("{:#}", anyhow::Error::from(error)),
        }),
        Err(_) => Err("the API server does not answer".to_owned()),
    }
}

/// All objects of a kind, page by page, each reduced to what is kept of it.
async fn all<K, V>(api: &Api<K>, mut keep: impl FnMut(K) -> Option<V>) -> kube::Result<Vec<V>>
where
    K: Clone + serde::de::DeserializeOwned + std::fmt::Debug,
{
    let (mut params, mut kept) = (ListParams::default().limit(PAGE), Vec::new());
    for _ in 0..PAGES {
        let page = api.list(&params).await?;
        kept.extend(page.items.into_iter().filter_map(&mut keep));
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => params = params.continue_token(&token),
            None => break,
        }
    }
    Ok(kept)
}

async fn definitions(client: &Client) -> kube::Result<BTreeMap<String, Definition>> {
    let kind = GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition");
    let api: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::from_gvk(&kind));
    let keep = |object: DynamicObject| {
        let name = object.name_any();
        let group = object.data.pointer("/spec/group").and_then(Value::as_str)?;
        (group == "berth.dev" || group.ends_with("kruise.io")).then(|| {
            let definition = definition(&name, &object.data);
            (name, definition)
        })
    };
    Ok(all(&api, keep).await?.into_iter().collect())
}

pub(super) fn definition(name: &str, object: &Value) -> Definition {
    let list = |at: &str| object.pointer(at).and_then(Value::as_array).into_iter().flatten();
    let texts = |at: &str| list(at).filter_map(Value::as_str).map(str::to_owned).collect::<Vec<_>>();
    let served = list("/spec/versions").filter(|version| version["served"] == true);
    Definition {
        served: served.filter_map(|version| version["name"].as_str()).map(str::to_owned).collect(),
        stored: texts("/status/storedVersions"),
        is_ours: texts("/spec/names/categories").iter().any(|category| category == "berth"),
        converter: converter(object),
        release: at_least(name, object),
    }
}

fn converter(object: &Value) -> Option<String> {
    let asked = object.pointer("/spec/conversion/webhook/clientConfig")?;
    let text = |at: &str| asked.pointer(at).and_then(Value::as_str);
    let service = || Some(format!("{}/{}", text("/service/namespace")?, text("/service/name")?));
    service().or_else(|| text("/url").map(str::to_owned))
}

/// Counts the endpoints of Services, each as `NAMESPACE/NAME`.
async fn endpoints(client: &Client, services: BTreeSet<String>) -> kube::Result<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    let of_services = services.iter().filter(|service| !service.contains("://"));
    for (service, (namespace, name)) in of_services.filter_map(|one| Some((one, one.split_once('/')?))) {
        let slices: Api<EndpointSlice> = Api::namespaced(client.clone(), namespace);
        let params = ListParams::default().labels(&format!("kubernetes.io/service-name={name}"));
        let found = slices.list(&params).await?.items.into_iter().flat_map(|slice| slice.endpoints);
        // One that says nothing counts as Ready.
        let ready = found.filter(|one| one.conditions.as_ref().and_then(|is| is.ready) != Some(false));
        counts.insert(service.clone(), ready.count());
    }
    Ok(counts)
}

/// Programs of an OpenKruise whose manager runs while a policy of Berth's asks who writes a status.
pub(super) fn writers(
    programs: Option<&BTreeMap<String, Program>>,
    policies: Option<&Vec<String>>,
) -> Vec<(Program, &'static [&'static str])> {
    let wanted = |name: &str| programs?.get(name).filter(|program| program.wanted > 0);
    let is_asked = policies.is_some_and(|bound| bound.iter().any(|name| name == "berth-status"));
    if !is_asked || wanted(WRITERS[0].0).is_none() {
        return Vec::new();
    }
    WRITERS.iter().filter_map(|(name, resources)| Some((wanted(name)?.clone(), *resources))).collect()
}

/// Asks, as the policy `berth-status` does, which statuses each may not write.
async fn refused(
    client: &Client,
    writers: Vec<(Program, &'static [&'static str])>,
) -> kube::Result<BTreeMap<String, Vec<&'static str>>> {
    let reviews: Api<SubjectAccessReview> = Api::all(client.clone());
    let mut refused = BTreeMap::new();
    for (program, resources) in writers {
        let (namespace, account) = (program.namespace, program.account.unwrap_or("default".to_owned()));
        let mut not_allowed = Vec::new();
        for resource in resources {
            let review = review(&namespace, &account, resource);
            let answer = reviews.create(&PostParams::default(), &review).await?;
            if !answer.status.is_some_and(|status| status.allowed) {
                not_allowed.push(*resource);
            }
        }
        refused.insert(format!("{namespace}:{account}"), not_allowed);
    }
    Ok(refused)
}

fn review(namespace: &str, account: &str, resource: &str) -> SubjectAccessReview {
    let groups =
        ["system:serviceaccounts", &format!("system:serviceaccounts:{namespace}"), "system:authenticated"];
    let attributes = ResourceAttributes {
        group: Some("berth.dev".to_owned()),
        resource: Some("statuses".to_owned()),
        name: Some(resource.to_owned()),
        verb: Some("write".to_owned()),
        ..ResourceAttributes::default()
    };
    SubjectAccessReview {
        metadata: ObjectMeta::default(),
        spec: SubjectAccessReviewSpec {
            user: Some(format!("system:serviceaccount:{namespace}:{account}")),
            groups: Some(groups.map(str::to_owned).into()),
            resource_attributes: Some(attributes),
            ..SubjectAccessReviewSpec::default()
        },
        status: None,
    }
}

/// Namespaces of the programs: OpenKruise's may be anywhere, and its webhooks say where it is.
pub(super) fn namespaces(webhooks: Option<&BTreeMap<String, Webhooks>>) -> BTreeSet<String> {
    let kruise = webhooks.into_iter().flatten().filter(|(name, _)| is_kruise(name));
    let named = kruise.filter_map(|(_, one)| one.namespace.clone());
    NAMESPACES.map(str::to_owned).into_iter().chain(named).collect()
}

async fn programs(client: &Client, namespaces: BTreeSet<String>) -> kube::Result<BTreeMap<String, Program>> {
    let mut programs = BTreeMap::new();
    for namespace in namespaces {
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), &namespace);
        let found = all(&deployments, |one| deployment(&namespace, one)).await?;
        let sets: Api<DaemonSet> = Api::namespaced(client.clone(), &namespace);
        let found_sets = all(&sets, |one| daemon_set(&namespace, one)).await?;
        for (name, program) in found.into_iter().chain(found_sets) {
            add(&mut programs, name, program);
        }
    }
    Ok(programs)
}

pub(super) fn deployment(namespace: &str, one: Deployment) -> Option<(String, Program)> {
    let (name, generation, spec) = (one.name_any(), one.metadata.generation, one.spec?);
    let status = one.status.unwrap_or_default();
    let updated = status.updated_replicas.unwrap_or(0);
    let program = Program {
        wanted: spec.replicas.unwrap_or(1),
        ready: status.ready_replicas.unwrap_or(0),
        updated,
        older: status.replicas.unwrap_or(0).saturating_sub(updated),
        unseen: status.observed_generation < generation,
        ..of_template(namespace, &spec.template)
    };
    Some((format!("Deployment/{name}"), program))
}

pub(super) fn daemon_set(namespace: &str, one: DaemonSet) -> Option<(String, Program)> {
    let (name, generation, status) = (one.name_any(), one.metadata.generation, one.status?);
    let program = Program {
        wanted: status.desired_number_scheduled,
        ready: status.number_ready,
        updated: status.updated_number_scheduled.unwrap_or(0),
        unseen: status.observed_generation < generation,
        ..of_template(namespace, &one.spec?.template)
    };
    Some((format!("DaemonSet/{name}"), program))
}

fn of_template(namespace: &str, template: &PodTemplateSpec) -> Program {
    Program {
        namespace: namespace.to_owned(),
        ownership: ownership(template),
        gates: gates(template),
        image: image(template),
        account: template.spec.as_ref().and_then(|spec| spec.service_account_name.clone()),
        ..Program::default()
    }
}

/// Adds a program. One of the same name elsewhere that wants no pods is only what was left behind.
pub(super) fn add(programs: &mut BTreeMap<String, Program>, name: String, program: Program) {
    if programs.get(&name).is_none_or(|known| known.wanted == 0) {
        programs.insert(name, program);
    }
}

fn image(template: &PodTemplateSpec) -> Option<String> {
    template.spec.as_ref()?.containers.first()?.image.clone()
}

fn ownership(template: &PodTemplateSpec) -> Option<String> {
    let container = template.spec.as_ref()?.containers.first()?;
    let of_args = container.args.iter().flatten().rev();
    let of_args = of_args.filter_map(|arg| arg.strip_prefix("--ownership=")).next();
    let of_env = container.env.iter().flatten().find(|one| one.name == "BERTH_OWNERSHIP");
    of_args.map(str::to_owned).or_else(|| of_env?.value.clone())
}

fn gates(template: &PodTemplateSpec) -> String {
    let first = template.spec.as_ref().and_then(|spec| spec.containers.first());
    let args = first.into_iter().flat_map(|container| container.args.iter().flatten());
    args.filter_map(|arg| arg.strip_prefix("--feature-gates=")).collect::<Vec<_>>().join(",")
}

async fn webhooks(client: &Client) -> kube::Result<BTreeMap<String, Webhooks>> {
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let of_mutating = all(&mutating, |one: MutatingWebhookConfiguration| {
        let entries = one.webhooks.iter().flatten().map(|entry| (&entry.client_config, &entry.rules));
        Some((one.name_any(), entries_of(entries)))
    });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let of_validating = all(&validating, |one: ValidatingWebhookConfiguration| {
        let entries = one.webhooks.iter().flatten().map(|entry| (&entry.client_config, &entry.rules));
        Some((one.name_any(), entries_of(entries)))
    });
    let named = |kind: &'static str| move |(name, one): (String, Webhooks)| (format!("{kind}/{name}"), one);
    let mut both: BTreeMap<_, _> =
        of_mutating.await?.into_iter().map(named("mutatingwebhookconfiguration")).collect();
    both.extend(of_validating.await?.into_iter().map(named("validatingwebhookconfiguration")));
    both.retain(|name, _| name.ends_with("/berth-manager") || is_kruise(name));
    Ok(both)
}

/// Entries of a webhook configuration: whom each asks, and about what.
pub(super) fn entries_of<'a>(
    entries: impl Iterator<Item = (&'a WebhookClientConfig, &'a Option<Vec<RuleWithOperations>>)>,
) -> Webhooks {
    let mut found = Webhooks::default();
    for (asked, rules) in entries {
        found.entries += 1;
        let service = asked.service.as_ref().map(|service| service.namespace.clone());
        found.namespace = found.namespace.or(service);
        let has_bundle = asked.ca_bundle.as_ref().is_some_and(|bundle| !bundle.0.is_empty());
        found.without_bundle += usize::from(!has_bundle);
        let is_kruise = |rule: &&RuleWithOperations| {
            rule.api_groups.iter().flatten().any(|group| group.ends_with("kruise.io"))
        };
        let of_kruise = rules.iter().flatten().filter(is_kruise);
        found.resources.extend(of_kruise.flat_map(|rule| rule.resources.iter().flatten().cloned()));
    }
    found
}

async fn policies(client: &Client) -> kube::Result<Vec<String>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let names: BTreeSet<String> =
        all(&policies, |one: ValidatingAdmissionPolicy| Some(one.name_any())).await?.into_iter().collect();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let bound = all(&bindings, |one: ValidatingAdmissionPolicyBinding| one.spec?.policy_name).await?;
    Ok(bound.into_iter().filter(|name| names.contains(name)).collect())
}

async fn nodes(client: &Client) -> kube::Result<BTreeMap<String, bool>> {
    let nodes: Api<Node> = Api::all(client.clone());
    let keep = |node: Node| {
        let label = |key: &str| node.labels().get(key).map(String::as_str).unwrap_or_default();
        let runs_linux = label("kubernetes.io/os") != "windows" && label("type") != "virtual-kubelet";
        runs_linux.then(|| (node.name_any(), label(PATH) == "inline"))
    };
    Ok(all(&nodes, keep).await?.into_iter().collect())
}

async fn agents(client: &Client) -> kube::Result<BTreeMap<String, Option<jiff::Timestamp>>> {
    let objects: Api<Partly<NodePodUpdate>> = Api::all(client.clone());
    let keep = |Partly { object, .. }: Partly<NodePodUpdate>| {
        let name = object.name_any();
        let status = object.status.filter(|status| !status.features.is_empty())?;
        Some((name, status.renew_time.map(|time| time.0)))
    };
    match all(&objects, keep).await {
        Ok(agents) => Ok(agents.into_iter().collect()),
        // The kind is not installed.
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(BTreeMap::new()),
        Err(error) => Err(error),
    }
}
