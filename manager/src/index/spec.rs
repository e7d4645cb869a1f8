//! Is a request's spec one that can be carried out? Admission asks the same; it may be absent, so it is asked again here.

use std::collections::HashSet;

use berth_proto::crd::ContainerRecreateRequestSpec;

/// OpenKruise's bound, which its users' manifests know.
const SHORTEST_DEADLINE: i64 = 3;

/// The first fault: which field, what is wrong with it and what would be right.
pub(super) fn fault(spec: &ContainerRecreateRequestSpec) -> Option<String> {
    if spec.pod_name.is_empty() {
        return Some("spec.podName is empty: name a pod of this namespace".to_owned());
    }
    if spec.containers.is_empty() {
        return Some("spec.containers is empty: name at least one container of the pod".to_owned());
    }
    let mut names = HashSet::new();
    for (index, container) in spec.containers.iter().enumerate() {
        let name = container.name.as_str();
        if name.is_empty() {
            return Some(format!("spec.containers[{index}].name is empty: name a container of the pod"));
        }
        if !names.insert(name) {
            return Some(format!("spec.containers[{index}].name repeats {name:?}: name each container once"));
        }
    }
    if let Some(seconds) = spec.active_deadline_seconds.filter(|seconds| *seconds < SHORTEST_DEADLINE) {
        return Some(format!(
            "spec.activeDeadlineSeconds is {seconds}: give at least {SHORTEST_DEADLINE}, or leave it out"
        ));
    }
    let strategy = spec.strategy.as_ref();
    let numbers = [
        ("spec.ttlSecondsAfterFinished", spec.ttl_seconds_after_finished.map(i64::from)),
        (
            "spec.strategy.terminationGracePeriodSeconds",
            strategy.and_then(|strategy| strategy.termination_grace_period_seconds),
        ),
        (
            "spec.strategy.unreadyGracePeriodSeconds",
            strategy.and_then(|strategy| strategy.unready_grace_period_seconds),
        ),
        (
            "spec.strategy.minStartedSeconds",
            strategy.and_then(|strategy| strategy.min_started_seconds).map(i64::from),
        ),
    ];
    let (field, number) = numbers
        .into_iter()
        .find_map(|(field, number)| Some((field, number.filter(|number| *number < 0)?)))?;
    Some(format!("{field} is {number}: give 0 or more, or leave it out"))
}
