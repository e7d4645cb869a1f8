//! Conditions of a `NodePodProbe`: their types, and the sentences that they say.

use berth_policy::Backlog;
use berth_proto::crd::NodePodProbe;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;

use super::approval::Refused;

/// The owner of the conditions among the agent's fields.
pub(super) const MANAGER: &str = "berth-agent-conditions";
/// Condition: the agent may do what it is asked for.
pub(super) const PERMITTED: &str = "Permitted";
/// Condition: no probe runs later than it should because the node allows no more.
pub(super) const ON_TIME: &str = "OnTime";

/// Condition: every entry of `status.desiredPodProbes` is asked for by a live PodProbeMarker.
pub(super) const VERIFIED: &str = "Verified";
/// Condition: entries of `spec.podProbes` are run, where there are any.
pub(super) const SPEC_ACCEPTED: &str = "SpecAccepted";
/// All of them.
const CONDITIONS: [&str; 4] = [PERMITTED, ON_TIME, VERIFIED, SPEC_ACCEPTED];
/// Entries that a condition names.
const TOLD: usize = 5;

/// Returns the agent's conditions that stand in an object.
pub(super) fn own(object: &NodePodProbe) -> Vec<Condition> {
    let all = object.status.iter().flat_map(|status| &status.conditions);
    all.filter(|condition| CONDITIONS.contains(&condition.type_.as_str())).cloned().collect()
}

/// Tells whether one of those that are due does not stand in the object as it is. A client that has no field
/// for conditions leaves all of them out when it writes the status.
pub(super) fn are_lost(shown: &[Condition], due: &[Condition]) -> bool {
    due.iter().any(|condition| !shown.contains(condition))
}

pub(super) fn not_accepted(entries: usize) -> String {
    format!(
        "{entries} pod(s) of spec.podProbes are not probed: no PodProbeMarker asks for them, so whoever writes this object could \
         run commands in every pod of the node; where OpenKruise's controllers are to be trusted with that, set \
         probes.acceptSpec: true in the agent's configuration"
    )
}

/// Entries that are not run, and why; the first few of many. Empty: all are.
pub(super) fn not_run(refused: &[Refused], beyond: usize) -> String {
    let entry = |Refused { pod, probe, why }: &Refused| {
        format!("{probe} of pod {}/{}: {why}", pod.namespace, pod.name)
    };
    let mut texts: Vec<String> = refused.iter().take(TOLD).map(entry).collect();
    let rest = refused.len() - texts.len();
    if rest > 0 {
        texts.push(format!("and {rest} more"));
    }
    if beyond > 0 {
        texts.push(format!(
            "{beyond} pod(s) or probe(s) are more, or have longer names, than a node can have"
        ));
    }
    texts.join("; ")
}

pub(super) fn behind(backlog: Backlog) -> String {
    format!(
        "{} probe(s) begin later than they should, up to {:.1} s: the node allows no more at once and in a second; longer \
         periods, or probes without exec, help",
        backlog.behind,
        backlog.late.as_secs_f64()
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn object(conditions: &[(&str, &str)]) -> NodePodProbe {
        let condition = |(of_type, status): &(&str, &str)| {
            json!({ "type": of_type, "status": status, "reason": "R", "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z" })
        };
        let conditions: Value = conditions.iter().map(condition).collect();
        let object =
            json!({ "metadata": { "name": "n" }, "spec": {}, "status": { "conditions": conditions } });
        serde_json::from_value(object).unwrap()
    }

    /// Rows: what stands there when `Permitted` and `OnTime` are due, and whether they are written again.
    #[test]
    fn what_somebody_left_out_is_lost() {
        let due = own(&object(&[(PERMITTED, "False"), (ON_TIME, "True")]));
        for (shown, lost) in [
            (&[(PERMITTED, "False"), (ON_TIME, "True")][..], false),
            (&[(ON_TIME, "True"), ("OfOthers", "True"), (PERMITTED, "False")], false),
            (&[(ON_TIME, "True")], true),
            (&[(PERMITTED, "True"), (ON_TIME, "True")], true),
            (&[], true),
        ] {
            assert_eq!(are_lost(&own(&object(shown)), &due), lost, "{shown:?}");
        }
        assert!(!are_lost(&[], &[]));
    }
}
