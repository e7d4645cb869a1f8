//! A cluster in miniature: an index that leads, a clock that stands still, and an API server that carries out
//! what is owed and shows it.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use berth_proto::crd::{PodProbe, PodProbeMarkerSpec};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::{Value, json};

use crate::{
    index::alone::Alone,
    probes::{NodeAct, ProbeIndex, SETTLE, WRITTEN_EVERY},
    store::{ContainerSeen, Kind, MarkerSeen, NodePodProbeSeen, Now, Object, PodSeen, PodStage, Role},
    write::{Target, Write},
};

pub(super) const NAMESPACE: &str = "shop";

pub(super) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) fn container(name: &str, ports: &[(&str, u16)]) -> ContainerSeen {
    let ports = ports.iter().map(|(name, number)| ((*name).to_owned(), *number)).collect();
    ContainerSeen { name: name.to_owned(), role: Role::Regular, id: None, restarts: 0, ports }
}

/// On a node, Initialized, with an address and one container `game` with the port `http`.
pub(super) fn pod(name: &str, node: &str, with: &[(&str, &str)]) -> PodSeen {
    PodSeen {
        owner: None,
        available: false,
        ready: false,
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        version: 0,
        node: Some(node.to_owned()),
        labels: labels(with),
        stage: PodStage::Active,
        initialized: true,
        created: None,
        mirror: false,
        sidecars: None,
        spread: None,
        ip: Some([10, 0, 0, 7].into()),
        containers: vec![container("game", &[("http", 8080)])],
    }
}

/// An exec probe of the container `game`, with a condition of its own.
pub(super) fn idle() -> Value {
    json!({ "name": "idle", "containerName": "game", "probe": { "exec": { "command": ["/idle.sh"] } },
        "podConditionType": "game.io/idle" })
}

/// Pods with `app: game`, and these probes.
pub(super) fn spec(probes: &[Value]) -> Value {
    json!({ "selector": { "matchLabels": { "app": "game" } }, "probes": probes })
}

pub(super) const GAME: &[(&str, &str)] = &[("app", "game")];

pub(super) struct World {
    pub(super) index: Alone<ProbeIndex, Write>,
    start: Instant,
    pub(super) passed: Duration,
    version: u64,
    pub(super) pods: BTreeMap<String, PodSeen>,
    pub(super) markers: BTreeMap<String, MarkerSeen>,
    pub(super) nodes: BTreeMap<String, NodePodProbeSeen>,
    /// Orders on their way. Carried out at once, unless they are to wait.
    pub(super) orders: VecDeque<Write>,
    pub(super) waits: bool,
    /// When each object was last asked to be written to.
    asked: HashMap<Target, Duration>,
    /// Writes that were done, by kind.
    pub(super) node_writes: usize,
    pub(super) marker_writes: usize,
}

impl World {
    const BEGUN: Timestamp = Timestamp::constant(1_700_000_000, 0);

    /// One in which nothing has been listed yet.
    pub(super) fn unlisted() -> Self {
        Self {
            index: Alone::default(),
            start: Instant::now(),
            passed: Duration::ZERO,
            version: 0,
            pods: BTreeMap::new(),
            markers: BTreeMap::new(),
            nodes: BTreeMap::new(),
            orders: VecDeque::new(),
            waits: false,
            asked: HashMap::new(),
            node_writes: 0,
            marker_writes: 0,
        }
    }

    /// One that leads, with empty complete lists and the nodes `n0`, `n1`, …
    pub(super) fn with_nodes(count: usize) -> Self {
        let mut world = Self::unlisted();
        world.list_all();
        world.lead();
        (0..count).for_each(|number| world.join(&format!("n{number}")));
        world
    }

    pub(super) fn now(&self) -> Now {
        Now { instant: self.start + self.passed, wall: Self::BEGUN + self.passed }
    }

    pub(super) fn lead(&mut self) {
        self.asked.clear();
        let orders = self.index.owed(self.now());
        self.carry_out(orders);
        // Asked for by whoever leads anew.
        self.list(Kind::PodProbeMarker);
    }

    pub(super) fn rest(&mut self) {
        self.orders.clear();
        let orders = self.index.rests(self.now());
        assert!(orders.is_empty(), "{orders:?}");
    }

    pub(super) fn list(&mut self, kind: Kind) {
        self.index.list_begins(kind, self.now());
        let objects: Vec<Object> = match kind {
            Kind::Pod => self.pods.values().cloned().map(Object::Pod).collect(),
            Kind::PodProbeMarker => {
                self.markers.values().cloned().map(|seen| Object::PodProbeMarker(Box::new(seen))).collect()
            }
            Kind::NodePodProbe => {
                self.nodes.values().cloned().map(|seen| Object::NodePodProbe(Box::new(seen))).collect()
            }
            _ => Vec::new(),
        };
        for object in objects {
            self.show(&object);
        }
        let orders = self.index.list_ends(kind, self.now());
        self.carry_out(orders);
    }

    /// Everything there is, as the watches list it.
    pub(super) fn list_all(&mut self) {
        Kind::ALL.into_iter().for_each(|kind| self.list(kind));
    }

    /// Another manager takes over: what the first had decided and not written is lost.
    pub(super) fn fail_over(&mut self) {
        self.orders.clear();
        self.index = Alone::default();
        self.list_all();
        self.lead();
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn show(&mut self, object: &Object) {
        let orders = self.index.apply(object, self.now());
        self.carry_out(orders);
    }

    fn gone(&mut self, kind: Kind, namespace: &str, name: &str) {
        let orders = self.index.delete(kind, namespace, name, self.now());
        self.carry_out(orders);
    }

    // === what people and nodes do ===

    pub(super) fn pod(&mut self, pod: PodSeen) {
        self.pods.insert(pod.name.clone(), pod.clone());
        self.show(&Object::Pod(pod));
    }

    pub(super) fn no_pod(&mut self, name: &str) {
        self.pods.remove(name);
        self.gone(Kind::Pod, NAMESPACE, name);
    }

    /// Somebody makes a marker, or changes its spec.
    pub(super) fn marker(&mut self, name: &str, spec: Value) {
        let spec: Result<PodProbeMarkerSpec, _> = serde_json::from_value(spec);
        let (resource_version, created) = (self.next_version(), self.now().wall);
        let made = MarkerSeen {
            uid: format!("uid-of-marker-{}", self.version),
            generation: Some(0),
            created: Some(created),
            ..MarkerSeen::of_test(NAMESPACE, name, Err(String::new()))
        };
        let marker = self.markers.entry(name.to_owned()).or_insert(made);
        marker.spec = spec.map_err(|error| error.to_string());
        marker.resource_version = resource_version;
        marker.generation = marker.generation.map(|generation| generation + 1);
        self.show_marker(name);
    }

    pub(super) fn show_marker(&mut self, name: &str) {
        let marker = self.markers[name].clone();
        self.show(&Object::PodProbeMarker(Box::new(marker)));
    }

    pub(super) fn no_marker(&mut self, name: &str) {
        self.markers.remove(name);
        let left_alone = |target: &Target| &*target.key.name != name || target.kind != Kind::PodProbeMarker;
        self.asked.retain(|target, _| left_alone(target));
        self.gone(Kind::PodProbeMarker, NAMESPACE, name);
    }

    /// The agent of a node makes its NodePodProbe.
    pub(super) fn join(&mut self, name: &str) {
        let version = self.next_version();
        let (name, uid) = (name.to_owned(), format!("uid-of-node-{version}"));
        let made = NodePodProbeSeen { name: name.clone(), uid, ..NodePodProbeSeen::default() };
        self.nodes.entry(name.clone()).or_insert(made);
        self.disturb(&name);
    }

    /// It writes something of its own there.
    pub(super) fn disturb(&mut self, name: &str) {
        let version = self.next_version();
        let Some(node) = self.nodes.get_mut(name) else { return };
        node.resource_version = version;
        self.show_node(name);
    }

    pub(super) fn show_node(&mut self, name: &str) {
        let node = self.nodes[name].clone();
        self.show(&Object::NodePodProbe(Box::new(node)));
    }

    pub(super) fn leave(&mut self, name: &str) {
        self.nodes.remove(name);
        self.asked.retain(|target, _| &*target.key.name != name || target.kind != Kind::NodePodProbe);
        self.gone(Kind::NodePodProbe, "", name);
    }

    // === the API server ===

    pub(super) fn carry_out(&mut self, orders: Vec<Write>) {
        for order in orders {
            let target = order.target();
            let every = if target.kind == Kind::NodePodProbe { SETTLE } else { WRITTEN_EVERY };
            if let Some(before) = self.asked.insert(target.clone(), self.passed) {
                assert!(self.passed >= before + every, "too soon: {order:?}");
            }
            match self.orders.iter_mut().find(|one| one.target() == target) {
                Some(waiting) => *waiting = order,
                None => self.orders.push_back(order),
            }
        }
        while !self.waits && self.write_one() {}
    }

    /// Orders that were on their way arrive.
    pub(super) fn carry_out_late(&mut self, orders: Vec<Write>) {
        self.orders.extend(orders);
        while self.write_one() {}
    }

    /// The oldest order finds no room in the queue.
    pub(super) fn lose_one(&mut self) {
        if let Some(order) = self.orders.pop_front() {
            self.index.lost(&order.target(), self.now());
        }
    }

    /// Carries out the oldest order, if there is one. On another version than it was decided on it does
    /// nothing.
    pub(super) fn write_one(&mut self) -> bool {
        let Some(order) = self.orders.pop_front() else { return false };
        let version = self.next_version();
        let (name, as_seen) = (order.target().key.name.to_string(), order.resource_version().to_owned());
        match order {
            Write::NodeProbes(order) => {
                let Some(node) = self.nodes.get_mut(&name).filter(|node| node.resource_version == as_seen)
                else {
                    return true;
                };
                assert_eq!(*node.uid, *order.uid);
                match order.act {
                    NodeAct::Desired(pods) => {
                        let desired: Vec<_> = pods.iter().map(|pod| pod.entry()).collect();
                        assert_ne!(node.desired, desired, "nothing is changed by it");
                        node.desired = desired;
                    }
                    NodeAct::TakeNoticeBack => assert!(std::mem::take(&mut node.noticed)),
                }
                node.resource_version = version;
                self.node_writes += 1;
                self.show_node(&name);
            }
            Write::Marker(order) => {
                let Some(marker) =
                    self.markers.get_mut(&name).filter(|marker| marker.resource_version == as_seen)
                else {
                    return true;
                };
                assert_eq!(*marker.uid, *order.uid);
                assert_ne!(marker.status.as_ref().unwrap(), &*order.status, "nothing is changed by it");
                (marker.status, marker.resource_version) = (Ok(*order.status), version);
                self.marker_writes += 1;
                self.show_marker(&name);
            }
            order => panic!("{order:?}"),
        }
        true
    }

    /// Lets time pass, and acts at every deadline on the way, as the caller must.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while let Some(at) = self.index.next_deadline().filter(|at| *at <= self.start + end) {
            self.passed = at.saturating_duration_since(self.start).max(self.passed);
            let orders = self.index.due(self.now());
            self.carry_out(orders);
            assert!(self.index.next_deadline().is_none_or(|next| next > at), "a deadline that does not pass");
        }
        self.passed = end;
    }

    // === what can be seen ===

    pub(super) fn desired(&self, node: &str) -> &[PodProbe] {
        &self.nodes[node].desired
    }

    /// The entries of a node, each as `pod: probe probe …`.
    pub(super) fn told(&self, node: &str) -> Vec<String> {
        let told = |pod: &PodProbe| {
            let probes: Vec<_> = pod.probes.iter().map(|probe| probe.name.as_str()).collect();
            format!("{}: {}", pod.name, probes.join(" "))
        };
        self.desired(node).iter().map(told).collect()
    }

    pub(super) fn matched(&self, marker: &str) -> i64 {
        self.markers[marker].status.as_ref().unwrap().matched_pods.unwrap_or(-1)
    }

    pub(super) fn accepted(&self, marker: &str) -> &Condition {
        let conditions = &self.markers[marker].status.as_ref().unwrap().conditions;
        assert_eq!(conditions.len(), 1, "{conditions:?}");
        &conditions[0]
    }
}
