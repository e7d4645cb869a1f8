//! From a `NodePodProbe` to the policy's words, and back from what it reports.

use std::{collections::BTreeMap, sync::Arc};

use berth_policy::{
    Markers, PodRef, PodReport, ProbeReport, ProbeState as State, WantedPod, WantedProbe, time::later,
};
use berth_proto::crd::{
    ContainerProbe, ContainerProbeState, MarkerState, NodePodProbe, PodProbe, PodProbeStatus,
    ProbeMarkerPolicy, ProbeState,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::{
    causes::chain,
    cluster::clock::Clock,
    probe::convert,
    request_status::{said, whole_second},
};

/// A time of the API is cut to its second: what it speaks of was no later than this much after it.
const SECOND: std::time::Duration = std::time::Duration::from_secs(1);

/// All that is asked of the node: by the manager, and in the spec by others, whose probes come second.
pub(super) fn wanted(object: &NodePodProbe) -> Vec<WantedPod> {
    let desired = object.status.iter().flat_map(|status| &status.desired_pod_probes);
    desired.chain(&object.spec.pod_probes).map(pod).collect()
}

fn pod(asked: &PodProbe) -> WantedPod {
    WantedPod {
        pod: reference(&asked.uid, &asked.namespace, &asked.name),
        probes: asked.probes.iter().map(probe).collect(),
    }
}

fn probe(asked: &ContainerProbe) -> WantedProbe {
    let markers = |state| {
        let policy = asked.marker_policy.iter().find(|policy| policy.state == state);
        policy.map(markers).unwrap_or_default()
    };
    WantedProbe {
        name: asked.name.as_str().into(),
        container: asked.container_name.as_str().into(),
        probe: convert::resolved(&asked.probe).map_err(|error| chain(&error)),
        condition_type: asked.pod_condition_type.as_deref().filter(|name| !name.is_empty()).map(Into::into),
        succeeded: markers(MarkerState::Succeeded),
        failed: markers(MarkerState::Failed),
    }
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

/// What an earlier process found out.
pub(super) fn reported(object: &NodePodProbe, clock: &Clock) -> Vec<PodReport> {
    let statuses = object.status.iter().flat_map(|status| &status.pod_probe_statuses);
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
        probes: status.probe_states.iter().map(probe).collect(),
    };
    statuses.map(pod).collect()
}

/// What is to be shown of it.
pub(super) fn statuses(reports: &[PodReport], clock: &Clock) -> Vec<PodProbeStatus> {
    let time =
        |at: Option<std::time::Instant>| at.map(|at| Time(whole_second(clock.instant_as_wall(at), false)));
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
    fn what_is_asked_comes_from_both() {
        let wanted = wanted(&object());
        let names: Vec<&str> = wanted.iter().map(|pod| pod.pod.name.as_str()).collect();
        assert_eq!(names, ["game", "web"]);
        let [idle, bad] = &wanted[0].probes[..] else { panic!("{wanted:?}") };
        assert_eq!(idle.condition_type.as_deref(), Some("game.kruise.io/idle"));
        assert_eq!(idle.succeeded.labels[&Arc::from("idle")], Arc::from("true"));
        assert_eq!(idle.succeeded.annotations[&Arc::from("cost")], Arc::from("-10"));
        assert_eq!(idle.failed.labels[&Arc::from("idle")], Arc::from("false"));
        assert_eq!(idle.probe.as_ref().unwrap().period, std::time::Duration::from_secs(3));
        assert!(bad.probe.as_ref().unwrap_err().contains("host"), "{:?}", bad.probe);
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
