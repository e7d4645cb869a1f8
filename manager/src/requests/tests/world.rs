//! A cluster in miniature: an index, a clock that stands still, and an API server that carries out what is
//! owed.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use berth_proto::crd::{
    ContainerRecreateRequestSpec, ContainerUpdateRequestSpec, RecreateContainer, RecreatePhase,
    RecreateState, UpdateContainer,
};
use jiff::Timestamp;

use crate::{
    effect::Effect,
    index::alone::Alone,
    requests::{
        Assignment, FailureReason, RequestAct, RequestIndex, RequestKind, RequestStatus, StatusPatch,
    },
    store::{
        ContainerSeen, CustomSeen, Kind, NodeSeen, Now, Object, PodSeen, PodStage, RecreateSeen, Role,
        UpdateSeen,
    },
    write::Write,
};

impl From<Effect> for StatusPatch {
    fn from(effect: Effect) -> Self {
        match effect.into() {
            Write::Request(patch) => patch,
            other => panic!("no request: {other:?}"),
        }
    }
}

pub(super) const NAMESPACE: &str = "default";

pub(super) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A container ID as runtimes make them.
pub(super) fn id(number: u32) -> String {
    format!("containerd://{number:064x}")
}

/// A running container whose newest instance is `number`.
pub(super) fn container(name: &str, number: u32) -> ContainerSeen {
    ContainerSeen {
        name: name.to_owned(),
        role: Role::Regular,
        id: Some(id(number)),
        restarts: number as i32,
        ports: Vec::new(),
    }
}

pub(super) fn node(name: &str) -> NodeSeen {
    NodeSeen { name: name.to_owned(), ..NodeSeen::default() }
}

/// An active pod on `node-1`.
pub(super) fn pod(name: &str, containers: &[ContainerSeen]) -> PodSeen {
    PodSeen {
        owner: None,
        available: false,
        ready: false,
        namespace: NAMESPACE.to_owned(),
        name: name.to_owned(),
        uid: format!("uid-of-{name}"),
        version: 0,
        node: Some("node-1".to_owned()),
        labels: BTreeMap::new(),
        stage: PodStage::Active,
        initialized: true,
        created: None,
        mirror: false,
        sidecars: None,
        spread: None,
        ip: None,
        containers: containers.to_vec(),
    }
}

/// A request for containers of `pod`, as a user makes it.
pub(super) fn request(name: &str, pod: &str, containers: &[&str]) -> RecreateSeen {
    let container = |name: &&str| RecreateContainer { name: (*name).to_owned(), ..Default::default() };
    let spec = ContainerRecreateRequestSpec {
        pod_name: pod.to_owned(),
        containers: containers.iter().map(container).collect(),
        ..Default::default()
    };
    RecreateSeen { created: Some(World::BEGUN), ..RecreateSeen::of_test(NAMESPACE, name, Ok(spec)) }
}

/// A request to update containers of `pod` to another image, as a user makes it.
pub(super) fn update(name: &str, pod: &str, containers: &[&str]) -> UpdateSeen {
    let container =
        |name: &&str| UpdateContainer { name: (*name).to_owned(), image: "r.example.com/a:2".to_owned() };
    let spec = ContainerUpdateRequestSpec {
        pod_name: pod.to_owned(),
        containers: containers.iter().map(container).collect(),
        ..Default::default()
    };
    UpdateSeen {
        uid: format!("uid-of-update-{name}"),
        created: Some(World::BEGUN),
        ..UpdateSeen::of_test(NAMESPACE, name, Ok(spec))
    }
}

pub(super) fn with_deadline(mut request: RecreateSeen, seconds: i64) -> RecreateSeen {
    if let Ok(spec) = &mut request.spec {
        spec.active_deadline_seconds = Some(seconds);
    }
    request
}

/// The request after its agent has ended it well.
pub(super) fn succeeded(mut request: RecreateSeen) -> RecreateSeen {
    let status = request.status.as_mut().unwrap();
    status.phase = Some(RecreatePhase::Completed);
    let states = status.container_status_contexts.iter().map(|context| RecreateState {
        name: context.name.clone(),
        phase: RecreatePhase::Succeeded,
        message: None,
        is_killed: true,
    });
    status.container_recreate_states = states.collect();
    changed(request)
}

pub(super) fn phase(mut request: RecreateSeen, phase: RecreatePhase) -> RecreateSeen {
    request.status.as_mut().unwrap().phase = Some(phase);
    changed(request)
}

/// The same object in its next version.
pub(super) fn changed<S, T>(mut request: CustomSeen<S, T>) -> CustomSeen<S, T> {
    let version: u64 = request.resource_version.parse().unwrap();
    request.resource_version = (version + 1).to_string();
    request
}

/// Content of a patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Assigned(Vec<(String, String, i32)>),
    Waits(String),
    Failed(FailureReason, String),
    Deleted,
}

pub(super) fn said(patch: &StatusPatch) -> Said {
    match &patch.write {
        RequestAct::Assign(Assignment { contexts, .. }) => Said::Assigned(
            contexts
                .iter()
                .map(|context| (context.name.clone(), context.container_id.clone(), context.restart_count))
                .collect(),
        ),
        RequestAct::Wait(why) => Said::Waits(why.to_string()),
        RequestAct::Fail(failure, _) => Said::Failed(failure.reason, failure.message.clone()),
        RequestAct::Delete => Said::Deleted,
    }
}

pub(super) struct World {
    pub(super) index: Alone<RequestIndex, StatusPatch>,
    start: Instant,
    passed: Duration,
    /// Requests that the API server has.
    pub(super) requests: BTreeMap<String, RecreateSeen>,
    /// The same of updates.
    pub(super) updates: BTreeMap<String, UpdateSeen>,
}

impl World {
    pub(super) const BEGUN: Timestamp = Timestamp::constant(1_700_000_000, 0);

    /// One in which nothing has been listed yet.
    pub(super) fn unlisted() -> Self {
        let index = Alone::default();
        let (requests, updates) = (BTreeMap::new(), BTreeMap::new());
        Self { index, start: Instant::now(), passed: Duration::ZERO, requests, updates }
    }

    /// One with empty complete lists and `node-1`.
    pub(super) fn new() -> Self {
        let mut world = Self::unlisted();
        world.list_all();
        let now = world.now();
        assert!(world.index.apply(Object::Node(node("node-1")), now).is_empty());
        world
    }

    pub(super) fn list_all(&mut self) -> Vec<StatusPatch> {
        let now = self.now();
        Kind::ALL.into_iter().for_each(|kind| self.index.list_begins(kind, now));
        Kind::ALL.into_iter().flat_map(|kind| self.index.list_ends(kind, now)).collect()
    }

    pub(super) fn now(&self) -> Now {
        Now { instant: self.start + self.passed, wall: Self::BEGUN + self.passed }
    }

    pub(super) fn pod(&mut self, pod: PodSeen) -> Vec<StatusPatch> {
        let now = self.now();
        self.index.apply(Object::Pod(pod), now)
    }

    pub(super) fn no_pod(&mut self, name: &str) -> Vec<StatusPatch> {
        let now = self.now();
        self.index.delete(Kind::Pod, NAMESPACE, name, now)
    }

    pub(super) fn node(&mut self, name: &str) -> Vec<StatusPatch> {
        let now = self.now();
        self.index.apply(Object::Node(node(name)), now)
    }

    pub(super) fn no_node(&mut self, name: &str) -> Vec<StatusPatch> {
        let now = self.now();
        self.index.delete(Kind::Node, "", name, now)
    }

    pub(super) fn request(&mut self, request: RecreateSeen) -> Vec<StatusPatch> {
        self.requests.insert(request.name.clone(), request.clone());
        let now = self.now();
        self.index.apply(Object::Request(Box::new(request)), now)
    }

    pub(super) fn update(&mut self, request: UpdateSeen) -> Vec<StatusPatch> {
        self.updates.insert(request.name.clone(), request.clone());
        let now = self.now();
        self.index.apply(Object::Update(Box::new(request)), now)
    }

    /// Shows a request of either kind.
    pub(super) fn show(&mut self, request: Object) -> Vec<StatusPatch> {
        match request {
            Object::Request(seen) => self.request(*seen),
            Object::Update(seen) => self.update(*seen),
            other => panic!("no request: {other:?}"),
        }
    }

    pub(super) fn no_update(&mut self, name: &str) -> Vec<StatusPatch> {
        self.updates.remove(name);
        let now = self.now();
        self.index.delete(Kind::Update, NAMESPACE, name, now)
    }

    pub(super) fn no_request(&mut self, name: &str) -> Vec<StatusPatch> {
        self.requests.remove(name);
        let now = self.now();
        self.index.delete(Kind::Request, NAMESPACE, name, now)
    }

    /// Lets time pass, and acts at every deadline on the way, as the caller must.
    pub(super) fn pass(&mut self, time: Duration) -> Vec<StatusPatch> {
        let end = self.passed + time;
        let mut patches = Vec::new();
        while let Some(at) = self.index.next_deadline().filter(|at| *at <= self.start + end) {
            let passed = at.saturating_duration_since(self.start);
            assert!(passed >= self.passed, "a deadline in the past that was due before");
            self.passed = passed;
            let now = self.now();
            patches.extend(self.index.due(now));
            assert!(self.index.next_deadline().is_none_or(|next| next > at), "a deadline that does not pass");
        }
        self.passed = end;
        patches
    }

    /// The API server does what is owed, and the watch shows it; what follows from that must be nothing.
    pub(super) fn write(&mut self, patch: &StatusPatch) -> RecreateSeen {
        let RequestStatus::Recreate(status) = patch.status() else { panic!("{patch:?}") };
        let request = written(&self.requests, patch, *status);
        assert!(self.request(request.clone()).is_empty(), "a second write follows from the first");
        request
    }

    /// The same for an update.
    pub(super) fn write_update(&mut self, patch: &StatusPatch) -> UpdateSeen {
        let RequestStatus::Update(status) = patch.status() else { panic!("{patch:?}") };
        let request = written(&self.updates, patch, *status);
        assert!(self.update(request.clone()).is_empty(), "a second write follows from the first");
        request
    }

    /// Writes a patch of either kind.
    pub(super) fn write_any(&mut self, patch: &StatusPatch) {
        match patch.id.kind {
            RequestKind::Recreate => drop(self.write(patch)),
            RequestKind::Update => drop(self.write_update(patch)),
        }
    }

    /// Expects one patch and writes it.
    pub(super) fn write_only(&mut self, patches: &[StatusPatch]) -> RecreateSeen {
        assert_eq!(patches.len(), 1, "{patches:?}");
        self.write(&patches[0])
    }
}

fn written<S: Clone, T: Clone>(
    known: &BTreeMap<String, CustomSeen<S, T>>,
    patch: &StatusPatch,
    status: T,
) -> CustomSeen<S, T> {
    let request = known.get(&*patch.id.key.name).expect("a write for a request that exists").clone();
    assert_eq!(*request.resource_version, *patch.resource_version, "decided on old news");
    assert_eq!(*request.uid, *patch.uid);
    changed(CustomSeen { status: Ok(status), ..request })
}

pub(super) fn only(patches: &[StatusPatch]) -> Said {
    assert_eq!(patches.len(), 1, "{patches:?}");
    said(&patches[0])
}

pub(super) fn reason(patches: &[StatusPatch]) -> FailureReason {
    match only(patches) {
        Said::Failed(reason, _) => reason,
        said => panic!("{said:?}"),
    }
}

pub(super) fn assigned(containers: &[(&str, u32)]) -> Said {
    Said::Assigned(
        containers.iter().map(|(name, number)| ((*name).to_owned(), id(*number), *number as i32)).collect(),
    )
}
