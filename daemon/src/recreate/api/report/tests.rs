use berth_policy::Outcome;
use berth_proto::crd::ContainerRecreateRequestStatus;
use serde_json::{Value, json};

use super::*;

fn previous(status: Value) -> ContainerRecreateRequestStatus {
    serde_json::from_value(status).unwrap()
}

fn condition(condition_type: &str, reason: &str, message: &str, since: &str) -> Value {
    json!({ "type": condition_type, "status": "True", "reason": reason, "message": message, "lastTransitionTime": since })
}

fn report(phase: RequestPhase) -> RecreateReport {
    RecreateReport { phase: Some(phase), ..RecreateReport::default() }
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
    let status = codec::status(&report(RequestPhase::Pending), &target.status, Timestamp::now());
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
