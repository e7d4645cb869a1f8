use std::time::{Duration, Instant};

use berth_policy::RequestId;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::*;
use crate::recreate::api::report;

/// When the objects are looked at.
const NOW: &str = "2026-01-01T00:01:00Z";

fn object(changes: Value) -> Object {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "ContainerRecreateRequest",
        "metadata": {
            "namespace": "shop", "name": "again", "uid": "r-1", "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": { "podName": "web", "containers": [{ "name": "app" }, { "name": "proxy" }] },
        "status": {
            "nodeName": "a", "podUID": "p-1",
            "containerStatusContexts": [
                { "name": "proxy", "containerID": "containerd://bbb", "restartCount": 0 },
                { "name": "app", "containerID": "containerd://aaa", "restartCount": 3 },
            ],
        },
    });
    merge(&mut object, changes);
    Object::read(serde_json::from_value(object).unwrap()).unwrap()
}

/// RFC 7386.
fn merge(into: &mut Value, changes: Value) {
    match (into, changes) {
        (Value::Object(into), Value::Object(changes)) => {
            for (key, change) in changes {
                if change.is_null() {
                    into.remove(&key);
                } else {
                    merge(into.entry(key).or_insert(Value::Null), change);
                }
            }
        }
        (into, change) => *into = change,
    }
}

fn clock() -> (Clock, Instant) {
    let now = Instant::now();
    (Clock::new(now, NOW.parse().unwrap()), now)
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

#[test]
fn a_request_without_options() {
    let (clock, now) = clock();
    let expect = RecreateRequest {
        id: "r-1".into(),
        origin: Origin::Api,
        key: "shop/again".to_owned(),
        created: now - seconds(60),
        pod: "p-1".into(),
        containers: vec![
            RecreateTarget { name: "app".into(), instance: "aaa".into() },
            RecreateTarget { name: "proxy".into(), instance: "bbb".into() },
        ],
        strategy: RecreateStrategy::default(),
        deadline: None,
        delete_after: None,
        reported: RecreateReport::default(),
        ended: None,
        unready_since: None,
    };
    assert_eq!(request(&object(json!({})), &clock), Ok(expect));
}

#[test]
fn every_option() {
    let (clock, now) = clock();
    let given = object(json!({ "spec": {
        "activeDeadlineSeconds": 90, "ttlSecondsAfterFinished": 0,
        "strategy": {
            "failurePolicy": "Ignore", "orderedRecreate": true, "forceRecreate": true,
            "terminationGracePeriodSeconds": 5, "unreadyGracePeriodSeconds": 0, "minStartedSeconds": 7,
        },
    } }));
    let request = request(&given, &clock).unwrap();
    assert_eq!(request.deadline, Some(now + seconds(30)));
    assert_eq!(request.delete_after, Some(seconds(0)));
    let expect = RecreateStrategy {
        ignore_failures: true,
        ordered: true,
        force: true,
        grace: Some(seconds(5)),
        unready_grace: Some(seconds(0)),
        min_started: seconds(7),
    };
    assert_eq!(request.strategy, expect);
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    let (clock, _) = clock();
    let table = [
        (json!({ "spec": { "podName": "" } }), "spec.podName is empty"),
        (json!({ "spec": { "podName": null } }), "podName"),
        (json!({ "spec": { "containers": [] } }), "spec.containers is empty"),
        (json!({ "spec": { "containers": [{ "name": "app" }, { "name": "app" }] } }), "lists app twice"),
        (json!({ "spec": { "containers": [{ "name": "db" }] } }), "has no container db"),
        (json!({ "spec": { "activeDeadlineSeconds": 2 } }), "spec.activeDeadlineSeconds is 2"),
        (json!({ "spec": { "ttlSecondsAfterFinished": -1 } }), "spec.ttlSecondsAfterFinished is -1"),
        (
            json!({ "spec": { "strategy": { "terminationGracePeriodSeconds": -1 } } }),
            "spec.strategy.terminationGracePeriodSeconds is -1",
        ),
        (
            json!({ "spec": { "strategy": { "unreadyGracePeriodSeconds": -2 } } }),
            "spec.strategy.unreadyGracePeriodSeconds is -2",
        ),
        (
            json!({ "spec": { "strategy": { "minStartedSeconds": -3 } } }),
            "spec.strategy.minStartedSeconds is -3",
        ),
        // What it has is not repeated, as with every value that a parser quotes; what it may have is.
        (
            json!({ "spec": { "strategy": { "failurePolicy": "Maybe" } } }),
            "the spec cannot be read: unknown variant, expected `Fail` or `Ignore`",
        ),
        (json!({ "status": { "podUID": null } }), "status.podUID is missing"),
        (json!({ "status": { "containerStatusContexts": null } }), "has no container app"),
        (
            json!({ "status": { "containerStatusContexts": [
                { "name": "app", "containerID": "", "restartCount": 0 }
            ] } }),
            "containerID \"\" for container app",
        ),
        (
            json!({ "status": { "containerStatusContexts": [
                { "name": "app", "containerID": "containerd://", "restartCount": 0 }
            ] } }),
            "containerID \"containerd://\"",
        ),
    ];
    for (changes, part) in table {
        let invalid = request(&object(changes.clone()), &clock).unwrap_err();
        let report = invalid.report();
        assert!(report.message.contains(part), "{changes}: {}", report.message);
        assert!(report.message.contains("make a new request"), "{changes}: {}", report.message);
        assert_eq!(report.phase, Some(RequestPhase::Completed));
        assert_eq!(report.outcome, Some(Outcome::Failed(INVALID)));
        let failed = |container: &ContainerProgress| container.phase == ContainerPhase::Failed;
        assert!(report.containers.iter().all(failed), "{changes}");
    }
}

#[test]
fn one_that_has_ended_is_given_on_however_it_looks() {
    let (clock, now) = clock();
    let ended = json!({ "phase": "Completed", "completionTime": "2026-01-01T00:00:30Z" });
    for spec in
        [json!({ "containers": [] }), json!({ "podName": null }), json!({ "activeDeadlineSeconds": -1 })]
    {
        let mut changes = json!({ "spec": spec, "status": ended });
        merge(&mut changes, json!({ "spec": { "ttlSecondsAfterFinished": 60 } }));
        let request = request(&object(changes.clone()), &clock).unwrap();
        assert_eq!(request.ended, Some(now - seconds(30)), "{changes}");
    }
    // Whoever ended it left the time out.
    let request = request(&object(json!({ "status": { "phase": "Completed" } })), &clock).unwrap();
    assert_eq!(request.ended, Some(now - seconds(60)));
}

#[test]
fn what_is_reported_reads_the_same() {
    let container = |name: &str, phase, message: &str, killed| ContainerProgress {
        name: name.into(),
        phase,
        message: message.to_owned(),
        killed,
    };
    let table = [
        RecreateReport::default(),
        RecreateReport { phase: Some(RequestPhase::Pending), ..RecreateReport::default() },
        RecreateReport {
            phase: Some(RequestPhase::Recreating),
            message: "waits".to_owned(),
            containers: vec![
                container("b", ContainerPhase::Recreating, "", true),
                container("a", ContainerPhase::Pending, "after b", false),
            ],
            outcome: None,
            unready: true,
        },
        RecreateReport {
            phase: Some(RequestPhase::Completed),
            containers: vec![container("a", ContainerPhase::Succeeded, "", true)],
            outcome: Some(Outcome::Complete),
            ..RecreateReport::default()
        },
        RecreateReport {
            phase: Some(RequestPhase::Completed),
            message: "no".to_owned(),
            containers: vec![container("a", ContainerPhase::Failed, "no", false)],
            outcome: Some(Outcome::Failed(INVALID)),
            unready: true,
        },
    ];
    for report in table {
        let status = report::status(&report, &ContainerRecreateRequestStatus::default(), Timestamp::now());
        let status: Value = serde_json::to_value(status).unwrap();
        let target = Target { status: serde_json::from_value(status).unwrap(), ..Target::default() };
        assert_eq!(reported(&target), report);
    }
}

#[test]
fn an_object_of_which_another_part_is_odd() {
    let object =
        object(json!({ "status": { "phase": "Napping" }, "metadata": { "deletionTimestamp": NOW } }));
    assert_eq!(object.id, RequestId::from("r-1"));
    assert!(object.deleting);
    assert_eq!(object.target.status, ContainerRecreateRequestStatus::default());
}
