mod written;

use std::time::{Duration, Instant};

use berth_policy::{
    ContainerPhase, ContainerProgress, FailureReason, Origin, Outcome, RecreateReport, RecreateRequest,
    RecreateStrategy, RecreateTarget, RequestId, RequestPhase,
};
use berth_proto::crd::{
    ContainerRecreateRequest, ContainerRecreateRequestSpec, ContainerRecreateRequestStatus,
    RecreateContainer, RecreatePhase, RecreateStrategy as Strategy, SpecStatusContext,
};
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};

use super::{Refused, authored, merged, own, read};
use crate::{base::clock::Clock, cluster::object::Object, recreate::api::shown};

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

fn request(object: &Object, clock: &Clock) -> Result<RecreateRequest, Refused> {
    super::request(shown(object), clock)
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
        named: Some("shop/web".to_owned()),
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
        (
            json!({ "spec": { "containers": [{ "name": "app" }, { "name": "app" }] } }),
            "spec.containers[1].name repeats \"app\"",
        ),
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
        (json!({ "spec": { "podName": "shop/web" } }), "spec.podName has a slash"),
        (json!({ "spec": { "containers": [{ "name": "" }] } }), "spec.containers[0].name is empty"),
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
        assert_eq!(report.outcome, Some(Outcome::Failed(FailureReason::InvalidRequest)));
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
            outcome: Some(Outcome::Failed(FailureReason::InvalidRequest)),
            unready: true,
        },
    ];
    for report in &table {
        let status = super::status(report, &ContainerRecreateRequestStatus::default(), Timestamp::now());
        let status: Value = serde_json::to_value(status).unwrap();
        assert_eq!(read(&serde_json::from_value(status).unwrap()), *report);
        // Whatever was there before, where nobody else merges.
        for before in &table {
            let before = merged(before, &ContainerRecreateRequestStatus::default(), Timestamp::now());
            assert_eq!(read(&merged(report, &before, Timestamp::now())), *report, "after {before:?}");
        }
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

fn good() -> ContainerRecreateRequest {
    let container = |name: &str| RecreateContainer { name: name.to_owned(), ..RecreateContainer::default() };
    let spec = ContainerRecreateRequestSpec {
        pod_name: "web".to_owned(),
        containers: vec![container("app"), container("log")],
        strategy: Some(Strategy {
            termination_grace_period_seconds: Some(0),
            unready_grace_period_seconds: Some(0),
            min_started_seconds: Some(0),
            ..Strategy::default()
        }),
        active_deadline_seconds: Some(3),
        ttl_seconds_after_finished: Some(0),
    };
    ContainerRecreateRequest::new("again", spec)
}

#[test]
fn every_rule_for_authors_names_its_field() {
    type Spoil = fn(&mut ContainerRecreateRequest);
    let table: [(&str, Spoil); 20] = [
        ("status is berthd's", |r| {
            let phase = Some(RecreatePhase::Completed);
            r.status = Some(ContainerRecreateRequestStatus { phase, ..Default::default() });
        }),
        ("metadata.name is empty or has a slash", |r| r.metadata.name = Some("a/b".into())),
        ("metadata.namespace is empty or", |r| r.metadata.namespace = Some(String::new())),
        ("spec.podName is empty", |r| r.spec.pod_name.clear()),
        ("spec.podName has a slash", |r| r.spec.pod_name = "shop/web".into()),
        ("spec.containers is empty", |r| r.spec.containers.clear()),
        ("spec.containers has 257 entries", |r| r.spec.containers = vec![RecreateContainer::default(); 257]),
        ("spec.containers[1].name is empty", |r| r.spec.containers[1].name.clear()),
        ("spec.containers[1].name repeats \"app\"", |r| r.spec.containers[1].name = "app".into()),
        ("spec.containers[0].preStop is not for users", |r| {
            r.spec.containers[0].pre_stop = Some(Default::default());
        }),
        ("spec.containers[1].ports is", |r| r.spec.containers[1].ports = Some(vec![Default::default()])),
        ("spec.containers[0].statusContext is", |r| {
            r.spec.containers[0].status_context = Some(SpecStatusContext::default());
        }),
        ("spec.strategy.terminationGracePeriodSeconds is -1: give 0 or more", |r| {
            r.spec.strategy.as_mut().unwrap().termination_grace_period_seconds = Some(-1);
        }),
        ("spec.strategy.unreadyGracePeriodSeconds is -2", |r| {
            r.spec.strategy.as_mut().unwrap().unready_grace_period_seconds = Some(-2);
        }),
        ("spec.strategy.minStartedSeconds is -3", |r| {
            r.spec.strategy.as_mut().unwrap().min_started_seconds = Some(-3);
        }),
        ("spec.ttlSecondsAfterFinished is -4", |r| r.spec.ttl_seconds_after_finished = Some(-4)),
        ("spec.ttlSecondsAfterFinished is 2147483647", |r| {
            r.spec.ttl_seconds_after_finished = Some(i32::MAX);
        }),
        ("spec.activeDeadlineSeconds is 2", |r| r.spec.active_deadline_seconds = Some(2)),
        ("spec.activeDeadlineSeconds is -9", |r| r.spec.active_deadline_seconds = Some(-9)),
        ("spec.activeDeadlineSeconds is 9223372036854775807", |r| {
            r.spec.active_deadline_seconds = Some(i64::MAX);
        }),
    ];
    authored(&good()).unwrap();
    for (expected, spoil) in table {
        let mut request = good();
        spoil(&mut request);
        let error = authored(&request).unwrap_err().to_string();
        assert!(error.starts_with(expected), "expected {expected:?}, got {error:?}");
    }
}
