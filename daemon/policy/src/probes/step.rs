//! Steps that are due about probes. Each is given out once, and answered by the event it names, if it names
//! one.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use super::{model::ProbeRun, report::PodReport};
use crate::model::PodRef;

/// Effect that is wanted of the probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProbeStep {
    /// Run a probe once. Answered by `RunEnded`; an answer that is 10 s later than the timeout is not waited
    /// for.
    Run(RunId, ProbeRun),
    /// Asks what marks this pod shows. Answered by `Shown` and `LookEnded`.
    Look(PodRef),
    /// Write these on the pod, in one patch. Answered by `Shown` and `MarkEnded`.
    Mark(PodMarks),
    /// Let this be all of `NodePodProbe.status.podProbeStatuses`. Answered by `ReportEnded`.
    Report(Vec<PodReport>),
    /// Write this Event. No answer.
    EmitEvent(ProbeEventText),
}

/// One run. Never used twice in the life of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RunId(pub u64);

/// Changes to be made on a pod. What it shows already is not in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodMarks {
    /// The pod. One of the same name with another UID is not to be touched.
    pub pod: PodRef,
    /// Conditions to be set, by type.
    pub conditions: BTreeMap<Arc<str>, ConditionMark>,
    /// Labels to be set, or to be removed (`None`).
    pub labels: BTreeMap<Arc<str>, Option<Arc<str>>>,
    /// Annotations to be set, or to be removed (`None`).
    pub annotations: BTreeMap<Arc<str>, Option<Arc<str>>>,
}

/// A condition to be set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionMark {
    /// `status`.
    pub status: ConditionStatus,
    /// `message`, at most 1 KiB.
    pub message: Arc<str>,
    /// `lastProbeTime`: the end of the last run.
    pub last_probe: Option<Instant>,
    /// `lastTransitionTime`.
    pub last_transition: Instant,
}

/// `status` of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ConditionStatus {
    /// `True`.
    True,
    /// `False`.
    False,
    /// `Unknown`.
    Unknown,
}

/// An Event about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeEventText {
    /// The pod.
    pub pod: PodRef,
    /// `reason`, which decides about `type` too.
    pub reason: ProbeReason,
    /// `message`: the name of the probe and its words, at most 1 KiB.
    pub message: String,
}

/// Reasons of Events; those of results are OpenKruise's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeReason {
    /// It succeeds now.
    Succeeded,
    /// It fails now.
    Failed,
    /// It cannot be carried out.
    Unknown,
}

impl ConditionStatus {
    /// Name of it, as the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::True => "True",
            Self::False => "False",
            Self::Unknown => "Unknown",
        }
    }
}

impl ProbeReason {
    /// Name of it, as the API spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Succeeded => "KruiseProbeSucceeded",
            Self::Failed => "KruiseProbeFailed",
            Self::Unknown => "ProbeUnknown",
        }
    }

    /// The Event is a `Warning`, not `Normal`. A probe that fails is an answer like any other.
    pub fn is_warning(self) -> bool {
        match self {
            Self::Succeeded | Self::Failed => false,
            Self::Unknown => true,
        }
    }
}
