//! Worlds of the tables: a set, its two revisions, and pods by a shorthand.
//!
//! `4o 2n!` are four pods of the old revision, and two of the newest that are not ready. `r`: ready and not
//! available; `d`: to be deleted; `P`: held before its deletion.

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::CloneSet;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::super::{ClaimView, Input, Plan, Settings, plan};
use crate::{
    action::Action,
    agents::Agents,
    in_place::InPlaceState,
    lifecycle::State,
    names::{INSTANCE_LABEL, REVISION_LABEL, SPECIFIED_DELETE_LABEL, STATE_LABEL, TEMPLATE_HASH_LABEL},
    plan::{Failures, Nodes},
    pod::{Phase, PodView},
    predownload::Ahead,
    revision::Revision,
};

pub(super) const NOW: Timestamp = Timestamp::constant(1_000_000, 0);
pub(super) const NODE: &str = "node-1";

/// A set and all that is known of it.
pub(super) struct World {
    pub(super) set: CloneSet,
    pub(super) revisions: Vec<Revision>,
    pub(super) pods: Vec<PodView>,
    pub(super) claims: Vec<ClaimView>,
    pub(super) in_place: BTreeMap<String, InPlaceState>,
    pub(super) nodes: Nodes,
    pub(super) updating_nodes: BTreeSet<String>,
    pub(super) labelling_nodes: BTreeSet<String>,
    pub(super) recalling_nodes: BTreeSet<String>,
    /// Nodes whose agents say nothing.
    pub(super) silent: BTreeSet<String>,
    pub(super) settings: Settings,
    pub(super) failures: Failures,
    /// Pods that could not be written to.
    pub(super) put_off: BTreeSet<String>,
}

pub(super) fn template(image: &str) -> Map<String, Value> {
    let template = json!({
        "metadata": { "labels": { "app": "shop" } },
        "spec": { "containers": [{ "name": "main", "image": image }], "aFieldOfLater": [1] },
    });
    template.as_object().cloned().unwrap()
}

pub(super) fn revision(name: &str, number: i64, image: &str) -> Revision {
    Revision {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        version: "1".to_owned(),
        number,
        created: Timestamp::UNIX_EPOCH,
        owner: "set".to_owned(),
        mark: None,
        template: template(image),
    }
}

impl World {
    /// One whose set's spec is this, beside selector and template; its old revision has image `a:1`, its
    /// newest `a:2`.
    pub(super) fn new(spec: Value, pods: &str) -> Self {
        let mut all = json!({
            "selector": { "matchLabels": { "app": "shop" } },
            "template": template("a:2"),
        });
        for (key, value) in spec.as_object().unwrap() {
            all[key] = value.clone();
        }
        let set = json!({
            "apiVersion": "apps.kruise.io/v1alpha1",
            "kind": "CloneSet",
            "metadata": { "namespace": "ns", "name": "shop", "uid": "set", "generation": 1 },
            "spec": all,
            "status": { "currentRevision": "shop-old" },
        });
        let mut world = Self {
            set: serde_json::from_value(set).unwrap(),
            revisions: vec![revision("shop-old", 1, "a:1"), revision("shop-new", 2, "a:2")],
            pods: Vec::new(),
            claims: Vec::new(),
            in_place: BTreeMap::new(),
            nodes: Nodes::new(),
            updating_nodes: BTreeSet::from([NODE.to_owned()]),
            labelling_nodes: BTreeSet::from([NODE.to_owned()]),
            recalling_nodes: BTreeSet::from([NODE.to_owned()]),
            silent: BTreeSet::new(),
            settings: Settings::default(),
            failures: Failures::default(),
            put_off: BTreeSet::new(),
        };
        for token in pods.split_whitespace() {
            world.add(token);
        }
        world
    }

    fn add(&mut self, token: &str) {
        let digits = token.find(|c: char| !c.is_ascii_digit()).unwrap();
        let (count, marks) = token.split_at(digits);
        for _ in 0..count.parse::<usize>().unwrap() {
            let name = format!("p{}", self.pods.len());
            self.pods.push(pod(&name, marks));
        }
    }

    pub(super) fn plan(&self) -> Plan {
        self.plan_at(NOW)
    }

    pub(super) fn plan_at(&self, now: Timestamp) -> Plan {
        let (pods, claims): (Vec<_>, Vec<_>) = (self.pods.iter().collect(), self.claims.iter().collect());
        let input = Input {
            set: &self.set,
            revisions: &self.revisions.iter().collect::<Vec<_>>(),
            pods: &pods,
            claims: &claims,
            in_place: &self.in_place,
            nodes: &self.nodes,
            agents: self.agents(),
            ahead: Ahead::default(),
            settings: self.settings,
            failures: &self.failures,
            put_off: &self.put_off,
            collisions: 0,
            seed: 7,
        };
        plan(&input, now)
    }

    pub(super) fn agents(&self) -> Agents<'_> {
        Agents {
            updating: &self.updating_nodes,
            present: &self.updating_nodes,
            labelling: &self.labelling_nodes,
            recalling: &self.recalling_nodes,
            silent: &self.silent,
        }
    }

    /// Effect of a pass, in the shorthand of pods.
    pub(super) fn effect(&self) -> String {
        let plan = self.plan();
        let mut effects: Vec<String> = Vec::new();
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for action in &plan.actions {
            let effect = match action {
                Action::CreatePod(pod) => {
                    format!("create {}", side(pod["metadata"]["labels"][REVISION_LABEL].as_str().unwrap()))
                }
                Action::DeletePod(target) => format!("delete {}", self.marks(&target.name)),
                Action::PatchPod(target, patch) => {
                    let state = patch["metadata"]["labels"][STATE_LABEL].as_str().unwrap_or("release");
                    format!("{state} {}", self.marks(&target.name))
                }
                Action::AdoptPod(target, _) => format!("adopt {}", self.marks(&target.name)),
                Action::AdoptRevision(target, _) => format!("adopt {}", target.name),
                Action::PatchPodStatus(target, _) => format!("open {}", self.marks(&target.name)),
                Action::UpdateInPlace(update) => format!("update {}", self.marks(&update.name)),
                Action::ForgetInPlace { .. } => "forget".to_owned(),
                Action::CreateClaim(_) => "create claim".to_owned(),
                Action::DeleteClaim(_) => "delete claim".to_owned(),
                Action::PatchClaim(..) => "hand over claim".to_owned(),
                Action::CreatePullJob(_) | Action::DeletePullJob(_) => "pull job".to_owned(),
                Action::KeepPodsToDelete(kept) => format!("keep {kept:?}"),
                Action::CreateRevision(_)
                | Action::RaiseRevision(..)
                | Action::MarkRevision(..)
                | Action::DeleteRevision(_) => "revision".to_owned(),
            };
            *counts.entry(effect.clone()).or_default() += 1;
            if !effects.contains(&effect) {
                effects.push(effect);
            }
        }
        effects.extend(plan.notes.iter().map(|note| note.reason.to_owned()));
        let texts = effects.iter().map(|effect| match counts.get(effect) {
            Some(1) | None => effect.clone(),
            Some(count) => format!("{effect} x{count}"),
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    fn marks(&self, name: &str) -> String {
        let pod = self.pods.iter().find(|pod| pod.name == name).unwrap();
        let mut marks = side(pod.label(REVISION_LABEL)).to_owned();
        if !pod.is_ready() {
            marks.push('!');
        }
        if pod.labels.contains_key(SPECIFIED_DELETE_LABEL) {
            marks.push('d');
        }
        marks
    }
}

fn side(label: &str) -> &'static str {
    if label.ends_with("old") { "o" } else { "n" }
}

pub(super) fn pod(name: &str, marks: &str) -> PodView {
    let has = |mark| marks.contains(mark);
    let revision = if has('o') { "shop-old" } else { "shop-new" };
    let mut labels = BTreeMap::from(
        [
            ("app", "shop"),
            (REVISION_LABEL, revision),
            (TEMPLATE_HASH_LABEL, revision.rsplit('-').next().unwrap()),
            (INSTANCE_LABEL, name),
            (STATE_LABEL, State::Normal.name()),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    if has('d') {
        labels.insert(SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
    }
    if has('P') {
        labels.insert(STATE_LABEL.to_owned(), State::PreparingDelete.name().to_owned());
        labels.insert("hook".to_owned(), "true".to_owned());
    }
    let ready_since = if has('r') { NOW } else { Timestamp::constant(900_000, 0) };
    PodView {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        version: "1".to_owned(),
        labels,
        finalizers: Vec::new(),
        owners: Vec::new(),
        gates: Vec::new(),
        placed_on: String::new(),
        node: NODE.to_owned(),
        phase: Phase::Running,
        terminating: false,
        ready_since: (!has('!')).then_some(ready_since),
        gate: None,
        kruise_ready: None,
        restarts: 0,
        created: Timestamp::constant(800_000, 0),
        deletion_cost: 0,
        shut: None,
        metadata_of: None,
        grace: None,
        shown: None,
        not_up: None,
        failing_since: None,
    }
}
