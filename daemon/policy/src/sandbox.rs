//! Memory of one pod sandbox: its containers, the SyncPod it is in, and which launch levels are open.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    call::Declared,
    model::{ConnectionId, Container, ContainerId, ContainerName, ContainerState, PodRef},
    own_probes::OwnProbes,
};

/// A position in the sequence of everything that happened; later is greater.
pub(crate) type Seq = u64;

/// How old an answer of the runtime may be when a barrier opens on its word.
pub(crate) const FRESH: Duration = Duration::from_millis(50);

/// More containers than any pod has; what a client asks for beyond that is not remembered.
const MOST_CONTAINERS: usize = 1000;

/// One pod sandbox.
#[derive(Clone, Debug)]
pub(crate) struct Sandbox {
    pub(crate) pod: PodRef,
    pub(crate) declared: Declared,
    /// The runtime itself showed it. One that only a request named goes with that request.
    pub(crate) confirmed: bool,
    pub(crate) since: Seq,
    pub(crate) instances: BTreeMap<ContainerId, Instance>,
    /// Launch levels whose barrier was passed.
    pub(crate) latched: BTreeSet<i32>,
    pub(crate) pass: Pass,
    pub(crate) inspection: Inspection,
    /// When something last hinted at an exit: the kubelet asked about a container, or the pod view showed the
    /// pod anew.
    pub(crate) hinted: Seq,
    /// A container that is said to have ended, and until when the runtime's list may not show it yet:
    /// containerd says so before its own CRI plugin has heard of it.
    pub(crate) ending: Option<(ContainerId, Instant)>,
    /// `StopPodSandbox` was asked.
    pub(crate) stopping: bool,
    /// Containers that asked to be created and were not let through, for people.
    pub(crate) waiting: BTreeMap<ContainerName, Waiting>,
}

/// Wait of a container: since when, and for whom.
#[derive(Clone, Debug)]
pub(crate) struct Waiting {
    pub(crate) since: Instant,
    pub(crate) waiting_for: Vec<ContainerName>,
}

/// One container instance.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub(crate) container: Container,
    /// When its state was last learned.
    pub(crate) changed: Seq,
    pub(crate) start: Start,
    /// The last time a connection asked `ContainerStatus` for it.
    pub(crate) status_asked: Option<(ConnectionId, Seq)>,
    /// Since when it runs, or is known to run.
    pub(crate) running_since: Option<Instant>,
    /// When it began to run, as far as is known; its end does not take that back.
    pub(crate) began: Option<Instant>,
    /// Since when the pod view has called it Ready without a break.
    pub(crate) ready_since: Option<Instant>,
    /// Somebody asked the runtime to stop it.
    pub(crate) stop_asked: bool,
    /// Results of the agent's own runs of its probes.
    pub(crate) own: OwnProbes,
    /// Its postStart hook, where that is a command.
    pub(crate) post_start: PostStart,
    /// When it was created, once a list has told.
    pub(crate) created: Option<Instant>,
}

/// Sight of the postStart hook of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PostStart {
    /// Nobody saw the start: whatever hook ends may be another one.
    Unseen,
    /// It was started; a hook that it has has not ended.
    Awaited,
    /// The first hook since the start has ended.
    Ended { well: bool },
}

/// When an instance was started, as far as the kubelet's knowledge of it depends on that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Start {
    pub(crate) at: Seq,
    /// The SyncPod that started it.
    pub(crate) pass: u64,
}

/// The SyncPod a sandbox is in, recognised by its attempts: one SyncPod tries each container at most once, in
/// spec order (kubelet `SyncPod`: a plain loop over `ContainersToStart`). A relist alone does not tell: PLEG
/// also relists while the worker pulls an image between two containers of one SyncPod.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pass {
    pub(crate) number: u64,
    /// The same, counted from the first one of this connection.
    pub(crate) on_connection: u64,
    connection: Option<ConnectionId>,
    attempted: BTreeSet<ContainerName>,
    last_index: Option<usize>,
}

impl Pass {
    /// A `CreateContainer` for `name` arrived; `index` is its place in the spec where that is known.
    pub(crate) fn attempt(&mut self, connection: ConnectionId, name: &ContainerName, index: Option<usize>) {
        let backwards = matches!((self.last_index, index), (Some(last), Some(index)) if index <= last);
        let full = self.attempted.len() >= MOST_CONTAINERS;
        if self.connection != Some(connection) || self.attempted.contains(name) || backwards || full {
            self.number += 1;
            let same = self.connection.replace(connection) == Some(connection);
            self.on_connection = if same { self.on_connection + 1 } else { 1 };
            self.attempted.clear();
            self.last_index = None;
        }
        self.attempted.insert(name.clone());
        self.last_index = index.or(self.last_index);
    }
}

/// The state of our own question to the runtime.
#[derive(Clone, Debug, Default)]
pub(crate) struct Inspection {
    /// Asked and not answered.
    pub(crate) in_flight: bool,
    /// The last question.
    pub(crate) asked: Option<AskedAt>,
    /// The last question that was answered.
    pub(crate) answered: Option<AskedAt>,
    /// When the last question ended, with or without an answer.
    pub(crate) ended: Option<Instant>,
    /// Containers that were removed while it was under way: its answer may still show them.
    pub(crate) removed: BTreeSet<ContainerId>,
}

/// Time at which a question was asked; the answer is as old as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct AskedAt {
    pub(crate) seq: Seq,
    pub(crate) at: Instant,
}

impl Instance {
    /// One of which nothing is known but that it is there.
    pub(crate) fn new(container: Container, changed: Seq, start: Start) -> Self {
        Self {
            container,
            changed,
            start,
            status_asked: None,
            running_since: None,
            began: None,
            ready_since: None,
            stop_asked: false,
            own: OwnProbes::default(),
            post_start: PostStart::Unseen,
            created: None,
        }
    }

    /// Rank by which the newer one of two instances of a container is the greater one.
    fn rank(&self) -> (u32, Seq) {
        (self.container.attempt, self.changed)
    }

    /// Keeps the time since when it runs in step with its state.
    pub(crate) fn runs(&mut self, now: Instant) {
        let running = self.container.state == ContainerState::Running;
        self.running_since = running.then(|| self.running_since.unwrap_or(now));
        self.began = self.running_since.or(self.began);
    }
}

impl Sandbox {
    pub(crate) fn new(pod: PodRef, declared: Declared, since: Seq) -> Self {
        Self {
            pod,
            declared,
            confirmed: false,
            since,
            instances: BTreeMap::new(),
            latched: BTreeSet::new(),
            pass: Pass::default(),
            inspection: Inspection::default(),
            hinted: since,
            ending: None,
            stopping: false,
            waiting: BTreeMap::new(),
        }
    }

    /// Closes its levels if none of its ordered containers is left: its pod begins anew then
    /// (`RestartAllContainers` of KEP-5532 removes all of them, and leaves ephemeral ones alone), and in its
    /// order; otherwise the kubelet keeps the newest instance of each. Tells whether any level was open.
    pub(crate) fn begins_anew(&mut self, is_ordered: impl Fn(&ContainerName) -> bool) -> bool {
        let is_left = self.instances.values().any(|instance| is_ordered(&instance.container.name));
        let begins = !is_left && !self.stopping && !self.latched.is_empty();
        if begins {
            self.latched.clear();
        }
        begins
    }

    /// The newest instance of a container: the one with the highest attempt.
    pub(crate) fn newest(&self, name: &ContainerName) -> Option<&Instance> {
        self.instances
            .values()
            .filter(|instance| instance.container.name == *name)
            .max_by_key(|instance| instance.rank())
    }

    /// The newest instances of all containers, by one look at all instances: for whoever asks about many.
    pub(crate) fn newest_of_each(&self) -> BTreeMap<&ContainerName, &Instance> {
        let mut newest: BTreeMap<&ContainerName, &Instance> = BTreeMap::new();
        for instance in self.instances.values() {
            let known = newest.entry(&instance.container.name).or_insert(instance);
            if known.rank() <= instance.rank() {
                *known = instance;
            }
        }
        newest
    }

    /// Takes what the runtime showed of one container at `asked`. What happened after that is newer than the
    /// answer.
    pub(crate) fn learn(&mut self, container: Container, asked: Seq, now: Seq, at: Instant) {
        let first_pass = 1; // unknown start: as if the first SyncPod seen from here had started it
        let start = Start { at: now, pass: first_pass };
        let instance = self
            .instances
            .entry(container.id.clone())
            .or_insert_with(|| Instance::new(container.clone(), 0, start));
        if instance.changed > asked {
            return;
        }
        // A known exit code is not forgotten because a list shows none.
        let known = match (instance.container.state, container.state) {
            (old @ ContainerState::Exited { code: Some(_) }, ContainerState::Exited { code: None }) => old,
            (_, new) => new,
        };
        instance.container = Container { state: known, ..container };
        instance.runs(at);
        instance.changed = asked;
    }

    /// Forgets the instances that an answer asked for at `asked` should have shown and did not.
    pub(crate) fn keep_only(&mut self, shown: &BTreeSet<ContainerId>, asked: Seq) {
        self.instances.retain(|id, instance| shown.contains(id) || instance.changed > asked);
    }
}
