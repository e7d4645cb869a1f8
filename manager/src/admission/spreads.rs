//! Pods that are about to be made get the subset of their WorkloadSpread; those that are about to go give
//! their place back.
//!
//! Every replica answers, by the spread as it stands at the API server. A place is taken by a write of the
//! status at the version it was decided on: of two pods that come at once one is decided anew. Questions of
//! one spread take turns within a replica.
//!
//! A pod that cannot be placed now is refused, and its workload makes it again; a deletion is never refused.

use std::time::Duration;

use berth_base::sent::{Received, Sent};
use berth_proto::{
    crd::{LONGEST_MESSAGE, WorkloadSpread, WorkloadSpreadStatus},
    text::cut,
};
use berth_spread::{Choice, Matched, Question, Spread, choose, inject, release};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::DynamicObject, core::ApiResource};
use serde_json::Value;
use tokio::{sync::watch, time::timeout};
use tracing::debug;

use super::{
    evictions,
    leaver::{LONGEST_NAME, Leaver, controller, leaver, lives},
    lists::Lists,
    locks::{ObjectLocks, TRIES, pause},
    review::{Request, Verdict},
    view::{Bound, View},
};
use crate::{
    budgets::parent,
    reads,
    spreads::{replicas, without_rules},
    store::{Object, Owner},
    telemetry::chain,
    wire::{self, Watched},
};

/// A question is answered within it; the server answers within 4 s.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);

/// A spec that takes more memory than this is not kept as a whole. Most take a few KiB.
const MOST_KEPT: usize = 32 << 10;

/// Bound of all spreads as they are kept here.
pub(super) const BOUND: Bound<SpreadKept> =
    Bound { most: 32 << 20, bytes: |kept| kept.bytes, bare: SpreadKept::bare };
/// Bytes that a spread takes beside its rules, about.
const SPREAD: usize = 1 << 10;

/// A WorkloadSpread as admission has it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SpreadKept {
    pub(super) namespace: String,
    pub(super) name: String,
    /// The spread, or what is wrong with it.
    pub(super) spread: Result<Spread, String>,
    /// It is here without what it puts into pods, which is read when one comes.
    pub(super) is_bare: bool,
    /// Bytes that it takes, about, as far as its size decides how it is kept.
    pub(super) bytes: usize,
}

impl SpreadKept {
    /// The spread that a request is about to store.
    pub(super) fn coming(request: &Request) -> Option<Self> {
        let spec = serde_json::from_value(request.object["spec"].clone()).ok()?;
        let (name, namespace) = (request.object["metadata"]["name"].as_str()?, request.namespace.clone());
        let spread = Spread::parse(&spec);
        Some(Self { namespace, name: name.to_owned(), spread, is_bare: false, bytes: 0 })
    }

    /// The same without what it puts into pods.
    fn bare(self) -> Self {
        // The reason why one cannot be read may quote it.
        let short = |fault: String| cut(&fault, LONGEST_MESSAGE).to_owned();
        Self { spread: self.spread.map(without_rules).map_err(short), is_bare: true, ..self }
    }
}

/// Reads a WorkloadSpread; one whose deletion has begun places nothing. An author may make thousands of the
/// largest size, and every replica has all of them.
pub(super) fn read(object: Watched<wire::Spreads>) -> Option<SpreadKept> {
    let Object::Spread(seen) = object.into_object() else { return None };
    let spread = seen.spec.as_ref().map_err(Clone::clone).and_then(Spread::parse);
    let memory = seen.spec_weight.memory;
    let kept = SpreadKept {
        namespace: seen.namespace,
        name: seen.name,
        spread,
        is_bare: false,
        bytes: SPREAD.saturating_add(memory.min(MOST_KEPT)),
    };
    let kept = if memory > MOST_KEPT { kept.bare() } else { kept };
    Some(kept).filter(|_| !seen.deleting)
}

/// Places for all spreads.
pub(super) struct Placer {
    pub(super) client: Client,
    pub(super) spreads: watch::Receiver<View<SpreadKept>>,
    pub(super) lists: Lists<SpreadKept>,
    pub(super) locks: ObjectLocks<WorkloadSpread>,
}

impl Placer {
    /// Answers to a pod that is about to be made.
    pub(super) async fn place(&self, request: &Request) -> Verdict {
        let answer = async {
            let Some(owner) = controller(&request.object).filter(|_| lives(&request.object)) else {
                return Ok(Verdict::AS_IT_IS);
            };
            let Some(kept) = self.of_owner(&request.namespace, &owner).await? else {
                return Ok(Verdict::AS_IT_IS);
            };
            let (name, keeps) = (kept.name.clone(), !kept.is_bare);
            match self.whole(kept).await? {
                Some(spread) => self.enter(request, &name, &spread, keeps).await,
                None => Ok(Verdict::AS_IT_IS),
            }
        };
        match timeout(ANSWER_WITHIN, answer).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(missing)) => Verdict::Unready(missing),
            Err(_) => Verdict::Unready("the WorkloadSpread of the pod was not read or written in time"),
        }
    }

    /// Gives the place of a pod back that is about to go. Whatever comes of it, the pod goes.
    pub(super) async fn leave(&self, request: &Request) -> Verdict {
        match timeout(ANSWER_WITHIN, self.let_go(request)).await {
            Ok(Ok(verdict)) => return verdict,
            Ok(Err(error)) => debug!(error, "Place of a pod not given back before it goes"),
            Err(_) => debug!("Place of a pod not given back in time"),
        }
        Verdict::AS_IT_IS
    }

    async fn let_go(&self, request: &Request) -> Result<Verdict, &'static str> {
        let evicted = if evictions::is_one(request) { self.evicted(request).await? } else { Value::Null };
        let Some(Leaver { matched, pod, eviction }) = leaver(request, &evicted) else {
            return Ok(Verdict::AS_IT_IS);
        };
        self.give_back(&request.namespace, &matched, &pod).await?;
        Ok(Verdict::Allowed { object: eviction, warnings: Vec::new() })
    }

    async fn evicted(&self, request: &Request) -> Result<Value, &'static str> {
        let resource = ApiResource::erase::<Pod>(&());
        let api: Api<Sent<DynamicObject>> =
            Api::namespaced_with(self.client.clone(), &request.namespace, &resource);
        let pod = reads::read_value(&api, &request.name).await;
        pod.map(Option::unwrap_or_default).map_err(|error| {
            debug!(error, "Pod of an eviction not read");
            "the pod of an eviction could not be read"
        })
    }

    /// Says whether another spread of the namespace is known than this one.
    pub(super) fn has_others(&self, kept: &SpreadKept) -> bool {
        let view = self.spreads.borrow();
        let prefix = format!("{}/", kept.namespace);
        view.listed().is_some_and(|spreads| {
            let of_space = spreads.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            of_space.map(|(_, known)| known).any(|known| known.name != kept.name && known.spread.is_ok())
        })
    }

    /// The spread of a pod's controller, the first by name.
    async fn of_owner(&self, namespace: &str, owner: &Owner) -> Result<Option<SpreadKept>, &'static str> {
        let mut candidates = {
            let view = self.spreads.borrow();
            let spreads = view.listed().ok_or("WorkloadSpreads are not listed yet")?;
            let prefix = format!("{namespace}/");
            let of_space = spreads.range(prefix.clone()..).take_while(|(key, _)| key.starts_with(&prefix));
            let own = of_space.map(|(_, kept)| kept).filter(|kept| may_be(kept, owner));
            own.cloned().collect::<Vec<_>>()
        };
        if candidates.is_empty() {
            // The API server asks because one is for it: the watch may be behind. One that cannot be read
            // hides no other.
            let all = self.lists.of(namespace, list(self.client.clone(), namespace.to_owned())).await?;
            candidates = all.iter().filter(|kept| may_be(kept, owner)).cloned().collect();
        }
        let mut top: Option<Option<Owner>> = None;
        for kept in candidates {
            if is_of(&kept, owner) {
                return Ok(Some(kept));
            }
            // To which Deployment its ReplicaSet belongs.
            let found = match &top {
                Some(top) => top.clone(),
                None => {
                    let read = parent(&self.client, namespace, &owner.name, &owner.uid).await;
                    let read = read.map_err(|_| "the ReplicaSet of the pod could not be read")?;
                    top.insert(read.flatten()).clone()
                }
            };
            if found.is_some_and(|top| is_of(&kept, &top)) {
                return Ok(Some(kept));
            }
        }
        Ok(None)
    }

    /// A spread with what it puts into pods. `None`: it is about another workload by now, or about none.
    async fn whole(&self, kept: SpreadKept) -> Result<Option<Spread>, &'static str> {
        let Ok(known) = kept.spread else { return Ok(None) };
        if !kept.is_bare {
            return Ok(Some(known));
        }
        let api: Api<Sent<WorkloadSpread>> = Api::namespaced(self.client.clone(), &kept.namespace);
        let object = newest(&api, &kept.name).await?;
        let object = object.filter(|object| object.metadata.deletion_timestamp.is_none());
        let spread = object.and_then(|object| Spread::parse(&object.spec).ok());
        Ok(spread.filter(|spread| spread.target == known.target))
    }

    /// Gives a pod its place. `keeps`: the object is small enough to be kept until the next one comes.
    async fn enter(
        &self,
        request: &Request,
        name: &str,
        spread: &Spread,
        keeps: bool,
    ) -> Result<Verdict, &'static str> {
        let pod = &request.object;
        let own = pod["metadata"]["name"].as_str().filter(|name| !name.is_empty());
        // One without a name is known by the identity of this request, until it is seen.
        let entry = own.unwrap_or(&request.uid);
        if entry.len() > LONGEST_NAME {
            return Ok(Verdict::AS_IT_IS);
        }
        let replicas = if spread.is_by_share() {
            replicas(&self.client, &request.namespace, &spread.target).await.map_err(|error| {
                debug!(error, "Replicas not read");
                "the replicas of the workload could not be read"
            })?
        } else {
            0
        };
        let question =
            Question { pod: entry, ordinal: own.and_then(ordinal), replicas, now: Timestamp::now() };
        let matched = |at: usize| Matched {
            name: name.to_owned(),
            subset: spread.subsets.get(at).map(|subset| subset.name.clone()).unwrap_or_default(),
            uid: own.is_none().then(|| request.uid.clone()),
        };
        let placed = |at: usize| {
            let mut pod = pod.clone();
            let put = spread.subsets.get(at).map_or(Ok(()), |subset| inject(&mut pod, subset, &matched(at)));
            match put {
                Ok(()) => Verdict::Allowed { object: Some(pod), warnings: Vec::new() },
                Err(fault) => Verdict::invalid(format!("WorkloadSpread {name:?}: {fault}")),
            }
        };
        if spread.is_unlimited() {
            return Ok(placed(0));
        }
        let api: Api<Sent<WorkloadSpread>> = Api::namespaced(self.client.clone(), &request.namespace);
        let turn = self.locks.of(&format!("{}/{name}", request.namespace));
        let mut known = turn.lock().await;
        for tried in 0..TRIES {
            let cached = known.take();
            let is_newest = cached.is_none();
            let object = match cached {
                Some(object) => object,
                None => match newest(&api, name).await? {
                    Some(object) => object,
                    None => return Ok(Verdict::AS_IT_IS),
                },
            };
            let empty = WorkloadSpreadStatus::default();
            match choose(spread, object.status.as_ref().unwrap_or(&empty), &question) {
                // What this replica wrote last may have been written over.
                Choice::Nowhere | Choice::Crowded | Choice::Take(_) if !is_newest => {}
                Choice::Take(at) => return Ok(placed(at)),
                Choice::Nowhere => return Ok(Verdict::AS_IT_IS),
                Choice::Crowded => {
                    let message = format!("WorkloadSpread {name:?} has 2000 pods on their way; try again");
                    return Ok(Verdict::Refused { code: 429, reason: "TooManyRequests", message });
                }
                Choice::Enter(at, next) => {
                    let placed = placed(at);
                    // A pod that is not let in takes no place.
                    if request.dry_run || matches!(placed, Verdict::Refused { .. }) {
                        return Ok(placed);
                    }
                    match write(&api, name, object, *next).await? {
                        Written::Done(object) => {
                            *known = object.filter(|_| keeps).map(|object| *object);
                            return Ok(placed);
                        }
                        Written::Again => pause(tried).await,
                        Written::Gone => return Ok(Verdict::AS_IT_IS),
                    }
                }
            }
        }
        Err("many pods of the WorkloadSpread come at once")
    }

    async fn give_back(&self, namespace: &str, matched: &Matched, pod: &str) -> Result<(), &'static str> {
        let kept = {
            let view = self.spreads.borrow();
            let kept = view.get(&format!("{namespace}/{}", matched.name));
            kept.and_then(|kept| Some((kept.spread.clone().ok()?, !kept.is_bare)))
        };
        let Some((spread, keeps)) = kept else { return Ok(()) };
        let api: Api<Sent<WorkloadSpread>> = Api::namespaced(self.client.clone(), namespace);
        let turn = self.locks.of(&format!("{namespace}/{}", matched.name));
        let mut known = turn.lock().await;
        for tried in 0..TRIES {
            let object = match known.take() {
                Some(object) => object,
                None => match newest(&api, &matched.name).await? {
                    Some(object) => object,
                    None => return Ok(()),
                },
            };
            let Some(status) = &object.status else { return Ok(()) };
            let place = (matched.subset.as_str(), pod);
            let Some(next) = release(&spread, status, place, Timestamp::now()) else { return Ok(()) };
            match write(&api, &matched.name, object, next).await? {
                Written::Done(object) => {
                    *known = object.filter(|_| keeps).map(|object| *object);
                    return Ok(());
                }
                Written::Again => pause(tried).await,
                Written::Gone => return Ok(()),
            }
        }
        Err("many pods of the WorkloadSpread go at once")
    }
}

async fn list(client: Client, namespace: String) -> Result<Vec<SpreadKept>, &'static str> {
    let api: Api<Watched<wire::Spreads>> = Api::namespaced(client, &namespace);
    reads::list(&api, read).await.map_err(|_| "WorkloadSpreads could not be read")
}

/// The spread as the API server has it.
async fn newest(api: &Api<Sent<WorkloadSpread>>, name: &str) -> Result<Option<WorkloadSpread>, &'static str> {
    let object = reads::read(api, name).await.map_err(|error| {
        debug!(error, "WorkloadSpread not read");
        "the WorkloadSpread could not be read"
    })?;
    Ok(object.map(reads::kept))
}

/// End of a write.
enum Written {
    /// The spread as it is kept; one that is set aside by now is read anew.
    Done(Option<Box<WorkloadSpread>>),
    /// Somebody else was first.
    Again,
    Gone,
}

async fn write(
    api: &Api<Sent<WorkloadSpread>>,
    name: &str,
    object: WorkloadSpread,
    status: WorkloadSpreadStatus,
) -> Result<Written, &'static str> {
    let next = WorkloadSpread { status: Some(status), ..object };
    match reads::replace_status(api, name, &next).await {
        Ok(written) => Ok(Written::Done(written.read().ok().map(reads::kept).map(Box::new))),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Written::Again),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Written::Gone),
        Err(error) => {
            debug!(error = chain(&error), "Status of a WorkloadSpread not written");
            Err("the status of the WorkloadSpread could not be written")
        }
    }
}

fn may_be(kept: &SpreadKept, owner: &Owner) -> bool {
    let may_have = |spread: &Spread| spread.target.may_have(&owner.api_version, &owner.kind, &owner.name);
    is_of(kept, owner) || kept.spread.as_ref().is_ok_and(may_have)
}

/// Tells whether it can be carried out, and is about this workload.
fn is_of(kept: &SpreadKept, workload: &Owner) -> bool {
    let Owner { api_version, kind, name, .. } = workload;
    kept.spread.as_ref().is_ok_and(|spread| spread.target.is(api_version, kind, name))
}

/// The number at the end of a name.
fn ordinal(name: &str) -> Option<i64> {
    name.rsplit_once('-').and_then(|(_, number)| number.parse().ok())
}

#[cfg(test)]
mod tests;
