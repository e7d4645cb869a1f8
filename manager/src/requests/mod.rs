//! The pure core for requests, to recreate containers and to update pods: objects in, writes that are owed
//! out.
//!
//! ```text
//!  watches ── apply / delete / list_begins / list_ends / view_broke ──▶ RequestIndex ──▶ Vec<StatusPatch> ──▶ writer
//!  clock ──── due, asked for at next_deadline ──────────────────────▶
//!  lease ──── owed: everything, once more ──────────────────────────▶
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
//! - `kind`: which of the two kinds a request is of. They are assigned and ended alike; but recreating is about instances, and
//!   an update about a pod, whether its containers have ever run or not;
//! - `spec`, `status`: what both kinds say in common. Is what is asked for possible at all;
//! - `assignment`: which agent, which instances; what is missing is waited for, because pods come by a watch
//!   of their own;
//! - `deadline`: ends that no agent can write;
//! - `replaced`: instances known to be history, so that a pod seen late is not taken for news.
//!
//! Invariants:
//! - nothing is decided before pods, nodes and requests of the kind have been listed once, completely; of the two kinds of
//!   requests neither waits for the other, which may not be installed;
//! - a write is asked for once for each version of a request, and again only if it was lost ([`RequestIndex::lost`]) or everything
//!   is asked for ([`RequestIndex::owed`]); what became of it is seen in the next version of the object;
//! - every write names the version it was decided on, so a decision made on old news changes nothing;
//! - a request that ended is never written to. Deleting it after its time is its agent's job, never the
//!   manager's: one that ended on a node that is gone stays until somebody deletes it;
//! - what is remembered is bounded by what exists, but for the instances of deleted requests, which are
//!   bounded by number and time.

mod assignment;
mod container_id;
mod deadline;
mod failure;
mod kind;
mod lookup;
mod model;
mod patch;
mod replaced;
mod spec;
mod status;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    assignment::Decision,
    lookup::Requests,
    model::{Pod, Request, Stage},
    replaced::Replaced,
    spec::Spec,
    status::Status,
};
pub use self::{
    failure::{Failure, Reason},
    kind::{RequestId, RequestKind},
    patch::{Assignment, RequestAct, RequestStatus, StatusPatch},
};
use crate::{
    seen::{Key, Kind, Now, Object, RequestSeen, Texts, Views},
    time::later,
};

/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);

/// RequestIndex of requests: the manager's knowledge of them, and the writes that follow from it.
#[derive(Debug, Default)]
pub struct RequestIndex {
    views: Views,
    /// With the number of the list that showed it last.
    pods: HashMap<Key, (Pod, u32)>,
    nodes: HashMap<Arc<str>, u32>,
    requests: Requests,
    replaced: Replaced,
    texts: Texts,
}

/// How much is remembered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Pods.
    pub pods: usize,
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

impl RequestIndex {
    /// An object is as given. What requests are not decided by is passed over.
    pub fn apply(&mut self, object: Object, now: Now) -> Vec<StatusPatch> {
        match object {
            Object::Pod(seen) => {
                let (list, key) = (self.views.list(Kind::Pod), self.texts.key(&seen.namespace, &seen.name));
                let pod = Pod::new(seen, &mut self.texts);
                if let Some((known, shown)) = self.pods.get_mut(&key)
                    && *known == pod
                {
                    *shown = list;
                    return Vec::new();
                }
                let affected = self.requests.of_pod(&key);
                self.pods.insert(key, (pod, list));
                self.evaluate_all(affected, now)
            }
            Object::Node(seen) => {
                let name = self.texts.one(&seen.name);
                if self.nodes.insert(name.clone(), self.views.list(Kind::Node)).is_some() {
                    return Vec::new();
                }
                self.evaluate_all(self.requests.of_node(&name), now)
            }
            Object::Request(seen) => self.apply_request(&seen, now),
            Object::Update(seen) => self.apply_request(&seen, now),
            Object::NodeImage(_)
            | Object::ImagePullJob(_)
            | Object::PodProbeMarker(_)
            | Object::NodePodProbe(_) => Vec::new(),
        }
    }

    fn apply_request<S: Spec, T: Status>(&mut self, seen: &RequestSeen<S, T>, now: Now) -> Vec<StatusPatch> {
        let id = RequestId { kind: T::KIND, key: self.texts.key(&seen.namespace, &seen.name) };
        let before = self.requests.remove(&id);
        match &before {
            Some(before) if *before.uid == *seen.uid => self.replaced.remove(&before.replaced),
            Some(before) => self.replaced.depart(&before.replaced, now.instant),
            None => {}
        }
        let before = before.filter(|before| *before.uid == *seen.uid);
        let request = Request::new(seen, before.as_ref(), now, &mut self.texts);
        self.replaced.add(&request.replaced);
        self.requests.insert(id.clone(), request, self.views.list(id.kind.object()));
        self.evaluate_all(vec![id], now)
    }

    /// An object is gone. `namespace` is empty for nodes.
    pub fn delete(&mut self, kind: Kind, namespace: &str, name: &str, now: Now) -> Vec<StatusPatch> {
        match kind {
            Kind::Pod => {
                let key = self.texts.key(namespace, name);
                self.pods.remove(&key);
                self.evaluate_all(self.requests.of_pod(&key), now)
            }
            Kind::Node => {
                self.nodes.remove(name);
                self.evaluate_all(self.requests.of_node(name), now)
            }
            Kind::Request => self.delete_request(RequestKind::Recreate, namespace, name, now),
            Kind::Update => self.delete_request(RequestKind::Update, namespace, name, now),
            Kind::NodeImage | Kind::ImagePullJob | Kind::PodProbeMarker | Kind::NodePodProbe => Vec::new(),
        }
    }

    fn delete_request(
        &mut self,
        kind: RequestKind,
        namespace: &str,
        name: &str,
        now: Now,
    ) -> Vec<StatusPatch> {
        let id = RequestId { kind, key: self.texts.key(namespace, name) };
        if let Some(request) = self.requests.remove(&id) {
            self.replaced.depart(&request.replaced, now.instant);
        }
        Vec::new()
    }

    /// All objects of a kind are about to be applied, and [`RequestIndex::list_ends`] says when that was the last one.
    pub fn list_begins(&mut self, kind: Kind, now: Now) {
        self.views.begins(kind, now.instant);
    }

    /// Ends a list. Objects that it has not shown are gone.
    pub fn list_ends(&mut self, kind: Kind, now: Now) -> Vec<StatusPatch> {
        self.views.ends(kind, now.instant);
        let list = self.views.list(kind);
        let gone = match kind {
            Kind::Pod => vanished(&self.pods, |(_, shown)| *shown != list),
            Kind::Request => self.requests.vanished(RequestKind::Recreate, list),
            Kind::Update => self.requests.vanished(RequestKind::Update, list),
            Kind::Node => {
                let gone = vanished(&self.nodes, |shown| *shown != list);
                gone.into_iter().map(|name| Key { namespace: "".into(), name }).collect()
            }
            Kind::NodeImage | Kind::ImagePullJob | Kind::PodProbeMarker | Kind::NodePodProbe => {
                return Vec::new();
            }
        };
        let mut patches = Vec::new();
        for key in gone {
            patches.extend(self.delete(kind, &key.namespace, &key.name, now));
        }
        // What waited for the list, or for doubts to end, waits no longer.
        patches.extend(self.evaluate_all(self.requests.unfinished(), now));
        patches
    }

    /// The watch of a kind broke: until it has recovered, an absence proves nothing.
    pub fn view_broke(&mut self, kind: Kind, now: Now) {
        self.views.broke(kind, now.instant);
    }

    /// Gives the writes that are owed because time has passed.
    pub fn due(&mut self, now: Now) -> Vec<StatusPatch> {
        let due = self.requests.due(now.instant);
        self.evaluate_all(due, now)
    }

    /// Everything that is owed, whatever was asked for before: for a manager that may write from now on.
    pub fn owed(&mut self, now: Now) -> Vec<StatusPatch> {
        let ids = self.requests.unfinished();
        for id in &ids {
            if let Some(request) = self.requests.get_mut(id) {
                request.asked = None;
            }
        }
        self.evaluate_all(ids, now)
    }

    /// A write could not even be queued; it is owed again soon.
    pub fn lost(&mut self, id: &RequestId, now: Now) {
        if let Some(request) = self.requests.get_mut(id) {
            request.asked = None;
            self.requests.set_timer(id, Some(later(now.instant, LOST_PAUSE)));
        }
    }

    /// When to call [`RequestIndex::due`], even if nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.requests.next_timer()
    }

    /// How much is remembered.
    pub fn size(&self) -> Size {
        let assigned = self.requests.assigned();
        Size {
            pods: self.pods.len(),
            nodes: self.nodes.len(),
            requests: self.requests.count(RequestKind::Recreate),
            updates: self.requests.count(RequestKind::Update),
            unassigned: self.requests.unfinished_count() - assigned,
            assigned,
        }
    }

    // === decisions ===

    /// Since when requests can be decided; `None` while they can't. A list of them comes in any order, so one may be seen
    /// before the one it follows: nothing is decided before its end.
    fn usable_since(&self, kind: RequestKind) -> Option<Instant> {
        if self.views.is_listing(kind.object()) { None } else { self.views.complete_since(kind.decided_by()) }
    }

    fn evaluate_all(&mut self, ids: Vec<RequestId>, now: Now) -> Vec<StatusPatch> {
        ids.into_iter().filter_map(|id| self.evaluate(id, now)).collect()
    }

    fn evaluate(&mut self, id: RequestId, now: Now) -> Option<StatusPatch> {
        self.requests.set_timer(&id, None);
        let usable_since = self.usable_since(id.kind)?;
        let request = self.requests.get_mut(&id)?;
        let pod = |name: &Arc<str>| self.pods.get(&id.pod(name)).map(|(pod, _)| pod);
        let decision = match &mut request.stage {
            Stage::Over => return None,
            Stage::Unassigned(wanted) => {
                let facts = assignment::Facts {
                    pod: pod(&wanted.pod),
                    since: request.seen.instant.max(usable_since),
                    doubt: self.views.doubt(Kind::Pod),
                };
                assignment::decide(&id, wanted, &facts, &mut self.replaced, now)
            }
            Stage::Assigned(assigned) => {
                let facts = deadline::Facts {
                    pod: pod(&assigned.pod),
                    node: self.nodes.contains_key(&assigned.assignment.node),
                    since: usable_since,
                    pods_doubt: self.views.doubt(Kind::Pod),
                    nodes_doubt: self.views.doubt(Kind::Node),
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
            Decision::RequestAct(write) => {
                let asked = (request.resource_version.clone(), write);
                if request.asked.as_ref() == Some(&asked) {
                    return None;
                }
                request.asked = Some(asked.clone());
                let (resource_version, write) = asked;
                Some(StatusPatch { uid: request.uid.clone(), id, resource_version, write, at: now.wall })
            }
        }
    }
}

fn vanished<K: Clone, T>(objects: &HashMap<K, T>, is_gone: impl Fn(&T) -> bool) -> Vec<K> {
    objects.iter().filter(|(_, object)| is_gone(object)).map(|(key, _)| key.clone()).collect()
}
