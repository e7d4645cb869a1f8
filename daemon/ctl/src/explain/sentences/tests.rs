//! Each sentence, by the facts that lead to it.

use berth_proto::admin::{ContainerRecreateState, ContainerUpdateState};

use super::*;

fn facts(state: &str) -> ContainerFacts {
    ContainerFacts {
        name: "web".into(),
        state: state.into(),
        readiness: "Running".into(),
        running_milliseconds: 61_000,
        ..ContainerFacts::default()
    }
}

fn pod(containers: Vec<ContainerFacts>) -> PodFacts {
    PodFacts {
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u".into(),
        seen: true,
        containers,
        ..PodFacts::default()
    }
}

fn hold(rpc: &str, reason: &str, waiting_for: &[&str]) -> ContainerFacts {
    let hold = Hold {
        rpc: rpc.into(),
        waiting_for: waiting_for.iter().map(|&name| name.into()).collect(),
        held_milliseconds: 2000,
        remaining_milliseconds: 8000,
        ..Hold::default()
    };
    ContainerFacts { hold: Some(hold), hold_reason: reason.into(), ..facts("Absent") }
}

#[test]
fn about_a_container() {
    let quiet = || pod(Vec::new());
    let going = || PodFacts { deleting: true, ..quiet() };
    let waits = ContainerFacts {
        waiting_for: vec!["db".into(), "log".into()],
        waiting_milliseconds: 1500,
        ..facts("Absent")
    };
    let db = ContainerFacts { name: "db".into(), ..facts("Running") };
    let exit = |code, restarts| ContainerFacts { exit_code: Some(code), restarts, ..facts("Exited") };
    let table = [
        (
            hold("CreateContainer", "not-ready", &["db", "log"]),
            quiet(),
            "is not created yet: the agent holds its creation back until db, log are Ready, for 2.0s so far and 8.0s more at most",
        ),
        (
            hold("CreateContainer", "same-second", &["db"]),
            quiet(),
            "is not created yet: the agent holds its creation back until the second is over in which db was started, for 2.0s so far and 8.0s more at most",
        ),
        (
            hold("StopContainer", "still-running", &["db"]),
            going(),
            "still runs: the agent holds its stop back until db has exited, for 2.0s so far and 8.0s more at most",
        ),
        (
            hold("CreateContainer", "pod-unknown", &[]),
            quiet(),
            "is not created yet: the agent holds its creation back until the pod view shows the pod, for 2.0s so far and 8.0s more at most",
        ),
        (
            waits.clone(),
            pod(vec![db]),
            "is not created yet: waits for db (running, not Ready), log (not created) for 1.5s; the kubelet asks again",
        ),
        (waits, going(), "is not there, and nothing starts in this pod any more"),
        (
            facts("Absent"),
            quiet(),
            "is not created yet: the kubelet has not asked for it (it may pull its image, or run init containers)",
        ),
        (
            facts("Absent"),
            PodFacts { order_error: "bad".into(), ..quiet() },
            "is not created: the declared launch order cannot be read",
        ),
        (facts("Created"), quiet(), "was created and is not started yet"),
        (
            ContainerFacts { ready: true, ends_with_job: true, ..facts("Running") },
            quiet(),
            "is Ready, and runs for 1m1s; it ends with its job",
        ),
        (
            ContainerFacts { readiness: "StartupProbe".into(), ..facts("Running") },
            quiet(),
            "runs for 1m1s and is not Ready: its startup probe has not succeeded yet",
        ),
        (ContainerFacts { readiness: String::new(), ..facts("Running") }, quiet(), "runs for 1m1s"),
        (
            ContainerFacts { stop_asked: true, ready: true, ..facts("Running") },
            quiet(),
            "is being stopped: a client of the runtime, mostly the kubelet, asked for it",
        ),
        (
            ContainerFacts { ending_milliseconds: Some(500), ..facts("Running") },
            quiet(),
            "is being ended for 500ms: the main containers of its job have ended",
        ),
        (
            ContainerFacts { attempt: 2, ..exit(3, true) },
            quiet(),
            "exited with code 3 (restart 2); the kubelet starts it again, after its back-off",
        ),
        (exit(0, false), quiet(), "exited with code 0, and its restartPolicy leaves it so"),
        (exit(0, true), going(), "exited with code 0"),
        (
            ContainerFacts { ending_milliseconds: Some(0), ..exit(143, true) },
            quiet(),
            "exited with code 143 with its job; to the kubelet its code is 0",
        ),
        (facts("Unknown"), quiet(), "is in a state that the runtime does not know"),
    ];
    for (facts, pod, expected) in table {
        assert_eq!(container(&facts, &pod), expected);
    }
}

#[test]
fn about_a_pod() {
    let level = |name: &str, priority| ContainerFacts {
        name: name.into(),
        priority: Some(priority),
        ready: true,
        ..facts("Running")
    };
    let ordered = || pod(vec![level("db", 10), level("api", 5), level("log", 5), level("web", -1)]);
    let order = "Launch order: db (10), then api and log (5), then web (-1).";
    let table: Vec<(&str, PodFacts, Vec<&str>)> = vec![
        ("inline", pod(vec![facts("Running")]), vec![]),
        ("inline", ordered(), vec![order]),
        (
            "beside",
            ordered(),
            vec![
                order,
                "The agent of this node stands beside the kubelet and cannot keep that order (berthctl install).",
            ],
        ),
        (
            "inline",
            PodFacts { deleting: true, grace_seconds: 30, stopping: true, ..ordered() },
            vec![order, "It is being deleted: its containers have 30 s to stop, in the reverse order."],
        ),
        (
            "inline",
            PodFacts { order_error: "env x is \"high\"".into(), ..pod(vec![]) },
            vec![
                "The declared launch order cannot be read: env x is \"high\". Until it is mended, none of its containers starts.",
            ],
        ),
        (
            "inline",
            PodFacts { seen: false, stopping: true, ..pod(vec![]) },
            vec![
                "The pod view does not show it: only what runs in it is known (see berthctl status).",
                "Its sandbox is being stopped.",
            ],
        ),
        (
            "inline",
            PodFacts {
                ended: true,
                gate_unwritten: true,
                held_unready: vec!["shop/again".into()],
                set_aside_milliseconds: 4500,
                ..pod(vec![])
            },
            vec![
                "It has ended: nothing of it runs again.",
                "It is not Ready before the agent has written its condition KruisePodReady.",
                "Request shop/again holds it not Ready.",
                "berthd failed to evaluate it, which is a bug, and leaves it alone for another 4.5s; see its log.",
            ],
        ),
    ];
    for (path, pod, expected) in table {
        let snapshot = Snapshot { path: path.into(), ..Snapshot::default() };
        assert_eq!(snapshot.about(&pod), expected);
    }
}

#[test]
fn requests_updates_and_pulls_that_are_under_way() {
    let request = |uid: &str, outcome: &str| RecreateState {
        namespace: "shop".into(),
        name: "again".into(),
        pod: "web".into(),
        pod_uid: uid.into(),
        phase: "Recreating".into(),
        outcome: outcome.into(),
        age_milliseconds: 3000,
        containers: vec![ContainerRecreateState {
            name: "app".into(),
            phase: "Pending".into(),
            ..ContainerRecreateState::default()
        }],
        ..RecreateState::default()
    };
    let update = UpdateState {
        namespace: "shop".into(),
        name: "web".into(),
        pod: "web".into(),
        pod_uid: "u".into(),
        age_milliseconds: 2000,
        containers: vec![ContainerUpdateState { name: "app".into(), ..ContainerUpdateState::default() }],
        message: "waits for its image".into(),
        ..UpdateState::default()
    };
    let pull = |name: &str, phase: &str| PullState {
        image: "r/app:2".into(),
        wanted_by: "update".into(),
        name: name.into(),
        phase: phase.into(),
        percent: 25,
        attempts: 1,
        ..PullState::default()
    };
    let snapshot = Snapshot {
        path: "inline".into(),
        requests: vec![request("u", ""), request("", ""), request("u", "Complete"), request("other", "")],
        updates: vec![update],
        pulls: vec![
            pull("u/r/app:2", "Pulling"),
            pull("u/r/app:1", "Succeeded"),
            pull("v/r/app:2", "Pulling"),
        ],
        events: Vec::new(),
    };
    let one = "Recreate request shop/again is Recreating, 3.0s old: app (Pending).";
    let expected = [
        one,
        // Not assigned to a pod yet: by its name.
        one,
        "Update shop/web is not answered by the node yet, 2.0s old: app; waits for its image.",
        "Image r/app:2 is fetched before anything is stopped for it: 25 %, 1 attempt(s).",
    ];
    let quiet = pod(vec![ContainerFacts { ready: true, ..facts("Running") }]);
    assert_eq!(snapshot.about(&quiet), expected);
    assert!(snapshot.is_busy(&quiet));
    assert!(!Snapshot::default().is_busy(&quiet));
    assert!(Snapshot::default().is_busy(&pod(vec![facts("Absent")])));
    assert!(Snapshot::default().is_busy(&PodFacts { deleting: true, ..quiet }));
    assert!(!Snapshot::default().is_busy(&PodFacts { ended: true, ..pod(vec![facts("Exited")]) }));
}

#[test]
fn who_waits_for_which_step_of_a_swap() {
    let table = [
        ("Pending", "mesh-1", "Sidecar mesh waits for its new version: the pod has another one so far."),
        ("Migrating", "mesh-2", "Sidecar mesh: mesh-1 serves, and waits for mesh-2 to take over."),
        ("Migrating", "mesh-1", "Sidecar mesh: mesh-2 serves, and waits for mesh-1 to take over."),
        ("Migrating", "", "Sidecar mesh: the other one serves, and waits for one twin to take over."),
        ("Emptying", "mesh-2", "Sidecar mesh: mesh-2 has taken over, and mesh-1 becomes empty."),
        ("Returning", "mesh-2", "Sidecar mesh: mesh-2 is given up and becomes empty; mesh-1 serves on."),
        ("Done", "mesh-2", "Sidecar mesh: mesh-2 serves what is wanted, and mesh-1 has the empty image."),
        ("Resting", "mesh-2", "Sidecar mesh: its swap is at Resting."),
    ];
    let quiet = pod(vec![ContainerFacts { ready: true, ..facts("Running") }]);
    for (step, working, expected) in table {
        let swap = TwinSwapState { name: "mesh".into(), working: working.into(), step: step.into() };
        let update = |outcome: &str| UpdateState {
            namespace: "shop".into(),
            name: "web".into(),
            pod: "web".into(),
            pod_uid: "u".into(),
            phase: "Updating".into(),
            age_milliseconds: 2000,
            swaps: vec![swap.clone()],
            outcome: outcome.into(),
            ..UpdateState::default()
        };
        let about = |outcome: &str| {
            let updates = vec![update(outcome)];
            Snapshot { path: "inline".into(), updates, ..Snapshot::default() }.about(&quiet)
        };
        assert_eq!(about(""), ["Update shop/web is Updating, 2.0s old.", expected]);
        assert!(about("Complete").is_empty());
    }
}
