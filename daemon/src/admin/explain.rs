//! Facts and timeline of pods, as the wire has them.

use std::time::Instant;

use berth_policy::{ContainerFacts, ContainerName, ContainerState, Entry, PodFacts, PodRef, Readiness};
use berth_proto::admin;

use super::millis;

pub(super) fn pod_facts(facts: PodFacts) -> admin::PodFacts {
    let pod = &facts.pod;
    let container = |container| container_facts(container, pod);
    admin::PodFacts {
        namespace: pod.namespace.clone(),
        name: pod.name.clone(),
        uid: pod.uid.as_str().to_owned(),
        sandbox_id: facts.sandbox.map(|sandbox| sandbox.as_str().to_owned()).unwrap_or_default(),
        seen: facts.seen,
        deleting: facts.deleting.is_some(),
        grace_seconds: facts.deleting.map_or(0, |grace| grace.as_secs().try_into().unwrap_or(u32::MAX)),
        stopping: facts.stopping,
        ended: facts.ended,
        order_error: facts.order_error.unwrap_or_default(),
        held_unready: facts.held_unready,
        gate_unwritten: facts.gate_unwritten,
        set_aside_milliseconds: facts.set_aside.map_or(0, millis),
        containers: facts.containers.into_iter().map(container).collect(),
    }
}

fn container_facts(facts: ContainerFacts, pod: &PodRef) -> admin::ContainerFacts {
    let names = |names: &[ContainerName]| names.iter().map(ToString::to_string).collect();
    let (state, exit_code) = match facts.instance.as_ref().map(|(_, _, state)| *state) {
        None => ("Absent", None),
        Some(ContainerState::Created) => ("Created", None),
        Some(ContainerState::Running) => ("Running", None),
        Some(ContainerState::Exited { code }) => ("Exited", code),
        Some(ContainerState::Unknown) => ("Unknown", None),
    };
    let readiness = match facts.readiness {
        None => "",
        Some(Readiness::Running) => "Running",
        Some(Readiness::PostStart) => "PostStart",
        Some(Readiness::StartupProbe) => "StartupProbe",
        Some(Readiness::ReadinessProbe) => "ReadinessProbe",
    };
    let hold_reason = facts.held.as_ref().map_or("", |held| held.why);
    let (waiting_for, waiting) = facts.waiting.unwrap_or_default();
    let attempt = facts.instance.as_ref().map_or(0, |(_, attempt, _)| *attempt);
    admin::ContainerFacts {
        priority: facts.priority,
        state: state.to_owned(),
        container_id: facts.instance.map(|(id, _, _)| id.as_str().to_owned()).unwrap_or_default(),
        attempt,
        exit_code,
        ready: facts.ready,
        readiness: readiness.to_owned(),
        running_milliseconds: facts.running.map_or(0, millis),
        restarts: facts.restarts,
        waiting_for: names(&waiting_for),
        waiting_milliseconds: millis(waiting),
        hold_reason: hold_reason.to_owned(),
        hold: facts.held.map(|held| admin::Hold {
            rpc: held.rpc.to_owned(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            container: facts.name.as_str().to_owned(),
            waiting_for: names(&held.waiting_for),
            held_milliseconds: millis(held.held),
            remaining_milliseconds: millis(held.remaining),
        }),
        stop_asked: facts.stop_asked,
        ends_with_job: facts.ends_with_job,
        ending_milliseconds: facts.ending.map(millis),
        name: facts.name.as_str().to_owned(),
    }
}

pub(super) fn occurrence(entry: &Entry, now: Instant) -> admin::Occurrence {
    let age = |at: Instant| millis(now.saturating_duration_since(at));
    admin::Occurrence {
        namespace: entry.pod.namespace.clone(),
        pod: entry.pod.name.clone(),
        pod_uid: entry.pod.uid.as_str().to_owned(),
        container: entry.container.as_ref().map(ToString::to_string).unwrap_or_default(),
        what: entry.what.name().to_owned(),
        text: entry.text.clone(),
        times: entry.times,
        first_age_milliseconds: age(entry.first),
        age_milliseconds: age(entry.last),
    }
}
