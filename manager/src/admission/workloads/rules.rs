//! Objects that their controller would set aside, by its own rules: who writes one is told at once, with the
//! field and the remedy. Pure.
//!
//! A program that is not here, or an object from before, changes nothing: the controller looks again. So an
//! object whose fault was there already is let in, and its condition `InvalidSpec` goes on saying it.

use berth_proto::crd::{AdvancedCronJob, BroadcastJob, ResourceDistribution};
use berth_workloads_policy::{broadcast_job, cron_job, distribution, fault::Fault, template::same};
use jiff::tz::TimeZone;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::admission::review::{Request, Verdict};

/// The kinds, by their resources.
pub(in crate::admission) const RESOURCES: [&str; 3] =
    ["advancedcronjobs", "broadcastjobs", "resourcedistributions"];

/// Judges an object that is about to be stored.
pub(in crate::admission) fn judge(request: &Request) -> Verdict {
    if has_another_template(request) {
        return Verdict::invalid("spec.template is immutable: make a new AdvancedCronJob".to_owned());
    }
    match fault(&request.object) {
        Some(fault) if fault_of_before(request) != Some(fault.clone()) => Verdict::invalid(fault),
        _ => Verdict::AS_IT_IS,
    }
}

/// Tells whether an AdvancedCronJob gets a template that asks for something else.
fn has_another_template(request: &Request) -> bool {
    fn template(object: &Value) -> Option<&Map<String, Value>> {
        (object["kind"] == "AdvancedCronJob").then(|| object["spec"]["template"].as_object())?
    }
    let templates = template(&request.object).zip(template(&request.old_object));
    templates.is_some_and(|(new, old)| !same(new, old))
}

fn fault_of_before(request: &Request) -> Option<String> {
    Some(&request.old_object).filter(|old| !old.is_null()).and_then(fault)
}

/// Fault of an object. One that is not of its types the API server refuses by the definition.
fn fault(object: &Value) -> Option<String> {
    match object["kind"].as_str().unwrap_or_default() {
        "BroadcastJob" => of(object, |job: &BroadcastJob| broadcast_job::Rules::of(job).map(drop)),
        // Which zone it is that a schedule names none of changes nothing.
        "AdvancedCronJob" => {
            of(object, |job: &AdvancedCronJob| cron_job::Rules::of(job, &TimeZone::UTC).map(drop))
        }
        "ResourceDistribution" => {
            of(object, |given: &ResourceDistribution| distribution::Rules::of(given).map(drop))
        }
        _ => None,
    }
}

fn of<K: DeserializeOwned>(object: &Value, check: impl FnOnce(&K) -> Result<(), Fault>) -> Option<String> {
    let object: K = serde_json::from_value(object.clone()).ok()?;
    check(&object).err().map(|fault| fault.to_string())
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn broadcast(pod: &Value) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "metadata": { "name": "sweep" },
            "spec": { "template": { "spec": pod } },
        })
    }

    fn cron(schedule: &str, zone: Option<&str>, job: &Value) -> Value {
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJob", "metadata": { "name": "report" },
            "spec": { "schedule": schedule, "timeZone": zone, "template": job },
        })
    }

    fn of_job(pod: &Value) -> Value {
        json!({ "jobTemplate": { "spec": { "template": { "spec": pod } } } })
    }

    fn never() -> Value {
        json!({ "restartPolicy": "Never", "containers": [] })
    }

    fn copies(data: &Value, excluded: &str) -> Value {
        let list = |name: &str| json!({ "list": [{ "name": name }] });
        json!({
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ResourceDistribution", "metadata": { "name": "d" },
            "spec": {
                "resource": { "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s" }, "data": data },
                "targets": { "includedNamespaces": list("shop"), "excludedNamespaces": list(excluded) },
            },
        })
    }

    fn said(object: &Value, old_object: &Value) -> String {
        let request =
            Request { object: object.clone(), old_object: old_object.clone(), ..Request::default() };
        match judge(&request) {
            Verdict::Allowed { object: None, .. } => String::new(),
            Verdict::Refused { code: 422, message, .. } => message,
            other => panic!("{other:?}"),
        }
    }

    /// A client with types writes the template back in other words, and may change all else.
    #[test]
    fn a_cron_job_keeps_its_template() {
        let of = |image: &str, more: Value, schedule: &str| {
            let mut spec = json!({ "template": { "spec": never() }, "parallelism": "100%" });
            spec["template"]["spec"]["containers"] = json!([{ "name": "a", "image": image }]);
            spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
            cron(schedule, None, &json!({ "broadcastJobTemplate": { "spec": spec } }))
        };
        let typed = json!({ "completionPolicy": {}, "failurePolicy": {}, "paused": false });
        let old = of("a:1", json!({}), "@daily");
        assert_eq!(said(&of("a:1", typed, "@hourly"), &old), "");
        let refused = said(&of("a:2", json!({}), "@daily"), &old);
        assert_eq!(refused, "spec.template is immutable: make a new AdvancedCronJob");
        assert_ne!(said(&cron("@daily", None, &of_job(&never())), &old), "", "another kind of job");
        assert_eq!(said(&of("a:2", json!({}), "@daily"), &Value::Null), "");
    }

    #[rstest]
    #[case::broadcast(broadcast(&never()), "")]
    #[case::restarted_for_ever(broadcast(&json!({ "restartPolicy": "Always" })), "spec.template.spec.restartPolicy")]
    #[case::no_policy(broadcast(&json!({})), "spec.template.spec.restartPolicy is neither Never nor OnFailure")]
    #[case::cron(cron("*/5 * * * *", Some("Europe/Berlin"), &of_job(&never())), "")]
    #[case::no_minute(cron("61 * * * *", None, &of_job(&never())), "spec.schedule has \"61\" as minute")]
    #[case::no_step(cron("*/0 * * * *", None, &of_job(&never())), "spec.schedule")]
    #[case::no_zone(cron("@daily", Some("Mars/Olympus"), &of_job(&never())), "spec.timeZone")]
    #[case::no_policy_of_a_job(cron("@daily", None, &of_job(&json!({}))), "restartPolicy is neither")]
    #[case::broadcasts(
        cron("@daily", None, &json!({ "broadcastJobTemplate": { "spec": { "template": { "spec": {} } } } })),
        "spec.template.broadcastJobTemplate.spec.template.spec.restartPolicy is neither")]
    #[case::copies(copies(&json!({ "a": "Yg==" }), "other"), "")]
    #[case::no_base64(copies(&json!({ "a": "b" }), "other"), "spec.resource.data[a] is no base64")]
    #[case::a_key(copies(&json!({ "a/b": "Yg==" }), "other"), "spec.resource.data")]
    #[case::in_and_out(copies(&json!({}), "shop"), "spec.targets.excludedNamespaces.list has \"shop\"")]
    #[case::too_large(copies(&json!({ "a": "YWFh".repeat(400_000) }), "other"), "spec.resource")]
    #[case::another_kind(json!({ "kind": "CloneSet", "spec": {} }), "")]
    // The definition says so, with the path.
    #[case::of_no_type(json!({ "kind": "BroadcastJob", "metadata": {}, "spec": { "template": 1 } }), "")]
    fn who_writes_it_is_told(#[case] object: Value, #[case] says: &str) {
        let fault = said(&object, &Value::Null);
        assert!(fault.contains(says) && fault.is_empty() == says.is_empty(), "{fault}");
        assert!(fault.len() < 500, "{} letters", fault.len());
        // One that is there already is not kept from being changed.
        assert_eq!(said(&object, &object), "");
        let good = broadcast(&never());
        assert_eq!(said(&object, &good), fault);
        assert_eq!(said(&good, &object), "");
    }
}
