//! A cluster in miniature: an index that leads, a clock that stands still, an API server that carries out
//! what is owed and shows it, and agents that do what they are told when they are asked to.

use std::{
    collections::{BTreeMap, VecDeque},
    time::{Duration, Instant},
};

use berth_proto::crd::{DesiredPod, SidecarSetStatus, UpdatePhase, UpdatedPod};
use berth_sidecarset::names;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde_json::{Value, json};

use crate::{
    effect::Effect,
    index::alone::Alone,
    notes::Note,
    sidecarsets::SidecarIndex,
    store::{
        Kind, NamespaceSeen, NodePodUpdateSeen, Now, Object, Phase, PodSeen, PodStage, SidecarSetSeen,
        SidecarsSeen, Weight,
    },
    write::Write,
};

pub(super) const SPACE: &str = "shop";
const BEGUN: Timestamp = Timestamp::constant(1_700_000_000, 0);

/// The hash of a set with this image.
pub(super) fn hash(image: &str) -> String {
    format!("hash-of-{image}")
}

/// A set with one container `log`, for pods with `app: web`.
pub(super) fn set(name: &str, image: &str) -> SidecarSetSeen {
    let hashes = [(names::HASH, hash(image)), (names::HASH_WITHOUT_IMAGE, "same".to_owned())];
    SidecarSetSeen {
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        resource_version: String::new(),
        generation: Some(1),
        created: Some(BEGUN),
        deleting: false,
        custom_version: None,
        annotations: hashes.into_iter().map(|(key, hash)| (key.to_owned(), hash)).collect(),
        spec: Ok(serde_json::from_value(spec(image, json!({}))).unwrap()),
        status: Ok(SidecarSetStatus::default()),
        spec_weight: Weight::default(),
        status_weight: Weight::default(),
    }
}

pub(super) fn spec(image: &str, strategy: Value) -> Value {
    json!({
        "selector": { "matchLabels": { "app": "web" } },
        "containers": [{ "name": "log", "image": image }],
        "updateStrategy": strategy,
    })
}

/// A ready pod on node `n0` that has this image of the set `s`.
pub(super) fn pod(name: &str, image: &str) -> PodSeen {
    let one = |value: &str| BTreeMap::from([("s".to_owned(), value.to_owned())]);
    PodSeen {
        owner: None,
        available: false,
        ready: false,
        namespace: SPACE.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        version: 0,
        node: Some("n0".to_owned()),
        labels: BTreeMap::from([("app".to_owned(), "web".to_owned())]),
        stage: PodStage::Active,
        initialized: true,
        ip: None,
        containers: Vec::new(),
        created: Some(BEGUN + Duration::from_secs(10)),
        mirror: false,
        spread: None,
        sidecars: Some(Box::new(SidecarsSeen {
            listed: vec!["s".to_owned()],
            hashes: one(&hash(image)),
            without_image: one("same"),
            revisions: one(&format!("s-{image}")),
            working: BTreeMap::new(),
            images: BTreeMap::from([
                ("app".to_owned(), "app:1".to_owned()),
                ("log".to_owned(), image.to_owned()),
            ]),
            unsettled: Vec::new(),
            phase: Phase::Running,
            ready: true,
            ready_since: Some(BEGUN),
            upgradable: BTreeMap::new(),
        })),
    }
}

/// The same pod with its sidecars changed.
pub(super) fn with(mut pod: PodSeen, change: impl FnOnce(&mut SidecarsSeen)) -> PodSeen {
    change(pod.sidecars.as_mut().unwrap());
    pod
}

pub(super) struct World {
    pub(super) index: Alone<SidecarIndex, Effect>,
    start: Instant,
    pub(super) passed: Duration,
    version: u64,
    pub(super) pods: BTreeMap<String, PodSeen>,
    pub(super) sets: BTreeMap<String, SidecarSetSeen>,
    pub(super) spaces: BTreeMap<String, NamespaceSeen>,
    pub(super) nodes: BTreeMap<String, NodePodUpdateSeen>,
    pub(super) notes: Vec<Note>,
    /// Writes to sets are lost.
    pub(super) loses: bool,
    /// Writes that were done to sets, and to nodes.
    pub(super) set_writes: usize,
    pub(super) node_writes: usize,
}

impl World {
    /// One that leads, with the node `n0` and the namespace `shop`.
    pub(super) fn new() -> Self {
        let mut world = Self {
            index: Alone::default(),
            start: Instant::now(),
            passed: Duration::ZERO,
            version: 0,
            pods: BTreeMap::new(),
            sets: BTreeMap::new(),
            spaces: BTreeMap::new(),
            nodes: BTreeMap::new(),
            notes: Vec::new(),
            loses: false,
            set_writes: 0,
            node_writes: 0,
        };
        world.list_all();
        let effects = world.index.owed(world.now());
        world.carry_out(effects);
        world.space(SPACE, &[]);
        world.node("n0", &["owners/v1"]);
        world
    }

    /// Another replica leads from now on; it has seen nothing before.
    pub(super) fn fail_over(&mut self) {
        self.index = Alone::default();
        self.list_all();
        let effects = self.index.owed(self.now());
        self.carry_out(effects);
    }

    fn list_all(&mut self) {
        for kind in [Kind::Pod, Kind::Namespace, Kind::SidecarSet, Kind::NodePodUpdate] {
            self.list(kind);
        }
    }

    /// All objects of a kind are listed.
    pub(super) fn list(&mut self, kind: Kind) {
        let now = self.now();
        self.index.list_begins(kind, now);
        let objects: Vec<Object> = match kind {
            Kind::Pod => self.pods.values().cloned().map(Object::Pod).collect(),
            Kind::Namespace => self.spaces.values().cloned().map(Object::Namespace).collect(),
            Kind::SidecarSet => {
                self.sets.values().cloned().map(|seen| Object::SidecarSet(Box::new(seen))).collect()
            }
            _ => self.nodes.values().cloned().map(|seen| Object::NodePodUpdate(Box::new(seen))).collect(),
        };
        for object in objects {
            self.show(&object);
        }
        let effects = self.index.list_ends(kind, now);
        self.carry_out(effects);
    }

    pub(super) fn now(&self) -> Now {
        Now { instant: self.start + self.passed, wall: BEGUN + Duration::from_secs(100) + self.passed }
    }

    fn show(&mut self, object: &Object) {
        let effects = self.index.apply(object, self.now());
        self.carry_out(effects);
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    pub(super) fn pod(&mut self, pod: PodSeen) {
        self.pods.insert(pod.name.clone(), pod.clone());
        self.show(&Object::Pod(pod));
    }

    pub(super) fn no_pod(&mut self, name: &str) {
        if let Some(pod) = self.pods.remove(name) {
            let effects = self.index.delete(Kind::Pod, &pod.namespace, name, self.now());
            self.carry_out(effects);
        }
    }

    pub(super) fn space(&mut self, name: &str, labels: &[(&str, &str)]) {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let seen = NamespaceSeen { name: name.to_owned(), labels };
        self.spaces.insert(name.to_owned(), seen.clone());
        self.show(&Object::Namespace(seen));
    }

    pub(super) fn node(&mut self, name: &str, features: &[&str]) {
        let mut node = self.nodes.get(name).cloned().unwrap_or_default();
        (node.name, node.uid) = (name.to_owned(), format!("uid-of-{name}"));
        node.features = features.iter().map(|feature| (*feature).to_owned()).collect();
        self.nodes.insert(name.to_owned(), node);
        self.node_changed(name);
    }

    pub(super) fn no_node(&mut self, name: &str) {
        self.nodes.remove(name);
        let effects = self.index.delete(Kind::NodePodUpdate, "", name, self.now());
        self.carry_out(effects);
    }

    /// The agent of a node gives a sign of life, and says nothing else.
    pub(super) fn renew(&mut self, name: &str) {
        self.nodes.get_mut(name).unwrap().renewed = Some(self.now().wall);
        self.node_changed(name);
    }

    fn node_changed(&mut self, name: &str) {
        let version = self.next_version();
        let node = self.nodes.get_mut(name).unwrap();
        node.resource_version = version;
        let shown = node.clone();
        self.show(&Object::NodePodUpdate(Box::new(shown)));
    }

    /// A set is written; what is stored of its status stays.
    pub(super) fn set(&mut self, mut set: SidecarSetSeen) {
        let before = self.sets.get(&set.name);
        if let Some(before) = before.filter(|before| before.uid == set.uid) {
            set.status = before.status.clone();
            set.generation = before.generation.map(|generation| generation + 1);
        }
        set.resource_version = self.next_version();
        self.sets.insert(set.name.clone(), set.clone());
        self.show(&Object::SidecarSet(Box::new(set)));
    }

    pub(super) fn no_set(&mut self, name: &str) {
        self.sets.remove(name);
        let effects = self.index.delete(Kind::SidecarSet, "", name, self.now());
        self.carry_out(effects);
    }

    /// Set `s` with this image and strategy.
    pub(super) fn upgrade(&mut self, image: &str, strategy: Value) {
        let spec = Ok(serde_json::from_value(spec(image, strategy)).unwrap());
        self.set(SidecarSetSeen { spec, ..set("s", image) });
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        let mut waiting: VecDeque<Effect> = effects.into();
        while let Some(effect) = waiting.pop_front() {
            let order = match effect {
                Effect::Write(order) => order,
                Effect::Note(note) => {
                    self.notes.push(note);
                    continue;
                }
                other => panic!("not of this index: {other:?}"),
            };
            let version = self.next_version();
            let shown = match order {
                Write::SidecarSet(order) => {
                    let Some(set) = self.sets.get_mut(&*order.name).filter(|_| !self.loses) else { continue };
                    if *set.resource_version != *order.resource_version || *set.uid != *order.uid {
                        continue;
                    }
                    self.set_writes += 1;
                    (set.status, set.resource_version) = (Ok(*order.status), version);
                    Object::SidecarSet(Box::new(set.clone()))
                }
                Write::PodUpdates(order) => {
                    let Some(node) = self.nodes.get_mut(&*order.node) else { continue };
                    if *node.resource_version != *order.resource_version || *node.uid != *order.uid {
                        continue;
                    }
                    self.node_writes += 1;
                    node.desired.retain(|pod| !pod.owner.starts_with("SidecarSet/"));
                    node.desired.extend(order.pods.iter().map(|pod| DesiredPod::clone(pod)));
                    node.resource_version = version;
                    Object::NodePodUpdate(Box::new(node.clone()))
                }
                other => panic!("not of this index: {other:?}"),
            };
            waiting.extend(self.index.apply(&shown, self.now()));
        }
    }

    /// Time passes, and what is due is done.
    pub(super) fn pass(&mut self, millis: u64) {
        let end = self.passed + Duration::from_millis(millis);
        while let Some(at) = self.index.next_deadline().filter(|at| *at <= self.start + end) {
            self.passed = self.passed.max(at.saturating_duration_since(self.start));
            let effects = self.index.due(self.now());
            self.carry_out(effects);
        }
        self.passed = end;
        let effects = self.index.due(self.now());
        self.carry_out(effects);
    }

    pub(super) fn status(&self) -> &SidecarSetStatus {
        self.sets["s"].status.as_ref().unwrap()
    }

    /// Matched, updated, ready, updated and ready, not injected.
    pub(super) fn counts(&self) -> [i32; 5] {
        let status = self.status();
        let counts = [
            status.matched_pods,
            status.updated_pods,
            status.ready_pods,
            status.updated_ready_pods,
            status.not_injected_pods,
        ];
        counts.map(|count| count.unwrap_or(-1))
    }

    /// Reason of a condition.
    pub(super) fn reason(&self, condition: &str) -> &str {
        let conditions = &self.status().conditions;
        conditions.iter().find(|known| known.type_ == condition).map_or("", |known| &known.reason)
    }

    /// Names of the pods that have an entry on a node.
    pub(super) fn asked(&self, node: &str) -> Vec<&str> {
        self.nodes[node].desired.iter().map(|pod| pod.name.as_str()).collect()
    }

    /// The agent of a node answers all its entries, and patches the pods if it says that they succeeded.
    pub(super) fn agent(&mut self, node: &str, phase: UpdatePhase) {
        let since = Some(Time(self.now().wall));
        let entries = self.nodes[node].desired.clone();
        for entry in &entries {
            let answer = UpdatedPod {
                uid: entry.uid.clone(),
                owner: entry.owner.clone(),
                owner_uid: entry.owner_uid.clone(),
                revision: entry.revision.clone(),
                attempt: entry.attempt,
                phase,
                reason: None,
                message: None,
                since: since.clone(),
                containers: Vec::new(),
                swaps: Vec::new(),
                previous: None,
            };
            let known = self.nodes.get_mut(node).unwrap();
            known.pods.retain(|pod| (&pod.uid, &pod.owner) != (&entry.uid, &entry.owner));
            known.pods.push(answer);
            let succeeds = |pod: &&PodSeen| phase == UpdatePhase::Succeeded && pod.sidecars.is_some();
            let Some(pod) = self.pods.get(&entry.name).filter(succeeds) else {
                continue;
            };
            let patched = with(pod.clone(), |sidecars| {
                for container in &entry.containers {
                    sidecars.images.insert(container.name.clone(), container.image.clone());
                }
                for swap in &entry.swaps {
                    let twins = names::twins(&swap.name);
                    let works = sidecars.working.get(&swap.name).cloned();
                    let next = twins.iter().find(|twin| Some(*twin) != works.as_ref()).unwrap().clone();
                    sidecars.images.extend(works.map(|works| (works, swap.empty_image.clone())));
                    sidecars.images.insert(next.clone(), swap.image.clone());
                    sidecars.working.insert(swap.name.clone(), next);
                }
                if let Some(word) = entry.upgradable {
                    sidecars.upgradable.insert("s".to_owned(), word.to_string());
                    return;
                }
                let merged: Value = serde_json::from_str(&entry.merge_annotations[names::HASH]).unwrap();
                for (set, entry) in merged.as_object().unwrap() {
                    let text = |member: &str| entry[member].as_str().unwrap().to_owned();
                    sidecars.hashes.insert(set.clone(), text("hash"));
                    sidecars.revisions.insert(set.clone(), text("controllerRevision"));
                }
            });
            self.pod(patched);
        }
        self.node_changed(node);
    }
}
