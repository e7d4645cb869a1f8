//! Cluster that is played in tests: the pods as they are, and as a program sees them whose watch is late and
//! loses events.

mod faults;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use berth_proto::template_history::Part;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{apps::v1::ControllerRevision, core::v1::Pod};
use proptest::prelude::*;
use serde_json::Value;

use crate::{
    action::{Action, Target},
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{IN_PLACE_GATE, METADATA_OF_ANNOTATION, READY_GATE, REVISION_LABEL},
    plan::Failures,
    pod::{Phase, PodView},
    revision::Revision,
    store::Store,
};

/// Event that the watch is still to show.
enum Event {
    Applied(Box<PodView>),
    Gone(String),
}

/// Step of a history that is not the program's.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    /// The watch shows so many events.
    Deliver(usize),
    /// The watch breaks.
    Lose,
    /// The kubelet does its next thing for a pod.
    Kubelet(usize),
    Evict(usize),
    DeleteByHand(usize),
    /// Seconds pass.
    Pass(i64),
}

/// Image of a revision whose pods never come up.
pub(crate) const BROKEN: &str = "a:0";

/// Weight of such a step beside others.
pub(crate) const STEPS: u32 = 14;

pub(crate) fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0..6_usize).prop_map(Step::Deliver),
        1 => Just(Step::Lose),
        6 => (0..8_usize).prop_map(Step::Kubelet),
        1 => (0..8_usize).prop_map(Step::Evict),
        1 => (0..8_usize).prop_map(Step::DeleteByHand),
        2 => (1..20_i64).prop_map(Step::Pass),
    ]
}

/// Number of writes of a pass before the program ends; mostly all.
pub(crate) fn writes() -> impl Strategy<Value = usize> {
    prop_oneof![Just(usize::MAX), 0..4_usize]
}

fn is_broken(revision: &Revision) -> bool {
    revision.template["spec"]["containers"][0]["image"] == BROKEN
}

impl PodView {
    /// Takes in a merge patch of its metadata.
    pub(crate) fn merge(&mut self, metadata: &Value) {
        for (key, value) in metadata["labels"].as_object().into_iter().flatten() {
            match value.as_str() {
                Some(value) => drop(self.labels.insert(key.clone(), value.to_owned())),
                None => drop(self.labels.remove(key)),
            }
        }
        if let Some(text) = metadata["annotations"][METADATA_OF_ANNOTATION].as_str() {
            self.metadata_of = Some(text.into());
        }
    }
}

/// The cluster.
pub(crate) struct Played {
    pub(crate) pods: BTreeMap<String, PodView>,
    pub(crate) seen: Store<PodView>,
    pub(crate) revisions: Vec<Revision>,
    pub(crate) in_place: BTreeMap<String, InPlaceState>,
    /// Nodes whose agents are silent: they update nothing, and open no gates.
    pub(crate) silent: BTreeSet<String>,
    pub(crate) now: Timestamp,
    /// Template of the set: an agent takes no image that it does not name.
    pub(crate) template: Value,
    /// Hashes of what earlier templates had, which an agent takes, too.
    pub(crate) history: String,
    /// Nodes that pods come to which are tied to none.
    pub(crate) nodes: Vec<String>,
    /// Labels say the hash of a revision alone.
    pub(crate) short: bool,
    /// Pods that nobody may write to, by UID, and nodes that no pod may be made for.
    pub(crate) refused: BTreeSet<String>,
    /// Pods of these that the passes before could not write to.
    pub(crate) put_off: BTreeSet<String>,
    pub(crate) failures: Failures,
    events: VecDeque<Event>,
    count: u64,
}

impl Played {
    pub(crate) fn new(nodes: &[&str], short: bool) -> Self {
        Self {
            pods: BTreeMap::new(),
            seen: Store::default(),
            revisions: Vec::new(),
            in_place: BTreeMap::new(),
            silent: BTreeSet::new(),
            now: Timestamp::constant(1_000_000, 0),
            template: Value::Null,
            history: String::new(),
            nodes: nodes.iter().map(|node| (*node).to_owned()).collect(),
            short,
            refused: BTreeSet::new(),
            put_off: BTreeSet::new(),
            failures: Failures::default(),
            events: VecDeque::new(),
            count: 0,
        }
    }

    pub(crate) fn version(&mut self) -> String {
        self.count += 1;
        self.count.to_string()
    }

    /// Changes a pod, as seen by all who watch.
    pub(crate) fn change(&mut self, uid: &str, change: impl FnOnce(&mut PodView)) -> Option<PodView> {
        let version = self.version();
        let pod = self.pods.get_mut(uid)?;
        change(pod);
        pod.version = version;
        let pod = pod.clone();
        self.events.push_back(Event::Applied(Box::new(pod.clone())));
        Some(pod)
    }

    fn remove(&mut self, uid: &str) {
        if self.pods.remove(uid).is_some() {
            self.events.push_back(Event::Gone(uid.to_owned()));
        }
    }

    /// The garbage collector deletes pods.
    pub(crate) fn collect(&mut self, is_gone: impl Fn(&PodView) -> bool) {
        let gone: Vec<String> =
            self.pods.values().filter(|pod| is_gone(pod)).map(|pod| pod.uid.clone()).collect();
        gone.iter().for_each(|uid| self.remove(uid));
    }

    pub(crate) fn nth(&self, at: usize) -> Option<String> {
        self.pods.keys().nth(at.checked_rem(self.pods.len())?).cloned()
    }

    pub(crate) fn play(&mut self, step: &Step) {
        match *step {
            Step::Deliver(count) => (0..count).for_each(|_| self.deliver()),
            Step::Lose => self.list(),
            Step::Kubelet(at) => {
                if let Some(uid) = self.nth(at) {
                    self.kubelet(&uid);
                }
            }
            Step::Evict(at) => {
                if let Some(uid) = self.nth(at) {
                    self.change(&uid, |pod| {
                        pod.phase = Phase::Ended;
                        pod.ready_since = None;
                    });
                }
            }
            Step::DeleteByHand(at) => {
                if let Some(uid) = self.nth(at) {
                    self.change(&uid, |pod| pod.terminating = true);
                }
            }
            Step::Pass(seconds) => self.pass(seconds),
        }
    }

    /// The one that minds the hooks `hook` and `joined` lets a pod go that is new or held for its update or
    /// its deletion, and holds one again that is updated.
    pub(crate) fn mind(&mut self, uid: &str) {
        let Some(pod) = self.pods.get(uid) else { return };
        match (State::of(pod), pod.label("hook")) {
            (State::PreparingUpdate | State::PreparingDelete, "true") => {
                self.change(uid, |pod| drop(pod.labels.remove("hook")));
            }
            (State::PreparingNormal, _) => {
                self.change(uid, |pod| drop(pod.labels.insert("joined".to_owned(), "true".to_owned())));
            }
            (State::Updated, "") => {
                self.change(uid, |pod| drop(pod.labels.insert("hook".to_owned(), "true".to_owned())));
            }
            _ => {}
        }
    }

    /// The one that minds the hook looks at all pods.
    pub(crate) fn mind_all(&mut self) {
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.mind(&uid);
        }
    }

    /// Tells whether a pod serves for as long as the sets of these histories ask for.
    pub(crate) fn is_available(&self, pod: &PodView) -> bool {
        let in_place = self.in_place.get(&pod.uid);
        pod.is_active()
            && pod.is_ready_for(5, self.now)
            && State::of(pod).serves()
            && in_place.is_none_or(|known| known.phase != InPlacePhase::Pending)
    }

    /// Kubelets and agents do their next things, and time passes.
    pub(crate) fn go_on(&mut self) {
        for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
            self.kubelet(&uid);
        }
        self.pass(10);
    }

    /// The watch shows an event.
    fn deliver(&mut self) {
        match self.events.pop_front() {
            Some(Event::Applied(pod)) => drop(self.seen.applied(*pod)),
            Some(Event::Gone(uid)) => drop(self.seen.gone(&uid)),
            None => {}
        }
    }

    pub(crate) fn deliver_all(&mut self) {
        while !self.events.is_empty() {
            self.deliver();
        }
    }

    /// The watch breaks: its events are lost, and all is listed anew.
    pub(crate) fn list(&mut self) {
        self.events.clear();
        self.seen.list_begins();
        for pod in self.pods.values() {
            self.seen.applied(pod.clone());
        }
        self.seen.list_ends();
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(SignedDuration::from_secs(seconds)).unwrap();
    }

    /// The kubelet and the agent of its node do their next thing for a pod.
    fn kubelet(&mut self, uid: &str) {
        let now = self.now;
        let Some(pod) = self.pods.get(uid) else { return };
        if pod.terminating {
            return self.remove(uid);
        }
        if pod.phase == Phase::Ended {
            return;
        }
        let node = match pod.wanted_node() {
            "" => self.nodes[uid.len() % self.nodes.len()].clone(),
            node => node.to_owned(),
        };
        let has_agent = !self.silent.contains(&node);
        let asked =
            self.in_place.get_mut(uid).filter(|known| known.phase == InPlacePhase::Pending && has_agent);
        let revision = asked.and_then(|asked| {
            let revision = self.revisions.iter().find(|one| one.name == asked.revision)?;
            let named = &self.template["spec"]["containers"];
            let image = revision.template["spec"]["containers"][0]["image"].as_str().unwrap();
            let was_named = Part::Image { container: "main", image }.is_in(&self.history);
            if revision.template["spec"]["containers"] != *named && !was_named {
                let why = "the template does not name the image".to_owned();
                asked.phase = InPlacePhase::NotAskedFor { why, since: Some(self.now) };
                return None;
            }
            // One that does not come up goes on being updated.
            if !is_broken(revision) {
                asked.phase = InPlacePhase::Done;
            }
            Some(asked.revision.clone())
        });
        let short = self.short;
        let named = revision.clone();
        let broken = self.revisions.iter().filter(|one| is_broken(one));
        let broken: Vec<String> = broken.map(|one| one.name.clone()).collect();
        self.change(uid, |pod| {
            pod.node = node;
            pod.phase = Phase::Running;
            if has_agent {
                pod.gate = Some(true);
                pod.kruise_ready.get_or_insert_with(|| (true, "[]".to_owned()));
            }
            let is_open = pod.gates.iter().all(|gate| match gate.as_str() {
                IN_PLACE_GATE => pod.gate == Some(true),
                _ => pod.kruise_ready.as_ref().is_some_and(|(is_true, _)| *is_true),
            });
            pod.ready_since = pod.ready_since.filter(|_| revision.is_none()).or(is_open.then_some(now));
            if let Some(revision) = revision {
                let label = if short { crate::revision::short(&revision).to_owned() } else { revision };
                pod.labels.insert(REVISION_LABEL.to_owned(), label);
            }
            if broken.iter().any(|one| one == named.as_deref().unwrap_or(pod.label(REVISION_LABEL))) {
                pod.ready_since = None;
            }
        });
    }

    /// Carries out a write, and shows what was answered. False: the pod has changed since, and the pass of
    /// the program ends there.
    pub(crate) fn write(&mut self, action: Action) -> bool {
        match action {
            Action::CreatePod(object) => {
                let pod: Pod = serde_json::from_value(object).unwrap();
                let mut pod = PodView::of(&pod);
                assert!(self.pods.values().all(|known| known.name != pod.name), "{} is made twice", pod.name);
                pod.version = self.version();
                pod.uid = format!("uid-{}", pod.version);
                pod.created = self.now;
                self.pods.insert(pod.uid.clone(), pod.clone());
                self.events.push_back(Event::Applied(Box::new(pod.clone())));
                self.seen.wrote(pod);
            }
            Action::DeletePod(Target { uid, .. }) => {
                assert!(!self.in_place.contains_key(&uid), "its update is taken back before it is deleted");
                let is_bound = self.pods.get(&uid).is_some_and(|pod| !pod.node.is_empty());
                if !is_bound {
                    self.remove(&uid);
                    self.seen.ended(&uid);
                } else if let Some(pod) = self.change(&uid, |pod| pod.terminating = true) {
                    self.seen.wrote(pod);
                }
            }
            Action::PatchPod(target, patch) => {
                return self.patch(&target, |pod| pod.merge(&patch["metadata"]));
            }
            Action::PatchPodStatus(target, patch) => {
                return self.patch(&target, |pod| {
                    for condition in patch["status"]["conditions"].as_array().unwrap() {
                        let is_true = condition["status"] == "True";
                        match condition["type"].as_str() {
                            Some(IN_PLACE_GATE) => pod.gate = Some(is_true),
                            Some(READY_GATE) => {
                                pod.kruise_ready =
                                    Some((is_true, condition["message"].as_str().unwrap().to_owned()));
                            }
                            other => panic!("{other:?}"),
                        }
                    }
                });
            }
            Action::CreateRevision(object) => {
                let revision: ControllerRevision = serde_json::from_value(object).unwrap();
                let mut revision = Revision::of(&revision).unwrap();
                revision.uid.clone_from(&revision.name);
                self.revisions.push(revision);
            }
            Action::RaiseRevision(target, number) => {
                let known = self.revisions.iter_mut().find(|one| one.name == target.name);
                known.unwrap().number = number;
            }
            Action::DeleteRevision(target) => self.revisions.retain(|one| one.name != target.name),
            Action::UpdateInPlace(update) => {
                let (node, revision, attempt) = (update.node, update.revision, update.attempt);
                let generation = update.generation;
                assert!(!self.silent.contains(&node), "a silent agent is asked for nothing");
                let asked =
                    InPlaceState { node, revision, attempt, generation, phase: InPlacePhase::Pending };
                self.in_place.insert(update.uid, asked);
            }
            Action::ForgetInPlace { uid, .. } => drop(self.in_place.remove(&uid)),
            other => panic!("{other:?}"),
        }
        true
    }

    /// A write that fails if the pod has changed since.
    fn patch(&mut self, target: &Target, change: impl FnOnce(&mut PodView)) -> bool {
        let is_newest = self.pods.get(&target.uid).is_some_and(|pod| pod.version == target.version);
        let Some(pod) = is_newest.then(|| self.change(&target.uid, change)).flatten() else { return false };
        self.seen.wrote(pod);
        true
    }
}
