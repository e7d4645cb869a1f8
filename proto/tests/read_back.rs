//! Objects as clients read them back: with the defaults of OpenKruise's webhooks, and without nulls.

use berth_proto::crd::documents;
use serde_json::{Value, json};

/// Rows: what of a spec is given, and what a client reads back beside it, as with OpenKruise's webhooks.
#[test]
fn what_is_left_out_reads_back_as_there() {
    let request = json!({
        "failurePolicy": "Fail", "orderedRecreate": false, "forceRecreate": false, "minStartedSeconds": 0,
    });
    let by_hand = json!({ "type": "Manual", "manualUpdate": {} });
    let definitions = documents();
    for (file, given, filled_in) in [
        ("crds/containerrecreaterequests.yaml", json!({}), json!({ "strategy": request })),
        (
            "crds/imagepulljobs.yaml",
            json!({ "completionPolicy": {} }),
            json!({
                "completionPolicy": { "type": "Always" },
                "pullPolicy": { "timeoutSeconds": 600, "backoffLimit": 3 },
            }),
        ),
        (
            "crds/imagepulljobs.yaml",
            json!({ "completionPolicy": { "type": "Never" }, "pullPolicy": { "backoffLimit": 0 } }),
            json!({ "pullPolicy": { "timeoutSeconds": 600, "backoffLimit": 0 } }),
        ),
        (
            "crds/persistentpodstates.yaml",
            json!({}),
            json!({ "persistentPodStateRetentionPolicy": "WhenScaled" }),
        ),
        (
            "jobs/crds/advancedcronjobs.yaml",
            json!({ "template": { "broadcastJobTemplate": { "spec": {} } } }),
            json!({
                "concurrencyPolicy": "Allow", "paused": false, "successfulJobsHistoryLimit": 3,
                "failedJobsHistoryLimit": 1,
            }),
        ),
        (
            "jobs/crds/broadcastjobs.yaml",
            json!({}),
            json!({
                "parallelism": i32::MAX, "completionPolicy": { "type": "Always" },
                "failurePolicy": { "type": "FailFast" },
            }),
        ),
        (
            "jobs/crds/broadcastjobs.yaml",
            json!({ "parallelism": "10%", "failurePolicy": { "restartLimit": 2 } }),
            json!({
                "completionPolicy": { "type": "Always" },
                "failurePolicy": { "type": "FailFast", "restartLimit": 2 },
            }),
        ),
        (
            "uniteddeployments/crds/uniteddeployments.yaml",
            json!({ "topology": { "subsets": [{ "name": "a" }] } }),
            json!({ "replicas": 1, "revisionHistoryLimit": 10, "updateStrategy": by_hand }),
        ),
        (
            "uniteddeployments/crds/uniteddeployments.yaml",
            json!({ "replicas": 0, "updateStrategy": { "manualUpdate": { "partitions": { "a": 1 } } } }),
            json!({
                "revisionHistoryLimit": 10,
                "updateStrategy": { "type": "Manual", "manualUpdate": { "partitions": { "a": 1 } } },
            }),
        ),
        // These have no defaults there.
        ("crds/podunavailablebudgets.yaml", json!({ "maxUnavailable": 1 }), json!({})),
        ("crds/workloadspreads.yaml", json!({ "scheduleStrategy": {} }), json!({})),
        ("distribution/crds/resourcedistributions.yaml", json!({ "targets": {} }), json!({})),
    ] {
        let (_, document) = definitions.iter().find(|(name, _)| name == file).expect(file);
        let spec = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let (mut read, mut expected) = (given.clone(), given);
        fill(spec, &mut read);
        let more = filled_in.as_object().cloned().unwrap_or_default();
        expected.as_object_mut().expect("a spec").extend(more);
        assert_eq!(read, expected, "{file}");
    }
}

/// Gives an object the defaults of its schema, as the API server does.
fn fill(schema: &Value, object: &mut Value) {
    let (Some(fields), Some(object)) = (schema["properties"].as_object(), object.as_object_mut()) else {
        return;
    };
    for (name, field) in fields {
        if !field["default"].is_null() && !object.contains_key(name) {
            object.insert(name.clone(), field["default"].clone());
        }
        if let Some(value) = object.get_mut(name) {
            fill(field, value);
        }
    }
}

/// A null is a field that is left out, as with OpenKruise's definitions. Only in a patch it says something.
#[test]
fn a_null_is_no_value() {
    fn nullable(schema: &Value, path: &str, found: &mut Vec<String>) {
        if schema["nullable"] == true {
            found.push(path.to_owned());
        }
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            nullable(property, &format!("{path}.{name}"), found);
        }
        for (field, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
            if schema[field].is_object() {
                nullable(&schema[field], &format!("{path}{mark}"), found);
            }
        }
    }
    let mut found = Vec::new();
    for (file, document) in documents() {
        for version in document["spec"]["versions"].as_array().expect("versions") {
            nullable(&version["schema"]["openAPIV3Schema"], &file, &mut found);
        }
    }
    assert!(found.len() == 1 && found[0].ends_with(".subsets[].patch.metadata.labels{}"), "{found:?}");
}
