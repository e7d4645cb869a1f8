//! From a v1 Pod to the pod of the policy.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{
    ContainerReport, Deletion, Pod, PodRef, Readiness, RestartPolicy,
    launch_priority::{EnvValue, LaunchOrder, ORDERED_ANNOTATION, PRIORITY_ENV},
};
use k8s_openapi::api::core::v1 as core;

/// Set on the API object that mirrors a static pod; its value is the UID the kubelet uses on this node.
const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// What the policy needs of a pod; `None` for an object without name or UID, which the API never shows.
pub fn pod(pod: core::Pod) -> Option<Pod> {
    let meta = pod.metadata;
    let annotations = meta.annotations.unwrap_or_default();
    let uid = annotations.get(MIRROR_ANNOTATION).cloned().or(meta.uid)?;
    let spec = pod.spec.unwrap_or_default();
    let order = LaunchOrder::declared(
        annotations.get(ORDERED_ANNOTATION).map(String::as_str),
        spec.containers.iter().map(|container| (container.name.as_str(), priority(container))),
    );
    // Of a pod without an order nothing is ever asked but its deletion.
    let ordered = !matches!(order, Ok(None));
    let readiness = spec.containers.iter().filter(|_| ordered);
    let statuses = pod.status.and_then(|status| status.container_statuses).unwrap_or_default();
    Some(Pod {
        pod: PodRef { uid: uid.into(), namespace: meta.namespace.unwrap_or_default(), name: meta.name? },
        order,
        restart_policy: match spec.restart_policy.as_deref() {
            Some("Never") => RestartPolicy::Never,
            Some("OnFailure") => RestartPolicy::OnFailure,
            Some(_) | None => RestartPolicy::Always,
        },
        deletion: meta.deletion_timestamp.map(|_| Deletion {
            grace: Duration::from_secs(
                meta.deletion_grace_period_seconds.and_then(|seconds| seconds.try_into().ok()).unwrap_or(0),
            ),
        }),
        readiness: readiness
            .map(|container| (container.name.as_str().into(), becomes_ready_by(container)))
            .collect(),
        statuses: if ordered { reports(statuses) } else { BTreeMap::new() },
    })
}

/// The last one counts, as for the process itself.
fn priority(container: &core::Container) -> Option<EnvValue<'_>> {
    let env = container.env.iter().flatten().rfind(|env| env.name == PRIORITY_ENV)?;
    Some(match (&env.value_from, &env.value) {
        (Some(_), _) => EnvValue::ValueFrom,
        (None, value) => EnvValue::Plain(value.as_deref().unwrap_or("")),
    })
}

fn becomes_ready_by(container: &core::Container) -> Readiness {
    let post_start = container.lifecycle.as_ref().is_some_and(|lifecycle| lifecycle.post_start.is_some());
    if container.readiness_probe.is_some() {
        Readiness::ReadinessProbe
    } else if container.startup_probe.is_some() {
        Readiness::StartupProbe
    } else if post_start {
        Readiness::PostStart
    } else {
        Readiness::Running
    }
}

fn reports(statuses: Vec<core::ContainerStatus>) -> BTreeMap<berth_policy::ContainerName, ContainerReport> {
    statuses
        .into_iter()
        .filter_map(|status| {
            // containerd://<id>, as RuntimeName and CRI identity
            let (_, id) = status.container_id.as_deref()?.split_once("://")?;
            Some((status.name.into(), ContainerReport { id: id.into(), ready: status.ready }))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use berth_policy::launch_priority::OrderError;

    use super::*;

    fn read(yaml: &str) -> Pod {
        let mut object: core::Pod = serde_saphyr::from_str(yaml).unwrap();
        object.metadata.uid.get_or_insert_with(|| "a-uid".to_owned());
        pod(object).unwrap()
    }

    #[test]
    fn an_ordered_pod() {
        let pod = read(
            "
metadata: {name: web, namespace: shop, uid: 1-2-3, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: 7}
spec:
  restartPolicy: OnFailure
  containers:
  - {name: a, env: [{name: KRUISE_CONTAINER_PRIORITY, value: '1'}, {name: KRUISE_CONTAINER_PRIORITY, value: '9'}],
     readinessProbe: {}, startupProbe: {}}
  - {name: b, startupProbe: {}}
  - {name: c, lifecycle: {postStart: {exec: {command: [x]}}}}
  - {name: d}
status:
  containerStatuses:
  - {name: a, ready: true, containerID: 'containerd://abc', image: i, imageID: i, restartCount: 0}
  - {name: b, ready: false, image: i, imageID: i, restartCount: 0}
",
        );
        let order = pod.order.unwrap().unwrap();
        assert_eq!(order.priority(&"a".into()), Some(9));
        assert_eq!(pod.restart_policy, RestartPolicy::OnFailure);
        assert_eq!(pod.deletion, Some(Deletion { grace: Duration::from_secs(7) }));
        let readiness: Vec<_> = pod.readiness.values().copied().collect();
        assert_eq!(
            readiness,
            [Readiness::ReadinessProbe, Readiness::StartupProbe, Readiness::PostStart, Readiness::Running]
        );
        let reports: Vec<_> =
            pod.statuses.iter().map(|(name, report)| (name.as_str(), report.id.as_str())).collect();
        assert_eq!(reports, [("a", "abc")]);
    }

    #[test]
    fn a_mirror_pod_has_the_uid_of_its_static_pod() {
        let pod = read(
            "
metadata: {name: m, namespace: n, uid: api-uid, annotations: {kubernetes.io/config.mirror: static-uid}}
spec: {containers: [{name: a}]}
",
        );
        assert_eq!(pod.pod.uid.as_str(), "static-uid");
        assert_eq!(pod.order, Ok(None));
        assert!(pod.readiness.is_empty());
    }

    #[test]
    fn the_samples_declare_what_they_say() {
        let sequence = |yaml: &str| {
            let order = read(yaml).order.unwrap().unwrap();
            order.launch_sequence().map(|(name, _)| name.to_string()).collect::<Vec<_>>()
        };
        let ordered = include_str!("../../../deploy/samples/ordered.yaml");
        assert_eq!(sequence(ordered), ["proxy", "app"]);
        let priorities = include_str!("../../../deploy/samples/priorities.yaml");
        assert_eq!(sequence(priorities), ["proxy", "log-agent", "app"]);
    }

    #[test]
    fn bad_priorities() {
        let with = |env: &str| {
            read(&format!(
                "{{metadata: {{name: p, uid: u}}, spec: {{containers: [{{name: a}}, {{name: b, env: [{env}]}}]}}}}"
            ))
            .order
        };
        let field = "{name: KRUISE_CONTAINER_PRIORITY, valueFrom: {fieldRef: {fieldPath: metadata.name}}}";
        assert_eq!(with(field), Err(OrderError::ValueFrom { container: "b".into() }));
        let empty = "{name: KRUISE_CONTAINER_PRIORITY}";
        assert!(matches!(with(empty), Err(OrderError::NotAPriority { .. })));
    }
}
