//! Plan of a pass, the same for all kinds.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use berth_proto::{crd::ClaimTemplate, nested::memory};
use serde_json::{Map, Value, json};

use crate::{
    action::{Action, Note},
    pod::PodView,
    selector::Labels,
};

/// The longest name of a pod.
const LONGEST_NAME: usize = 253;
/// The most pods that one pass makes; the next pass goes on.
const MOST_CREATED: i64 = 500;
/// The most bytes that the pods of one pass have together: no author's large template fills the memory.
const MOST_BYTES: usize = 4 << 20;
/// Bytes of memory that weigh as much as one of text. Most templates take less; one of many small maps takes
/// fifty times its text and more.
const MEMORY_OF_TEXT: usize = 8;

/// Writes that are due.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan<S> {
    /// Writes, in their order. New pods may be made several at once.
    pub actions: Vec<Action>,
    /// Places in the writes at which another part of them begins. No part is decided on with what an earlier
    /// one does: a failure ends its part alone, so that a quota which is used up holds up new pods and
    /// nothing else.
    pub parts: Vec<usize>,
    /// Status, when it differs from the one on file.
    pub status: Option<S>,
    /// Time after which something else may be due, though nothing changes.
    pub again: Option<Duration>,
    /// Things to tell.
    pub notes: Vec<Note>,
    /// Nodes whose pods have ended and are made anew, or the names of such pods where these come again: they
    /// may end again and again. Each with the UID of the pod.
    pub ended_on: Vec<(String, String)>,
    /// Writes to pods that are more than they look, by UID: what is told of them.
    pub causes: BTreeMap<String, Cause>,
    /// Revisions that nodes have which keep what they have, for the next pass; `None`: nothing is new.
    pub held: Option<BTreeMap<String, String>>,
}

/// Cause of a write to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It is deleted for its update: a new pod takes its place.
    Update,
    /// It gets another revision by its labels and annotations alone.
    InPlace,
    /// Something of what tells it apart was missing.
    Repair,
}

/// Failures of the last writes, for the status.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failures {
    /// A pod or a claim could not be made or deleted.
    pub scale: Option<String>,
    /// A pod could not be updated.
    pub update: Option<String>,
}

/// A node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeView {
    /// Its name.
    pub name: String,
    /// Its labels.
    pub labels: Labels,
    /// Its taints, as the API has them.
    pub taints: Vec<Value>,
}

/// Nodes by name.
pub type Nodes = BTreeMap<String, NodeView>;

/// Writes to pods that could not be written to before: they come after all others.
#[derive(Debug, Default)]
pub(crate) struct LateWrites(Vec<Action>);

impl LateWrites {
    /// UIDs of their pods.
    pub(crate) fn pods(&self) -> BTreeSet<String> {
        pods(&self.0)
    }
}

impl<S> Default for Plan<S> {
    fn default() -> Self {
        Self {
            actions: Vec::new(),
            parts: Vec::new(),
            status: None,
            again: None,
            notes: Vec::new(),
            ended_on: Vec::new(),
            causes: BTreeMap::new(),
            held: None,
        }
    }
}

impl<S> Plan<S> {
    /// The same with another status.
    pub fn map_status<T>(self, map: impl FnOnce(S) -> T) -> Plan<T> {
        let Self { actions, parts, status, again, notes, ended_on, causes, held } = self;
        Plan { actions, parts, status: status.map(map), again, notes, ended_on, causes, held }
    }

    /// Begins another part of the writes.
    pub(crate) fn begin_part(&mut self) {
        let at = self.actions.len();
        if at > 0 && self.parts.last() != Some(&at) {
            self.parts.push(at);
        }
    }

    /// UIDs of the pods that it writes to.
    pub(crate) fn written(&self) -> BTreeSet<String> {
        pods(&self.actions)
    }

    /// Adds writes, but keeps those to pods that are `put_off` for later. True: there are others.
    pub(crate) fn add_but(
        &mut self,
        put_off: &BTreeSet<String>,
        actions: Vec<Action>,
        late: &mut LateWrites,
    ) -> bool {
        let (later, now): (Vec<Action>, Vec<Action>) =
            actions.into_iter().partition(|action| action.is_about(put_off));
        late.0.extend(later);
        let some = !now.is_empty();
        self.actions.extend(now);
        some
    }

    /// Adds what was kept for later, as a part of its own. Where the plan writes to such a pod anyway, that
    /// counts more.
    pub(crate) fn add_late(&mut self, late: LateWrites) {
        let written = self.written();
        self.begin_part();
        self.actions.extend(late.0.into_iter().filter(|action| !action.is_about(&written)));
    }

    /// Puts writes before all others.
    pub(crate) fn put_first(&mut self, actions: Vec<Action>) {
        self.parts.iter_mut().for_each(|at| *at = at.saturating_add(actions.len()));
        self.actions.splice(0..0, actions);
    }

    /// Writes by their parts.
    pub fn into_parts(self) -> (Vec<Vec<Action>>, Option<S>) {
        let mut rest = self.actions;
        let mut parts: Vec<Vec<Action>> =
            self.parts.iter().rev().map(|at| rest.split_off((*at).min(rest.len()))).collect();
        parts.push(rest);
        parts.reverse();
        (parts, self.status)
    }
}

/// A number of pods or nodes, as the numbers of a set have it.
pub(crate) fn count(many: usize) -> i64 {
    i64::try_from(many).unwrap_or(i64::MAX)
}

/// UIDs of the pods that these are about.
fn pods(actions: &[Action]) -> BTreeSet<String> {
    actions.iter().filter_map(Action::pod).map(str::to_owned).collect()
}

/// The most pods of a template that one pass makes, each with claims of these templates.
pub(crate) fn most_created(template: &Map<String, Value>, claims: &[ClaimTemplate]) -> i64 {
    let size = |object: &Map<String, Value>| weight(&json!(object));
    let claims = claims.iter().map(|claim| size(&claim.0)).fold(0, usize::saturating_add);
    let bytes = size(template).saturating_add(claims).max(1);
    i64::try_from(MOST_BYTES / bytes).unwrap_or(i64::MAX).clamp(1, MOST_CREATED)
}

/// Weight of a manifest that is to be made: bytes of its text, or more where it takes far more memory.
pub(crate) fn weight(manifest: &Value) -> usize {
    manifest.to_string().len().max(memory(manifest) / MEMORY_OF_TEXT)
}

/// Prefix of the names of an owner's pods, which they have beside their names: Kubernetes gives it to all
/// that it makes of a template, and there are webhooks and tools that go by it.
pub(crate) fn generate_name(owner: &str) -> String {
    if owner.len() < LONGEST_NAME { format!("{owner}-") } else { owner.to_owned() }
}

/// Takes the set off the owners of a pod that is not selected any more.
pub(crate) fn release(pod: &PodView, uid: &str) -> Action {
    let others: Vec<_> = pod.owners.iter().filter(|owner| owner.uid != uid).collect();
    Action::PatchPod(pod.target(), json!({ "metadata": { "ownerReferences": others } }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_come_apart_by_their_parts() {
        let action = |name: &str| Action::KeepPodsToDelete(vec![name.to_owned()]);
        let mut plan = Plan { status: Some(7), ..Plan::default() };
        plan.begin_part();
        assert_eq!(plan.parts, [0; 0], "nothing stands before it");
        plan.actions.extend([action("a"), action("b")]);
        plan.begin_part();
        plan.begin_part();
        plan.actions.push(action("c"));
        plan.begin_part();
        plan.put_first(vec![action("0")]);
        let parts = vec![vec![action("0"), action("a"), action("b")], vec![action("c")], vec![]];
        assert_eq!(plan.into_parts(), (parts, Some(7)));
        assert_eq!(Plan::<i32>::default().into_parts(), (vec![vec![]], None));
    }

    #[test]
    fn names_have_the_prefix_that_kubernetes_gives() {
        assert_eq!(generate_name("web"), "web-");
        assert_eq!(generate_name(&"a".repeat(252)).len(), 253);
        assert_eq!(generate_name(&"a".repeat(253)), "a".repeat(253));
    }

    #[test]
    fn large_templates_are_made_a_few_at_a_time() {
        let object = |bytes: usize| json!({ "text": "x".repeat(bytes) }).as_object().cloned().unwrap();
        let of = |bytes: usize, claims: &[usize]| {
            let claims: Vec<_> = claims.iter().map(|bytes| ClaimTemplate(object(*bytes))).collect();
            most_created(&object(bytes), &claims)
        };
        assert_eq!((of(0, &[]), of(8_000, &[])), (500, 500));
        assert_eq!((of(1 << 20, &[]), of(8 << 20, &[])), (3, 1));
        assert_eq!((of(0, &[0; 64]), of(0, &[20_000; 64])), (500, 3));
        // A hundred kilobytes of text, and eight megabytes of memory.
        let small = json!({ "a": vec![json!({ "a": 1 }); 12_000] }).as_object().cloned().unwrap();
        let most = most_created(&small, &[]);
        assert!((2..=6).contains(&most), "{most}");
    }
}
