//! Memory of one pod under update, from one plan to the next. None of it has to survive: what it takes to go
//! on after a crash is in the pod and in the status of the requests.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use super::{
    leftovers::Removal,
    resets::Patched,
    restarts::Restarts,
    retries::Attempts,
    settled::SeenPod,
    shown::Word,
    view::{CreatedWith, NodeView},
};
use crate::{
    InstanceView,
    creation_env::CreationEnv,
    in_place_update::UpdateRequest,
    model::{ContainerId, ContainerName, ContainerState},
};

/// A pod with open requests, or with something under way.
#[derive(Debug, Default)]
pub(crate) struct UpdatedPod {
    /// The API server shows it, and what it shows counts.
    pub(crate) followed: bool,
    pub(crate) seen: SeenPod,
    pub(crate) node: Option<Box<NodeView>>,
    /// How the newest instances were created.
    pub(crate) created: BTreeMap<ContainerId, CreatedWith>,
    /// Since when they were seen running.
    pub(crate) running: BTreeMap<ContainerId, Instant>,
    /// When this process closed the gate.
    pub(crate) closed: Option<Instant>,
    /// Word that a request is carried out, which this process said on the pod when it opened the gate. Gone
    /// when that request has ended.
    pub(crate) shown: Option<Box<Word>>,
    /// Revision whose patch the API server did not take, and its reason.
    pub(crate) refused: Option<(String, String)>,
    /// Why the API server does not take the next write for now.
    pub(crate) held: Option<String>,
    /// The last removal of exited instances.
    pub(crate) removal: Option<Removal>,
    pub(crate) restarts: Restarts,
    /// Images that were wished for.
    pub(crate) images: BTreeSet<Arc<str>>,
    /// Env values that containers are created with.
    pub(crate) env: CreationEnv,
    /// Attempts that failed, and when the next one is due.
    pub(crate) attempts: Attempts,
    /// A step that is under way.
    pub(crate) step: Option<Step>,
    /// A question that is under way.
    pub(crate) asking: bool,
    /// Whether the pod may have been written to unseen.
    pub(crate) doubt: Doubt,
    /// A patch may have been written although its answer says something else. Until the pod is seen again its
    /// env values stand: those of the pod as it was seen before are older than what the kubelet may have.
    pub(crate) is_unheard: bool,
}

/// Knowledge of a pod to which somebody else wrote, or of whose last write no answer came: it is asked for
/// before the next step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It was not, as far as is known.
    #[default]
    None,
    /// The question has not been asked, or could not be answered.
    Unasked,
    /// The answer is not there yet.
    Asked,
}

/// A step under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Clear,
    Stop,
    Close,
    /// The pod shows then that this request is carried out.
    Open(Option<Box<Word>>),
    Patch(Box<Patched>),
}

impl UpdatedPod {
    /// Forgets all but what is under way.
    pub(crate) fn forget(&mut self) {
        *self = Self { step: self.step.take(), asking: self.asking, ..Self::default() };
    }

    /// Tells whether the pod may be another one already than the one that was seen last: a write is under way
    /// or has no answer, or somebody else was faster. No request ends on that: a gate that is being closed
    /// would stay so.
    pub(crate) fn may_have_changed(&self) -> bool {
        self.doubt != Doubt::None || matches!(self.step, Some(Step::Close | Step::Open(_) | Step::Patch(_)))
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.step.is_none() && !self.asking && !self.followed
    }

    /// Returns the first of the pod's requests that names it: what is done for all of them is done by that
    /// name. By another one the pod would be taken for gone.
    pub(crate) fn first_of<'a>(&self, requests: &'a [UpdateRequest]) -> Option<&'a UpdateRequest> {
        let named = self.seen.view().and_then(|view| view.named.as_deref());
        requests.iter().find(|request| request.names(named)).or(requests.first())
    }

    /// Tells whether nothing is to be tried yet, and until when.
    pub(crate) fn is_paused(&self, now: Instant) -> Option<Instant> {
        self.attempts.pause(now)
    }

    /// The newest instance of each regular container, as the runtime tells; where nobody tells of a restart
    /// in time, as the pod's status does.
    pub(crate) fn instances(&self) -> BTreeMap<ContainerName, InstanceView> {
        let (Some(view), Some(node)) = (self.seen.view(), &self.node) else { return BTreeMap::new() };
        let mut instances = BTreeMap::new();
        for container in &view.containers {
            let known = node.instances.get(&container.name);
            let status = container.status.as_ref().filter(|status| status.runs);
            let told = status.and_then(|status| Some((status.id.clone()?, status.restarts)));
            let has_exited =
                |id: &ContainerId| node.exited.get(&container.name).is_some_and(|exited| exited.contains(id));
            // Where the runtime was looked at before the container was started, the status is newer. Of the
            // same instance, and of one that has exited, the runtime knows more, whatever the count: kubelets
            // from 1.36 on never lower theirs.
            let newer = told.filter(|(id, attempt)| {
                known.is_none_or(|known| match known.id == *id {
                    true => known.state == ContainerState::Created,
                    false => known.attempt < *attempt && !has_exited(id),
                })
            });
            let newest = match newer {
                Some((id, attempt)) => Some(InstanceView {
                    id,
                    attempt,
                    state: ContainerState::Running,
                    stopping: false,
                    hooked: false,
                }),
                None => known.cloned(),
            };
            instances.extend(newest.map(|newest| (container.name.clone(), newest)));
        }
        instances
    }
}
