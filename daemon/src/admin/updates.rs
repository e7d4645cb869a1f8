//! In-place updates, as the wire has them.

use std::time::Instant;

use berth_policy::{
    AssignError,
    in_place_update::{SwapReport, UpdateOutcome, UpdatePhase, UpdateRequest, UpdateSource, twins},
};
use berth_proto::{
    admin,
    crd::{self, ContainerUpdateRequestSpec, UpdateContainer, UpdateMetadata, UpdateStrategy},
};
use tonic::Status;

use super::requests::{failure_policy, is_named};
use crate::{base::causes::chain, update::SubmitError};

/// The pod that is named and what is to be done with it.
#[allow(clippy::result_large_err, reason = "what a service answers")]
pub(super) fn wanted(asked: admin::UpdateRequest) -> Result<(String, ContainerUpdateRequestSpec), Status> {
    let strategy = UpdateStrategy {
        grace_period_seconds: asked.grace_period_seconds,
        failure_policy: failure_policy(&asked.failure_policy)?,
    };
    let metadata = UpdateMetadata {
        labels: asked.labels.into_iter().collect(),
        annotations: asked.annotations.into_iter().collect(),
    };
    let container =
        |container: admin::ContainerImage| UpdateContainer { name: container.name, image: container.image };
    let spec = ContainerUpdateRequestSpec {
        pod_name: String::new(),
        containers: asked.containers.into_iter().map(container).collect(),
        swaps: asked.swaps.into_iter().map(swap).collect(),
        metadata: (metadata != UpdateMetadata::default()).then_some(metadata),
        strategy: (strategy != UpdateStrategy::default()).then_some(strategy),
        rollback_on_failure: asked.rollback_on_failure,
        active_deadline_seconds: asked.active_deadline_seconds,
        ttl_seconds_after_finished: asked.ttl_seconds_after_finished,
    };
    Ok((asked.pod, spec))
}

fn swap(asked: admin::TwinSwap) -> crd::TwinSwap {
    crd::TwinSwap {
        name: asked.name,
        image: asked.image,
        empty_image: asked.empty_image,
        version: 0,
        migration_seconds: asked.migration_seconds,
    }
}

/// Refusal where there is no API server.
pub(super) fn no_cluster(mode: &str) -> Status {
    Status::failed_precondition(format!(
        "updates need podView.mode api: the pod is changed at the API server, and with podView.mode {mode} berthd has none"
    ))
}

/// Returns the error for a call before the kept requests are known.
pub(super) fn early() -> Status {
    Status::unavailable(SubmitError::Early.to_string())
}

/// Says why a request was not taken.
pub(super) fn refusal(error: &SubmitError) -> Status {
    let text = chain(error);
    match error {
        SubmitError::Forbidden(_) | SubmitError::Static(_) => Status::failed_precondition(text),
        SubmitError::Early | SubmitError::Unseen { .. } => Status::unavailable(text),
        SubmitError::NoPod(AssignError::NoPod(_) | AssignError::NoContainer { .. })
        | SubmitError::Gone(_)
        | SubmitError::NoContainer { .. } => Status::not_found(text),
        SubmitError::NoPod(
            AssignError::Ambiguous { .. } | AssignError::NoContainers(_) | AssignError::Twice { .. },
        )
        | SubmitError::Init { .. }
        | SubmitError::Invalid(_) => Status::invalid_argument(text),
        SubmitError::Kept(_) | SubmitError::Name(_) => Status::internal(text),
    }
}

/// The updates of that name, or all, the oldest first.
pub(super) fn answer(mut updates: Vec<UpdateRequest>, wanted: &str, now: Instant) -> admin::UpdatesResponse {
    updates.sort_by(|a, b| (a.created, &a.id).cmp(&(b.created, &b.id)));
    let states = updates.into_iter().map(|update| state(update, now));
    let named = states.filter(|state| is_named(wanted, &state.namespace, &state.name));
    admin::UpdatesResponse { updates: named.collect() }
}

/// Says where one stands.
fn state(update: UpdateRequest, now: Instant) -> admin::UpdateState {
    let (name, origin) = match update.source {
        // An entry has no name of its own, and there is one for each pod.
        UpdateSource::NodePodUpdate => (update.pod.name.clone(), "controller"),
        UpdateSource::Api => (own_name(&update), "api"),
        UpdateSource::Admin => (own_name(&update), "admin"),
    };
    let reported = update.reported;
    let mut containers: Vec<_> = reported
        .containers
        .into_iter()
        .map(|container| admin::ContainerUpdateState {
            name: container.name.as_str().to_owned(),
            phase: container.phase.name().to_owned(),
            message: container.message,
        })
        .collect();
    if containers.is_empty() {
        let twins = update.swaps.keys().flat_map(|name| twins(name));
        containers.extend(update.images.keys().cloned().chain(twins).map(|name| {
            admin::ContainerUpdateState {
                name: name.as_str().to_owned(),
                ..admin::ContainerUpdateState::default()
            }
        }));
    }
    let (outcome, reason) = match (reported.outcome, reported.rolling_back) {
        (Some(UpdateOutcome::Complete), _) => ("Complete", ""),
        (Some(UpdateOutcome::Failed(reason)), _) => ("Failed", reason.name()),
        (None, Some((failure, _))) => ("", failure.reason.name()),
        (None, None) => ("", ""),
    };
    admin::UpdateState {
        namespace: update.pod.namespace,
        name,
        origin: origin.to_owned(),
        pod: update.pod.name,
        pod_uid: update.pod.uid.as_str().to_owned(),
        revision: update.revision,
        containers,
        phase: reported.phase.map(UpdatePhase::name).unwrap_or_default().to_owned(),
        message: reported.message,
        age_milliseconds: super::millis(now.saturating_duration_since(update.created)),
        outcome: outcome.to_owned(),
        reason: reason.to_owned(),
        swaps: reported.swaps.into_iter().map(swap_state).collect(),
    }
}

fn swap_state(swap: SwapReport) -> admin::TwinSwapState {
    admin::TwinSwapState {
        name: swap.name,
        working: swap.working.map(|twin| twin.as_str().to_owned()).unwrap_or_default(),
        step: swap.step.name().to_owned(),
    }
}

/// Returns the name of a request without its namespace.
fn own_name(update: &UpdateRequest) -> String {
    update.key.split_once('/').map_or(update.key.as_str(), |(_, name)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_policy::{
        PodRef,
        in_place_update::{
            ContainerUpdate, ContainerUpdatePhase, Failure, FailureReason, Metadata, SwapPhase, UpdateReport,
        },
    };
    use berth_proto::crd::FailurePolicy;

    use super::*;

    #[test]
    fn every_field_of_the_question_is_asked_for() {
        let pair = |key: &str| [(key.to_owned(), "1".to_owned())];
        let asked = admin::UpdateRequest {
            pod: "shop/web".into(),
            containers: vec![admin::ContainerImage { name: "main".into(), image: "web:v2".into() }],
            labels: pair("l").into(),
            annotations: pair("a").into(),
            grace_period_seconds: Some(1),
            failure_policy: "Ignore".into(),
            rollback_on_failure: true,
            active_deadline_seconds: Some(4),
            ttl_seconds_after_finished: Some(5),
            swaps: vec![admin::TwinSwap {
                name: "mesh".into(),
                image: "mesh:2".into(),
                empty_image: "empty:1".into(),
                migration_seconds: Some(7),
            }],
        };
        let (pod, spec) = wanted(asked.clone()).unwrap();
        let expected = ContainerUpdateRequestSpec {
            pod_name: String::new(),
            containers: vec![UpdateContainer { name: "main".into(), image: "web:v2".into() }],
            swaps: vec![crd::TwinSwap {
                name: "mesh".into(),
                image: "mesh:2".into(),
                empty_image: "empty:1".into(),
                version: 0,
                migration_seconds: Some(7),
            }],
            metadata: Some(UpdateMetadata { labels: pair("l").into(), annotations: pair("a").into() }),
            strategy: Some(UpdateStrategy {
                grace_period_seconds: Some(1),
                failure_policy: Some(FailurePolicy::Ignore),
            }),
            rollback_on_failure: true,
            active_deadline_seconds: Some(4),
            ttl_seconds_after_finished: Some(5),
        };
        assert_eq!((pod.as_str(), spec), ("shop/web", expected));
        assert!(wanted(admin::UpdateRequest { failure_policy: "fail".into(), ..asked }).is_err());
        let (_, plain) = wanted(admin::UpdateRequest::default()).unwrap();
        assert_eq!(plain, ContainerUpdateRequestSpec::default());
    }

    fn update(source: UpdateSource, key: &str, created: Instant) -> UpdateRequest {
        UpdateRequest {
            id: key.into(),
            source,
            key: key.to_owned(),
            created,
            pod: PodRef { uid: "p-1".into(), namespace: "shop".to_owned(), name: "web".to_owned() },
            revision: "r-1".to_owned(),
            images: [("main".into(), "web:v2".into())].into(),
            metadata: Metadata::new(),
            merges: Default::default(),
            defaults: Default::default(),
            swaps: Default::default(),
            owner: Default::default(),
            controller: None,
            injected_by: None,
            keeps_service: false,
            leaves_pull: false,
            shown_as: None,
            grace: Duration::ZERO,
            ignore_failures: false,
            rollback_on_failure: false,
            deadline: None,
            rollback_limit: Duration::ZERO,
            delete_after: None,
            reported: UpdateReport::default(),
            ended: None,
        }
    }

    #[test]
    fn updates_of_all_sources() {
        let then = Instant::now();
        let now = then + Duration::from_secs(2);
        let all = || {
            vec![
                update(UpdateSource::Admin, "shop/web-x7k2p", now),
                update(UpdateSource::NodePodUpdate, "shop/web (r-1)", then),
                update(UpdateSource::Api, "shop/again", then + Duration::from_secs(1)),
            ]
        };
        let names = |wanted: &str| -> Vec<(String, String)> {
            let states = answer(all(), wanted, now).updates.into_iter();
            states.map(|state| (state.origin, state.name)).collect()
        };
        let pair = |origin: &str, name: &str| (origin.to_owned(), name.to_owned());
        let [old, middle, new] =
            [pair("controller", "web"), pair("api", "again"), pair("admin", "web-x7k2p")];
        assert_eq!(names(""), [old.clone(), middle, new.clone()]);
        assert_eq!((names("web"), names("shop/web-x7k2p")), (vec![old], vec![new]));
        assert!(names("other/again").is_empty());
        let first = answer(all(), "", now).updates.remove(0);
        assert_eq!((first.age_milliseconds, first.revision.as_str()), (2000, "r-1"));
        assert_eq!((first.pod.as_str(), first.pod_uid.as_str()), ("web", "p-1"));
        assert_eq!((first.containers[0].name.as_str(), first.containers[0].phase.as_str()), ("main", ""));
    }

    #[test]
    fn how_far_it_is_and_how_it_ended() {
        let now = Instant::now();
        let failure = Failure { reason: FailureReason::ImageNotPulled, message: "no such tag".to_owned() };
        let mut back = update(UpdateSource::Api, "shop/again", now);
        back.reported = UpdateReport {
            phase: Some(UpdatePhase::RollingBack),
            message: "the pod returns".to_owned(),
            containers: vec![ContainerUpdate {
                name: "main".into(),
                phase: ContainerUpdatePhase::Updating,
                message: "waits".to_owned(),
            }],
            rolling_back: Some((failure, now)),
            ..UpdateReport::default()
        };
        let shown = state(back.clone(), now);
        assert_eq!((shown.phase.as_str(), shown.message.as_str()), ("RollingBack", "the pod returns"));
        assert_eq!((shown.outcome.as_str(), shown.reason.as_str()), ("", "ImageNotPulled"));
        assert_eq!(shown.containers[0].phase, "Updating");
        assert!(shown.swaps.is_empty());
        let swap = |working, step| SwapReport { name: "mesh".to_owned(), working, step };
        back.reported.swaps =
            vec![swap(Some("mesh-2".into()), SwapPhase::Migrating), swap(None, SwapPhase::Pending)];
        let swaps = state(back.clone(), now).swaps;
        let swaps: Vec<_> = swaps.iter().map(|swap| (swap.working.as_str(), swap.step.as_str())).collect();
        assert_eq!(swaps, [("mesh-2", "Migrating"), ("", "Pending")]);
        back.reported.phase = Some(UpdatePhase::Ended);
        back.reported.outcome = Some(UpdateOutcome::Failed(FailureReason::DeadlineExceeded));
        let shown = state(back.clone(), now);
        assert_eq!((shown.phase.as_str(), shown.outcome.as_str()), ("Completed", "Failed"));
        assert_eq!(shown.reason, "DeadlineExceeded");
        back.reported.outcome = Some(UpdateOutcome::Complete);
        assert_eq!(state(back, now).outcome, "Complete");
    }

    #[test]
    fn refusals_say_whose_fault_it_is() {
        use tonic::Code;
        let code = |error: SubmitError| refusal(&error).code();
        assert_eq!(code(SubmitError::Forbidden("no".to_owned())), Code::FailedPrecondition);
        assert_eq!(code(SubmitError::Static("shop/web".to_owned())), Code::FailedPrecondition);
        assert_eq!(code(SubmitError::NoPod(AssignError::NoPod("web".to_owned()))), Code::NotFound);
        assert_eq!(code(SubmitError::Invalid("bad".to_owned())), Code::InvalidArgument);
        assert_eq!(code(SubmitError::Early), Code::Unavailable);
        let ambiguous =
            AssignError::Ambiguous { name: "web".to_owned(), namespaces: vec!["a".into(), "b".into()] };
        let told = refusal(&SubmitError::NoPod(ambiguous));
        assert_eq!(told.code(), Code::InvalidArgument);
        assert!(told.message().contains("(a, b)"), "{}", told.message());
        assert!(no_cluster("none").message().contains("podView.mode api"));
    }
}
