//! Pods: the readiness gate KruisePodReady, and sidecars.

use serde_json::{Value, json};

/// The condition of the gate, which the agent sets.
const GATE: &str = "KruisePodReady";

/// Gives a pod the readiness gate, if it has it not.
pub(super) fn add_readiness_gate(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let gates = spec.entry("readinessGates").or_insert_with(|| json!([]));
    if gates.is_null() {
        *gates = json!([]);
    }
    if let Some(gates) = gates.as_array_mut()
        && !gates.iter().any(|gate| gate["conditionType"] == GATE)
    {
        gates.push(json!({ "conditionType": GATE }));
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;

    #[rstest]
    #[case::none(json!({"spec": {}}), json!([{"conditionType": GATE}]))]
    #[case::null(json!({"spec": {"readinessGates": null}}), json!([{"conditionType": GATE}]))]
    #[case::another(json!({"spec": {"readinessGates": [{"conditionType": "a"}]}}),
        json!([{"conditionType": "a"}, {"conditionType": GATE}]))]
    #[case::there(json!({"spec": {"readinessGates": [{"conditionType": GATE}]}}),
        json!([{"conditionType": GATE}]))]
    #[case::no_list(json!({"spec": {"readinessGates": 1}}), json!(1))]
    #[case::no_pod(json!([]), Value::Null)]
    fn gates(#[case] mut pod: Value, #[case] wanted: Value) {
        add_readiness_gate(&mut pod);
        assert_eq!(pod.pointer("/spec/readinessGates").cloned().unwrap_or_default(), wanted);
    }
}
