//! A pod, its node and the sources of requests around the core: facts go in as the reconciler gives them,
//! actions come out and lie here until they are answered.

mod answers;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use super::super::{asking::Asking, world::World};
use crate::{
    ContainerId, ContainerName, ContainerState, CreationEnv, InstanceView, Moment, Path, PodUid, RequestId,
    RestartPolicy, StepOutcome,
    in_place_update::{
        ContainerStatusView, CreatedWith, DeclaredContainer, DeclaredHook, EnvReference, Fetched, Gate,
        GateView, InstanceQuestion, Life, Metadata, MetadataKey, Next, NodeView, PodView, PodWrite, Presence,
        StoredRequest, UpdateAction, UpdateEvent, UpdatePermission, UpdatePhase, UpdateReport, UpdateRequest,
        UpdateSource, Updates, WriteOutcome,
    },
};

/// The world's clock begins at this time.
const BEGIN: Duration = Duration::from_secs(1000);

pub(super) struct Play {
    pub(super) updates: Updates,
    pub(super) world: World,
    start: Instant,
    /// `resourceVersion`, and the one that the core knows.
    pub(super) number: u64,
    pub(super) known: Option<u64>,
    /// Status of each container as the kubelet has written it, and of which version of the pod.
    pub(super) statuses: Vec<ContainerStatusView>,
    pub(super) observed: u64,
    pub(super) probed: BTreeSet<ContainerName>,
    pub(super) exited: BTreeMap<ContainerName, BTreeSet<ContainerId>>,
    /// Everything that happened on the node.
    pub(super) seq: u64,
    pub(super) relisted: Option<u64>,
    pub(super) requests: BTreeMap<RequestId, UpdateRequest>,
    pub(super) fetching: bool,
    pub(super) inspecting: Option<Vec<InstanceQuestion>>,
    pub(super) step: Option<UpdateAction>,
    pub(super) reports: Vec<(RequestId, UpdateReport)>,
    pub(super) deletions: Vec<RequestId>,
    pub(super) images: BTreeSet<Arc<str>>,
    pub(super) env: CreationEnv,
    /// Restarts that the node knows of.
    pub(super) restarts: BTreeMap<RequestId, (ContainerName, ContainerId)>,
    pub(super) all_known: bool,
}

/// The kubelet's hash of a definition, more or less.
fn definition(image: &str) -> u32 {
    image.bytes().fold(7, |hash: u32, byte| hash.wrapping_mul(31).wrapping_add(byte.into()))
}

/// The variable for a key.
fn variable(key: &MetadataKey) -> String {
    format!("{key:?}")
}

impl Play {
    pub(super) fn of(world: World) -> Self {
        let statuses = vec![ContainerStatusView::default(); world.containers.len()];
        let mut play = Self {
            updates: Updates::new(Path::Inline),
            start: world.now,
            number: 1,
            known: None,
            statuses,
            observed: 0,
            probed: BTreeSet::new(),
            exited: BTreeMap::new(),
            seq: 0,
            relisted: Some(0),
            requests: BTreeMap::new(),
            fetching: false,
            inspecting: None,
            step: None,
            reports: Vec::new(),
            deletions: Vec::new(),
            images: BTreeSet::new(),
            env: CreationEnv::new(),
            restarts: BTreeMap::new(),
            all_known: false,
            world,
        };
        (0..play.statuses.len()).for_each(|index| play.kubelet_reports(index));
        play.begins();
        play
    }

    pub(super) fn uid() -> PodUid {
        "uid".into()
    }

    /// Facts of a process that begins: all sources list what they have.
    fn begins(&mut self) {
        self.apply(UpdateEvent::PermissionKnown(UpdatePermission::Given));
        self.apply(UpdateEvent::PodsListed(BTreeSet::new()));
        for source in UpdateSource::ALL {
            let entries = self.requests.values().filter(|request| request.source == source);
            let entries = entries.map(|request| self.entry(request)).collect();
            self.apply(UpdateEvent::RequestsListed(source, entries));
        }
    }

    /// Another process takes over. The marks of restarts are in its store.
    pub(super) fn dies(&mut self) {
        self.loses_what_is_under_way();
        self.updates = Updates::new(Path::Inline);
        (self.known, self.all_known) = (None, false);
        (self.images, self.env) = (BTreeSet::new(), CreationEnv::new());
        self.world.overrides.clear();
        self.begins();
    }

    /// The tasks are lost, the process goes on.
    pub(super) fn executor_is_lost(&mut self) {
        self.loses_what_is_under_way();
        self.all_known = false;
        self.apply(UpdateEvent::ExecutorLost);
    }

    fn loses_what_is_under_way(&mut self) {
        (self.fetching, self.inspecting, self.step) = (false, None, None);
        self.reports.clear();
        self.deletions.clear();
    }

    pub(super) fn apply(&mut self, event: UpdateEvent) {
        self.updates.apply(event, self.world.now);
    }

    fn entry(&self, request: &UpdateRequest) -> StoredRequest {
        StoredRequest { request: request.clone(), flaw: None, version: 0 }
    }

    /// A request of the API that comes now.
    pub(super) fn ask(&mut self, images: &[(&str, &str)], annotations: &[(&str, &str)]) -> RequestId {
        let id = format!("r{}", self.requests.len());
        let now = self.world.now;
        let mut asking = Asking::of(self.world.clone());
        let request = UpdateRequest {
            delete_after: Some(Duration::from_secs(10)),
            created: now,
            ..asking.ask(&id, images, annotations).clone()
        };
        self.see(request)
    }

    pub(super) fn see(&mut self, request: UpdateRequest) -> RequestId {
        let id = request.id.clone();
        self.apply(UpdateEvent::RequestSeen(Box::new(self.entry(&request))));
        self.requests.insert(id.clone(), request);
        id
    }

    pub(super) fn wall(&self) -> Duration {
        BEGIN + (self.world.now - self.start)
    }

    pub(super) fn pass(&mut self, time: Duration) {
        self.world.now += time;
        self.world.wall = self.wall().as_secs().try_into().unwrap();
    }

    /// The pod, as the API server has it.
    pub(super) fn view(&self) -> PodView {
        let since = |at: Instant| BEGIN + (at - self.start);
        let observed = self.world.observed();
        let containers = self.world.containers.iter().zip(&observed.containers).zip(&self.statuses);
        let container = |((simulated, seen), status): ((&super::super::world::Simulated, &_), &_)| {
            let seen: &crate::in_place_update::ContainerView = seen;
            let status: &ContainerStatusView = status;
            let references = simulated
                .reads
                .iter()
                .map(|key| (variable(key), EnvReference { key: key.clone(), is_expanded: false }));
            DeclaredContainer {
                name: simulated.name.clone(),
                image: simulated.image.clone(),
                definition: definition(&simulated.image),
                restart_policy: None,
                restart_rules: Vec::new(),
                priority: simulated.priority,
                references: references.collect(),
                env: seen.env,
                is_probed: self.probed.contains(&simulated.name),
                hook: DeclaredHook::None,
                status: Some(status.clone()),
            }
        };
        PodView {
            uids: vec![Self::uid()],
            version: self.number,
            named: None,
            controller: observed.controller.clone(),
            liveness: self.world.liveness,
            generation: Some(self.world.version.try_into().unwrap()),
            observed_generation: Some(self.observed.try_into().unwrap()),
            restart_policy: RestartPolicy::Always,
            has_pull_secrets: false,
            metadata: self.world.metadata.clone(),
            gate: match self.world.gate {
                Gate::Absent => GateView::Absent,
                Gate::Unwritten => GateView::Unwritten,
                Gate::Ready => GateView::Ready,
                Gate::NotReady { since: at } => GateView::NotReady { since: Some(since(at)) },
            },
            records: self.world.all_records(),
            containers: containers.map(container).collect(),
        }
    }

    /// The snapshot of the pod, as the node knows it.
    pub(super) fn node_view(&self) -> NodeView {
        let instance = |container: &super::super::world::Simulated| {
            let state = match container.instance.life {
                Life::Running { .. } => ContainerState::Running,
                Life::Restarting | Life::Stopped | Life::Crashing | Life::Ended => {
                    ContainerState::Exited { code: Some(1) }
                }
            };
            let view = InstanceView {
                id: container.instance.id.clone(),
                attempt: container.instance.restarts,
                state,
                stopping: container.is_marked() && state != ContainerState::Running,
                hooked: false,
            };
            (container.name.clone(), view)
        };
        let presence = |image: &Arc<str>| {
            let there = self.world.on_node.contains(image);
            (image.clone(), if there { Presence::Present } else { Presence::Unknown })
        };
        let mut exited = self.exited.clone();
        for (name, view) in self.world.containers.iter().map(instance) {
            if view.state != ContainerState::Running {
                exited.entry(name).or_default().insert(view.id);
            }
        }
        NodeView {
            instances: self.world.containers.iter().map(instance).collect(),
            exited,
            relisted: self.relisted.map(Moment),
            images: self.images.iter().map(presence).collect(),
        }
    }

    /// The plan as of now, as the reconciler asks for it.
    pub(super) fn plan(&mut self) -> Vec<UpdateAction> {
        if self.updates.followed().next().is_some() {
            let view = Box::new(self.node_view());
            self.apply(UpdateEvent::NodeSeen(Self::uid(), view));
        }
        let actions = self.updates.plan(self.world.now, self.wall());
        if let Some(next) = self.updates.next_deadline() {
            assert!(next > self.world.now, "it would be asked again at once");
        }
        assert_eq!(self.updates.plan(self.world.now, self.wall()), [], "given out twice");
        actions
    }

    /// Lays an action down until it is answered; those without an answer are carried out.
    pub(super) fn take(&mut self, action: UpdateAction) {
        match action {
            UpdateAction::Fetch(_) => self.fetching = true,
            UpdateAction::Inspect { instances, .. } => self.inspecting = Some(instances),
            UpdateAction::Clear(..) | UpdateAction::Stop(..) | UpdateAction::Write { .. } => {
                self.step = Some(action);
            }
            UpdateAction::Report(request, report) => self.reports.push((request.id, *report)),
            UpdateAction::Delete(request) => self.deletions.push(request.id),
            UpdateAction::Tell(..) | UpdateAction::Ended(_) => {}
            UpdateAction::WantImage { image, .. } => drop(self.images.insert(image)),
            UpdateAction::LetImageGo(_, image) => drop(self.images.remove(&image)),
            UpdateAction::SetEnv(_, values) => {
                let metadata = |name: &ContainerName| -> Metadata {
                    let container = self.world.containers.iter().find(|known| known.name == *name).unwrap();
                    let value = |key: &MetadataKey| {
                        let set = values[name].0.iter().find(|(name, _)| *name == variable(key));
                        set.map(|(_, value)| (key.clone(), value.clone()))
                    };
                    container.reads.iter().filter_map(value).collect()
                };
                self.world.overrides = values.keys().map(|name| (name.clone(), metadata(name))).collect();
                self.env = values;
            }
            UpdateAction::Restart(request) => self.restart(request.id, &request.containers[0]),
            UpdateAction::DropRestart(id) => self.drop_restart(&id),
            UpdateAction::AllKnown(all) => {
                self.all_known = true;
                let wanted: BTreeSet<RequestId> = all.iter().map(|request| request.id.clone()).collect();
                let others = self.restarts.keys().filter(|id| !wanted.contains(*id)).cloned();
                others.collect::<Vec<_>>().iter().for_each(|id| self.drop_restart(id));
                for request in all {
                    self.restart(request.id, &request.containers[0]);
                }
            }
        }
    }

    fn restart(&mut self, id: RequestId, target: &crate::RecreateTarget) {
        let step = Next::Recreate([(target.name.clone(), target.instance.clone())].into());
        self.world.carry_out(&step, self.world.version);
        self.restarts.insert(id, (target.name.clone(), target.instance.clone()));
    }

    fn drop_restart(&mut self, id: &RequestId) {
        if let Some((name, instance)) = self.restarts.remove(id) {
            let container = self.world.container(name.as_str());
            if container.instance.id == instance {
                container.unmark();
            }
        }
    }
}
