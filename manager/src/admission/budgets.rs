//! Pods that are about to be deleted, evicted or updated in place: their budget gives a permit, or they stay.
//!
//! Every replica answers, by the budget as it stands at the API server and by the scale of its workload, both
//! read for the question. A permit is a write of the budget's status at the version it was decided on: of two
//! who come at once one decides anew. Questions of one budget take turns within a replica, so that they do
//! not disturb each other.
//!
//! A refusal is one that clients try again (429), as `kubectl drain` does.

mod records;
#[cfg(test)]
mod tests;

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_base::sent::{Received, Sent};
use berth_proto::crd::{PodUnavailableBudget, PodUnavailableBudgetStatus};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, api::DynamicObject, core::ApiResource};
use serde_json::Value;
use tokio::{
    sync::{Semaphore, watch},
    time::timeout,
};
use tracing::debug;

pub(super) use self::records::{BOUND, BudgetKept, of_namespace, read};
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
        Budget, Fact, Operation, Permission, Question, UPDATED_FOR, Workload, as_counted, decide,
        is_replica_set, parent, scale,
    },
    reads,
    requests::{Ask, Said},
    store::{Owner, PodSeen},
    telemetry::chain,
    time::later,
    wire::{self, Watched},
};

/// A question is answered within it; the server answers within 4 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// Budgets of which there is little here, and that are read whole for one question.
const MOST_READ: usize = 16;

/// Places of those that are read at once: they are the largest.
static READS: Semaphore = Semaphore::const_new(4);

pub(super) const NOT_LISTED: &str = "PodUnavailableBudgets are not listed yet";
const NOT_READ: &str = "the PodUnavailableBudget could not be read";
const TOO_MANY: &str = "PodUnavailableBudgets take more memory than there is for them, and too many of the \
                        namespace would have to be read; delete some, the largest ones first";

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
            Ok(Err(missing)) => unanswered(missing),
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
        // It is written later, and stands for longer.
        let given = Said::Given(later(Instant::now(), UPDATED_FOR));
        let answer = async {
            if !self.has_budgets(namespace)? {
                return Ok(given);
            }
            let pod = self.pod(namespace, &ask.pod).await?.and_then(limited);
            // One that is gone or ends is nobody's to make unavailable: the request is about nothing then.
            let Some(pod) = pod.filter(|pod| pod.uid == ask.pod_uid) else { return Ok(given) };
            let Some(covering) = self.covering(&pod).await? else { return Ok(given) };
            let budget = Some(covering.name.clone());
            let subject = Subject { pod, operation: Operation::Update, dry_run: false };
            Ok(match self.spend(subject, covering).await? {
                Verdict::Allowed { .. } => given,
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
        Ok(!LEFT_OUT.contains(&namespace) && of_namespace(budgets, namespace).next().is_some())
    }

    /// Budgets of a namespace of which there is little here, read whole.
    pub(super) async fn bare(&self, namespace: &str) -> Result<Vec<BudgetKept>, &'static str> {
        let names: Vec<String> = {
            let view = self.budgets.borrow();
            let all = of_namespace(view.listed().ok_or(NOT_LISTED)?, namespace);
            all.filter(|kept| kept.is_bare()).map(|kept| kept.name.clone()).collect()
        };
        let whole = async { self.whole(namespace, names).await.map(|all| all.into_values().collect()) };
        timeout(ANSWER_WITHIN, whole).await.unwrap_or(Err(NOT_READ))
    }

    /// Reads these, by their names. One that is gone is not among them.
    async fn whole(
        &self,
        namespace: &str,
        names: Vec<String>,
    ) -> Result<BTreeMap<String, BudgetKept>, &'static str> {
        if names.len() > MOST_READ {
            return Err(TOO_MANY);
        }
        let api: Api<Watched<wire::Budgets>> = Api::namespaced(self.client.clone(), namespace);
        let mut whole = BTreeMap::new();
        for name in names {
            let _place = READS.acquire().await.map_err(|_| NOT_READ)?;
            let found = api.get_opt(&name).await.map_err(|error| {
                debug!(error = chain(&error), "Budget of a question not read");
                NOT_READ
            })?;
            whole.extend(found.and_then(read).map(|kept| (name, kept)));
        }
        Ok(whole)
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
            let covering = of_namespace(budgets, &pod.namespace).filter(|kept| kept.may_cover(pod, &labels));
            let parts = covering
                .filter_map(|kept| Some((kept.name.clone(), kept.budget.clone().ok()?, kept.is_bare())));
            parts.collect::<Vec<_>>()
        };
        let bare = candidates.iter().filter(|(.., is_bare)| *is_bare).map(|(name, ..)| name.clone());
        let mut whole = self.whole(&pod.namespace, bare.collect()).await?;
        let candidates = candidates.into_iter().filter_map(|(name, budget, is_bare)| {
            if !is_bare {
                return Some((name, budget));
            }
            let kept = whole.remove(&name).filter(|kept| kept.may_cover(pod, &labels))?;
            Some((name, kept.budget.ok()?))
        });
        let candidates: Vec<(String, Budget)> = candidates.collect();
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
                        return Err(NOT_READ);
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
            let total = wanted.unwrap_or_else(|| as_counted(status));
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

/// Answer where something is missing. That budgets are too large is no reason to let a pod go, whatever the
/// operator has chosen for managers that do not answer.
pub(super) fn unanswered(missing: &'static str) -> Verdict {
    match missing {
        TOO_MANY => busy("its budget", TOO_MANY),
        missing => Verdict::Unready(missing),
    }
}

fn busy(budget: &str, why: &str) -> Verdict {
    let message = format!("podunavailablebudget.policy.kruise.io {budget:?} is forbidden: {why}");
    Verdict::Refused { code: 429, reason: "TooManyRequests", message }
}
