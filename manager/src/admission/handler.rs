//! The decision that a route asks for, with everything that it has to know.
//!
//! - `doors`: an object that needs a webhook entry is stored when that stands;
//! - `white_list`: what the cluster lets SidecarSets bring into pods.

mod doors;
mod white_list;

use std::{collections::BTreeMap, future::ready, pin::pin, sync::Arc, time::Duration};

use berth_base::sent::Sent;
use berth_proto::crd::SidecarSet;
use berth_sidecarset::{Set, WhiteList};
use futures::{StreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::{
    admissionregistration::v1::MutatingWebhookConfiguration,
    core::v1::{Namespace, Pod},
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use serde::de::DeserializeOwned;
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use self::white_list::WHITE_LIST;
use super::{
    budget_rules,
    budgets::{Guard, NOT_LISTED, of_namespace, unanswered},
    configuration::{Announcer, set_of},
    node_images,
    path::Route,
    pod_state_rules,
    pod_states::Restorer,
    pods, protection,
    recreate::{self, Found},
    review::{Request, Verdict, is_part},
    server::Decide,
    sets::{self, SetSeen},
    sidecar_sets, spread_rules,
    spreads::Placer,
    untouched,
    view::View,
    workloads::{self, pods_to_delete, rules, templates},
};
use crate::{reads, store::Webhooks};

/// An object that is read for a decision is read within it: the API server waits for the answer.
const READ_WITHIN: Duration = Duration::from_secs(2);
/// Pods that are read at once.
const PODS_AT_ONCE: usize = 16;
/// The manager's ServiceAccount, as deploy/rbac has it.
const ACCOUNT: &str = "berth-manager";

/// Labels of the namespaces.
pub(super) type Namespaces = View<BTreeMap<String, String>>;

/// Views, clients and settings that decisions are made from.
pub(super) struct Handler {
    /// Reads what is not watched.
    pub(super) client: Client,
    /// Counts what a protected namespace or definition has.
    pub(super) counter: protection::Counter,
    /// The manager's namespace.
    pub(super) namespace: String,
    /// All SidecarSets.
    pub(super) sets: watch::Receiver<View<SetSeen>>,
    /// Labels of all namespaces.
    pub(super) namespaces: watch::Receiver<Namespaces>,
    /// Tells the reconciler of sets and spreads that are about to be stored.
    pub(super) coming: Announcer,
    /// Which entries of sets stand.
    pub(super) webhooks: watch::Receiver<Webhooks>,
    /// All entries as they stand.
    pub(super) entries: watch::Receiver<View<MutatingWebhookConfiguration>>,
    /// Budgets, and who asks them.
    pub(super) guard: Arc<Guard>,
    /// WorkloadSpreads, and who asks them.
    pub(super) placer: Placer,
    /// Whether WorkloadSpreads are carried out.
    pub(super) spreads: bool,
    /// PersistentPodStates, and who asks them.
    pub(super) restorer: Restorer,
    /// Whether PersistentPodStates are carried out.
    pub(super) pod_states: bool,
    /// Whether budgets limit anything at all.
    pub(super) limits: bool,
    /// Whether every pod gets the readiness gate KruisePodReady.
    pub(super) pod_readiness_gate: bool,
    /// Whether a set that no rule of the white list is for may bring any annotation.
    pub(super) any_metadata: bool,
    /// Whether new templates of workloads get defaults.
    pub(super) template_defaults: bool,
}

impl Decide for Handler {
    async fn decide(&self, route: Route, request: &Request) -> Verdict {
        let verdict = self.judge(&route, request).await;
        untouched::spared(verdict, &route, request)
    }
}

impl Handler {
    async fn judge(&self, route: &Route, request: &Request) -> Verdict {
        match route {
            Route::Pods(set) => self.pod(set.as_deref(), request).await,
            Route::DefaultSets => sidecar_sets::complete(request, Timestamp::now()),
            Route::CheckSets => {
                let verdict = self.check(request).await;
                if matches!(verdict, Verdict::Allowed { .. }) {
                    self.open_the_door(request).await;
                }
                verdict
            }
            Route::Requests => self.recreate(request).await,
            Route::Namespaces => self.protect_namespace(request).await,
            Route::Definitions => self.protect_definition(request).await,
            Route::Budgets => self.guard.ask(request).await,
            Route::Workloads => self.workload(request).await,
            Route::CheckWorkloads => rules::judge(request),
            Route::NodeImages => node_images::complete(request, Timestamp::now()),
            // Answered at the door: it is no admission.
            Route::Convert => Verdict::Unready("the body of /convert is a ConversionReview"),
            Route::Place => self.placer.place(request).await,
            Route::Leave => self.placer.leave(request).await,
            Route::CheckSpreads => {
                let verdict = self.check_spread(request);
                if matches!(verdict, Verdict::Allowed { .. }) {
                    self.open_for_spread(request).await;
                }
                verdict
            }
            Route::Restore => self.restorer.restore(request).await,
            Route::CheckStates => {
                let states = self.restorer.states.borrow();
                let Some(states) = states.listed() else {
                    return Verdict::Unready("PersistentPodStates are not listed yet");
                };
                let others = states.values().filter(|kept| kept.namespace == request.namespace);
                pod_state_rules::judge(request, others, self.pod_states)
            }
            Route::CheckBudgets => self.check_budget(request).await,
        }
    }

    /// The watches may be behind the API server's: then what is missing or does not fit is read.
    async fn pod(&self, entry: Option<&str>, request: &Request) -> Verdict {
        let (mut sets, mut labels) = {
            let (sets, namespaces) = (self.sets.borrow(), self.namespaces.borrow());
            let Some(sets) = sets.listed() else { return Verdict::Unready("SidecarSets are not listed yet") };
            let sets: Vec<Arc<Set>> = sets.values().filter_map(|seen| seen.set.clone().ok()).collect();
            (sets, namespaces.get(&request.namespace).cloned())
        };
        let asks = |name: &&str| {
            let takes = |set: &Arc<Set>| set.name() == *name && pods::takes(set, request, labels.as_ref());
            !sets.iter().any(takes)
        };
        let lags = entry.map(set_of).filter(asks);
        if let Some(name) = lags {
            let resource = ApiResource::erase::<SidecarSet>(&());
            let api: Api<Sent<DynamicObject>> = Api::all_with(self.client.clone(), &resource);
            let Ok(found) = read(&api, name).await else {
                return Verdict::Unready("the SidecarSet of this entry could not be read");
            };
            sets.retain(|set| set.name() != name);
            sets.extend(found.map(Sent::Read).and_then(sets::read).and_then(|seen| seen.set.ok()));
        }
        if lags.is_some() || labels.is_none() {
            let all: Api<Sent<Namespace>> = Api::all(self.client.clone());
            labels = match read(&all, &request.namespace).await {
                Ok(found) => found.map(|namespace| namespace.labels().clone()),
                Err(()) => return Verdict::Unready("the namespace could not be read"),
            };
        }
        let sets: Vec<&Set> = sets.iter().map(|set| &**set).collect();
        pods::complete(request, &sets, labels.as_ref(), self.pod_readiness_gate, Timestamp::now())
    }

    async fn check(&self, request: &Request) -> Verdict {
        let white_list = if sidecar_sets::brings_metadata(request) {
            match self.white_list().await {
                Ok(text) => WhiteList::parse(text.as_deref(), self.any_metadata),
                Err(()) => return Verdict::Unready("ConfigMap kruise-configuration could not be read"),
            }
        } else {
            Ok(WhiteList::default())
        };
        let white_list = match white_list {
            Ok(white_list) => white_list,
            Err(fault) => return Verdict::invalid(format!("ConfigMap {WHITE_LIST}: {fault}")),
        };
        let sets = self.sets.borrow();
        let Some(sets) = sets.listed() else { return Verdict::Unready("SidecarSets are not listed yet") };
        if let Some(fault) = sets::crowded(request, sets) {
            return Verdict::invalid(fault);
        }
        let others: Vec<&Set> = sets.values().filter_map(|seen| seen.set.as_deref().ok()).collect();
        sidecar_sets::judge(request, &others, &white_list)
    }

    /// Checks a budget. A new one is compared with all of its namespace, whole.
    async fn check_budget(&self, request: &Request) -> Verdict {
        let is_new = request.old_object.is_null();
        let whole = if is_new { self.guard.bare(&request.namespace).await } else { Ok(Vec::new()) };
        let whole = match whole {
            Ok(whole) => whole,
            Err(missing) => return unanswered(missing),
        };
        let budgets = self.guard.budgets.borrow();
        let Some(budgets) = budgets.listed() else { return Verdict::Unready(NOT_LISTED) };
        let others = of_namespace(budgets, &request.namespace);
        budget_rules::judge(request, others.chain(&whole), self.limits)
    }

    fn check_spread(&self, request: &Request) -> Verdict {
        let spreads = self.placer.spreads.borrow();
        let Some(spreads) = spreads.listed() else {
            return Verdict::Unready("WorkloadSpreads are not listed yet");
        };
        let others = spreads.values().filter(|kept| kept.namespace == request.namespace);
        spread_rules::judge(request, others, self.spreads)
    }

    async fn protect_namespace(&self, request: &Request) -> Verdict {
        if !protection::asks(request) {
            return Verdict::AS_IT_IS;
        }
        let (pods, claims) = self.counter.of_namespace(&request.name).await;
        protection::namespace(pods, claims)
    }

    async fn protect_definition(&self, request: &Request) -> Verdict {
        if !protection::asks(request) {
            return Verdict::AS_IT_IS;
        }
        match protection::resources(&request.old_object) {
            protection::Resources::None => Verdict::AS_IT_IS,
            protection::Resources::Hidden => protection::hidden(&request.name),
            protection::Resources::Served(resource) => {
                let counted = self.counter.of_kind(&resource).await;
                let account = format!("{}:{ACCOUNT}", self.namespace);
                protection::definition(&request.name, counted, &account)
            }
        }
    }

    /// Completes a workload whose template and names of pods are right. Pods that could not be read refuse
    /// nothing: a name of no pod does nothing, and is taken out.
    async fn workload(&self, request: &Request) -> Verdict {
        if let Some(fault) = templates::fault(request) {
            return Verdict::invalid(fault);
        }
        let pods: Api<Sent<PartialObjectMeta<Pod>>> =
            Api::namespaced(self.client.clone(), &request.namespace);
        let names: Vec<String> = pods_to_delete::added(request).into_iter().map(str::to_owned).collect();
        let faults = stream::iter(names).map(|name| {
            let pods = &pods;
            async move {
                if !pods_to_delete::is_name(&name) {
                    return pods_to_delete::fault(request, &name, None);
                }
                match reads::read(pods, &name).await {
                    Ok(pod) => pods_to_delete::fault(request, &name, pod.as_ref().map(|pod| &pod.metadata)),
                    Err(error) => {
                        debug!(name, error, "Pod of podsToDelete not read");
                        None
                    }
                }
            }
        });
        let mut faults = pin!(faults.buffered(PODS_AT_ONCE).filter_map(ready));
        match timeout(READ_WITHIN, faults.next()).await {
            Ok(Some(fault)) => Verdict::invalid(fault),
            Ok(None) => workloads::complete(request, self.template_defaults),
            Err(_) => {
                debug!(name = request.name, "Pods of podsToDelete not read in time");
                workloads::complete(request, self.template_defaults)
            }
        }
    }

    /// Completes a request. Its pod is read from the API server, now: the watched ones are kept without hooks
    /// and ports, which thousands of pods would take memory with, and requests are rare.
    async fn recreate(&self, request: &Request) -> Verdict {
        let name = request.object.pointer("/spec/podName").and_then(Value::as_str).unwrap_or_default();
        let pods: Api<Sent<Pod>> = Api::namespaced(self.client.clone(), &request.namespace);
        // The definition refuses what is no name of a pod.
        let pod = if name.is_empty() || !is_part(name) { Err(()) } else { read(&pods, name).await };
        let found = match &pod {
            Ok(Some(pod)) => Found::Pod(pod),
            Ok(None) => Found::Nothing,
            Err(()) => Found::Unknown,
        };
        recreate::complete(request, found)
    }
}

/// An object, if there is one.
async fn read<K>(api: &Api<Sent<K>>, name: &str) -> Result<Option<K>, ()>
where
    K: Resource + Clone + DeserializeOwned + std::fmt::Debug + Send + 'static,
{
    match timeout(READ_WITHIN, reads::read(api, name)).await {
        Ok(Ok(found)) => Ok(found),
        Ok(Err(error)) => {
            debug!(name, error, "Not read for an admission");
            Err(())
        }
        Err(_) => Err(()),
    }
}

#[cfg(test)]
mod tests;
