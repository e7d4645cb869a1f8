//! The pure core for requests, to recreate containers and to update pods: objects in, writes that are owed
//! out.
//!
//! ```text
//!  watches ── apply / remove / pod_changed / list_ended ──▶ RequestIndex ──▶ Vec<Effect> ──▶ writer
//!  clock ──── time_passed, at next_deadline ─────────▶
//!  lease ──── leads: everything, once more ───────────▶
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients: `now` is an argument, a write
//! is a value.
//!
//! The life of a request, for the manager:
//!
//! ```text
//!   Unassigned ──Assign──▶ Assigned ──(the agent ends it)──▶ Over
//!        │                    │                                ▲
//!        └───────Fail─────────┴────────────Fail────────────────┘
//! ```
//!
//! - `kind`: which of the two kinds a request is of. They are assigned and ended alike; but recreating is
//!   about instances, and an update about a pod, whether its containers have ever run or not;
//! - `spec`, `status`: what both kinds say in common. Is what is asked for possible at all;
//! - `assignment`: which agent, which instances; what is missing is waited for, because pods come by a watch
//!   of their own. `unfit`: which pods and containers nobody can be asked for;
//! - `permit`: a pod that a budget covers is not recreated before its budget lets it;
//! - `deadline`: ends that no agent can write;
//! - `ended`: Event of a request that has ended;
//! - `replaced`: instances known to be history, so that a pod seen late is not taken for news.
//!
//! Invariants:
//! - nothing is decided before pods, nodes and requests of the kind have been listed once, completely; of the
//!   two kinds of requests neither waits for the other, which may not be installed;
//! - a write is asked for once for each version of a request, and again only if it was lost (`lost`) or
//!   everything is asked for (`leads`); what became of it is seen in the next version of the object;
//! - every write names the version it was decided on, so a decision made on old news changes nothing;
//! - a request that ended is never written to. Deleting it after its time is its agent's job; a request to
//!   recreate that is there some seconds later, as its node is gone or never was, the manager deletes;
//! - an end is told once, by who leads and has seen the request before its end;
//! - what is remembered is bounded by what exists, but for the instances of deleted requests, which are
//!   bounded by number and time.

mod assignment;
mod budgets;
mod deadline;
mod ended;
mod failure;
mod kind;
mod lookup;
mod model;
mod patch;
mod permit;
mod replaced;
mod spec;
mod status;
mod unfit;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use self::{
    assignment::Decision,
    lookup::Requests,
    model::{Request, Stage, Wanted},
    permit::{Permit, Waiting},
    replaced::Replaced,
    spec::Spec,
    status::Status,
};
pub use self::{
    failure::{Failure, FailureReason},
    kind::{RequestId, RequestKind},
    patch::{Assignment, RequestAct, RequestStatus, StatusPatch},
    permit::{Ask, Reply, Said},
};
pub(crate) use self::{status::under_way, unfit::Unfit};
use crate::{
    effect::Effect,
    index::Index,
    metrics::Metrics,
    notes::ended::is_news,
    store::{CustomSeen, Key, Kind, Now, Object, Pod, PodChange, Pods, Texts, Views},
    time::later,
    write::{Target, Write},
};

/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);

/// Index of requests: the manager's knowledge of them, and the writes that follow from it.
#[derive(Debug, Default)]
pub struct RequestIndex {
    views: Views,
    /// Names of nodes, with the number of the list that showed each last.
    nodes: HashMap<Arc<str>, u32>,
    requests: Requests,
    replaced: Replaced,
    texts: Texts,
    /// Budgets are asked before a pod is recreated.
    asks_budgets: bool,
    /// Since when this replica may write, and ask.
    leads: Option<Timestamp>,
    waiting: Waiting,
    /// Patches and questions that are owed since the last [`Index::settle`].
    owed: Vec<Effect>,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Nodes.
    pub nodes: usize,
    /// Requests to recreate containers, ended ones included.
    pub requests: usize,
    /// Requests to update pods, ended ones included.
    pub updates: usize,
    /// Requests of both kinds that wait for an agent.
    pub unassigned: usize,
    /// Requests of both kinds that an agent has.
    pub assigned: usize,
}

impl Index for RequestIndex {
    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Pod, Kind::Node, Kind::Request, Kind::Update, Kind::Budget]
    }

    fn views(&mut self) -> &mut Views {
        &mut self.views
    }

    fn pod_changed(&mut self, PodChange { key, before, after }: &PodChange, pods: &Pods, now: Now) {
        let same = |before: &Pod, after: &Pod| {
            before.uid == after.uid
                && before.node == after.node
                && before.stage == after.stage
                && before.runs_as(after)
        };
        if !before.as_ref().zip(after.as_ref()).is_some_and(|(before, after)| same(before, after)) {
            self.evaluate_all(self.requests.of_pod(key), pods, now);
        }
    }

    fn apply(&mut self, object: &Object, pods: &Pods, now: Now) {
        match object {
            Object::Node(seen) => {
                let name = self.texts.one(&seen.name);
                if self.nodes.insert(name.clone(), self.views.list(Kind::Node)).is_none() {
                    self.evaluate_all(self.requests.of_node(&name), pods, now);
                }
            }
            Object::Request(seen) => self.apply_request(seen, pods, now),
            Object::Update(seen) => self.apply_request(seen, pods, now),
            Object::Budget(seen) => self.budget_changed(seen),
            // It is told of no other kinds.
            _ => {}
        }
    }

    fn remove(&mut self, kind: Kind, namespace: &str, name: &str, pods: &Pods, now: Now) {
        match kind {
            Kind::Node => {
                self.nodes.remove(name);
                self.evaluate_all(self.requests.of_node(name), pods, now);
            }
            Kind::Request => self.remove_request(RequestKind::Recreate, namespace, name, now),
            Kind::Update => self.remove_request(RequestKind::Update, namespace, name, now),
            _ => {}
        }
    }

    fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        match kind {
            Kind::Request => self.requests.vanished(RequestKind::Recreate, list),
            Kind::Update => self.requests.vanished(RequestKind::Update, list),
            Kind::Node => {
                let gone = self.nodes.iter().filter(|(_, shown)| **shown != list);
                gone.map(|(name, _)| Key::of_cluster(name)).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Requests that waited for the list, or for doubts to end, wait no longer.
    fn list_ended(&mut self, _: bool, pods: &Pods, now: Now) {
        self.evaluate_all(self.requests.unfinished(), pods, now);
        self.evaluate_all(self.requests.expiring(), pods, now);
    }

    fn time_passed(&mut self, pods: &Pods, now: Now) {
        let due = self.requests.due(now.instant);
        self.evaluate_all(due, pods, now);
    }

    fn leads(&mut self, pods: &Pods, now: Now) {
        self.leads = Some(now.wall);
        let mut ids = self.requests.unfinished();
        ids.extend(self.requests.expiring());
        for id in &ids {
            if let Some(request) = self.requests.get_mut(id) {
                request.asked = None;
                request.permit = Permit::default();
            }
        }
        self.waiting = Waiting::default();
        self.evaluate_all(ids, pods, now);
    }

    /// The writer drops what is owed meanwhile; whoever leads next owes it anew.
    fn rests(&mut self, pods: &Pods, now: Now) {
        self.leads = None;
        self.time_passed(pods, now);
    }

    fn lost(&mut self, target: &Target, now: Now) {
        let kind = if target.kind == Kind::Update { RequestKind::Update } else { RequestKind::Recreate };
        let id = RequestId { kind, key: target.key.clone() };
        if let Some(request) = self.requests.get_mut(&id) {
            request.asked = None;
            self.requests.set_timer(&id, Some(later(now.instant, LOST_PAUSE)));
        }
    }

    fn next_deadline(&self) -> Option<Instant> {
        self.requests.next_timer()
    }

    fn settle(&mut self, _: Now) -> Vec<Effect> {
        std::mem::take(&mut self.owed)
    }

    fn count(&self, metrics: &Metrics) {
        metrics.requests(self.size());
    }
}

impl RequestIndex {
    fn apply_request<S: Spec, T: Status>(&mut self, seen: &CustomSeen<S, T>, pods: &Pods, now: Now) {
        let id = RequestId { kind: T::KIND, key: self.texts.key(&seen.namespace, &seen.name) };
        let before = self.take(&id);
        match &before {
            Some(before) if *before.uid == *seen.uid => self.replaced.remove(&before.replaced),
            Some(before) => self.replaced.depart(&before.replaced, now.instant),
            None => {}
        }
        let before = before.filter(|before| *before.uid == *seen.uid);
        let request = Request::new(seen, before.as_ref(), now, &mut self.texts);
        self.replaced.add(&request.replaced);
        if request.ended && before.is_some_and(|before| !before.ended) {
            self.tell_end(seen, &id);
        }
        if let Some(budget) = request.waits_for() {
            self.waiting.add(budget, request.seen.instant, &id);
        }
        self.requests.insert(id.clone(), request, self.views.list(id.kind.object()));
        self.evaluate_all(vec![id], pods, now);
    }

    /// Says once that a request has ended, and how.
    fn tell_end<S: Spec, T: Status>(&mut self, seen: &CustomSeen<S, T>, id: &RequestId) {
        let ended = seen.status.as_ref().ok().and_then(Status::ended);
        if is_news(self.leads, ended) {
            self.owed.extend(ended::note(seen, id.key.clone()).map(Effect::Note));
        }
    }

    fn remove_request(&mut self, kind: RequestKind, namespace: &str, name: &str, now: Now) {
        let id = RequestId { kind, key: self.texts.key(namespace, name) };
        if let Some(request) = self.take(&id) {
            self.replaced.depart(&request.replaced, now.instant);
        }
    }

    /// Forgets a request.
    fn take(&mut self, id: &RequestId) -> Option<Request> {
        let request = self.requests.remove(id)?;
        if let Some(budget) = request.waits_for() {
            self.waiting.remove(budget, request.seen.instant, id);
        }
        Some(request)
    }

    /// Returns how much is remembered.
    pub fn size(&self) -> Size {
        let assigned = self.requests.assigned();
        Size {
            nodes: self.nodes.len(),
            requests: self.requests.count(RequestKind::Recreate),
            updates: self.requests.count(RequestKind::Update),
            unassigned: self.requests.unfinished_count() - assigned,
            assigned,
        }
    }

    /// Since when requests can be decided; `None` while they can't. A list of them comes in any order, so one
    /// may be seen before the one it follows: nothing is decided before its end.
    fn usable_since(&self, kind: RequestKind) -> Option<Instant> {
        if self.views.is_listing(kind.object()) { None } else { self.views.complete_since(kind.decided_by()) }
    }

    fn evaluate_all(&mut self, ids: Vec<RequestId>, pods: &Pods, now: Now) {
        for id in ids {
            let owed = self.evaluate(id, pods, now);
            self.owed.extend(owed);
        }
    }

    /// Decides anew on one request, and when to look at it again. Returns what is owed.
    fn evaluate(&mut self, id: RequestId, pods: &Pods, now: Now) -> Option<Effect> {
        self.requests.set_timer(&id, None);
        let usable_since = self.usable_since(id.kind)?;
        let request = self.requests.get_mut(&id)?;
        let pod = |name: &Arc<str>| pods.get(&id.key.namespace, name).map(|pod| &**pod);
        let decision = match &mut request.stage {
            Stage::Over => match request.expires {
                None => Decision::Nothing,
                Some(at) if now.instant < at => Decision::Wait(at),
                Some(_) => Decision::RequestAct(RequestAct::Delete),
            },
            Stage::Unassigned(wanted) => {
                let facts = assignment::Facts {
                    pod: pod(&wanted.pod),
                    since: request.seen.instant.max(usable_since),
                    doubt: self.views.doubt(Kind::Pod, now.instant),
                };
                let decision = assignment::decide(&id, wanted, &facts, &mut self.replaced, now);
                if !self.asks_budgets || id.kind != RequestKind::Recreate {
                    decision
                } else if self.leads.is_none() {
                    // A permit is only for who assigns.
                    Decision::Nothing
                } else {
                    let waited = request.permit.waits_for().cloned();
                    let decision = assignment::with_permit(decision, wanted, &mut request.permit, now);
                    if let Some(budget) = waited.filter(|_| request.permit.waits_for().is_none()) {
                        self.waiting.remove(&budget, request.seen.instant, &id);
                    }
                    decision
                }
            }
            Stage::Assigned(assigned) => {
                let facts = deadline::Facts {
                    pod: pod(&assigned.pod),
                    node: self.nodes.contains_key(&assigned.assignment.node),
                    since: usable_since,
                    pods_doubt: self.views.doubt(Kind::Pod, now.instant),
                    nodes_doubt: self.views.doubt(Kind::Node, now.instant),
                };
                deadline::decide(id.kind, assigned, &facts, now)
            }
        };
        match decision {
            Decision::Nothing => None,
            Decision::Wait(until) => {
                self.requests.set_timer(&id, Some(until));
                None
            }
            Decision::Ask(pod_uid, until) => {
                let Stage::Unassigned(Wanted { pod, .. }) = &request.stage else { return None };
                let ask = Ask { uid: request.uid.clone(), pod: pod.to_string(), pod_uid, id: id.clone() };
                self.requests.set_timer(&id, Some(until));
                Some(Effect::Ask(ask))
            }
            Decision::Say(why, until) => {
                let patch = owe(id.clone(), request, RequestAct::Wait(why), now);
                self.requests.set_timer(&id, Some(until));
                patch
            }
            Decision::RequestAct(write) => owe(id, request, write, now),
        }
    }
}

/// A write, unless it was asked for already.
fn owe(id: RequestId, request: &mut Request, write: RequestAct, now: Now) -> Option<Effect> {
    let asked = (request.resource_version.clone(), write);
    if request.asked.as_ref() == Some(&asked) {
        return None;
    }
    request.asked = Some(asked.clone());
    let (resource_version, write) = asked;
    let by = match write {
        RequestAct::Assign(_) => request.permit.stands_until(),
        _ => None,
    };
    let patch = StatusPatch { uid: request.uid.clone(), id, resource_version, write, at: now.wall, by };
    Some(Effect::Write(Write::Request(patch)))
}
