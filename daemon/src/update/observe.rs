//! One pod as the policy is to see it: what the API server shows, what the runtime runs, which images are there.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use berth_policy::{
    ContainerId, ContainerName, ContainerState, EnvValues, InstanceView,
    in_place_update::{
        ContainerView, EnvHash, Fate, Gate, ImageMatch, Instance, Leftovers, Life, Metadata, MetadataKey,
        Observed, Presence, Record,
    },
    time::later,
};
use k8s_openapi::{api::core::v1 as core, jiff::Timestamp};

use super::{env, pods::Version, state};
use crate::{base::clock::Clock, cri::made::Made, pods::read};

/// The readiness gate of in-place updates.
pub(super) const GATE: &str = "InPlaceUpdateReady";
/// Time in which a container that exited may be on its way to be started again, whatever its restart policy
/// says: the kubelet stops and starts a container whose definition has changed in one go.
const AFTERMATH: Duration = Duration::from_secs(10);

/// Time that a container has to run before the next batch may stop others, where the kubelet has not looked
/// at it yet. Its looks are a second apart: it calls a new one Ready after half of that on average.
const STEADY: Duration = Duration::from_millis(400);

/// Time that a container has to run that has fallen over before: the kubelet's own back-off begins with it.
const PROVEN: Duration = Duration::from_secs(10);

/// Facts that one container was created with, reduced to hashes.
#[derive(Clone, Debug)]
pub(super) struct Facts {
    definition: Option<u32>,
    env: Option<EnvHash>,
    /// `extractedEnvFromMetadataHash`.
    pub(super) published: Option<u64>,
    /// By the node's wall clock, since the epoch.
    finished: Option<Duration>,
    /// It had exited when the runtime was asked.
    exited: bool,
}

impl Facts {
    /// Hashes what the runtime tells of an instance of this container.
    pub(super) fn of(container: &core::Container, made: &Made, exited: bool) -> Self {
        let references = env::references(container);
        let values = made.env.as_ref().map(|env| env::actual(&references, env));
        Self {
            definition: made.definition,
            env: values.as_ref().map(env::Values::hash),
            published: values.as_ref().map(env::Values::published),
            finished: made.finished,
            exited,
        }
    }

    /// Whether the runtime can tell no more of an instance in this state.
    pub(super) fn are_all(&self, state: ContainerState) -> bool {
        self.exited || !matches!(state, ContainerState::Exited { .. })
    }

    /// `plainHash`.
    pub(super) fn plain(&self) -> u64 {
        self.definition.unwrap_or(0).into()
    }
}

/// Sources of a pod's picture, beside the pod.
pub(super) struct Sources<'a> {
    pub(super) instances: &'a BTreeMap<ContainerName, InstanceView>,
    pub(super) facts: &'a BTreeMap<ContainerId, Facts>,
    /// Exited instances beside them.
    pub(super) leftovers: BTreeMap<ContainerName, Leftovers>,
    /// Since when they were seen running.
    pub(super) running: &'a BTreeMap<ContainerId, Instant>,
    pub(super) images: BTreeMap<Arc<str>, Presence>,
    /// When this process wrote the gate False.
    pub(super) closed: Option<Instant>,
    /// Revision that the API server refuses, and its reason.
    pub(super) refused: Option<(String, String)>,
    pub(super) clock: &'a Clock,
    pub(super) now: Instant,
}

/// The picture, and when it changes by itself.
pub(super) struct Picture {
    pub(super) observed: Observed,
    pub(super) again: Option<Instant>,
}

/// Sources of one container's part of the picture, and when it changes by itself.
struct Look<'a> {
    pod: &'a core::Pod,
    record: Option<Record>,
    sources: Sources<'a>,
    again: Vec<Instant>,
}

/// Puts it together.
pub(super) fn observe(version: &Version, sources: Sources<'_>) -> Picture {
    let (pod, now) = (&version.pod, sources.now);
    let (metadata, gate) = (metadata(pod), gate(pod, &sources));
    let settled = version.settled <= now;
    let again = if settled { Vec::new() } else { vec![version.settled] };
    let mut look = Look { pod, record: record(pod), sources, again };
    // One whose order cannot be read has none, as at its launch.
    let order = read::order(pod).ok().flatten();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| {
        let name = ContainerName::from(container.name.as_str());
        let references = env::references(container);
        let image: Arc<str> = container.image.as_deref().unwrap_or("").into();
        ContainerView {
            priority: order.as_ref().and_then(|order| order.priority(&name)),
            reads: references.values().cloned().collect::<BTreeSet<MetadataKey>>(),
            env: env::expected(&references, &metadata).hash(),
            leftovers: look.sources.leftovers.remove(&name).unwrap_or(Leftovers::None),
            instance: look.instance(container, &name, &image),
            name,
            image,
        }
    });
    let containers = containers.collect();
    let observed = Observed {
        containers,
        fate: fate(pod),
        gate,
        record: look.record,
        kubelet_knows: settled && is_worked_on(pod),
        before: None,
        refused: look.sources.refused,
        metadata,
        images: look.sources.images,
    };
    Picture { observed, again: look.again.into_iter().min() }
}

/// Computes the values that the containers are to be created with once the pod has these values, too: as far
/// as they come from these keys. Only containers that read some of them are in it, and none in which the
/// kubelet puts such a value into another text (`$(NAME)`): the two would not fit together.
pub(super) fn env(
    pod: &core::Pod,
    changes: &Metadata,
    keys: &BTreeSet<MetadataKey>,
) -> BTreeMap<ContainerName, EnvValues> {
    let mut metadata = metadata(pod);
    metadata.extend(changes.clone());
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    containers
        .map(|container| {
            let mut references = env::references(container);
            references.retain(|_, key| keys.contains(key));
            if references.keys().any(|name| env::is_expanded(container, name)) {
                references.clear();
            }
            let values = env::expected(&references, &metadata);
            (ContainerName::from(container.name.as_str()), values.into_values())
        })
        .filter(|(_, values)| !values.0.is_empty())
        .collect()
}

/// Labels and annotations.
fn metadata(pod: &core::Pod) -> Metadata {
    let labels = pod.metadata.labels.iter().flatten();
    let annotations = pod.metadata.annotations.iter().flatten();
    let labels = labels.map(|(key, value)| (MetadataKey::Label(key.clone()), value.clone()));
    labels
        .chain(annotations.map(|(key, value)| (MetadataKey::Annotation(key.clone()), value.clone())))
        .collect()
}

/// The kubelet's pod worker is at this spec: what it does from now on, it does for that. While a container is being stopped for
/// an older one, nothing else shows it. Kubelets before 1.34 do not tell.
pub(super) fn is_worked_on(pod: &core::Pod) -> bool {
    let told = pod.status.as_ref().and_then(|status| status.observed_generation);
    told.is_none_or(|told| pod.metadata.generation.is_none_or(|wanted| wanted <= told))
}

/// The kubelet's pod worker is between the stop of the old instance and the start of the new one: the old one has exited and
/// the worker is at the spec or the mark that says so, or the new one is there. It tells nothing before it is through, and then
/// of what it finds at its next look at the runtime.
fn is_being_started(pod: &core::Pod, view: &InstanceView, has_image: bool) -> bool {
    let told = pod.status.as_ref().and_then(|status| status.observed_generation);
    match view.state {
        ContainerState::Exited { .. } => view.stopping || !has_image && told.is_some() && is_worked_on(pod),
        ContainerState::Created => has_image,
        ContainerState::Running | ContainerState::Unknown => false,
    }
}

fn record(pod: &core::Pod) -> Option<Record> {
    state::read(pod.metadata.annotations.as_ref()?.get(state::ANNOTATION)?)
}

fn fate(pod: &core::Pod) -> Fate {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    if read::is_mirror(&pod.metadata) {
        Fate::Static
    } else if pod.metadata.deletion_timestamp.is_some() {
        Fate::Gone
    } else if matches!(phase, Some("Succeeded" | "Failed")) {
        Fate::Ended
    } else {
        Fate::Alive
    }
}

fn gate(pod: &core::Pod, sources: &Sources<'_>) -> Gate {
    if !read::has_gate(pod, GATE) {
        return Gate::Absent;
    }
    match read::condition(pod, GATE) {
        None => Gate::Unwritten,
        Some(condition) if condition.status == "True" => Gate::Ready,
        Some(condition) => {
            // The API's times have whole seconds: it may have been a second later.
            let written = condition.last_transition_time.as_ref();
            let written = written.map(|time| later(sources.clock.instant(time.0), Duration::from_secs(1)));
            Gate::NotReady { since: sources.closed.or(written).unwrap_or(sources.now) }
        }
    }
}

impl Look<'_> {
    fn instance(
        &mut self,
        container: &core::Container,
        name: &ContainerName,
        wanted: &Arc<str>,
    ) -> Option<Instance> {
        let view = self.sources.instances.get(name)?;
        let facts = self.sources.facts.get(&view.id);
        let status = read::status(self.pod, &container.name);
        let wanted = env::definition(&container.name, wanted);
        let image = match facts.and_then(|facts| facts.definition) {
            None => ImageMatch::Unknown,
            Some(made) if made == wanted => ImageMatch::Wanted,
            Some(_) => ImageMatch::Other,
        };
        let early_ready = self.is_early_ready(container, status, view);
        let life = match self.life(name, status, view, facts) {
            Life::Restarting if is_being_started(self.pod, view, image == ImageMatch::Wanted) => {
                Life::Stopped
            }
            life => life,
        };
        Some(Instance {
            id: view.id.clone(),
            image,
            early_ready,
            image_id: status.map(|status| status.image_id.clone()).unwrap_or_default(),
            env: facts.and_then(|facts| facts.env),
            life,
            restarts: view.attempt,
        })
    }

    fn life(
        &mut self,
        name: &ContainerName,
        status: Option<&core::ContainerStatus>,
        view: &InstanceView,
        facts: Option<&Facts>,
    ) -> Life {
        let now = self.sources.now;
        let told = status.filter(|status| read::container_id(status) == Some(view.id.as_str()));
        let mut ready = told.is_some_and(|status| status.ready);
        if let Some(at) = told.and_then(|status| self.proven(name, status))
            && at > now
        {
            self.again.push(at);
            ready = false;
        }
        let waiting = status.and_then(|status| status.state.as_ref()?.waiting.as_ref()?.reason.as_deref());
        let crashes = waiting == Some("CrashLoopBackOff");
        match view.state {
            ContainerState::Running if view.stopping => Life::Restarting,
            ContainerState::Running => Life::Running { ready },
            ContainerState::Created | ContainerState::Unknown => Life::Restarting,
            ContainerState::Exited { code } if read::restart_policy(self.pod).restarts(code) => match crashes
            {
                true => Life::Crashing,
                false => Life::Restarting,
            },
            ContainerState::Exited { .. } => {
                let wall = self.sources.clock.instant_as_wall(now).duration_since(Timestamp::UNIX_EPOCH);
                let end = facts.and_then(|facts| facts.finished);
                match end.map(|end| wall.unsigned_abs().saturating_sub(end)) {
                    Some(since) if since >= AFTERMATH => Life::Ended,
                    Some(since) => {
                        self.again.push(later(now, AFTERMATH.saturating_sub(since)));
                        Life::Restarting
                    }
                    None => Life::Restarting,
                }
            }
        }
    }

    /// It runs steadily, has nothing that would have to succeed before it is Ready, and is the first one after the one that the
    /// kubelet told of last, which ran: it has not fallen over.
    fn is_early_ready(
        &mut self,
        container: &core::Container,
        status: Option<&core::ContainerStatus>,
        view: &InstanceView,
    ) -> bool {
        let begun = container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
        if begun || container.readiness_probe.is_some() || container.startup_probe.is_some() {
            return false;
        }
        let follows = |status: &core::ContainerStatus| {
            let ran = status.state.as_ref().is_some_and(|state| state.running.is_some());
            ran && status.ready
                && i64::from(view.attempt) == i64::from(status.restart_count).saturating_add(1)
        };
        let runs = view.state == ContainerState::Running && !view.stopping;
        let Some(since) = self.sources.running.get(&view.id).filter(|_| runs && status.is_some_and(follows))
        else {
            return false;
        };
        let steady = later(*since, STEADY);
        if steady > self.sources.now {
            self.again.push(steady);
        }
        steady <= self.sources.now
    }

    /// When a container that has fallen over since its batch was patched has run long enough to count: the kubelet calls one
    /// without a probe Ready whenever it is started. `None` for one that has not.
    fn proven(&self, name: &ContainerName, status: &core::ContainerStatus) -> Option<Instant> {
        let mut batches = self.record.as_ref()?.container_batches_record.iter();
        let batch = batches.rfind(|batch| batch.containers.contains(name))?;
        let before = status.last_state.as_ref()?.terminated.as_ref()?.started_at.as_ref()?.0;
        let since = status.state.as_ref()?.running.as_ref()?.started_at.as_ref()?.0;
        // Times have whole seconds: one that was started in the second of the patch may have been started before it.
        (before.as_second() > batch.timestamp).then(|| later(self.sources.clock.instant(since), PROVEN))
    }
}
