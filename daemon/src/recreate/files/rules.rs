//! What a request must not say: the rules of admission in a cluster, for requests that no API server has seen.

use berth_proto::crd::{
    ContainerRecreateRequest, ContainerRecreateRequestStatus, MOST_SECONDS, RecreateContainer,
};

/// A value that cannot be. `Display` names the field and says what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {remedy}")]
pub(crate) struct Invalid {
    field: String,
    remedy: String,
}

/// The most containers that a request may name; the definitions have the same bound.
pub(crate) const MOST_CONTAINERS: usize = 256;

/// The shortest `activeDeadlineSeconds`; OpenKruise's.
const SHORTEST_DEADLINE: i64 = 3;

/// Checks a request that was read.
pub(super) fn check(request: &ContainerRecreateRequest) -> Result<(), Invalid> {
    let spec = &request.spec;
    // An empty one is what `kubectl create --dry-run` writes.
    if request.status.as_ref().is_some_and(|status| *status != ContainerRecreateRequestStatus::default()) {
        return invalid("status", "is berthd's to write: leave it out");
    }
    for (field, value) in
        [("metadata.name", &request.metadata.name), ("metadata.namespace", &request.metadata.namespace)]
    {
        if value.as_ref().is_some_and(|name| name.is_empty() || name.contains('/')) {
            return invalid(field, "is a name without a slash, and not empty: write one or leave it out");
        }
    }
    if spec.pod_name.is_empty() {
        return invalid("spec.podName", "is empty: name the pod");
    }
    if spec.pod_name.contains('/') {
        return invalid("spec.podName", "is the name alone: the namespace goes to metadata.namespace");
    }
    if spec.containers.is_empty() {
        return invalid("spec.containers", "is empty: list at least one");
    }
    if spec.containers.len() > MOST_CONTAINERS {
        let remedy = format!("has {} entries: list at most {MOST_CONTAINERS}", spec.containers.len());
        return invalid("spec.containers", remedy);
    }
    for (index, container) in spec.containers.iter().enumerate() {
        let field = |name: &str| format!("spec.containers[{index}].{name}");
        if container.name.is_empty() {
            return invalid(field("name"), "is empty: name the container");
        }
        if spec.containers[..index].iter().any(|before| before.name == container.name) {
            return invalid(field("name"), format!("{} is listed before: list it once", container.name));
        }
        if let Some(name) = filled_in(container) {
            return invalid(field(name), "is not for users, berthd looks at the pod itself: leave it out");
        }
    }
    let strategy = spec.strategy.clone().unwrap_or_default();
    let numbers = [
        ("spec.strategy.terminationGracePeriodSeconds", strategy.termination_grace_period_seconds),
        ("spec.strategy.unreadyGracePeriodSeconds", strategy.unready_grace_period_seconds),
        ("spec.strategy.minStartedSeconds", strategy.min_started_seconds.map(i64::from)),
        ("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
    ];
    for (field, number) in numbers {
        if let Some(number) = number.filter(|number| !(0..=MOST_SECONDS).contains(number)) {
            return invalid(
                field,
                format!("is {number}: write a number from 0 to {MOST_SECONDS}, or leave it out"),
            );
        }
    }
    let deadlines = SHORTEST_DEADLINE..=MOST_SECONDS;
    if let Some(deadline) = spec.active_deadline_seconds.filter(|deadline| !deadlines.contains(deadline)) {
        let remedy = format!(
            "is {deadline}: write a number from {SHORTEST_DEADLINE} to {MOST_SECONDS}, or leave it out"
        );
        return invalid("spec.activeDeadlineSeconds", remedy);
    }
    Ok(())
}

/// The first field that OpenKruise's webhook would fill in, and somebody has.
fn filled_in(container: &RecreateContainer) -> Option<&'static str> {
    [
        ("preStop", container.pre_stop.is_some()),
        ("ports", container.ports.as_ref().is_some_and(|ports| !ports.is_empty())),
        ("statusContext", container.status_context.is_some()),
    ]
    .into_iter()
    .find_map(|(name, there)| there.then_some(name))
}

fn invalid(field: impl Into<String>, remedy: impl Into<String>) -> Result<(), Invalid> {
    Err(Invalid { field: field.into(), remedy: remedy.into() })
}

#[cfg(test)]
mod tests {
    use berth_proto::crd::{
        ContainerRecreateRequestSpec, RecreatePhase, RecreateStrategy, SpecStatusContext,
    };

    use super::*;

    fn good() -> ContainerRecreateRequest {
        let container =
            |name: &str| RecreateContainer { name: name.to_owned(), ..RecreateContainer::default() };
        let spec = ContainerRecreateRequestSpec {
            pod_name: "web".to_owned(),
            containers: vec![container("app"), container("log")],
            strategy: Some(RecreateStrategy {
                termination_grace_period_seconds: Some(0),
                unready_grace_period_seconds: Some(0),
                min_started_seconds: Some(0),
                ..RecreateStrategy::default()
            }),
            active_deadline_seconds: Some(3),
            ttl_seconds_after_finished: Some(0),
        };
        ContainerRecreateRequest::new("again", spec)
    }

    #[test]
    fn every_rule_names_its_field() {
        type Spoil = fn(&mut ContainerRecreateRequest);
        let table: [(&str, Spoil); 18] = [
            ("status: ", |r| {
                let phase = Some(RecreatePhase::Completed);
                r.status = Some(ContainerRecreateRequestStatus { phase, ..Default::default() });
            }),
            ("metadata.name: ", |r| r.metadata.name = Some("a/b".into())),
            ("metadata.namespace: ", |r| r.metadata.namespace = Some(String::new())),
            ("spec.podName: is empty", |r| r.spec.pod_name.clear()),
            ("spec.podName: is the name alone", |r| r.spec.pod_name = "shop/web".into()),
            ("spec.containers: is empty", |r| r.spec.containers.clear()),
            ("spec.containers[1].name: is empty", |r| r.spec.containers[1].name.clear()),
            ("spec.containers[1].name: app is listed before", |r| r.spec.containers[1].name = "app".into()),
            ("spec.containers[0].preStop: ", |r| r.spec.containers[0].pre_stop = Some(Default::default())),
            ("spec.containers[1].ports: ", |r| r.spec.containers[1].ports = Some(vec![Default::default()])),
            ("spec.containers[0].statusContext: ", |r| {
                r.spec.containers[0].status_context = Some(SpecStatusContext::default());
            }),
            ("spec.strategy.terminationGracePeriodSeconds: is -1", |r| {
                r.spec.strategy.as_mut().unwrap().termination_grace_period_seconds = Some(-1);
            }),
            ("spec.strategy.unreadyGracePeriodSeconds: is -2", |r| {
                r.spec.strategy.as_mut().unwrap().unready_grace_period_seconds = Some(-2);
            }),
            ("spec.strategy.minStartedSeconds: is -3", |r| {
                r.spec.strategy.as_mut().unwrap().min_started_seconds = Some(-3);
            }),
            ("spec.ttlSecondsAfterFinished: is -4", |r| r.spec.ttl_seconds_after_finished = Some(-4)),
            ("spec.activeDeadlineSeconds: is 2", |r| r.spec.active_deadline_seconds = Some(2)),
            ("spec.activeDeadlineSeconds: is 0", |r| r.spec.active_deadline_seconds = Some(0)),
            ("spec.activeDeadlineSeconds: is -9", |r| r.spec.active_deadline_seconds = Some(-9)),
        ];
        check(&good()).unwrap();
        for (expected, spoil) in table {
            let mut request = good();
            spoil(&mut request);
            let error = check(&request).unwrap_err().to_string();
            assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
        }
    }
}
