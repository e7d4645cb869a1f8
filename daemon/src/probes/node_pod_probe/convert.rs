//! From a `NodePodProbe` to the policy's words, and back from what it reports.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use berth_policy::{
    Markers, PodRef, PodReport, ProbeReport, ProbeState as State, WantedPod, WantedProbe, time::later,
};
use berth_proto::crd::{
    ContainerProbe, ContainerProbeState, MarkerState, NodePodProbe, PodProbe, PodProbeStatus,
    ProbeMarkerPolicy, ProbeState,
};
use k8s_openapi::{api::core::v1::Probe, apimachinery::pkg::apis::meta::v1::Time};

use crate::{
    base::{
        causes::chain,
        clock::Clock,
        status::{said, whole_second},
    },
    pods::probe,
};

/// A time of the API is cut to its second: what it speaks of was no later than this much after it.
const SECOND: Duration = Duration::from_secs(1);

/// Pods of one list. A node has some hundred.
const MOST_PODS: usize = 1024;
/// Probes of one pod.
const MOST_PROBES: usize = 64;
/// Names, in bytes. Those of Kubernetes are shorter; that of a probe is put together of two.
const LONGEST_NAME: usize = 512;
/// All texts of one probe, in bytes.
const LARGEST_PROBE: usize = 64 << 10;

/// Reads a list of a `NodePodProbe`, within bounds.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct WantedPods {
    pub(super) pods: Vec<WantedPod>,
    /// Pods and probes that are set aside: there are too many, or their names are too long.
    pub(super) beyond: usize,
}

/// A list of what is asked of the node. Whoever wrote it keeps to no bounds, so they are kept here: what is
/// too much is set aside and counted, and everything else goes on.
pub(super) fn wanted(listed: &[PodProbe]) -> WantedPods {
    let mut asked = WantedPods::default();
    for entry in listed {
        let names = [&entry.uid, &entry.namespace, &entry.name];
        if asked.pods.len() == MOST_PODS || names.iter().any(|name| name.len() > LONGEST_NAME) {
            asked.beyond += 1;
            continue;
        }
        let short = |probe: &&ContainerProbe| {
            probe.name.len() <= LONGEST_NAME && probe.container_name.len() <= LONGEST_NAME
        };
        let probes: Vec<WantedProbe> =
            entry.probes.iter().filter(short).take(MOST_PROBES).map(probe).collect();
        asked.beyond += entry.probes.len() - probes.len();
        let pod = reference(&entry.uid, &entry.namespace, &entry.name);
        asked.pods.push(WantedPod { pod, probes });
    }
    asked
}

fn probe(asked: &ContainerProbe) -> WantedProbe {
    let wanted = WantedProbe {
        name: asked.name.as_str().into(),
        container: asked.container_name.as_str().into(),
        probe: Err(String::new()),
        condition_type: None,
        succeeded: Markers::default(),
        failed: Markers::default(),
        paused: false,
    };
    let size = size(asked);
    if size > LARGEST_PROBE {
        let why = format!(
            "its texts have {size} bytes, more than {LARGEST_PROBE}; shorten its command, headers or labels"
        );
        return WantedProbe { probe: Err(why), ..wanted };
    }
    let (succeeded, failed) = policies(&asked.marker_policy);
    WantedProbe {
        probe: probe::resolved(&asked.probe).map_err(|error| format!("it cannot be read: {}", chain(&error))),
        condition_type: asked.pod_condition_type.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        succeeded,
        failed,
        ..wanted
    }
}

/// The bytes of all texts that are kept of a probe.
fn size(asked: &ContainerProbe) -> usize {
    let Probe { exec, http_get, grpc, .. } = &asked.probe;
    let command = exec.iter().flat_map(|exec| exec.command.iter().flatten());
    let headers = http_get.iter().flat_map(|get| get.http_headers.iter().flatten());
    let headers = headers.flat_map(|header| [&header.name, &header.value]);
    let path = http_get.iter().filter_map(|get| get.path.as_ref());
    let service = grpc.iter().filter_map(|grpc| grpc.service.as_ref());
    let maps = asked.marker_policy.iter().flat_map(|policy| [&policy.labels, &policy.annotations]);
    let marks = maps.flatten().flat_map(|(key, value)| [key, value]);
    let texts =
        command.chain(headers).chain(path).chain(service).chain(marks).chain(&asked.pod_condition_type);
    // Each is at least a pointer and a length.
    texts.map(|text| text.len() + size_of::<&str>()).sum()
}

/// The marks of each outcome: success, failure.
pub(super) fn policies(policies: &[ProbeMarkerPolicy]) -> (Markers, Markers) {
    let of = |state| {
        let policy = policies.iter().find(|policy| policy.state == state);
        policy.map(markers).unwrap_or_default()
    };
    (of(MarkerState::Succeeded), of(MarkerState::Failed))
}

fn markers(policy: &ProbeMarkerPolicy) -> Markers {
    let texts = |all: &BTreeMap<String, String>| -> BTreeMap<Arc<str>, Arc<str>> {
        all.iter().map(|(key, value)| (key.as_str().into(), value.as_str().into())).collect()
    };
    Markers { labels: texts(&policy.labels), annotations: texts(&policy.annotations) }
}

fn reference(uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef { uid: uid.into(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// Findings of an earlier process; as much of it as it may have been asked for.
pub(super) fn reported(object: &NodePodProbe, clock: &Clock) -> Vec<PodReport> {
    let statuses = object.status.iter().flat_map(|status| &status.pod_probe_statuses).take(MOST_PODS);
    let instant = |time: &Option<Time>| time.as_ref().map(|time| later(clock.instant(time.0), SECOND));
    let probe = |state: &ContainerProbeState| ProbeReport {
        name: state.name.as_str().into(),
        state: match state.state {
            ProbeState::Succeeded => State::Succeeded,
            ProbeState::Failed => State::Failed,
            ProbeState::Unknown => State::Unknown,
        },
        last_probe: instant(&state.last_probe_time),
        last_transition: instant(&state.last_transition_time),
        message: state.message.as_deref().unwrap_or_default().into(),
    };
    let pod = |status: &PodProbeStatus| PodReport {
        pod: reference(&status.uid, &status.namespace, &status.name),
        probes: status.probe_states.iter().take(MOST_PROBES).map(probe).collect(),
    };
    statuses.map(pod).collect()
}

/// Converts the reports to the statuses that the object is to show.
pub(super) fn statuses(reports: &[PodReport], clock: &Clock) -> Vec<PodProbeStatus> {
    let time = |at: Option<std::time::Instant>| at.map(|at| Time(whole_second(clock.instant_as_wall(at))));
    let state = |probe: &ProbeReport| ContainerProbeState {
        name: probe.name.to_string(),
        state: match probe.state {
            State::Succeeded => ProbeState::Succeeded,
            State::Failed => ProbeState::Failed,
            State::Unknown => ProbeState::Unknown,
        },
        last_probe_time: time(probe.last_probe),
        last_transition_time: time(probe.last_transition),
        message: said(&probe.message),
    };
    let pod = |report: &PodReport| PodProbeStatus {
        name: report.pod.name.clone(),
        namespace: report.pod.namespace.clone(),
        uid: report.pod.uid.as_str().to_owned(),
        probe_states: report.probes.iter().map(state).collect(),
    };
    reports.iter().map(pod).collect()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{api::core::v1::ExecAction, jiff::Timestamp};

    use super::*;

    fn object() -> NodePodProbe {
        serde_saphyr::from_str(
            "
apiVersion: apps.kruise.io/v1alpha1
kind: NodePodProbe
metadata: {name: node-a}
spec:
  podProbes:
  - {name: web, namespace: shop, uid: u, IP: 10.0.0.1, probes: [{name: m#kruise, containerName: main, probe: {tcpSocket: {port: 80}}}]}
status:
  desiredPodProbes:
  - name: game
    namespace: shop
    uid: v
    IP: 10.0.0.2
    probes:
    - name: m#idle
      containerName: main
      probe: {exec: {command: [test]}, periodSeconds: 3}
      podConditionType: game.kruise.io/idle
      markerPolicy:
      - {state: Succeeded, labels: {idle: 'true'}, annotations: {cost: '-10'}}
      - {state: Failed, labels: {idle: 'false'}}
    - {name: m#bad, containerName: main, probe: {httpGet: {port: 80, host: 169.254.169.254}}}
  podProbeStatuses:
  - {name: game, namespace: shop, uid: v, probeStates: [{name: m#idle, state: Failed, lastProbeTime: '2026-01-01T00:00:00Z', message: busy}]}
",
        )
        .unwrap()
    }

    #[test]
    fn what_is_asked_is_read() {
        let object = object();
        let desired = wanted(&object.status.as_ref().unwrap().desired_pod_probes);
        assert_eq!((desired.pods[0].pod.name.as_str(), desired.pods.len(), desired.beyond), ("game", 1, 0));
        assert_eq!(wanted(&object.spec.pod_probes).pods[0].pod.name, "web");
        let [idle, bad] = &desired.pods[0].probes[..] else { panic!("{desired:?}") };
        assert_eq!(idle.condition_type.as_deref(), Some("game.kruise.io/idle"));
        assert_eq!(idle.succeeded.labels[&Arc::from("idle")], Arc::from("true"));
        assert_eq!(idle.succeeded.annotations[&Arc::from("cost")], Arc::from("-10"));
        assert_eq!(idle.failed.labels[&Arc::from("idle")], Arc::from("false"));
        assert_eq!(idle.probe.as_ref().unwrap().period, Duration::from_secs(3));
        assert!(bad.probe.as_ref().unwrap_err().contains("host"), "{:?}", bad.probe);
    }

    /// Ten thousand of everything, and the largest numbers.
    #[test]
    fn too_much_is_set_aside_and_counted() {
        let asked = |name: &str, command: Vec<String>| ContainerProbe {
            name: name.to_owned(),
            container_name: "main".to_owned(),
            probe: Probe {
                exec: Some(ExecAction { command: Some(command) }),
                period_seconds: Some(i32::MAX),
                timeout_seconds: Some(i32::MAX),
                initial_delay_seconds: Some(i32::MAX),
                failure_threshold: Some(i32::MAX),
                termination_grace_period_seconds: Some(i64::MAX),
                ..Probe::default()
            },
            ..ContainerProbe::default()
        };
        let pod = |name: &str, probes| PodProbe {
            uid: name.to_owned(),
            name: name.to_owned(),
            probes,
            ..PodProbe::default()
        };
        let sleep = || vec!["sleep".to_owned()];
        let pods =
            |count: usize| (0..count).map(|number| pod(&format!("p{number}"), vec![asked("m#a", sleep())]));
        let all = wanted(&pods(10_000).collect::<Vec<_>>());
        assert_eq!((all.pods.len(), all.beyond), (MOST_PODS, 10_000 - MOST_PODS));
        let probes: Vec<_> = (0..10_000).map(|number| asked(&format!("m#{number}"), sleep())).collect();
        let all = wanted(&[pod("p", probes)]);
        assert_eq!((all.pods[0].probes.len(), all.beyond), (MOST_PROBES, 10_000 - MOST_PROBES));
        let long = "x".repeat(LONGEST_NAME + 1);
        let all =
            wanted(&[pod(&long, Vec::new()), pod("p", vec![asked(&long, sleep()), asked("m#a", sleep())])]);
        assert_eq!((all.pods.len(), all.pods[0].probes.len(), all.beyond), (1, 1, 2));
        // One that is too large says so, and the one beside it is run.
        for large in [vec!["x".repeat(LARGEST_PROBE)], vec![String::new(); 10_000]] {
            let all = wanted(&[pod("p", vec![asked("m#large", large), asked("m#a", sleep())])]);
            let [large, small] = &all.pods[0].probes[..] else { panic!("{all:?}") };
            assert!(large.probe.as_ref().unwrap_err().contains("shorten"), "{large:?}");
            assert!(small.probe.is_ok(), "{small:?}");
        }
    }

    #[test]
    fn times_out_of_range_and_too_many_reports_do_no_harm() {
        let mut object = object();
        let status = object.status.as_mut().unwrap();
        for (number, time) in [Timestamp::MAX, Timestamp::MIN].into_iter().cycle().take(10_000).enumerate() {
            let mut pod = status.pod_probe_statuses[0].clone();
            pod.uid = number.to_string();
            pod.probe_states[0].last_probe_time = Some(Time(time));
            pod.probe_states[0].last_transition_time = Some(Time(time));
            status.pod_probe_statuses.push(pod);
        }
        let clock = Clock::read();
        let reports = reported(&object, &clock);
        assert_eq!(reports.len(), MOST_PODS);
        assert_eq!(statuses(&reports, &clock).len(), MOST_PODS);
    }

    #[test]
    fn a_report_is_read_as_it_was_written() {
        let clock = Clock::read();
        let reports = reported(&object(), &clock);
        assert_eq!(reports[0].probes[0].state, State::Failed);
        let again = statuses(&reports, &clock);
        assert_eq!(again[0].probe_states[0].message.as_deref(), Some("busy"));
        assert!(again[0].probe_states[0].last_probe_time.is_some());
    }
}
