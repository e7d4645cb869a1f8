//! Facts about probes, from those who want them, the runtime, the executors, and the pods.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use super::{
    model::ProbeResult,
    report::PodReport,
    step::{ConditionStatus, RunId},
    wanted::WantedPod,
};
use crate::model::{ContainerId, ContainerName, PodUid, SandboxId};

/// A fact. See [`crate::Probes::apply`].
#[derive(Clone, Debug)]
pub enum ProbeEvent {
    /// All that is wanted of this node, and nothing else is. Of two probes of a pod with one name, the first
    /// counts.
    Wanted(Vec<WantedPod>),
    /// The instances of this pod's containers, one for each name, and no others.
    Instances(PodUid, BTreeMap<ContainerName, Instance>),
    /// There is nothing of this pod on the node any more.
    PodGone(PodUid),
    /// Content of `NodePodProbe.status.podProbeStatuses`: the findings of an earlier process are taken for
    /// true where the container still is the one they speak of. To be said at start, before the first list of
    /// what is wanted.
    ///
    /// Times of the API are cut to whole seconds; give the second after, or a result that came within the
    /// second of the container's start is taken for one of the instance before.
    Reported(Vec<PodReport>),

    /// A run is over. One that is not known any more is ignored.
    RunEnded(RunId, ProbeResult),
    /// Marks that a pod shows of the ones it is asked for, see [`crate::Probes::asked`]; others are ignored,
    /// and so is what is older than what was shown before.
    Shown(Shown),
    /// A look is over. What it saw was said before as [`ProbeEvent::Shown`]; `Done` without it counts as a
    /// failure.
    LookEnded(PodUid, ProbeOutcome),
    /// Marks were written, or not. What the API server answered with is said before as [`ProbeEvent::Shown`],
    /// or an older state of the pod that comes by late looks as if somebody had taken them back.
    MarkEnded(PodUid, ProbeOutcome),
    /// The report was written, or not.
    ReportEnded(ProbeOutcome),
}

/// The instance of a container that counts: the newest that was started. One that was only created is not it
/// yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instance {
    /// CRI identity.
    pub id: ContainerId,
    /// Its sandbox.
    pub sandbox: SandboxId,
    /// State of the instance: says whether it runs.
    pub state: InstanceState,
}

/// Whether an instance can be probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstanceState {
    /// Its process runs.
    Running {
        /// Since then.
        since: Instant,
    },
    /// Its process ended, or nobody knows.
    NotRunning,
}

/// Marks that a pod shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Which pod.
    pub pod: PodUid,
    /// `metadata.resourceVersion`: a larger one is newer.
    pub version: u64,
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
    /// `status.conditions`, by type.
    pub conditions: BTreeMap<Arc<str>, ShownCondition>,
}

/// A condition of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownCondition {
    /// `status`.
    pub status: ConditionStatus,
    /// `message`.
    pub message: Arc<str>,
}

/// How a step that is a call of the API server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeOutcome {
    /// Carried out.
    Done,
    /// The subject of the step is not there (any more), another one of its name included.
    Gone,
    /// Failed; it is tried again.
    Failed,
    /// The API server understood and said no. It is tried again after a while.
    Refused,
}
