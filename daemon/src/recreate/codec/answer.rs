//! Answer of the admin socket about a request: the same words as in its status.

use berth_policy::{ContainerProgress, FailureReason, Outcome, RecreateReport, RequestView};
use berth_proto::admin;

use super::status::{container_phase, phase};

/// A request, for people.
#[derive(Clone, Debug, Default)]
pub(crate) struct Row {
    /// `metadata.namespace`.
    pub(crate) namespace: String,
    /// `metadata.name`.
    pub(crate) name: String,
    /// `api`, `file` or `admin`.
    pub(crate) origin: &'static str,
    /// Its file, where it is one.
    pub(crate) file: String,
    /// Name of the pod.
    pub(crate) pod: String,
    /// UID of the pod, once it is known.
    pub(crate) pod_uid: String,
    /// The containers, as they are listed.
    pub(crate) containers: Vec<String>,
    /// How far it is.
    pub(crate) report: RecreateReport,
    /// How old it is.
    pub(crate) age_milliseconds: u64,
    /// Why its file as it is now is not followed.
    pub(crate) objection: String,
}

/// An object of the API server, as the policy sees it.
impl From<RequestView> for Row {
    fn from(view: RequestView) -> Self {
        let (namespace, name) = view.key.split_once('/').unwrap_or(("", &view.key));
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            origin: "api",
            pod: view.pod.as_ref().map(|pod| pod.name.clone()).unwrap_or_default(),
            pod_uid: view.pod.as_ref().map(|pod| pod.uid.as_str().to_owned()).unwrap_or_default(),
            containers: view.containers.iter().map(|name| name.as_str().to_owned()).collect(),
            report: RecreateReport {
                phase: Some(view.phase),
                message: view.message,
                containers: view.progress,
                outcome: view.outcome,
                unready: false,
            },
            age_milliseconds: u64::try_from(view.age.as_millis()).unwrap_or(u64::MAX),
            ..Self::default()
        }
    }
}

/// The answer about one request.
pub(crate) fn answer(row: Row) -> admin::RecreateState {
    let Row { namespace, name, origin, file, pod, pod_uid, containers, report, age_milliseconds, objection } =
        row;
    let (outcome, reason) = match report.outcome {
        Some(Outcome::Complete) => ("Complete", ""),
        Some(Outcome::Failed(reason)) => ("Failed", FailureReason::name(reason)),
        None => ("", ""),
    };
    let container = |name: String| {
        let progress = report.containers.iter().find(|progress| progress.name.as_str() == name);
        state(name, progress)
    };
    admin::RecreateState {
        namespace,
        name,
        origin: origin.to_owned(),
        file,
        pod,
        pod_uid,
        containers: containers.into_iter().map(container).collect(),
        phase: report.phase.map(|of_request| phase(of_request).name()).unwrap_or_default().to_owned(),
        message: report.message.clone(),
        age_milliseconds,
        outcome: outcome.to_owned(),
        reason: reason.to_owned(),
        objection,
    }
}

fn state(name: String, progress: Option<&ContainerProgress>) -> admin::ContainerRecreateState {
    let phase = progress.map(|progress| container_phase(progress.phase).name());
    admin::ContainerRecreateState {
        phase: phase.unwrap_or_default().to_owned(),
        message: progress.map(|progress| progress.message.clone()).unwrap_or_default(),
        killed: progress.is_some_and(|progress| progress.killed),
        name,
    }
}
