use berth_policy::{ContainerPhase, ContainerProgress};
use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:01:00.25Z";

fn previous(status: Value) -> ContainerRecreateRequestStatus {
    serde_json::from_value(status).unwrap()
}

fn written(report: &RecreateReport, before: &Value) -> Value {
    serde_json::to_value(status(report, &previous(before.clone()), NOW.parse().unwrap())).unwrap()
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
        outcome: Some(Outcome::Failed("PodGone")),
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
    assert_eq!(status(&same, &there, NOW.parse().unwrap()), own(&there));
    let other = RecreateReport { message: "new".to_owned(), ..same };
    assert_ne!(status(&other, &there, NOW.parse().unwrap()), own(&there));
}

#[test]
fn an_end_is_final() {
    let complete = condition("Complete", "Succeeded", "", "2026-01-01T00:00:07Z");
    let failed = condition("Failed", "AgentSilent", "no agent", "2026-01-01T00:00:07Z");
    let well = RecreateReport { outcome: Some(Outcome::Complete), ..report(RequestPhase::Completed) };
    let table = [
        (json!({ "phase": "Recreating" }), &well, false),
        (json!({ "phase": "Completed", "conditions": [complete] }), &well, false),
        (json!({ "phase": "Completed", "conditions": [complete] }), &report(RequestPhase::Recreating), true),
        (json!({ "phase": "Completed", "conditions": [failed] }), &well, true),
        (json!({ "completionTime": "2026-01-01T00:00:07Z" }), &well, true),
    ];
    for (there, report, expect) in table {
        let target = Target { status: previous(there.clone()), ..Target::default() };
        assert_eq!(ended_otherwise(&target, report), expect, "{there}");
    }
}

#[test]
fn what_is_applied_names_one_version_of_one_object() {
    let target = Target {
        namespace: "shop".to_owned(),
        name: "again".to_owned(),
        version: Some("7".to_owned()),
        ..Target::default()
    };
    let status = status(&report(RequestPhase::Pending), &target.status, NOW.parse().unwrap());
    let expect = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": { "namespace": "shop", "name": "again", "uid": "r-1", "resourceVersion": "7" },
        "status": { "phase": "Pending" },
    });
    assert_eq!(target.with_status::<ContainerRecreateRequest>(&"r-1".into(), &status), expect);
}

#[test]
fn the_newer_state_is_kept() {
    let target =
        |version: &str| -> Target { Target { version: Some(version.to_owned()), ..Target::default() } };
    assert!(target("10").is_newer_than(&target("9")));
    assert!(!target("9").is_newer_than(&target("10")));
    assert!(!target("9").is_newer_than(&target("9")));
    assert!(!target("x").is_newer_than(&target("9")));
}
