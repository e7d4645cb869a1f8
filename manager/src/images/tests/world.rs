//! A cluster in miniature: an index that leads, a clock that stands still, an API server that carries out
//! what is owed and shows it, and agents that answer when told to.

mod api_server;
mod queries;

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_proto::crd::{ImagePhase, ImagePullJobSpec, PullStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use serde_json::Value;

use crate::{
    effect::Effect,
    images::{Fetch, ImageIndex},
    index::alone::Alone,
    notes::Note,
    store::{JobSeen, Kind, NodeImageSeen, NodeSeen, Now, Object, PodSeen, PodStage},
    write::Write,
};

pub(super) const NAMESPACE: &str = "shop";

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(super) fn labels(labels: &[(&str, &str)]) -> BTreeMap<String, String> {
    labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(super) struct World {
    pub(super) index: Alone<ImageIndex, Effect>,
    start: Instant,
    pub(super) passed: Duration,
    version: u64,
    pub(super) nodes: BTreeMap<String, NodeSeen>,
    pub(super) images: BTreeMap<String, NodeImageSeen>,
    pub(super) jobs: BTreeMap<String, JobSeen>,
    pub(super) pods: BTreeMap<String, PodSeen>,
    /// Orders on their way. Carried out at once, unless they are to wait.
    pub(super) orders: VecDeque<Write>,
    pub(super) waits: bool,
    pub(super) fetches: Vec<Fetch>,
    pub(super) forgotten: Vec<Arc<str>>,
    /// How often an entry began to be there: by node and UID.
    pub(super) asks: BTreeMap<(String, String), u32>,
    /// Everything that was told, by all managers.
    pub(super) notes: Vec<Note>,
    /// Writes that were done, by kind.
    pub(super) node_writes: usize,
    pub(super) job_writes: usize,
}

impl World {
    pub(super) const BEGUN: Timestamp = Timestamp::constant(1_700_000_000, 0);

    /// One in which nothing has been listed yet.
    pub(super) fn unlisted() -> Self {
        Self {
            index: Alone::default(),
            start: Instant::now(),
            passed: Duration::ZERO,
            version: 0,
            nodes: BTreeMap::new(),
            images: BTreeMap::new(),
            jobs: BTreeMap::new(),
            pods: BTreeMap::new(),
            orders: VecDeque::new(),
            waits: false,
            fetches: Vec::new(),
            forgotten: Vec::new(),
            asks: BTreeMap::new(),
            notes: Vec::new(),
            node_writes: 0,
            job_writes: 0,
        }
    }

    /// One that leads, with empty complete lists and so many nodes with agents: `n0`, `n1`, …
    pub(super) fn with_nodes(count: usize) -> Self {
        let mut world = Self::unlisted();
        world.list_all();
        world.lead();
        (0..count).for_each(|number| world.join(&format!("n{number}"), &[]));
        world
    }

    pub(super) fn now(&self) -> Now {
        Now { instant: self.start + self.passed, wall: Self::BEGUN + self.passed }
    }

    pub(super) fn lead(&mut self) {
        let effects = self.index.owed(self.now());
        self.carry_out(effects);
    }

    /// Everything there is, as a watch lists it.
    pub(super) fn list_all(&mut self) {
        let now = self.now();
        for kind in Kind::ALL {
            self.index.list_begins(kind, now);
            let objects: Vec<Object> = match kind {
                Kind::Pod => self.pods.values().cloned().map(Object::Pod).collect(),
                Kind::Node => self.nodes.values().cloned().map(Object::Node).collect(),
                Kind::NodeImage => {
                    self.images.values().cloned().map(|seen| Object::NodeImage(Box::new(seen))).collect()
                }
                Kind::ImagePullJob => {
                    self.jobs.values().cloned().map(|seen| Object::ImagePullJob(Box::new(seen))).collect()
                }
                _ => Vec::new(),
            };
            for object in objects {
                self.show(&object);
            }
            let effects = self.index.list_ends(kind, now);
            self.carry_out(effects);
        }
    }

    /// Another manager takes over: what the first had decided and not written is lost.
    pub(super) fn fail_over(&mut self) {
        self.orders.clear();
        self.fetches.clear();
        self.index = Alone::default();
        self.list_all();
        self.lead();
    }

    fn next_version(&mut self) -> String {
        self.version += 1;
        self.version.to_string()
    }

    fn show(&mut self, object: &Object) {
        let effects = self.index.apply(object, self.now());
        self.carry_out(effects);
    }

    fn gone(&mut self, kind: Kind, namespace: &str, name: &str) {
        let effects = self.index.delete(kind, namespace, name, self.now());
        self.carry_out(effects);
    }

    // === what people and nodes do ===

    /// A node with an agent.
    pub(super) fn join(&mut self, name: &str, with: &[(&str, &str)]) {
        self.node(name, with);
        self.agent(name, None);
    }

    pub(super) fn node(&mut self, name: &str, with: &[(&str, &str)]) {
        let uid = match self.nodes.get(name) {
            Some(node) => node.uid.clone(),
            None => format!("uid-{}", self.next_version()),
        };
        let created = self.nodes.get(name).map_or(Some(self.now().wall), |node| node.created);
        let node = NodeSeen { name: name.to_owned(), uid, created, labels: labels(with) };
        self.nodes.insert(name.to_owned(), node.clone());
        self.show(&Object::Node(node));
    }

    /// The agent of a node makes its NodeImage, or says what its key is.
    pub(super) fn agent(&mut self, name: &str, key: Option<&str>) {
        let (resource_version, uid) = (self.next_version(), format!("image-{}", self.version));
        let owner = self.nodes.get(name).map(|node| node.uid.clone());
        let made = NodeImageSeen { name: name.to_owned(), uid, owner, ..NodeImageSeen::default() };
        let image = self.images.entry(name.to_owned()).or_insert(made);
        image.resource_version = resource_version;
        image.sealing_key = key.map(str::to_owned);
        self.show_image(name);
    }

    /// A NodeImage that says of itself that it has no Node.
    pub(super) fn alone(&mut self, name: &str, with: &[(&str, &str)]) {
        let (resource_version, uid) = (self.next_version(), format!("image-{}", self.version));
        let made = NodeImageSeen { name: name.to_owned(), uid, ..NodeImageSeen::default() };
        let image = self.images.entry(name.to_owned()).or_insert(made);
        (image.resource_version, image.alone) = (resource_version, Some(labels(with)));
        self.show_image(name);
    }

    pub(super) fn no_node(&mut self, name: &str) {
        self.nodes.remove(name);
        self.gone(Kind::Node, "", name);
    }

    pub(super) fn no_image(&mut self, name: &str) {
        self.images.remove(name);
        self.gone(Kind::NodeImage, "", name);
    }

    fn show_image(&mut self, name: &str) {
        if let Some(image) = self.images.get(name).cloned() {
            self.show(&Object::NodeImage(Box::new(image)));
        }
    }

    /// The agent says how far an entry is.
    pub(super) fn answer(&mut self, name: &str, job: &str, phase: ImagePhase) {
        let uid = self.jobs.get(job).map_or_else(|| job.to_owned(), |job| job.uid.clone());
        let version = self.next_version();
        let image = self.images.get_mut(name).expect("a node");
        let wish = image.desired.iter().find(|wish| wish.uid == uid).expect("an entry");
        let pull = PullStatus {
            uid: uid.clone(),
            version: wish.version,
            phase,
            progress: None,
            start_time: None,
            completion_time: None,
            image_id: None,
            message: None,
        };
        image.pulls.retain(|pull| pull.uid != uid);
        image.pulls.push(pull);
        image.resource_version = version;
        self.show_image(name);
    }

    /// All nodes that were asked by the job and have not ended end well; their names.
    pub(super) fn succeed_all(&mut self, job: &str) -> Vec<String> {
        let asked = self.asked(job);
        for name in &asked {
            self.answer(name, job, ImagePhase::Succeeded);
        }
        asked
    }

    /// All nodes that were asked by the job say that it waits for other pulls.
    pub(super) fn hear_all(&mut self, job: &str) {
        for name in &self.asked(job) {
            self.answer(name, job, ImagePhase::Waiting);
        }
    }

    pub(super) fn pod(&mut self, name: &str, node: &str, with: &[(&str, &str)], stage: PodStage) {
        let pod = PodSeen {
            owner: None,
            available: false,
            ready: false,
            namespace: NAMESPACE.to_owned(),
            name: name.to_owned(),
            uid: format!("uid-of-{name}"),
            version: 0,
            node: Some(node.to_owned()),
            labels: labels(with),
            stage,
            containers: Vec::new(),
            initialized: true,
            created: None,
            mirror: false,
            sidecars: None,
            spread: None,
            ip: None,
        };
        self.pods.insert(name.to_owned(), pod.clone());
        self.show(&Object::Pod(pod));
    }

    pub(super) fn no_pod(&mut self, name: &str) {
        self.pods.remove(name);
        self.gone(Kind::Pod, NAMESPACE, name);
    }

    /// Somebody makes a job, or changes its spec. `completionPolicy` may be left out.
    pub(super) fn job(&mut self, name: &str, mut spec: Value) {
        let object = spec.as_object_mut().expect("an object");
        object.entry("completionPolicy").or_insert_with(|| serde_json::json!({}));
        object.entry("image").or_insert_with(|| "registry.example.com/app:1".into());
        let spec: Result<ImagePullJobSpec, _> = serde_json::from_value(spec);
        let spec = spec.map_err(|error| error.to_string());
        let (resource_version, uid) = (self.next_version(), format!("job-{name}-{}", self.version));
        let made = JobSeen {
            uid,
            generation: None,
            created: Some(self.now().wall),
            ..JobSeen::of_test(NAMESPACE, name, Err(String::new()))
        };
        let job = self.jobs.entry(name.to_owned()).or_insert(made);
        (job.spec, job.resource_version) = (spec, resource_version);
        let job = job.clone();
        self.show(&Object::ImagePullJob(Box::new(job)));
    }

    pub(super) fn no_job(&mut self, name: &str) {
        self.jobs.remove(name);
        self.gone(Kind::ImagePullJob, NAMESPACE, name);
    }

    /// Lets time pass, and acts at every deadline on the way, as the caller must.
    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.passed + time;
        while let Some(at) = self.index.next_deadline().filter(|at| *at <= self.start + end) {
            self.passed = at.saturating_duration_since(self.start).max(self.passed);
            let effects = self.index.due(self.now());
            self.carry_out(effects);
            assert!(self.index.next_deadline().is_none_or(|next| next > at), "a deadline that does not pass");
        }
        self.passed = end;
    }
}
