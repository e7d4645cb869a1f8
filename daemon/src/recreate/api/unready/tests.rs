use serde_json::{Value, json};

use super::*;

const NOW: &str = "2026-01-01T00:01:00Z";
const BEFORE: &str = "2026-01-01T00:00:00Z";
const OURS: &str = r#"[{"userAgent":"ContainerRecreateRequest","key":"shop/again"}]"#;
const THEIRS: &str = r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
const BOTH: &str = r#"[{"userAgent":"ContainerRecreateRequest","key":"shop/again"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;

fn gate(status: &str, message: &str) -> Value {
    json!({ "type": CONDITION, "status": status, "message": message, "lastTransitionTime": BEFORE })
}

fn simple(condition_type: &str, status: &str) -> Value {
    json!({ "type": condition_type, "status": status, "lastTransitionTime": BEFORE })
}

/// Type, status, message and time of what is written.
fn changed(change: Change, has_gate: bool, conditions: &[Value]) -> Vec<(String, String, String, bool)> {
    let gates = if has_gate { json!([{ "conditionType": CONDITION }]) } else { json!([]) };
    let pod = json!({
        "metadata": { "name": "web" },
        "spec": { "containers": [], "readinessGates": gates },
        "status": { "conditions": conditions },
    });
    let now: Timestamp = NOW.parse().unwrap();
    let entry = unready::request("shop/again");
    let changed = super::conditions(&serde_json::from_value(pod).unwrap(), change, &entry, now);
    let told = changed.into_iter().map(|condition| {
        let new = condition.last_transition_time == Some(Time(now));
        (condition.type_, condition.status, condition.message.unwrap_or_default(), new)
    });
    told.collect()
}

fn row(condition_type: &str, status: &str, message: &str, new: bool) -> (String, String, String, bool) {
    (condition_type.to_owned(), status.to_owned(), message.to_owned(), new)
}

#[test]
fn hold() {
    let unready = r#"the status of pod readiness gate "KruisePodReady" is not "True", but False"#;
    let table: [(&[Value], Vec<_>); 8] = [
        // Nobody holds it.
        (&[], vec![row(CONDITION, "False", OURS, true)]),
        (&[gate("True", "[]")], vec![row(CONDITION, "False", OURS, true)]),
        (&[gate("True", "prose")], vec![row(CONDITION, "False", OURS, true)]),
        // It is held already.
        (&[gate("False", OURS)], vec![]),
        (&[gate("False", BOTH)], vec![]),
        (&[gate("True", OURS)], vec![row(CONDITION, "False", OURS, true)]),
        // Somebody else holds it.
        (&[gate("False", THEIRS)], vec![row(CONDITION, "False", BOTH, true)]),
        // The pod is Ready, so it must not be any more.
        (
            &[gate("True", "[]"), simple("ContainersReady", "True"), simple("Ready", "True")],
            vec![row(CONDITION, "False", OURS, true), row("Ready", "False", unready, true)],
        ),
    ];
    for (conditions, expect) in table {
        assert_eq!(changed(Change::Hold, true, conditions), expect, "{conditions:?}");
    }
}

#[test]
fn ready_is_left_alone() {
    // Its containers are not ready: the kubelet says why. Or it is not Ready anyway.
    for conditions in [
        [gate("True", "[]"), simple("ContainersReady", "False"), simple("Ready", "False")],
        [gate("True", "[]"), simple("ContainersReady", "False"), simple("Ready", "True")],
        [gate("True", "[]"), simple("ContainersReady", "True"), simple("Ready", "False")],
    ] {
        assert_eq!(changed(Change::Hold, true, &conditions), [row(CONDITION, "False", OURS, true)]);
    }
}

#[test]
fn release() {
    let table: [(&[Value], Vec<_>); 6] = [
        (&[], vec![]),
        (&[gate("True", "[]")], vec![]),
        (&[gate("False", THEIRS)], vec![]),
        (&[gate("False", OURS)], vec![row(CONDITION, "True", "[]", true)]),
        // Others still hold it, for as long as before.
        (&[gate("False", BOTH)], vec![row(CONDITION, "False", THEIRS, false)]),
        // The kubelet makes the pod Ready again.
        (
            &[gate("False", OURS), simple("ContainersReady", "True"), simple("Ready", "False")],
            vec![row(CONDITION, "True", "[]", true)],
        ),
    ];
    for (conditions, expect) in table {
        assert_eq!(changed(Change::Release, true, conditions), expect, "{conditions:?}");
    }
}

#[test]
fn a_pod_without_the_gate_is_left_alone() {
    for change in [Change::Hold, Change::Release] {
        assert_eq!(changed(change, false, &[gate("False", OURS)]), []);
    }
}
