//! Statuses that the agent writes.

use super::*;

/// When a status is written.
const LATER: &str = "2026-01-01T00:01:00.25Z";

fn previous(status: Value) -> ContainerRecreateRequestStatus {
    serde_json::from_value(status).unwrap()
}

fn written(report: &RecreateReport, before: &Value) -> Value {
    serde_json::to_value(super::super::status(report, &previous(before.clone()), LATER.parse().unwrap()))
        .unwrap()
}

fn condition(condition_type: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({ "type": condition_type, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since })
}

fn report(phase: RequestPhase) -> RecreateReport {
    RecreateReport { phase: Some(phase), ..RecreateReport::default() }
}

#[test]
fn only_what_the_agent_owns() {
    let assigned = json!({
        "nodeName": "a", "podUID": "p",
        "containerStatusContexts": [{ "name": "x", "containerID": "c://1", "restartCount": 0 }],
    });
    assert_eq!(written(&RecreateReport::default(), &assigned), json!({}));
    assert_eq!(written(&report(RequestPhase::Pending), &assigned), json!({ "phase": "Pending" }));
    let progress = |name: &str, phase, message: &str, killed| ContainerProgress {
        name: name.into(),
        phase,
        message: message.to_owned(),
        killed,
    };
    let running = RecreateReport {
        message: "two to go".to_owned(),
        containers: vec![
            progress("a", ContainerPhase::Recreating, "", true),
            progress("b", ContainerPhase::Pending, "waits for a", false),
        ],
        unready: true,
        ..report(RequestPhase::Recreating)
    };
    let expect = json!({
        "phase": "Recreating",
        "message": "two to go",
        "containerRecreateStates": [
            { "name": "a", "phase": "Recreating", "isKilled": true },
            { "name": "b", "phase": "Pending", "message": "waits for a" },
        ],
        "conditions": [condition("PreRecreateGrace", "PreRecreateGrace", "", "2026-01-01T00:01:01Z")],
    });
    assert_eq!(written(&running, &assigned), expect);
}

#[test]
fn times_stay_while_what_they_are_about_does() {
    let before = json!({
        "phase": "Completed", "completionTime": "2026-01-01T00:00:07Z",
        "conditions": [
            condition("PreRecreateGrace", "PreRecreateGrace", "", "2026-01-01T00:00:05Z"),
            condition("Complete", "Succeeded", "", "2026-01-01T00:00:07Z"),
            condition("Other", "NotOurs", "", "2026-01-01T00:00:01Z"),
        ],
    });
    let again =
        RecreateReport { outcome: Some(Outcome::Complete), unready: true, ..report(RequestPhase::Completed) };
    let expect = json!({
        "phase": "Completed", "completionTime": "2026-01-01T00:00:07Z",
        "conditions": [
            condition("Complete", "Succeeded", "", "2026-01-01T00:00:07Z"),
            condition("PreRecreateGrace", "PreRecreateGrace", "", "2026-01-01T00:00:05Z"),
        ],
    });
    assert_eq!(written(&again, &before), expect);
    // One that was False has a new time.
    let mut was_false = before.clone();
    was_false["conditions"][0]["status"] = "False".into();
    let since = |value: Value| value["conditions"][1]["lastTransitionTime"].clone();
    assert_eq!(since(written(&again, &was_false)), "2026-01-01T00:01:01Z");
}

#[test]
fn the_end() {
    let well = RecreateReport { outcome: Some(Outcome::Complete), ..report(RequestPhase::Completed) };
    let expect = json!({
        "phase": "Completed", "completionTime": "2026-01-01T00:01:00Z",
        "conditions": [condition("Complete", "Succeeded", "", "2026-01-01T00:01:00Z")],
    });
    assert_eq!(written(&well, &json!({ "phase": "Recreating" })), expect);
    let badly = RecreateReport {
        message: "pod has gone".to_owned(),
        outcome: Some(Outcome::Failed(FailureReason::PodGone)),
        ..report(RequestPhase::Completed)
    };
    let expect = json!({
        "phase": "Completed", "completionTime": "2026-01-01T00:01:00Z", "message": "pod has gone",
        "conditions": [condition("Failed", "PodGone", "pod has gone", "2026-01-01T00:01:00Z")],
    });
    assert_eq!(written(&badly, &json!({ "phase": "Recreating" })), expect);
}

#[test]
fn nothing_new_is_not_written() {
    let there = json!({
        "nodeName": "a", "podUID": "p", "phase": "Recreating",
        "containerRecreateStates": [{ "name": "a", "phase": "Recreating", "isKilled": true }],
        "conditions": [condition("Other", "NotOurs", "", "2026-01-01T00:00:01Z")],
    });
    let progress = ContainerProgress {
        name: "a".into(),
        phase: ContainerPhase::Recreating,
        message: String::new(),
        killed: true,
    };
    let same = RecreateReport { containers: vec![progress], ..report(RequestPhase::Recreating) };
    let there = previous(there);
    assert_eq!(super::super::status(&same, &there, LATER.parse().unwrap()), own(&there));
    let other = RecreateReport { message: "new".to_owned(), ..same };
    assert_ne!(super::super::status(&other, &there, LATER.parse().unwrap()), own(&there));
}
