//! Reading of a v1 Pod: questions that more than one place asks.

use berth_policy::{
    PodRef, RestartPolicy, RestartRule,
    launch_priority::{LaunchOrder, ORDERED_ANNOTATION, OrderError},
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::convert;
use crate::cluster::{
    node_pods::MIRROR_ANNOTATION,
    raw::{Raw, Untyped},
    v1 as core,
};

/// More containers than any pod has. What is remembered and looked at of a pod grows with them.
const MOST_CONTAINERS: usize = 1000;
/// The most `restartPolicyRules` of a container and the most codes of a rule, as the API server has them.
const MOST_RULES: usize = 20;
const MOST_CODES: usize = 255;

/// Reads a pod. The error says which one it is, and why it cannot be read.
pub(super) fn pod(object: Raw) -> Result<core::Pod, (PodRef, Untyped)> {
    let [uid, namespace, name] = ["uid", "namespace", "name"].map(|key| object.of_metadata(key));
    let named = PodRef { uid: uid.into(), namespace: namespace.to_owned(), name: name.to_owned() };
    let read = object.typed::<core::Pod>().and_then(|pod| match too_wide(&pod) {
        None => Ok(pod),
        Some(why) => Err(Untyped::because(why)),
    });
    read.map_err(|why| (named, why))
}

/// Reason why the pod is not read: it has too many containers.
pub(super) fn too_wide(pod: &core::Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let count = spec.containers.len().saturating_add(spec.init_containers.as_ref().map_or(0, Vec::len));
    (count > MOST_CONTAINERS)
        .then(|| format!("it has {count} containers, more than {MOST_CONTAINERS}: give it fewer"))
}

/// Tells whether it mirrors a static pod.
pub(crate) fn is_mirror(meta: &ObjectMeta) -> bool {
    meta.annotations.as_ref().is_some_and(|annotations| annotations.contains_key(MIRROR_ANNOTATION))
}

/// Its launch order.
///
/// # Errors
/// What it declares cannot be followed.
pub(crate) fn order(pod: &core::Pod) -> Result<Option<LaunchOrder>, OrderError> {
    let annotations = pod.metadata.annotations.as_ref();
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    LaunchOrder::declared(
        annotations.and_then(|annotations| annotations.get(ORDERED_ANNOTATION)).map(String::as_str),
        containers.map(|container| (container.name.as_str(), convert::priority(container))),
    )
}

/// `spec.restartPolicy`.
pub(crate) fn restart_policy(pod: &core::Pod) -> RestartPolicy {
    pod.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()).map_or(RestartPolicy::Always, policy)
}

/// A `restartPolicy`, as the API spells it.
pub(crate) fn policy(name: &str) -> RestartPolicy {
    match name {
        "Never" => RestartPolicy::Never,
        "OnFailure" => RestartPolicy::OnFailure,
        _ => RestartPolicy::Always,
    }
}

/// The rules about exits of a container. More than one can have count as one that is not known.
pub(crate) fn restart_rules(container: &core::Container) -> Vec<RestartRule> {
    let rules = container.restart_policy_rules.as_deref().unwrap_or_default();
    if rules.len() > MOST_RULES {
        return vec![RestartRule::Unknown];
    }
    rules.iter().map(restart_rule).collect()
}

fn restart_rule(rule: &core::RestartRule) -> RestartRule {
    let is_restart = matches!(rule.action.as_str(), "Restart" | "RestartAllContainers");
    match rule.exit_codes.as_ref().filter(|exits| is_restart && exits.values.len() <= MOST_CODES) {
        Some(exits) if exits.operator == "In" => RestartRule::In(exits.values.clone()),
        Some(exits) if exits.operator == "NotIn" => RestartRule::NotIn(exits.values.clone()),
        Some(_) | None => RestartRule::Unknown,
    }
}

/// Tells whether it has a readiness gate of this type.
pub(crate) fn has_gate(pod: &core::Pod, condition_type: &str) -> bool {
    let gates = pod.spec.iter().flat_map(|spec| spec.readiness_gates.iter().flatten());
    gates.into_iter().any(|gate| gate.condition_type == condition_type)
}

/// The condition of this type.
pub(crate) fn condition<'a>(pod: &'a core::Pod, condition_type: &str) -> Option<&'a core::PodCondition> {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().find(|condition| condition.type_ == condition_type)
}

/// Finds the status of one of `spec.containers` in the pod's status.
pub(crate) fn status<'a>(pod: &'a core::Pod, container: &str) -> Option<&'a core::ContainerStatus> {
    let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
    statuses.into_iter().find(|status| status.name == container)
}

/// The CRI identity in a container's status, without the scheme of the runtime.
pub(crate) fn container_id(status: &core::ContainerStatus) -> Option<&str> {
    status.container_id.as_deref()?.split_once("://").map(|(_, id)| id)
}

/// The kubelet computes Ready of the containers and the gates; until it has looked at a gate that was closed
/// the pod would get traffic. A pod whose containers are not ready has another reason, which stays.
pub(crate) fn not_ready_by(
    pod: &core::Pod,
    gate: &str,
    now: k8s_openapi::jiff::Timestamp,
) -> Option<core::PodCondition> {
    const READY: &str = "Ready";
    const CONTAINERS_READY: &str = "ContainersReady";
    let is =
        |condition_type, status| condition(pod, condition_type).is_some_and(|found| found.status == status);
    (is(CONTAINERS_READY, "True") && !is(READY, "False")).then(|| core::PodCondition {
        type_: READY.to_owned(),
        status: "False".to_owned(),
        reason: Some("ReadinessGatesNotReady".to_owned()),
        message: Some(format!(r#"the status of pod readiness gate "{gate}" is not "True", but False"#)),
        last_transition_time: Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now)),
        ..core::PodCondition::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows: containers, init containers, and whether the pod is read.
    #[test]
    fn a_pod_of_very_many_containers_is_not_read() {
        let all = |count: usize| vec![core::Container::default(); count];
        for (containers, init, is_read) in
            [(1, 0, true), (MOST_CONTAINERS, 0, true), (900, 101, false), (MOST_CONTAINERS + 1, 0, false)]
        {
            let spec = core::PodSpec {
                containers: all(containers),
                init_containers: Some(all(init)),
                ..core::PodSpec::default()
            };
            let pod = core::Pod { spec: Some(spec), ..core::Pod::default() };
            assert_eq!(too_wide(&pod).is_none(), is_read, "{containers} {init}");
        }
        assert_eq!(too_wide(&core::Pod::default()), None);
    }

    #[test]
    fn more_rules_than_a_container_can_have_are_an_unknown_one() {
        let rule = |codes: usize| core::RestartRule {
            action: "Restart".to_owned(),
            exit_codes: Some(core::ExitCodes { operator: "In".to_owned(), values: vec![1; codes] }),
        };
        let table = [
            (vec![rule(MOST_CODES); MOST_RULES], vec![RestartRule::In(vec![1; MOST_CODES]); MOST_RULES]),
            (vec![rule(1); MOST_RULES + 1], vec![RestartRule::Unknown]),
            (vec![rule(MOST_CODES + 1)], vec![RestartRule::Unknown]),
        ];
        for (rules, expected) in table {
            let container =
                core::Container { restart_policy_rules: Some(rules), ..core::Container::default() };
            assert_eq!(restart_rules(&container), expected);
        }
    }
}
