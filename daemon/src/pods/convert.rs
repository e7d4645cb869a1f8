//! From a v1 Pod to the pod of the policy.

use std::{collections::BTreeMap, time::Duration};

use berth_policy::{
    ContainerName, ContainerReport, ContainerSpec, Deletion, Hook, JOB_SIDECAR_ENV, Pod, PodRef, Probe,
    Readiness, Unready, is_job_sidecar,
    launch_priority::{EnvValue, PRIORITY_ENV},
    time::seconds,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{probe::launch_probe, read, unready};
use crate::cluster::{node_pods::identity, v1 as core};

/// The API server's default for `terminationGracePeriodSeconds`; a static pod may come without it.
const DEFAULT_GRACE: i64 = 30;
/// The least that the kubelet gives to a stop (`minimumGracePeriodInSeconds`).
const LEAST_GRACE: Duration = Duration::from_secs(2);

/// Converts a pod to the fields that the policy needs; `None` for an object without name or UID, which the
/// API never shows.
pub(crate) fn pod(pod: core::Pod) -> Option<Pod> {
    let uid = identity(&pod.metadata)?.to_owned();
    let (order, restart_policy, unready) = (read::order(&pod), read::restart_policy(&pod), unready(&pod));
    let ended = has_ended(&pod);
    let mirror = pod.metadata.uid.clone().filter(|own| *own != uid);
    let meta = pod.metadata;
    let spec = pod.spec.unwrap_or_default();
    let status = pod.status.unwrap_or_default();
    Some(Pod {
        pod: PodRef { uid: uid.into(), namespace: meta.namespace.unwrap_or_default(), name: meta.name? },
        order,
        restart_policy,
        deletion: meta
            .deletion_timestamp
            .map(|_| Deletion { grace: seconds(meta.deletion_grace_period_seconds.unwrap_or(0)) }),
        grace: grace(&spec),
        ended,
        ip: status.pod_ip,
        mirror: mirror.map(Into::into),
        containers: containers(&spec),
        statuses: status
            .container_statuses
            .into_iter()
            .chain(status.init_container_statuses)
            .flatten()
            .filter_map(report)
            .collect(),
        unready,
    })
}

/// Tells whether nothing of the pod runs again. The kubelet writes the phase of one that has failed, such as
/// at its deadline, when all has exited, and this reason before it stops the first container.
fn has_ended(pod: &core::Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_failed = |condition: &core::PodCondition| {
        condition.status == "False" && condition.reason.as_deref() == Some("PodFailed")
    };
    matches!(phase, Some("Succeeded" | "Failed")) || read::condition(pod, "Ready").is_some_and(has_failed)
}

/// The last one counts, as for the process itself.
pub(super) fn priority(container: &core::Container) -> Option<EnvValue<'_>> {
    let env = container.env.iter().flatten().rfind(|env| env.name == PRIORITY_ENV)?;
    Some(match (&env.value_from, &env.value) {
        (Some(_), _) => EnvValue::ValueFrom,
        (None, value) => EnvValue::Plain(value.as_deref().unwrap_or("")),
    })
}

/// The plain value of an env variable; the last one counts, as for the process itself.
fn env<'a>(container: &'a core::Container, name: &str) -> Option<&'a str> {
    container.env.iter().flatten().rfind(|env| env.name == name)?.value.as_deref()
}

/// The containers the kubelet keeps running.
fn containers(spec: &core::PodSpec) -> BTreeMap<ContainerName, ContainerSpec> {
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let all = sidecars.map(|container| (true, container)).chain(spec.containers.iter().map(|c| (false, c)));
    all.enumerate()
        .map(|(position, (sidecar, container))| {
            let pre_stop = container.lifecycle.as_ref().and_then(|lifecycle| lifecycle.pre_stop.as_ref());
            let (startup_probe, readiness_probe) = own_probes(container);
            let converted = ContainerSpec {
                position,
                sidecar,
                restart_policy: container.restart_policy.as_deref().filter(|_| !sidecar).map(read::policy),
                restart_rules: read::restart_rules(container),
                readiness: becomes_ready_by(container),
                pre_stop: pre_stop.and_then(|handler| hook(container, handler)),
                graces: if pre_stop.is_some() { Vec::new() } else { graces(spec, container) },
                startup_probe,
                readiness_probe,
                ends_with_job: env(container, JOB_SIDECAR_ENV).is_some_and(is_job_sidecar),
            };
            (container.name.as_str().into(), converted)
        })
        .collect()
}

fn grace(spec: &core::PodSpec) -> Duration {
    seconds(spec.termination_grace_period_seconds.unwrap_or(DEFAULT_GRACE))
}

/// The graces that a stop of this container alone may have.
fn graces(spec: &core::PodSpec, container: &core::Container) -> Vec<Duration> {
    let startup = container.startup_probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
    let liveness = container.liveness_probe.as_ref().and_then(|probe| probe.termination_grace_period_seconds);
    let given = [Some(grace(spec)), startup.map(seconds), liveness.map(seconds)];
    given.into_iter().flatten().map(|grace| grace.max(LEAST_GRACE)).collect()
}

/// The container's own startup and readiness probes, where the agent can run them. Without the first, the
/// second says nothing: the kubelet would not run it yet.
fn own_probes(container: &core::Container) -> (Option<Probe>, Option<Probe>) {
    let own = |probe: Option<&core::Probe>| launch_probe(container, probe?);
    let startup = own(container.startup_probe.as_ref());
    let readiness = own(container.readiness_probe.as_ref());
    let known = container.startup_probe.is_none() || startup.is_some();
    (startup, readiness.filter(|_| known))
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

/// `None` for a handler the API server would not have let through.
fn hook(container: &core::Container, handler: &core::LifecycleHandler) -> Option<Hook> {
    if let Some(exec) = &handler.exec {
        return Some(Hook::Exec { command: exec.command.clone().unwrap_or_default() });
    }
    if let Some(get) = &handler.http_get {
        let headers = get.http_headers.iter().flatten();
        return Some(Hook::Http {
            host: get.host.clone().filter(|host| !host.is_empty()),
            port: port(container, &get.port)?,
            path: get.path.clone().unwrap_or_default(),
            https: get.scheme.as_deref() == Some("HTTPS"),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        });
    }
    if let Some(tcp) = &handler.tcp_socket {
        let host = tcp.host.clone().filter(|host| !host.is_empty());
        return Some(Hook::Tcp { host, port: port(container, &tcp.port)? });
    }
    handler.sleep.as_ref().map(|sleep| Hook::Sleep(seconds(sleep.seconds)))
}

/// A port by number, or by the name it has in the container.
pub(crate) fn port(container: &core::Container, port: &IntOrString) -> Option<u16> {
    let number = match port {
        IntOrString::Int(number) => *number,
        IntOrString::String(text) => {
            let named = container.ports.iter().flatten().find(|port| port.name.as_ref() == Some(text));
            named.map(|port| port.container_port).or_else(|| text.parse().ok())?
        }
    };
    number.try_into().ok()
}

fn report(status: core::ContainerStatus) -> Option<(ContainerName, ContainerReport)> {
    let id = read::container_id(&status)?.into();
    let restart_count = status.restart_count.try_into().unwrap_or(0);
    let ended = status.state.is_some_and(|state| state.terminated.is_some());
    Some((status.name.into(), ContainerReport { id, ready: status.ready, restart_count, ended }))
}

fn unready(pod: &core::Pod) -> Option<Unready> {
    if !read::has_gate(pod, unready::CONDITION) {
        return None;
    }
    let condition = read::condition(pod, unready::CONDITION);
    let message = condition.and_then(|condition| condition.message.as_deref()).unwrap_or("");
    let unwritten = condition.is_none() && !is_update_gate_unwritten(pod);
    Some(Unready { requests: unready::requests(message), unwritten })
}

/// Tells whether nobody has written the condition of the gate of updates yet. The write that opens it opens
/// the other, too.
fn is_update_gate_unwritten(pod: &core::Pod) -> bool {
    read::has_gate(pod, unready::UPDATE_CONDITION)
        && read::condition(pod, unready::UPDATE_CONDITION).is_none()
        && !read::is_mirror(&pod.metadata)
}

#[cfg(test)]
mod tests {
    use berth_policy::{RestartPolicy, RestartRule, launch_priority::OrderError, time::LONGEST};

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
        let readiness: Vec<_> = pod.containers.values().map(|container| container.readiness).collect();
        assert_eq!(
            readiness,
            [Readiness::ReadinessProbe, Readiness::StartupProbe, Readiness::PostStart, Readiness::Running]
        );
        let reports: Vec<_> =
            pod.statuses.iter().map(|(name, report)| (name.as_str(), report.id.as_str())).collect();
        assert_eq!(reports, [("a", "abc")]);
    }

    #[test]
    fn a_pod_with_the_largest_and_smallest_numbers() {
        let with = |number: i64| {
            read(&format!(
                "
metadata: {{name: m, namespace: n, deletionTimestamp: '2026-01-01T00:00:00Z', deletionGracePeriodSeconds: {number}}}
spec:
  terminationGracePeriodSeconds: {number}
  containers: [{{name: a, lifecycle: {{preStop: {{sleep: {{seconds: {number}}}}}}}}}]
"
            ))
        };
        for (number, meant) in [(i64::MAX, LONGEST), (i64::MIN, Duration::ZERO), (0, Duration::ZERO)] {
            let pod = with(number);
            assert_eq!(pod.grace, meant);
            assert_eq!(pod.deletion, Some(Deletion { grace: meant }));
            assert_eq!(pod.containers[&"a".into()].pre_stop, Some(Hook::Sleep(meant)));
        }
    }

    #[test]
    fn graces_of_a_stop_of_one_container() {
        let of = |spec: &str| {
            let pod = read(&format!("metadata: {{name: m, namespace: n}}\nspec: {{{spec}}}\n"));
            let graces = &pod.containers[&"a".into()].graces;
            graces.iter().map(Duration::as_secs).collect::<Vec<_>>()
        };
        let probe = "terminationGracePeriodSeconds";
        assert_eq!(of("containers: [{name: a}]"), [30]);
        assert_eq!(of("terminationGracePeriodSeconds: 60, containers: [{name: a}]"), [60]);
        let probes =
            format!("containers: [{{name: a, startupProbe: {{{probe}: 5}}, livenessProbe: {{{probe}: 7}}}}]");
        assert_eq!(of(&probes), [30, 5, 7]);
        assert_eq!(of("containers: [{name: a, livenessProbe: {}}]"), [30]);
        assert_eq!(of(&format!("containers: [{{name: a, livenessProbe: {{{probe}: 1}}}}]")), [30, 2]);
        assert_eq!(of("terminationGracePeriodSeconds: 0, containers: [{name: a}]"), [2]);
        assert_eq!(of("containers: [{name: a, lifecycle: {preStop: {httpGet: {port: none}}}}]"), [0_u64; 0]);
    }

    #[test]
    fn a_pod_has_ended_before_its_containers_have() {
        let table = [
            ("{}", false),
            ("{phase: Running}", false),
            ("{phase: Succeeded}", true),
            ("{phase: Failed}", true),
            ("{phase: Running, conditions: [{type: Ready, status: 'False', reason: PodFailed}]}", true),
            ("{phase: Running, conditions: [{type: Ready, status: 'True', reason: PodFailed}]}", false),
            ("{phase: Running, conditions: [{type: Ready, status: 'False', reason: Unready}]}", false),
            ("{phase: Running, conditions: [{type: Mine, status: 'False', reason: PodFailed}]}", false),
        ];
        for (status, ended) in table {
            let pod = read(&format!("{{metadata: {{name: m}}, spec: {{containers: []}}, status: {status}}}"));
            assert_eq!(pod.ended, ended, "{status}");
        }
    }

    #[test]
    fn containers_with_a_restart_policy_of_their_own() {
        let pod = read(
            "
metadata: {name: m, namespace: n}
spec:
  restartPolicy: Never
  initContainers: [{name: s, restartPolicy: Always}]
  containers:
  - {name: a}
  - {name: b, restartPolicy: OnFailure, restartPolicyRules: []}
  - name: c
    restartPolicy: Never
    restartPolicyRules:
    - {action: Restart, exitCodes: {operator: In, values: [42, 43]}}
    - {action: RestartAllContainers, exitCodes: {operator: NotIn, values: [0]}}
    - {action: Restart, exitCodes: {operator: Between, values: [1, 9]}}
    - {action: FailPod, exitCodes: {operator: In, values: [1]}}
    - {action: Restart}
",
        );
        let of = |name: &str| {
            let name = name.into();
            (pod.restart_policy_of(&name), pod.containers[&name].restart_rules.clone())
        };
        use RestartPolicy::{Always, Never, OnFailure};
        use RestartRule::{In, NotIn, Unknown};
        let rules = vec![In(vec![42, 43]), NotIn(vec![0]), Unknown, Unknown, Unknown];
        assert_eq!(
            ["s", "a", "b", "c"].map(of),
            [(Always, Vec::new()), (Never, Vec::new()), (OnFailure, Vec::new()), (Never, rules)]
        );
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
        assert_eq!(pod.mirror, Some("api-uid".into()));
        assert_eq!(pod.order, Ok(None));
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

    /// The gate is the updates' to open with their own, or this room's.
    #[test]
    fn a_gate_that_nobody_has_written() {
        let unwritten = |gates: &str, conditions: &str| {
            let pod = read(&format!(
                "
metadata: {{name: g, namespace: n}}
spec: {{containers: [], readinessGates: [{gates}]}}
status: {{conditions: [{conditions}]}}
"
            ));
            pod.unready.map(|unready| unready.unwritten)
        };
        let (ready, update) = ("{conditionType: KruisePodReady}", "{conditionType: InPlaceUpdateReady}");
        let both = format!("{ready}, {update}");
        assert_eq!(unwritten(update, ""), None);
        assert_eq!(unwritten(ready, ""), Some(true));
        assert_eq!(unwritten(ready, "{type: KruisePodReady, status: 'False'}"), Some(false));
        assert_eq!(unwritten(&both, ""), Some(false), "opened with the other");
        assert_eq!(unwritten(&both, "{type: InPlaceUpdateReady, status: 'True'}"), Some(true));
        assert_eq!(unwritten(&both, "{type: InPlaceUpdateReady, status: 'False'}"), Some(true));
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
