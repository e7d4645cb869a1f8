//! Probes of one's own, as the wire has them.

use std::time::Instant;

use berth_policy::{ProbeState, ProbeView};
use berth_proto::admin;

use super::{millis, order::picks};

/// Probes of the pods that are asked for.
pub(super) fn answer(all: Vec<ProbeView>, runs: usize, wanted: &str, now: Instant) -> admin::ProbesResponse {
    let wanted = all.into_iter().filter(|view| picks(wanted, &view.pod, None));
    admin::ProbesResponse {
        probes: wanted.map(|view| standing(view, now)).collect(),
        runs: super::number(runs),
    }
}

fn standing(view: ProbeView, now: Instant) -> admin::ProbeStanding {
    let ago = |then: Instant| millis(now.saturating_duration_since(then));
    let state = match view.state {
        ProbeState::Succeeded => "Succeeded",
        ProbeState::Failed => "Failed",
        ProbeState::Unknown => "Unknown",
    };
    admin::ProbeStanding {
        namespace: view.pod.namespace,
        pod: view.pod.name,
        pod_uid: view.pod.uid.as_str().to_owned(),
        container: view.container.as_str().to_owned(),
        name: view.name.to_string(),
        state: state.to_owned(),
        state_milliseconds: ago(view.since),
        message: view.message.to_string(),
        running: view.running,
        last_run_milliseconds: view.last_run.map(ago),
        due_milliseconds: view.due.map(|due| millis(due.saturating_duration_since(now))),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use berth_policy::PodRef;

    use super::*;

    #[test]
    fn probes_of_the_pods_that_are_asked_for() {
        let begin = Instant::now();
        let now = begin + Duration::from_secs(9);
        let view = |pod: &str, due: Option<Instant>| ProbeView {
            pod: PodRef { uid: format!("uid-{pod}").into(), namespace: "game".into(), name: pod.into() },
            container: "app".into(),
            name: "marker#idle".into(),
            state: ProbeState::Failed,
            since: begin,
            last_run: Some(begin + Duration::from_secs(7)),
            due,
            running: false,
            message: "exit code 1".into(),
        };
        let all =
            || vec![view("a", Some(now + Duration::from_secs(3))), view("b", Some(begin)), view("c", None)];
        let answered = answer(all(), 2, "", now);
        let due: Vec<_> = answered.probes.iter().map(|probe| probe.due_milliseconds).collect();
        assert_eq!((due, answered.runs), (vec![Some(3000), Some(0), None], 2));
        for wanted in ["b", "game/b", "uid-b"] {
            let probes = answer(all(), 0, wanted, now).probes;
            assert_eq!(probes.len(), 1, "{wanted}");
            let probe = &probes[0];
            assert_eq!((probe.pod.as_str(), probe.state.as_str()), ("b", "Failed"));
            assert_eq!((probe.state_milliseconds, probe.last_run_milliseconds), (9000, Some(2000)));
        }
    }
}
