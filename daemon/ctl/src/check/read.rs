//! Reading of the facts: conversion only.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::time::Duration;

use berth_proto::crd::NodePodUpdate;
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding,
    ValidatingWebhookConfiguration, WebhookClientConfig,
};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Node, PodTemplateSpec};
use kube::api::{DynamicObject, ListParams};
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

/// Asks for everything, one after the other.
pub(super) async fn facts(client: &Client) -> Facts {
    let webhooks = known(webhooks(client)).await;
    Facts {
        version: known(async { Ok(client.apiserver_version().await?.git_version) }).await,
        definitions: known(definitions(client)).await,
        programs: known(programs(client, namespaces(webhooks.as_ref().ok()))).await,
        webhooks,
        policies: known(policies(client)).await,
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
        release: at_least(name, object),
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
        let keep = |one: Deployment| {
            let (name, spec) = (one.name_any(), one.spec?);
            let ready = one.status.and_then(|status| status.ready_replicas).unwrap_or(0);
            let (ownership, image) = (ownership(&spec.template), image(&spec.template));
            let (namespace, wanted) = (namespace.clone(), spec.replicas.unwrap_or(1));
            Some((format!("Deployment/{name}"), Program { namespace, wanted, ready, ownership, image }))
        };
        let found = all(&deployments, keep).await?;
        let sets: Api<DaemonSet> = Api::namespaced(client.clone(), &namespace);
        let keep = |one: DaemonSet| {
            let (name, status) = (one.name_any(), one.status?);
            let (wanted, ready) = (status.desired_number_scheduled, status.number_ready);
            let (namespace, image) = (namespace.clone(), one.spec.and_then(|spec| image(&spec.template)));
            Some((format!("DaemonSet/{name}"), Program { namespace, wanted, ready, ownership: None, image }))
        };
        for (name, program) in found.into_iter().chain(all(&sets, keep).await?) {
            add(&mut programs, name, program);
        }
    }
    Ok(programs)
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

async fn webhooks(client: &Client) -> kube::Result<BTreeMap<String, Webhooks>> {
    let entries = |clients: Vec<WebhookClientConfig>| Webhooks {
        namespace: clients.iter().find_map(|one| Some(one.service.as_ref()?.namespace.clone())),
        entries: clients.len(),
        without_bundle: clients
            .iter()
            .filter(|one| one.ca_bundle.as_ref().is_none_or(|bundle| bundle.0.is_empty()))
            .count(),
    };
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let of_mutating = all(&mutating, |one: MutatingWebhookConfiguration| {
        let clients = one.webhooks.iter().flatten().map(|entry| entry.client_config.clone()).collect();
        Some((one.name_any(), entries(clients)))
    });
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    let of_validating = all(&validating, |one: ValidatingWebhookConfiguration| {
        let clients = one.webhooks.iter().flatten().map(|entry| entry.client_config.clone()).collect();
        Some((one.name_any(), entries(clients)))
    });
    let named = |kind: &'static str| move |(name, one): (String, Webhooks)| (format!("{kind}/{name}"), one);
    let mut both: BTreeMap<_, _> =
        of_mutating.await?.into_iter().map(named("mutatingwebhookconfiguration")).collect();
    both.extend(of_validating.await?.into_iter().map(named("validatingwebhookconfiguration")));
    both.retain(|name, _| name.ends_with("/berth-manager") || is_kruise(name));
    Ok(both)
}

async fn policies(client: &Client) -> kube::Result<Vec<String>> {
    let policies: Api<ValidatingAdmissionPolicy> = Api::all(client.clone());
    let names: BTreeSet<String> =
        all(&policies, |one: ValidatingAdmissionPolicy| Some(one.name_any())).await?.into_iter().collect();
    let bindings: Api<ValidatingAdmissionPolicyBinding> = Api::all(client.clone());
    let bound = all(&bindings, |one: ValidatingAdmissionPolicyBinding| one.spec?.policy_name).await?;
    Ok(bound.into_iter().filter(|name| names.contains(name)).collect())
}

async fn nodes(client: &Client) -> kube::Result<Vec<String>> {
    let nodes: Api<Node> = Api::all(client.clone());
    all(&nodes, |node: Node| {
        let label = |key: &str| node.labels().get(key).map(String::as_str).unwrap_or_default();
        let runs_linux = label("kubernetes.io/os") != "windows" && label("type") != "virtual-kubelet";
        runs_linux.then(|| node.name_any())
    })
    .await
}

async fn agents(client: &Client) -> kube::Result<BTreeMap<String, Option<jiff::Timestamp>>> {
    let objects: Api<NodePodUpdate> = Api::all(client.clone());
    let keep = |object: NodePodUpdate| {
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
