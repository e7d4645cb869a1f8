//! Progress of a rollout, by what its object says. Pure.
//!
//! A status is about the generation that it names: before the controller has seen the last change, its
//! numbers say nothing. Done is what is updated and ready (or, for a DaemonSet, available), never what was
//! ready before.

use anyhow::bail;
use berth_proto::crd::{MOST_NUMBERED_PODS, Numbers};
use berth_workloads_policy::amount::Amount;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::Value;

use crate::target::Kind;

/// Answer to one look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progress {
    pub(crate) line: String,
    pub(crate) done: bool,
}

/// Looks at an object.
pub(crate) fn of(kind: Kind, object: &Value) -> anyhow::Result<Progress> {
    let strategy = &object["spec"]["updateStrategy"];
    if kind != Kind::CloneSet && strategy["type"] == "OnDelete" {
        bail!("rollout status is only available for RollingUpdate strategy type");
    }
    let observed = number(&object["status"]["observedGeneration"]);
    if observed < number(&object["metadata"]["generation"]) {
        return Ok(waits(format!("Waiting for {} spec update to be observed...", kind.title())));
    }
    Ok(match kind {
        Kind::DaemonSet => daemon(object),
        Kind::CloneSet => set(kind, object, cloned(object)),
        Kind::StatefulSet => set(kind, object, numbered(object)),
        Kind::SidecarSet => bail!("a SidecarSet has no pods of its own"),
    })
}

/// Name of the revision that is rolled out.
pub(crate) fn revision(kind: Kind, object: &Value) -> &str {
    let field = if kind == Kind::DaemonSet { "daemonSetHash" } else { "updateRevision" };
    object["status"][field].as_str().unwrap_or_default()
}

fn set(kind: Kind, object: &Value, expected: i64) -> Progress {
    let (status, replicas) = (&object["status"], wanted(object));
    let (updated, ready) = (number(&status["updatedReplicas"]), number(&status["updatedReadyReplicas"]));
    let partitioned = expected < replicas;
    if updated < expected {
        let what = if partitioned { "partitioned roll out" } else { "roll out" };
        let rests = if rests(kind, object) { " (it is paused)" } else { "" };
        return waits(format!(
            "Waiting for {what} to finish: {updated} out of {expected} new pods have been updated...{rests}"
        ));
    }
    if ready < expected {
        return waits(format!("Waiting for {} pods to be ready...", expected.saturating_sub(ready)));
    }
    if partitioned {
        return done(format!("partitioned roll out complete: {updated} new pods have been updated..."));
    }
    let all = number(&status["readyReplicas"]);
    if all < replicas {
        return waits(format!("Waiting for {} pods to be ready...", replicas.saturating_sub(all)));
    }
    let (title, revision) = (kind.title(), revision(kind, object));
    done(format!("{title} rolling update complete {updated} pods at revision {revision}..."))
}

/// Returns how many pods of a CloneSet are to have the newest revision: as the controller counts them.
fn cloned(object: &Value) -> i64 {
    match object["status"]["expectedUpdatedReplicas"].as_i64() {
        Some(expected) => expected,
        None => {
            let replicas = wanted(object);
            replicas
                .saturating_sub(held_back(&object["spec"]["updateStrategy"]["partition"], replicas))
                .max(0)
        }
    }
}

/// Returns how many pods of a StatefulSet are to have the newest revision: those from the partition on,
/// counted from the first number, where reserved numbers count as well; in any order as many as the partition
/// leaves.
fn numbered(object: &Value) -> i64 {
    let (spec, replicas) = (&object["spec"], wanted(object));
    let rolling = &spec["updateStrategy"]["rollingUpdate"];
    if rolling["unorderedUpdate"].is_object() {
        return replicas.saturating_sub(held_back(&rolling["partition"], replicas)).max(0);
    }
    let start = number(&spec["ordinals"]["start"]);
    let first = start.saturating_add(number(&rolling["partition"]));
    let reserved: Vec<IntOrString> =
        serde_json::from_value(spec["reserveOrdinals"].clone()).unwrap_or_default();
    let reserved = Numbers::of(&reserved);
    let slots = reserved.others(start).take(usize::try_from(replicas.min(MOST_NUMBERED_PODS)).unwrap_or(0));
    let updated = slots.filter(|slot| *slot >= first).count();
    i64::try_from(updated).unwrap_or(replicas)
}

fn daemon(object: &Value) -> Progress {
    let (status, name) = (&object["status"], object["metadata"]["name"].as_str().unwrap_or_default());
    let desired = number(&status["desiredNumberScheduled"]);
    let held = held_back(&object["spec"]["updateStrategy"]["rollingUpdate"]["partition"], desired);
    let expected = desired.saturating_sub(held).max(0);
    let (updated, available) =
        (number(&status["updatedNumberScheduled"]), number(&status["numberAvailable"]));
    if updated < expected {
        let rests = if rests(Kind::DaemonSet, object) { " (it is paused)" } else { "" };
        return waits(format!(
            "Waiting for daemon set \"{name}\" rollout to finish: {updated} out of {expected} new pods have been updated...{rests}"
        ));
    }
    if available < desired {
        return waits(format!(
            "Waiting for daemon set \"{name}\" rollout to finish: {available} of {desired} updated pods are available..."
        ));
    }
    done(format!("daemon set \"{name}\" successfully rolled out"))
}

/// Tells whether a rollout rests.
pub(crate) fn rests(kind: Kind, object: &Value) -> bool {
    let strategy = &object["spec"]["updateStrategy"];
    let of = if kind == Kind::CloneSet { strategy } else { &strategy["rollingUpdate"] };
    of["paused"] == true
}

fn wanted(object: &Value) -> i64 {
    object["spec"]["replicas"].as_i64().unwrap_or(1)
}

/// Pods that a partition holds back, as `berth-workloads` counts them; none where it is not set, or cannot be
/// read.
fn held_back(partition: &Value, pods: i64) -> i64 {
    let given = serde_json::from_value(partition.clone()).ok();
    Amount::parse("partition", given.as_ref(), Amount::Number(0)).map_or(0, |amount| amount.partition(pods))
}

fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or_default()
}

fn waits(line: String) -> Progress {
    Progress { line, done: false }
}

fn done(line: String) -> Progress {
    Progress { line, done: true }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    /// Spec of four pods, none of which has the number 1.
    fn reserved(rolling: Value) -> Value {
        json!({ "replicas": 4, "reserveOrdinals": [1], "updateStrategy": { "rollingUpdate": rolling } })
    }

    fn clone_set(spec: Value, status: Value) -> Value {
        json!({ "metadata": { "name": "s", "generation": 3 }, "spec": spec, "status": status })
    }

    fn counts(updated: i64, updated_ready: i64, ready: i64, expected: i64) -> Value {
        json!({ "observedGeneration": 3, "updatedReplicas": updated, "updatedReadyReplicas": updated_ready,
            "readyReplicas": ready, "expectedUpdatedReplicas": expected, "updateRevision": "s-7" })
    }

    #[rstest]
    // Before the controller has seen the change its numbers are those of the rollout before.
    #[case::stale(json!({ "replicas": 3 }), json!({ "observedGeneration": 2, "updatedReplicas": 3, "updatedReadyReplicas": 3, "readyReplicas": 3 }),
        "Waiting for CloneSet spec update to be observed...", false)]
    #[case::nobody_looked(json!({ "replicas": 3 }), Value::Null, "Waiting for CloneSet spec update to be observed...", false)]
    // All old pods are ready, none is updated.
    #[case::begun(json!({ "replicas": 3 }), counts(0, 0, 3, 3), "Waiting for roll out to finish: 0 out of 3 new pods have been updated...", false)]
    #[case::paused(json!({ "replicas": 3, "updateStrategy": { "paused": true } }), counts(1, 1, 3, 3),
        "Waiting for roll out to finish: 1 out of 3 new pods have been updated... (it is paused)", false)]
    #[case::not_ready(json!({ "replicas": 3 }), counts(3, 1, 1, 3), "Waiting for 2 pods to be ready...", false)]
    #[case::done(json!({ "replicas": 3 }), counts(3, 3, 3, 3), "CloneSet rolling update complete 3 pods at revision s-7...", true)]
    #[case::partition(json!({ "replicas": 3, "updateStrategy": { "partition": 2 } }), counts(0, 0, 3, 1),
        "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been updated...", false)]
    #[case::partition_not_ready(json!({ "replicas": 3 }), counts(1, 0, 2, 1), "Waiting for 1 pods to be ready...", false)]
    #[case::partition_done(json!({ "replicas": 3 }), counts(1, 1, 3, 1), "partitioned roll out complete: 1 new pods have been updated...", true)]
    #[case::share(json!({ "replicas": 3, "updateStrategy": { "partition": "99%" } }), json!({ "observedGeneration": 3 }),
        "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been updated...", false)]
    // As the controller counts it, a share of a single pod holds that one.
    #[case::share_of_one(json!({ "replicas": 1, "updateStrategy": { "partition": "99%" } }), json!({ "observedGeneration": 3 }),
        "partitioned roll out complete: 0 new pods have been updated...", true)]
    #[case::no_number_that_anybody_means(json!({ "replicas": 3 }), counts(3, i64::MIN, 3, 3),
        "Waiting for 9223372036854775807 pods to be ready...", false)]
    #[case::none(json!({ "replicas": 0 }), counts(0, 0, 0, 0), "CloneSet rolling update complete 0 pods at revision s-7...", true)]
    fn a_clone_set(#[case] spec: Value, #[case] status: Value, #[case] line: &str, #[case] done: bool) {
        let progress = of(Kind::CloneSet, &clone_set(spec, status)).unwrap();
        assert_eq!(progress, Progress { line: line.to_owned(), done });
    }

    #[rstest]
    #[case::stale(json!({}), json!({ "observedGeneration": 1 }), "Waiting for Advanced StatefulSet spec update to be observed...", false)]
    // Without the field that says how it rolls.
    #[case::defaults(json!({ "replicas": 2 }), counts(1, 1, 2, 0), "Waiting for roll out to finish: 1 out of 2 new pods have been updated...", false)]
    #[case::partition(json!({ "replicas": 3, "updateStrategy": { "rollingUpdate": { "partition": 1 } } }), counts(2, 2, 3, 0),
        "partitioned roll out complete: 2 new pods have been updated...", true)]
    #[case::large_partition(json!({ "replicas": 1, "updateStrategy": { "rollingUpdate": { "partition": 5 } } }), counts(0, 0, 1, 0),
        "partitioned roll out complete: 0 new pods have been updated...", true)]
    // Of the numbers 0, 2, 3 and 4 the partition keeps the first one alone.
    #[case::reserved(reserved(json!({ "partition": 2 })), counts(2, 2, 4, 0),
        "Waiting for partitioned roll out to finish: 2 out of 3 new pods have been updated...", false)]
    #[case::reserved_done(reserved(json!({ "partition": 2 })), counts(3, 3, 4, 0),
        "partitioned roll out complete: 3 new pods have been updated...", true)]
    #[case::reserved_in_any_order(reserved(json!({ "partition": 2, "unorderedUpdate": {} })), counts(2, 2, 4, 0),
        "partitioned roll out complete: 2 new pods have been updated...", true)]
    #[case::reserved_and_all_kept(reserved(json!({ "partition": 5 })), counts(0, 0, 4, 0),
        "partitioned roll out complete: 0 new pods have been updated...", true)]
    // The first number is 5: the partition counts from there.
    #[case::started(json!({ "replicas": 3, "ordinals": { "start": 5 }, "updateStrategy": { "rollingUpdate": { "partition": 2 } } }),
        counts(0, 0, 3, 0), "Waiting for partitioned roll out to finish: 0 out of 1 new pods have been updated...", false)]
    #[case::done(json!({ "replicas": 2 }), counts(2, 2, 2, 0), "Advanced StatefulSet rolling update complete 2 pods at revision s-7...", true)]
    fn a_stateful_set(#[case] spec: Value, #[case] status: Value, #[case] line: &str, #[case] done: bool) {
        let progress = of(Kind::StatefulSet, &clone_set(spec, status)).unwrap();
        assert_eq!(progress, Progress { line: line.to_owned(), done });
    }

    #[rstest]
    #[case::begun(json!({}), (3, 1, 3), "Waiting for daemon set \"s\" rollout to finish: 1 out of 3 new pods have been updated...", false)]
    #[case::not_available(json!({}), (3, 3, 2), "Waiting for daemon set \"s\" rollout to finish: 2 of 3 updated pods are available...", false)]
    #[case::partition(json!({ "rollingUpdate": { "partition": 2 } }), (3, 1, 3), "daemon set \"s\" successfully rolled out", true)]
    #[case::done(json!({}), (3, 3, 3), "daemon set \"s\" successfully rolled out", true)]
    fn a_daemon_set(
        #[case] strategy: Value,
        #[case] counts: (i64, i64, i64),
        #[case] line: &str,
        #[case] done: bool,
    ) {
        let (desired, updated, available) = counts;
        let status = json!({ "observedGeneration": 3, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated, "numberAvailable": available });
        let object = clone_set(json!({ "updateStrategy": strategy }), status);
        assert_eq!(of(Kind::DaemonSet, &object).unwrap(), Progress { line: line.to_owned(), done });
    }

    #[test]
    fn what_is_updated_by_hand_has_no_rollout() {
        let object = clone_set(
            json!({ "updateStrategy": { "type": "OnDelete" } }),
            json!({ "observedGeneration": 3 }),
        );
        for kind in [Kind::StatefulSet, Kind::DaemonSet] {
            assert!(of(kind, &object).unwrap_err().to_string().contains("only available for RollingUpdate"));
        }
    }
}
