//! Pods that are about to be deleted, evicted or updated in place: their budget gives a permit, or they stay.
//!
//! Every replica answers, by the budget as it stands at the API server and by the scale of its workload, both
//! read for the question. A permit is a write of the budget's status at the version it was decided on: of two
//! who come at once one decides anew. Questions of one budget take turns within a replica, so that they do
//! not disturb each other.
//!
//! A refusal is one that clients try again (429), as `kubectl drain` does.

#[cfg(test)]
mod tests;

use std::{sync::Arc, time::Duration};

use berth_base::sent::{Received, Sent};
use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use jiff::Timestamp;
use k8s_openapi::{api::core::v1::Pod, apimachinery::pkg::apis::meta::v1::LabelSelector};
use kube::{Api, Client, ResourceExt, api::DynamicObject, core::ApiResource};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    configuration::LEFT_OUT,
    evictions,
    locks::{ObjectLocks, TRIES, pause},
    review::{Request, Verdict},
    subject::{Subject, changed, limited},
    view::View,
};
use crate::{
    budgets::{
        Budget, Cover, Fact, Operation, Permission, Question, Workload, decide, is_replica_set, parent, scale,
    },
    reads,
    requests::{Ask, Said},
    store::{Object, Owner, PodSeen},
    telemetry::chain,
    wire::{self, Watched},
};

/// A question is answered within it; the server answers within 4 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

const NOT_LISTED: &str = "PodUnavailableBudgets are not listed yet";

/// A budget as admission has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct BudgetKept {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Its selector as it is written, if it has one.
    pub(super) selector: Option<LabelSelector>,
    /// The budget, or what is wrong with it.
    pub(super) budget: Result<Budget, String>,
}

/// Reads a budget; one whose deletion has begun limits nothing.
pub(super) fn read(object: Watched<wire::Budgets>) -> Option<BudgetKept> {
    let Object::Budget(seen) = object.into_object() else { return None };
    let selector = seen.spec.as_ref().ok().and_then(|spec| spec.selector.clone());
    let budget = seen.spec.and_then(|spec| Budget::parse(&spec, &seen.annotations));
    // One that cannot be kept may have any number of values.
    let selector = selector.filter(|_| budget.is_ok());
    let kept = BudgetKept { namespace: seen.namespace, name: seen.name, selector, budget };
    Some(kept).filter(|_| !seen.deleting)
}

/// Answers for all budgets.
pub(super) struct Guard {
    pub(super) client: Client,
    pub(super) budgets: watch::Receiver<View<BudgetKept>>,
    pub(super) locks: ObjectLocks<PodUnavailableBudget>,
}

/// Number of pods that are wanted.
#[derive(Debug, PartialEq, Eq)]
enum Wanted {
    Pods(i32),
    /// The status says it: the pods are of several workloads.
    AsCounted,
    /// Nobody says that the pod is wanted, so its budget lets it go.
    Gone,
}

impl Wanted {
    /// Number that follows from a fact about the workload of a pod.
    ///
    /// A scale that the manager may not read counts as none: for a resource that has none, and even when the
    /// workload is gone, the API server answers so too, and a pod that stayed for it would stay for ever. The
    /// status of the budget says what is missing.
    fn of(fact: &Fact, budget: &Budget, top: &Owner) -> Self {
        let of_one = budget.workload().is_some();
        match fact {
            Fact::Wants { uid, replicas } if *uid == top.uid && *replicas > 0 && of_one => {
                Self::Pods(*replicas)
            }
            Fact::Wants { uid, replicas } if *uid == top.uid && *replicas > 0 => Self::AsCounted,
            Fact::NoScale | Fact::Forbidden(_) if !of_one && budget.total.is_some() => Self::AsCounted,
            _ => Self::Gone,
        }
    }
}

/// A budget that covers the pod.
struct Covering {
    name: String,
    budget: Budget,
    /// Workload that the pod belongs to.
    top: Option<Owner>,
}

impl Guard {
    /// Answers to one request.
    pub(super) async fn ask(&self, request: &Request) -> Verdict {
        let answer = async {
            if evictions::is_one(request) {
                return self.evict(request).await;
            }
            match changed(request) {
                Some(subject) => self.limit(subject).await,
                None => Ok(Verdict::AS_IT_IS),
            }
        };
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(missing)) => Verdict::Unready(missing),
            Err(_) => busy("its budget", "the API server did not answer in time; try again"),
        }
    }

    /// Answers to an eviction.
    async fn evict(&self, request: &Request) -> Result<Verdict, &'static str> {
        let Some(pod) = self.pod(&request.namespace, &request.name).await? else {
            return Ok(evictions::of_none(&request.name));
        };
        let uid = pod.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default();
        let Some(tied) = evictions::tied(&request.object, uid) else { return Ok(Verdict::AS_IT_IS) };
        let verdict = match limited(pod) {
            Some(pod) => {
                let dry_run = evictions::is_dry_run(request);
                self.limit(Subject { pod, operation: Operation::Evict, dry_run }).await?
            }
            None => Verdict::AS_IT_IS,
        };
        Ok(match verdict {
            Verdict::Allowed { warnings, .. } => Verdict::Allowed { object: Some(tied), warnings },
            verdict => verdict,
        })
    }

    /// Answers for a pod that is about to become unavailable.
    async fn limit(&self, subject: Subject) -> Result<Verdict, &'static str> {
        match self.covering(&subject.pod).await? {
            Some(covering) => self.spend(subject, covering).await,
            None => Ok(Verdict::AS_IT_IS),
        }
    }

    /// Answers to the manager itself, which is about to have containers of a pod made anew.
    pub(super) async fn permit(&self, ask: &Ask) -> Said {
        let refused = |budget, why: &str| Said::Refused { budget, why: why.to_owned() };
        let namespace = &ask.id.key.namespace;
        let answer = async {
            if !self.has_budgets(namespace)? {
                return Ok(Said::Given);
            }
            let pod = self.pod(namespace, &ask.pod).await?.and_then(limited);
            // One that is gone or ends is nobody's to make unavailable: the request is about nothing then.
            let Some(pod) = pod.filter(|pod| pod.uid == ask.pod_uid) else { return Ok(Said::Given) };
            let Some(covering) = self.covering(&pod).await? else { return Ok(Said::Given) };
            let budget = Some(covering.name.clone());
            let subject = Subject { pod, operation: Operation::Update, dry_run: false };
            Ok(match self.spend(subject, covering).await? {
                Verdict::Allowed { .. } => Said::Given,
                Verdict::Refused { message, .. } => refused(budget, &message),
                Verdict::Unready(missing) => refused(budget, missing),
            })
        };
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(said)) => said,
            Ok(Err(missing)) => refused(None, missing),
            Err(_) => refused(None, "the API server did not answer in time"),
        }
    }

    /// Tells whether pods of the namespace may have a budget.
    fn has_budgets(&self, namespace: &str) -> Result<bool, &'static str> {
        let view = self.budgets.borrow();
        let budgets = view.listed().ok_or(NOT_LISTED)?;
        let prefix = format!("{namespace}/");
        Ok(!LEFT_OUT.contains(&namespace)
            && budgets.range(prefix.clone()..).next().is_some_and(|(key, _)| key.starts_with(&prefix)))
    }

    /// Reads a pod.
    async fn pod(&self, namespace: &str, name: &str) -> Result<Option<Value>, &'static str> {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<Sent<DynamicObject>> = Api::namespaced_with(self.client.clone(), namespace, &resource);
        reads::read_value(&api, name).await.map_err(|error| {
            debug!(error, "Pod of a question not read");
            "the pod could not be read"
        })
    }

    /// The first budget that covers the pod, in the order of their names.
    async fn covering(&self, pod: &PodSeen) -> Result<Option<Covering>, &'static str> {
        let labels: Vec<_> =
            pod.labels.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect();
        let candidates = {
            let view = self.budgets.borrow();
            let budgets = view.listed().ok_or(NOT_LISTED)?;
            let prefix = format!("{}/", pod.namespace);
            let of_space = budgets.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            let readable = of_space.filter_map(|(_, kept)| Some((&kept.name, kept.budget.as_ref().ok()?)));
            let covering = readable.filter(|(_, budget)| may_cover(budget, pod, &labels));
            covering.map(|(name, budget)| (name.clone(), budget.clone())).collect::<Vec<_>>()
        };
        if candidates.is_empty() {
            return Ok(None);
        }
        let top = match &pod.owner {
            Some(owner) if is_replica_set(owner) => {
                let parent = parent(&self.client, &pod.namespace, &owner.name, &owner.uid).await;
                match parent.map_err(|_| "the ReplicaSet of the pod could not be read")? {
                    // Its ReplicaSet is gone: nobody wants the pod any more.
                    None => return Ok(None),
                    Some(parent) => Some(parent.unwrap_or_else(|| owner.clone())),
                }
            }
            owner => owner.clone(),
        };
        let covers = |budget: &Budget| match budget.workload() {
            None => true,
            Some(workload) => [&top, &pod.owner].into_iter().flatten().any(|owner| workload.is(owner)),
        };
        let found = candidates.into_iter().find(|(_, budget)| covers(budget));
        Ok(found.map(|(name, budget)| Covering {
            top: match budget.workload() {
                // A budget may be of the ReplicaSet itself.
                Some(workload) => {
                    [&top, &pod.owner].into_iter().flatten().find(|owner| workload.is(owner)).cloned()
                }
                None => top,
            },
            name,
            budget,
        }))
    }

    /// Takes a permit from the budget.
    async fn spend(&self, subject: Subject, covering: Covering) -> Result<Verdict, &'static str> {
        let Subject { pod, operation, dry_run } = subject;
        let Covering { name, budget, top } = covering;
        let wanted = match self.wanted(&pod.namespace, &budget, top.as_ref()).await? {
            Wanted::Pods(number) => Some(number),
            Wanted::AsCounted => None,
            Wanted::Gone => return Ok(Verdict::AS_IT_IS),
        };
        let api: Api<Sent<PodUnavailableBudget>> = Api::namespaced(self.client.clone(), &pod.namespace);
        let turn = self.locks.of(&format!("{}/{name}", pod.namespace));
        let mut known = turn.lock().await;
        for tried in 0..TRIES {
            let cached = known.take();
            let is_newest = cached.is_none();
            let object = match cached {
                Some(object) => object,
                None => match reads::read(&api, &name).await {
                    Ok(Some(object)) => reads::kept(object),
                    Ok(None) => return Ok(Verdict::AS_IT_IS),
                    Err(error) => {
                        debug!(error, "Budget not read");
                        return Err("the PodUnavailableBudget could not be read");
                    }
                },
            };
            // One that cannot be kept limits nothing, and its status says so.
            let parsed = Budget::parse(&object.spec, object.annotations());
            let Some(budget) = parsed.ok().filter(|_| object.metadata.deletion_timestamp.is_none()) else {
                return Ok(Verdict::AS_IT_IS);
            };
            let empty = PodUnavailableBudgetStatus::default();
            let status = object.status.as_ref().unwrap_or(&empty);
            let Some(available) = self.is_available(&pod).await? else { return Ok(Verdict::AS_IT_IS) };
            let question = Question { pod: &pod.name, created: pod.created, available, operation };
            let total = wanted.unwrap_or(status.total_replicas);
            match decide(&budget, status, total, &question, Timestamp::now()) {
                // What this replica wrote last may have been written over.
                Permission::Free | Permission::Refused(_) if !is_newest => continue,
                Permission::Free => return Ok(Verdict::AS_IT_IS),
                Permission::Refused(why) => return Ok(busy(&name, why)),
                Permission::Permit(_) if dry_run => return Ok(Verdict::AS_IT_IS),
                Permission::Permit(next) => {
                    let next = PodUnavailableBudget { status: Some(*next), ..object };
                    match reads::replace_status(&api, &name, &next).await {
                        Ok(written) => {
                            // One that is set aside by now is read anew.
                            *known = written.read().ok().map(reads::kept);
                            return Ok(Verdict::AS_IT_IS);
                        }
                        Err(kube::Error::Api(status)) if status.code == 409 => pause(tried).await,
                        Err(kube::Error::Api(status)) if status.code == 404 => return Ok(Verdict::AS_IT_IS),
                        Err(error) => {
                            debug!(error = chain(&error), "Permit not written");
                            return Err("the permit of the PodUnavailableBudget could not be written");
                        }
                    }
                }
            }
        }
        // One that is not available has to wait too: by now it may be, and be counted, and nobody has
        // entered it.
        Ok(busy(&name, "many others ask for a permit; try again"))
    }

    /// Tells whether the pod counts as available: it was looked at before the status was, and if it was not
    /// then, it may be by now, and be counted there. `None`: it is gone, and what was asked for is of no
    /// effect.
    async fn is_available(&self, pod: &PodSeen) -> Result<Option<bool>, &'static str> {
        if pod.available {
            return Ok(Some(true));
        }
        let now = self.pod(&pod.namespace, &pod.name).await?.and_then(limited);
        Ok(now.filter(|now| now.uid == pod.uid).map(|now| now.available))
    }

    /// Looks up how many pods are wanted now.
    async fn wanted(
        &self,
        namespace: &str,
        budget: &Budget,
        top: Option<&Owner>,
    ) -> Result<Wanted, &'static str> {
        let Some(top) = top else { return Ok(Wanted::AsCounted) };
        let workload = budget.workload().cloned().unwrap_or_else(|| Workload::from(top));
        let fact = scale(&self.client, namespace, &workload).await.map_err(|error| {
            debug!(error, "Scale not read");
            "the scale of the workload could not be read"
        })?;
        Ok(Wanted::of(&fact, budget, top))
    }
}

fn busy(budget: &str, why: &str) -> Verdict {
    let message = format!("podunavailablebudget.policy.kruise.io {budget:?} is forbidden: {why}");
    Verdict::Refused { code: 429, reason: "TooManyRequests", message }
}

/// Says whether the budget may cover the pod, whose labels are these, sorted.
fn may_cover(budget: &Budget, pod: &PodSeen, labels: &[(Arc<str>, Arc<str>)]) -> bool {
    match (&budget.cover, &pod.owner) {
        (Cover::Selector(selector), _) => selector.matches(labels),
        (Cover::Workload(workload), Some(owner)) => {
            workload.is(owner) || is_replica_set(owner) && workload.may_have(&owner.name)
        }
        (Cover::Workload(_), None) => false,
    }
}
