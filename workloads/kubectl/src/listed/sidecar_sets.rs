//! Rows of SidecarSets: how far each is rolled out. Pure.

use jiff::Timestamp;
use serde_json::Value;

use crate::{
    object::{age, condition, number, text},
    table::Sheet,
};

pub(super) fn row(set: &Value, now: Timestamp) -> Vec<String> {
    vec![
        text(set, "/metadata/name").to_owned(),
        number(set, "/status/matchedPods").to_string(),
        number(set, "/status/updatedPods").to_string(),
        number(set, "/status/updatedReadyPods").to_string(),
        text(set, "/status/latestRevision").to_owned(),
        rollout(set),
        age(set, now),
        number(set, "/status/readyPods").to_string(),
        number(set, "/status/notInjectedPods").to_string(),
        refused(set).unwrap_or_default(),
    ]
}

/// Progress of a rollout, in words.
fn rollout(set: &Value) -> String {
    if number(set, "/status/observedGeneration") < number(set, "/metadata/generation") {
        return "the last change is not seen yet: berth-manager does it".to_owned();
    }
    if refused(set).is_some() {
        return "not accepted: -o wide says why".to_owned();
    }
    let strategy = &set["spec"]["updateStrategy"];
    let (matched, updated) = (number(set, "/status/matchedPods"), number(set, "/status/updatedPods"));
    if updated < matched {
        let rest = format!("{updated} of {matched} pods have it");
        return match (strategy["type"].as_str(), strategy["paused"] == true, partition(strategy)) {
            (Some("NotUpdate"), _, _) => format!("{rest}; others keep theirs (type NotUpdate)"),
            (_, true, _) => format!("{rest}; paused"),
            (_, _, Some(partition)) => format!("{rest}; partition {partition}"),
            _ => rest,
        };
    }
    let ready = number(set, "/status/updatedReadyPods");
    if ready < updated { format!("{ready} of {updated} pods are ready with it") } else { "done".to_owned() }
}

/// Pods that keep an earlier revision, as a number or a share; `None`: none.
fn partition(strategy: &Value) -> Option<String> {
    match &strategy["partition"] {
        Value::Number(number) if number.as_i64() != Some(0) => Some(number.to_string()),
        Value::String(text) if !["0", "0%", ""].contains(&text.as_str()) => Some(text.clone()),
        _ => None,
    }
}

/// Reason for which nothing of it is carried out.
fn refused(set: &Value) -> Option<String> {
    let accepted = condition(set, "Accepted").filter(|one| one["status"] == "False")?;
    Some(text(accepted, "/message").to_owned())
}

pub(super) fn sheet(rows: Vec<Vec<String>>) -> Sheet {
    Sheet {
        columns: &["NAME", "MATCHED", "UPDATED", "UPDATED READY", "REVISION", "ROLLOUT", "AGE"],
        wide: &["READY", "NOT INJECTED", "MESSAGE"],
        rows,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::ListOutput;

    #[test]
    fn a_rollout_in_words() {
        let status = |updated: i64, ready: i64| json!({ "observedGeneration": 2, "matchedPods": 4, "updatedPods": updated, "updatedReadyPods": ready });
        for (strategy, status, words) in [
            (json!({}), status(4, 4), "done"),
            (json!({}), status(4, 3), "3 of 4 pods are ready with it"),
            (json!({}), status(1, 1), "1 of 4 pods have it"),
            (json!({ "paused": true }), status(1, 1), "1 of 4 pods have it; paused"),
            (json!({ "partition": "50%" }), status(2, 2), "2 of 4 pods have it; partition 50%"),
            (json!({ "partition": 0 }), status(2, 2), "2 of 4 pods have it"),
            (
                json!({ "type": "NotUpdate" }),
                status(0, 0),
                "0 of 4 pods have it; others keep theirs (type NotUpdate)",
            ),
            (
                json!({}),
                json!({ "observedGeneration": 1 }),
                "the last change is not seen yet: berth-manager does it",
            ),
            (
                json!({}),
                json!({ "observedGeneration": 2, "conditions": [{ "type": "Accepted", "status": "False", "message": "bad" }] }),
                "not accepted: -o wide says why",
            ),
        ] {
            let set = json!({ "metadata": { "generation": 2 }, "spec": { "updateStrategy": strategy }, "status": status });
            assert_eq!(rollout(&set), words);
        }
    }

    #[test]
    fn a_row_has_a_cell_for_each_column() {
        let now = "2026-01-02T00:00:00Z".parse().unwrap();
        let set = json!({ "metadata": { "name": "mesh", "creationTimestamp": "2026-01-01T00:00:00Z" },
            "status": { "matchedPods": 2, "updatedPods": 2, "updatedReadyPods": 2, "readyPods": 2, "notInjectedPods": 1, "latestRevision": "mesh-x" } });
        let text = sheet(vec![row(&set, now)]).text(ListOutput::Wide, "").unwrap();
        let expected = "\
NAME   MATCHED   UPDATED   UPDATED READY   REVISION   ROLLOUT   AGE   READY   NOT INJECTED   MESSAGE
mesh   2         2         2               mesh-x     done      24h   2       1              -
";
        assert_eq!(text, expected);
    }
}
