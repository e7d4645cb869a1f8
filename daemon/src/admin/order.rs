//! The order of pods, as the wire has it.

use berth_policy::{ContainerOrder, ContainerState, PodOrder, PodRef, SandboxId};
use berth_proto::admin;

use super::millis;

/// Name, namespace/name, UID, or the beginning of a sandbox ID.
pub(super) fn picks(wanted: &str, pod: &PodRef, sandbox: Option<&SandboxId>) -> bool {
    wanted.is_empty()
        || wanted == pod.name
        || wanted == pod.uid.as_str()
        || wanted.split_once('/') == Some((&pod.namespace, &pod.name))
        || sandbox.is_some_and(|sandbox| sandbox.as_str().starts_with(wanted))
}

pub(super) fn pod_order(order: PodOrder) -> admin::PodOrder {
    admin::PodOrder {
        namespace: order.pod.namespace,
        name: order.pod.name,
        uid: order.pod.uid.as_str().to_owned(),
        sandbox_id: order.sandbox.map(|sandbox| sandbox.as_str().to_owned()).unwrap_or_default(),
        ordered: !order.containers.is_empty(),
        error: order.error.unwrap_or_default(),
        containers: order.containers.into_iter().map(container_order).collect(),
        deleting: order.deleting,
    }
}

fn container_order(order: ContainerOrder) -> admin::ContainerOrder {
    let waits = !order.waiting_for.is_empty();
    let state = match &order.instance {
        Some((_, ContainerState::Running)) if order.ready => "Ready",
        Some((_, ContainerState::Running)) => "Running",
        Some((_, ContainerState::Created)) => "Created",
        Some((_, ContainerState::Exited { .. })) => "Exited",
        Some((_, ContainerState::Unknown)) => "Unknown",
        None if waits => "Waiting",
        None => "Absent",
    };
    admin::ContainerOrder {
        name: order.name.as_str().to_owned(),
        priority: order.priority,
        state: state.to_owned(),
        container_id: order.instance.map(|(id, _)| id.as_str().to_owned()).unwrap_or_default(),
        waiting_for: order.waiting_for.iter().map(ToString::to_string).collect(),
        waiting_milliseconds: millis(order.waiting),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_picked_by_any_of_its_names() {
        let pod = PodRef { uid: "u-1".into(), namespace: "shop".to_owned(), name: "web".to_owned() };
        let sandbox = SandboxId::from("abcdef");
        for wanted in ["", "web", "shop/web", "u-1", "abc", "abcdef"] {
            assert!(picks(wanted, &pod, Some(&sandbox)), "{wanted}");
        }
        for wanted in ["we", "shop", "other/web", "u-", "bcd"] {
            assert!(!picks(wanted, &pod, Some(&sandbox)), "{wanted}");
        }
    }
}
