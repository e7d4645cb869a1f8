//! Requests to recreate containers, as the wire has them.

use berth_policy::{AssignError, ContainerName, ContainerPhase, Outcome, RequestPhase, RequestView};
use berth_proto::{
    admin,
    crd::{
        ContainerRecreateRequest, ContainerRecreateRequestSpec, FailurePolicy, RecreateContainer,
        RecreatePhase, RecreateStrategy,
    },
};
use jiff::Timestamp;
use tonic::Status;

use crate::{
    base::causes::chain,
    recreate::files::{FileRequest, SubmitError, Unassigned},
};

/// The pod that is named and what is to be done with it.
#[allow(clippy::result_large_err, reason = "what a service answers")]
pub(super) fn wanted(asked: admin::RecreateRequest) -> Result<(String, ContainerRecreateRequest), Status> {
    let strategy = RecreateStrategy {
        failure_policy: failure_policy(&asked.failure_policy)?,
        ordered_recreate: asked.ordered_recreate,
        force_recreate: asked.force_recreate,
        termination_grace_period_seconds: asked.termination_grace_period_seconds,
        unready_grace_period_seconds: asked.unready_grace_period_seconds,
        min_started_seconds: asked.min_started_seconds,
    };
    let container = |name| RecreateContainer { name, ..RecreateContainer::default() };
    let spec = ContainerRecreateRequestSpec {
        pod_name: String::new(),
        containers: asked.containers.into_iter().map(container).collect(),
        strategy: (strategy != RecreateStrategy::default()).then_some(strategy),
        active_deadline_seconds: asked.active_deadline_seconds,
        ttl_seconds_after_finished: asked.ttl_seconds_after_finished,
    };
    let request = ContainerRecreateRequest { metadata: Default::default(), spec, status: None };
    Ok((asked.pod, request))
}

/// Reads the failure policy: the effect of a container that fails on the rest.
#[allow(clippy::result_large_err, reason = "what a service answers")]
pub(super) fn failure_policy(word: &str) -> Result<Option<FailurePolicy>, Status> {
    match word {
        "" => Ok(None),
        "Fail" => Ok(Some(FailurePolicy::Fail)),
        "Ignore" => Ok(Some(FailurePolicy::Ignore)),
        other => {
            Err(Status::invalid_argument(format!("failure policy {other:?} is neither Fail nor Ignore")))
        }
    }
}

/// Why a request was not taken.
pub(super) fn refusal(error: &SubmitError) -> Status {
    let text = chain(error);
    match error {
        SubmitError::Invalid(_) => Status::invalid_argument(text),
        SubmitError::Unassigned(Unassigned::Not(why)) => match why {
            AssignError::NoPod(_) | AssignError::NoContainer { .. } => Status::not_found(text),
            AssignError::Ambiguous { .. } | AssignError::NoContainers(_) | AssignError::Twice { .. } => {
                Status::invalid_argument(text)
            }
        },
        SubmitError::Unassigned(Unassigned::Replaced { .. }) => Status::aborted(text),
        SubmitError::Unassigned(Unassigned::Runtime { .. }) | SubmitError::Early => Status::unavailable(text),
        SubmitError::Kept(_) | SubmitError::Name(_) => Status::internal(text),
    }
}

/// It is one of those that are asked for: by its name, as `namespace/name`, or all by nothing.
pub(super) fn is_named(wanted: &str, namespace: &str, name: &str) -> bool {
    wanted.is_empty() || wanted == name || wanted.split_once('/') == Some((namespace, name))
}

/// The requests of that name, or all, the oldest first.
pub(super) fn answer(
    requests: impl Iterator<Item = admin::RecreateState>,
    wanted: &str,
) -> admin::RequestsResponse {
    let picks = |request: &admin::RecreateState| is_named(wanted, &request.namespace, &request.name);
    let mut requests: Vec<admin::RecreateState> = requests.filter(picks).collect();
    requests.sort_by_key(|request| std::cmp::Reverse(request.age_milliseconds));
    admin::RequestsResponse { requests }
}

/// A request that is a file.
pub(super) fn of_file(file: FileRequest, now: Timestamp) -> admin::RecreateState {
    let states = &file.status.container_recreate_states;
    let container = |name: String| {
        let state = states.iter().find(|state| state.name == name);
        admin::ContainerRecreateState {
            phase: state.map(|state| phase(state.phase)).unwrap_or_default().to_owned(),
            message: state.and_then(|state| state.message.clone()).unwrap_or_default(),
            killed: state.is_some_and(|state| state.is_killed),
            name,
        }
    };
    let (outcome, reason) = match file.outcome {
        Some((true, reason)) => ("Complete", reason),
        Some((false, reason)) => ("Failed", reason),
        None => ("", String::new()),
    };
    let age = now.duration_since(file.created).as_millis();
    admin::RecreateState {
        namespace: file.namespace,
        name: file.name,
        origin: if file.submitted { "admin" } else { "file" }.to_owned(),
        file: file.path.display().to_string(),
        pod: file.pod,
        pod_uid: file.status.pod_uid.clone().unwrap_or_default(),
        containers: file.containers.into_iter().map(container).collect(),
        phase: file.status.phase.map(phase).unwrap_or_default().to_owned(),
        message: file.status.message.clone().unwrap_or_default(),
        age_milliseconds: u64::try_from(age).unwrap_or(0),
        outcome: outcome.to_owned(),
        reason,
        objection: file.objection.unwrap_or_default(),
    }
}

/// A request that is an object of the API server.
pub(super) fn of_api(view: RequestView) -> admin::RecreateState {
    let (namespace, name) = view.key.split_once('/').unwrap_or(("", &view.key));
    let container = |name: ContainerName| {
        let progress = view.progress.iter().find(|progress| progress.name == name);
        admin::ContainerRecreateState {
            phase: progress.map(|progress| container_phase(progress.phase)).unwrap_or_default().to_owned(),
            message: progress.map(|progress| progress.message.clone()).unwrap_or_default(),
            killed: progress.is_some_and(|progress| progress.killed),
            name: name.as_str().to_owned(),
        }
    };
    let (outcome, reason) = match view.outcome {
        Some(Outcome::Complete) => ("Complete", ""),
        Some(Outcome::Failed(reason)) => ("Failed", reason),
        None => ("", ""),
    };
    admin::RecreateState {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
        origin: "api".to_owned(),
        file: String::new(),
        pod: view.pod.as_ref().map(|pod| pod.name.clone()).unwrap_or_default(),
        pod_uid: view.pod.as_ref().map(|pod| pod.uid.as_str().to_owned()).unwrap_or_default(),
        containers: view.containers.iter().cloned().map(container).collect(),
        phase: match view.phase {
            RequestPhase::Pending => "Pending",
            RequestPhase::Recreating => "Recreating",
            RequestPhase::Completed => "Completed",
        }
        .to_owned(),
        message: view.message.clone(),
        age_milliseconds: super::millis(view.age),
        outcome: outcome.to_owned(),
        reason: reason.to_owned(),
        objection: String::new(),
    }
}

fn container_phase(phase: ContainerPhase) -> &'static str {
    match phase {
        ContainerPhase::Pending => "Pending",
        ContainerPhase::Recreating => "Recreating",
        ContainerPhase::Succeeded => "Succeeded",
        ContainerPhase::Failed => "Failed",
    }
}

fn phase(phase: RecreatePhase) -> &'static str {
    match phase {
        RecreatePhase::Pending => "Pending",
        RecreatePhase::Recreating => "Recreating",
        RecreatePhase::Completed => "Completed",
        RecreatePhase::Succeeded => "Succeeded",
        RecreatePhase::Failed => "Failed",
    }
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::{ContainerRecreateRequestStatus, RecreateState};

    use super::*;

    #[test]
    fn every_field_of_the_question_is_asked_for() {
        let asked = admin::RecreateRequest {
            pod: "shop/web".into(),
            containers: vec!["app".into(), "log".into()],
            ordered_recreate: true,
            force_recreate: true,
            failure_policy: "Ignore".into(),
            termination_grace_period_seconds: Some(1),
            unready_grace_period_seconds: Some(2),
            min_started_seconds: Some(3),
            active_deadline_seconds: Some(4),
            ttl_seconds_after_finished: Some(5),
        };
        let (pod, request) = wanted(asked.clone()).unwrap();
        let strategy = request.spec.strategy.unwrap();
        assert_eq!(pod, "shop/web");
        assert!(strategy.ordered_recreate && strategy.force_recreate);
        assert_eq!(strategy.failure_policy, Some(FailurePolicy::Ignore));
        assert_eq!(strategy.termination_grace_period_seconds, Some(1));
        assert_eq!((strategy.unready_grace_period_seconds, strategy.min_started_seconds), (Some(2), Some(3)));
        assert_eq!(request.spec.active_deadline_seconds, Some(4));
        assert_eq!(request.spec.ttl_seconds_after_finished, Some(5));
        assert_eq!(request.spec.containers[1].name, "log");
        assert!(wanted(admin::RecreateRequest { failure_policy: "fail".into(), ..asked }).is_err());
        let plain = wanted(admin::RecreateRequest::default()).unwrap().1;
        assert_eq!(plain.spec.strategy, None);
    }

    #[test]
    fn an_object_of_the_api_server() {
        let view = RequestView {
            id: "u-9".into(),
            key: "shop/again".to_owned(),
            origin: berth_policy::Origin::Api,
            pod: None,
            containers: vec!["app".into(), "log".into()],
            phase: RequestPhase::Completed,
            progress: vec![berth_policy::ContainerProgress {
                name: "log".into(),
                phase: ContainerPhase::Failed,
                message: "gone".to_owned(),
                killed: false,
            }],
            outcome: Some(Outcome::Failed("PodGone")),
            message: "pod has gone".to_owned(),
            age: std::time::Duration::from_secs(2),
        };
        let shown = of_api(view);
        assert_eq!(
            (shown.namespace.as_str(), shown.name.as_str(), shown.origin.as_str()),
            ("shop", "again", "api")
        );
        assert_eq!((shown.containers[0].phase.as_str(), shown.containers[1].phase.as_str()), ("", "Failed"));
        assert_eq!(
            (shown.outcome.as_str(), shown.reason.as_str(), shown.age_milliseconds),
            ("Failed", "PodGone", 2000)
        );
    }

    #[test]
    fn a_file_and_what_its_status_says() {
        let now = Timestamp::from_second(1_800_000_000).unwrap();
        let state = RecreateState {
            name: "log".into(),
            phase: RecreatePhase::Recreating,
            message: Some("stopping".into()),
            is_killed: true,
        };
        let file = FileRequest {
            path: "/etc/berth/desired/web.yaml".into(),
            submitted: false,
            namespace: "shop".into(),
            name: "again".into(),
            pod: "web".into(),
            containers: vec!["app".into(), "log".into()],
            created: now - jiff::SignedDuration::from_millis(1500),
            status: ContainerRecreateRequestStatus {
                phase: Some(RecreatePhase::Recreating),
                container_recreate_states: vec![state],
                ..ContainerRecreateRequestStatus::default()
            },
            objection: Some("spec is immutable".into()),
            outcome: None,
        };
        let shown = of_file(file.clone(), now);
        assert_eq!(
            (shown.origin.as_str(), shown.age_milliseconds, shown.phase.as_str()),
            ("file", 1500, "Recreating")
        );
        assert_eq!(shown.containers[0].phase, "");
        assert_eq!((shown.containers[1].phase.as_str(), shown.containers[1].killed), ("Recreating", true));
        assert_eq!((shown.outcome.as_str(), shown.objection.as_str()), ("", "spec is immutable"));

        let newer = FileRequest { name: "newer".into(), created: now, submitted: true, ..file.clone() };
        let failed = FileRequest { outcome: Some((false, "PodGone".into())), ..file };
        let all = || [newer.clone(), failed.clone()].map(|file| of_file(file, now)).into_iter();
        let names = |wanted: &str| -> Vec<String> {
            answer(all(), wanted).requests.into_iter().map(|request| request.name).collect()
        };
        assert_eq!(names(""), ["again", "newer"]);
        assert_eq!((names("newer"), names("shop/newer")), (vec!["newer".into()], vec!["newer".into()]));
        assert!(names("other/newer").is_empty());
        let failed = answer(all(), "again").requests.remove(0);
        assert_eq!((failed.outcome.as_str(), failed.reason.as_str()), ("Failed", "PodGone"));
    }
}
