//! The pure core for ContainerRecreateRequests: objects in, writes that are owed out.
//!
//! ```text
//!  watches ── apply / delete / list_begins / list_ends / view_broke ──▶ Index ──▶ Vec<StatusPatch> ──▶ writer
//!  clock ──── due, asked for at next_deadline ──────────────────────▶
//!  lease ──── owed: everything, once more ──────────────────────────▶
//! ```
//!
//! This module never reads a clock, never awaits and knows nothing of clients: `now` is an argument, a write is a value.
//!
//! The life of a request, for the manager:
//!
//! ```text
//!   Unassigned ──Assign──▶ Assigned ──(the agent ends it)──▶ Over
//!        │                    │                                ▲
//!        └───────Fail─────────┴────────────Fail────────────────┘
//! ```
//!
//! - `assignment`: which agent, which instances; what is missing is waited for, because pods come by a watch of their own;
//! - `deadline`: ends that no agent can write;
//! - `replaced`: instances known to be history, so that a pod seen late is not taken for news;
//! - `spec`: is what is asked for possible at all.
//!
//! Invariants:
//! - nothing is decided before pods, nodes and requests have been listed once, completely;
//! - a write is asked for once for each version of a request, and again only if it was lost ([`Index::lost`]) or everything
//!   is asked for ([`Index::owed`]); what became of it is seen in the next version of the object;
//! - every write names the version it was decided on, so a decision made on old news changes nothing;
//! - a request that ended is never written to. Deleting it after its time is its agent's job, never the manager's: one
//!   that ended on a node that is gone stays until somebody deletes it;
//! - what is remembered is bounded by what exists, but for the instances of deleted requests, which are bounded by number
//!   and time.

mod assignment;
mod container_id;
mod deadline;
mod failure;
mod model;
mod patch;
mod replaced;
mod requests;
mod spec;

#[cfg(test)]
mod tests;

use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};

use self::{
    assignment::Decision,
    model::{Pod, Request, Stage},
    replaced::Replaced,
    requests::Requests,
};
pub use self::{
    failure::{Failure, Reason},
    patch::{Assignment, StatusPatch, Write},
};
use crate::seen::{Key, Kind, Now, Object, Texts, Views};

/// A write that found no room is owed again after it.
const LOST_PAUSE: Duration = Duration::from_secs(5);

/// The kinds by which requests are decided.
pub(crate) const KINDS: &[Kind] = &[Kind::Pod, Kind::Node, Kind::Request];

/// What the manager knows, and what follows from it.
#[derive(Debug)]
pub struct Index {
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
    /// Requests, ended ones included.
    pub requests: usize,
    /// Requests that wait for an agent.
    pub unassigned: usize,
    /// Requests that an agent has.
    pub assigned: usize,
}

impl Default for Index {
    fn default() -> Self {
        Self {
            views: Views::of(KINDS),
            pods: HashMap::new(),
            nodes: HashMap::new(),
            requests: Requests::default(),
            replaced: Replaced::default(),
            texts: Texts::default(),
        }
    }
}

impl Index {
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
            Object::Request(seen) => {
                let key = self.texts.key(&seen.namespace, &seen.name);
                let before = self.requests.remove(&key);
                match &before {
                    Some(before) if *before.uid == *seen.uid => self.replaced.remove(&before.replaced),
                    Some(before) => self.replaced.depart(&before.replaced, now.instant),
                    None => {}
                }
                let before = before.filter(|before| *before.uid == *seen.uid);
                let request = Request::new(*seen, before.as_ref(), now, &mut self.texts);
                self.replaced.add(&request.replaced);
                self.requests.insert(key.clone(), request, self.views.list(Kind::Request));
                self.evaluate_all(vec![key], now)
            }
            Object::NodeImage(_) | Object::ImagePullJob(_) => Vec::new(),
        }
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
            Kind::Request => {
                let key = self.texts.key(namespace, name);
                if let Some(request) = self.requests.remove(&key) {
                    self.replaced.depart(&request.replaced, now.instant);
                }
                Vec::new()
            }
            Kind::NodeImage | Kind::ImagePullJob => Vec::new(),
        }
    }

    /// All objects of a kind are about to be applied, and [`Index::list_ends`] says when that was the last one.
    pub fn list_begins(&mut self, kind: Kind, now: Now) {
        self.views.begins(kind, now.instant);
    }

    /// What the list has not shown is gone.
    pub fn list_ends(&mut self, kind: Kind, now: Now) -> Vec<StatusPatch> {
        self.views.ends(kind, now.instant);
        let list = self.views.list(kind);
        let gone = match kind {
            Kind::Pod => vanished(&self.pods, |(_, shown)| *shown != list),
            Kind::Request => self.requests.vanished(list),
            Kind::Node => {
                let gone = vanished(&self.nodes, |shown| *shown != list);
                gone.into_iter().map(|name| Key { namespace: "".into(), name }).collect()
            }
            Kind::NodeImage | Kind::ImagePullJob => return Vec::new(),
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

    /// What is owed because time has passed.
    pub fn due(&mut self, now: Now) -> Vec<StatusPatch> {
        let due = self.requests.due(now.instant);
        self.evaluate_all(due, now)
    }

    /// Everything that is owed, whatever was asked for before: for a manager that may write from now on.
    pub fn owed(&mut self, now: Now) -> Vec<StatusPatch> {
        let keys = self.requests.unfinished();
        for key in &keys {
            if let Some(request) = self.requests.get_mut(key) {
                request.asked = None;
            }
        }
        self.evaluate_all(keys, now)
    }

    /// A write could not even be queued; it is owed again soon.
    pub fn lost(&mut self, key: &Key, now: Now) {
        if let Some(request) = self.requests.get_mut(key) {
            request.asked = None;
            self.requests.set_timer(key, Some(now.instant + LOST_PAUSE));
        }
    }

    /// When to call [`Index::due`], even if nothing happens.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.requests.next_timer()
    }

    /// How much is remembered.
    pub fn size(&self) -> Size {
        let assigned = self.requests.assigned();
        Size {
            pods: self.pods.len(),
            nodes: self.nodes.len(),
            requests: self.requests.len(),
            unassigned: self.requests.unfinished_count() - assigned,
            assigned,
        }
    }

    // === decisions ===

    /// Since when decisions can be made; `None` while they can't. A list of requests comes in any order, so a request may
    /// be seen before the one it follows: nothing is decided before its end.
    fn usable_since(&self) -> Option<Instant> {
        if self.views.is_listing(Kind::Request) { None } else { self.views.complete_since() }
    }

    fn evaluate_all(&mut self, keys: Vec<Key>, now: Now) -> Vec<StatusPatch> {
        keys.into_iter().filter_map(|key| self.evaluate(key, now)).collect()
    }

    fn evaluate(&mut self, key: Key, now: Now) -> Option<StatusPatch> {
        self.requests.set_timer(&key, None);
        let usable_since = self.usable_since()?;
        let request = self.requests.get_mut(&key)?;
        let pod = |name: &Arc<str>| self.pods.get(&key.sibling(name)).map(|(pod, _)| pod);
        let decision = match &mut request.stage {
            Stage::Over => return None,
            Stage::Unassigned(wanted) => {
                let facts = assignment::Facts {
                    pod: pod(&wanted.pod),
                    since: request.seen.instant.max(usable_since),
                    doubt: self.views.doubt(Kind::Pod),
                };
                assignment::decide(&key, wanted, &facts, &mut self.replaced, now)
            }
            Stage::Assigned(assigned) => {
                let facts = deadline::Facts {
                    pod: pod(&assigned.pod),
                    node: self.nodes.contains_key(&assigned.assignment.node),
                    since: usable_since,
                    pods_doubt: self.views.doubt(Kind::Pod),
                    nodes_doubt: self.views.doubt(Kind::Node),
                };
                deadline::decide(assigned, &facts, now)
            }
        };
        match decision {
            Decision::Nothing => None,
            Decision::Wait(until) => {
                self.requests.set_timer(&key, Some(until));
                None
            }
            Decision::Write(write) => {
                let asked = (request.resource_version.clone(), write);
                if request.asked.as_ref() == Some(&asked) {
                    return None;
                }
                request.asked = Some(asked.clone());
                let (resource_version, write) = asked;
                Some(StatusPatch { uid: request.uid.clone(), key, resource_version, write, at: now.wall })
            }
        }
    }
}

fn vanished<K: Clone, T>(objects: &HashMap<K, T>, is_gone: impl Fn(&T) -> bool) -> Vec<K> {
    objects.iter().filter(|(_, object)| is_gone(object)).map(|(key, _)| key.clone()).collect()
}
