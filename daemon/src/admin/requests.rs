//! Requests to recreate containers, as the wire has them.

use berth_policy::AssignError;
use berth_proto::{
    admin,
    crd::{
        ContainerRecreateRequest, ContainerRecreateRequestSpec, FailurePolicy, RecreateContainer,
        RecreateStrategy,
    },
};
use tonic::Status;

use crate::{
    base::causes::chain,
    recreate::{
        codec::{self, Row},
        files::{SubmitError, Unassigned},
    },
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

/// Says why a request was not taken.
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

/// Tells whether it is one of those that are asked for: by its name, as `namespace/name`, or all by nothing.
pub(super) fn is_named(wanted: &str, namespace: &str, name: &str) -> bool {
    wanted.is_empty() || wanted == name || wanted.split_once('/') == Some((namespace, name))
}

/// The requests of that name, or all, the oldest first.
pub(super) fn answer(requests: impl Iterator<Item = Row>, wanted: &str) -> admin::RequestsResponse {
    let mut requests: Vec<Row> =
        requests.filter(|request| is_named(wanted, &request.namespace, &request.name)).collect();
    requests.sort_by_key(|request| std::cmp::Reverse(request.age_milliseconds));
    admin::RequestsResponse { requests: requests.into_iter().map(codec::answer).collect() }
}

#[cfg(test)]
mod tests {
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
    fn the_oldest_first_and_by_name() {
        let row = |name: &str, age_milliseconds| Row {
            namespace: "shop".to_owned(),
            name: name.to_owned(),
            age_milliseconds,
            ..Row::default()
        };
        let names = |wanted: &str| -> Vec<String> {
            let all = [row("newer", 1), row("again", 1500)].into_iter();
            answer(all, wanted).requests.into_iter().map(|request| request.name).collect()
        };
        assert_eq!(names(""), ["again", "newer"]);
        assert_eq!((names("newer"), names("shop/newer")), (vec!["newer".into()], vec!["newer".into()]));
        assert!(names("other/newer").is_empty());
    }
}
