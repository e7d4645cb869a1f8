//! Templates, compared by what they ask for.
//!
//! A client with types of its own reads an object and writes it back with fields that say nothing, without
//! others, and with quantities in another spelling. That is no new template: no pod is updated for it.

use std::borrow::Cow;

use serde_json::{Map, Value};

use crate::quantity::quantity;

/// Says in a revision that its template replaces the one before whole.
pub(crate) const PATCH: &str = "$patch";
/// Maps of quantities.
const AMOUNTS: [&str; 3] = ["limits", "requests", "overhead"];
/// Quantities.
const QUANTITIES: [&str; 2] = ["sizeLimit", "divisor"];
/// Members that are there though nothing is in them: an empty one says nothing. Others, such as `emptyDir`,
/// say something by being there. The last lines are of workloads and jobs, which are templates of others.
const EMPTY: [&str; 15] = [
    "labels",
    "annotations",
    "metadata",
    "nodeSelector",
    "matchLabels",
    "limits",
    "requests",
    "resources",
    "scaleStrategy",
    "updateStrategy",
    "strategy",
    "rollingUpdate",
    "status",
    "completionPolicy",
    "failurePolicy",
];
/// Maps with keys of their author: each entry says something, an empty text too.
const MAPS: [&str; 8] = [
    "labels",
    "annotations",
    "nodeSelector",
    "matchLabels",
    "labelsHandler",
    "options",
    "volumeAttributes",
    "userAnnotations",
];
/// Flags that are off where they are left out.
const FLAGS: [&str; 11] = [
    "hostNetwork",
    "hostPID",
    "hostIPC",
    "stdin",
    "stdinOnce",
    "tty",
    "readOnly",
    "chapAuthDiscovery",
    "chapAuthSession",
    "paused",
    "markPodNotReady",
];
/// Numbers that are 0 where they are left out, or whose 0 is their default.
const NUMBERS: [&str; 9] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "hostPort",
    "divisor",
    "partition",
    "minReadySeconds",
];
/// Texts that a client with types keeps though they are empty, and that may ask for something by that, as
/// `storageClassName` does. They are the pointers to texts in `PodSpec` and `PersistentVolumeClaimSpec` of
/// `k8s.io/api/core/v1` 1.34; it leaves all other texts out when they are empty, since none means the same.
const POINTERS: [&str; 24] = [
    // Of a pod.
    "runtimeClassName",
    "preemptionPolicy",
    "hostnameOverride",
    "resourceClaimName",
    "resourceClaimTemplateName",
    "nodeAffinityPolicy",
    "nodeTaintsPolicy",
    // Of its security, and that of a container.
    "fsGroupChangePolicy",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
    "localhostProfile",
    "procMount",
    "gmsaCredentialSpecName",
    "gmsaCredentialSpec",
    "runAsUserName",
    // Of a container.
    "mountPropagation",
    "recursiveReadOnly",
    "stopSignal",
    // Of volumes and claims.
    "initiatorName",
    "signerName",
    "storageClassName",
    "volumeMode",
    "volumeAttributesClassName",
    "apiGroup",
];
/// The same where only the member around it tells them from other texts.
const POINTERS_IN: [(&str, &str); 8] = [
    ("hostPath", "type"),
    ("grpc", "service"),
    ("clusterTrustBundle", "name"),
    ("csi", "fsType"),
    ("azureDisk", "cachingMode"),
    ("azureDisk", "fsType"),
    ("azureDisk", "kind"),
    ("dataSourceRef", "namespace"),
];

/// Tells whether two templates, or parts of them, ask for the same pods.
pub fn same(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    one == other || plain(one) == plain(other)
}

/// Template without what says nothing, its quantities as numbers. It is for comparison alone. Nor does the
/// word say anything that revisions have in their data: an author's, which may stand there too, is in none.
pub(crate) fn plain(object: &Map<String, Value>) -> Map<String, Value> {
    let mut plain = plain_in("", object);
    plain.remove(PATCH);
    plain
}

/// The same for the member of this name.
fn plain_in(parent: &str, object: &Map<String, Value>) -> Map<String, Value> {
    let members = object.iter().filter_map(|(key, value)| {
        let value = member(key, value);
        (!says_nothing(parent, key, &value)).then(|| (key.clone(), value))
    });
    members.collect()
}

fn member(key: &str, value: &Value) -> Value {
    match value {
        Value::Object(amounts) if AMOUNTS.contains(&key) => {
            Value::Object(amounts.iter().map(|(name, value)| (name.clone(), amount(value))).collect())
        }
        Value::Object(map) if MAPS.contains(&key) => Value::Object(map.clone()),
        Value::Object(object) => Value::Object(plain_in(key, object)),
        Value::Array(all) => Value::Array(all.iter().map(|one| member("", one)).collect()),
        other if QUANTITIES.contains(&key) => amount(other),
        other => other.clone(),
    }
}

/// Quantity in billionths; what is none stays as it is.
fn amount(value: &Value) -> Value {
    let text = match value {
        Value::String(text) => Cow::from(text),
        Value::Number(number) => number.to_string().into(),
        other => return other.clone(),
    };
    // As a text: no number of JSON is as large.
    quantity(&text).map_or_else(|| value.clone(), |nano| nano.to_string().into())
}

fn says_nothing(parent: &str, key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(all) => all.is_empty(),
        Value::Object(members) => members.is_empty() && EMPTY.contains(&key),
        Value::Bool(flag) => !flag && FLAGS.contains(&key),
        Value::Number(number) => number.as_f64() == Some(0.0) && NUMBERS.contains(&key),
        Value::String(text) if text.is_empty() => {
            !POINTERS.contains(&key) && !POINTERS_IN.contains(&(parent, key))
        }
        Value::String(text) => text == "0" && NUMBERS.contains(&key),
    }
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn template(container: Value) -> Map<String, Value> {
        let mut main = json!({ "name": "main", "image": "a:1" });
        for (key, value) in container.as_object().unwrap() {
            main[key] = value.clone();
        }
        let spec = json!({ "containers": [main], "volumes": [{ "name": "v", "emptyDir": {} }] });
        json!({ "metadata": { "labels": { "app": "a" } }, "spec": spec }).as_object().cloned().unwrap()
    }

    /// Rows: a container as its author gave it, and as a client with types writes it back.
    #[rstest]
    #[case::as_it_is(json!({ "later": [1] }), json!({ "later": [1] }), true)]
    #[case::no_resources(json!({}), json!({ "resources": {} }), true)]
    #[case::no_limits(json!({ "resources": { "limits": {} } }), json!({ "resources": {} }), true)]
    #[case::a_spelling(
        json!({ "resources": { "limits": { "cpu": "1000m", "memory": "1024Mi" } } }),
        json!({ "resources": { "limits": { "cpu": "1", "memory": "1Gi" } } }), true)]
    #[case::a_number(
        json!({ "resources": { "requests": { "cpu": 2 } } }),
        json!({ "resources": { "requests": { "cpu": "2" } } }), true)]
    #[case::an_empty_value(json!({ "env": [{ "name": "A", "value": "" }] }), json!({ "env": [{ "name": "A" }] }), true)]
    #[case::nothing_in_a_list(json!({ "args": [], "env": null }), json!({}), true)]
    #[case::a_flag(json!({ "tty": false, "livenessProbe": { "initialDelaySeconds": 0 } }), json!({ "livenessProbe": {} }), true)]
    #[case::empty_texts(
        json!({ "workingDir": "", "terminationMessagePath": "", "volumeMounts": [{ "name": "v", "mountPath": "/v", "subPath": "" }],
            "livenessProbe": { "httpGet": { "port": 1, "host": "" }, "timeoutSeconds": 0 } }),
        json!({ "volumeMounts": [{ "name": "v", "mountPath": "/v" }], "livenessProbe": { "httpGet": { "port": 1 } } }), true)]
    #[case::an_empty_pointer(
        json!({ "livenessProbe": { "grpc": { "port": 1, "service": "" } } }), json!({ "livenessProbe": { "grpc": { "port": 1 } } }), false)]
    #[case::an_empty_item(json!({ "args": [""] }), json!({}), false)]
    #[case::a_divisor(
        json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu" } } }] }),
        json!({ "env": [{ "name": "A", "valueFrom": { "resourceFieldRef": { "resource": "limits.cpu", "divisor": "0" } } }] }),
        true)]
    #[case::more(
        json!({ "resources": { "limits": { "cpu": "1" } } }),
        json!({ "resources": { "limits": { "cpu": "2" } } }), false)]
    #[case::no_quantity(
        json!({ "resources": { "limits": { "cpu": "one" } } }),
        json!({ "resources": { "limits": { "cpu": "two" } } }), false)]
    #[case::a_choice(json!({ "securityContext": { "privileged": false } }), json!({ "securityContext": {} }), false)]
    #[case::a_value(json!({ "env": [{ "name": "A", "value": "1" }] }), json!({ "env": [{ "name": "A" }] }), false)]
    #[case::a_source(json!({ "envFrom": [{ "configMapRef": {} }] }), json!({ "envFrom": [{}] }), false)]
    fn what_asks_for_the_same(#[case] given: Value, #[case] back: Value, #[case] is_same: bool) {
        assert_eq!(same(&template(given), &template(back)), is_same);
    }

    /// Rows: a member of the pod, or of its metadata, that is there or not.
    #[rstest]
    #[case::account(json!({ "spec": { "serviceAccountName": "" } }), true)]
    #[case::priority(json!({ "spec": { "priorityClassName": "", "nodeName": "", "hostname": "" } }), true)]
    #[case::runtime_class(json!({ "spec": { "runtimeClassName": "" } }), false)]
    #[case::claims(json!({ "spec": { "resourceClaims": [{ "name": "gpu", "resourceClaimTemplateName": "" }] } }), false)]
    #[case::no_node(json!({ "spec": { "nodeSelector": {} } }), true)]
    #[case::a_node(json!({ "spec": { "nodeSelector": { "disk": "" } } }), false)]
    #[case::a_label(json!({ "metadata": { "labels": { "app": "a", "value": "" } } }), false)]
    #[case::an_annotation(json!({ "metadata": { "annotations": { "divisor": "0" } } }), false)]
    #[case::a_name(json!({ "metadata": { "labels": { "app": "a" }, "name": "" } }), true)]
    #[case::paused(json!({ "paused": false, "minReadySeconds": 0, "strategy": {}, "status": {} }), true)]
    fn what_says_nothing_beside_the_containers(#[case] more: Value, #[case] nothing: bool) {
        let without = template(json!({}));
        let mut with = without.clone();
        for (key, value) in more.as_object().unwrap() {
            match with.get_mut(key).and_then(Value::as_object_mut) {
                Some(there) => there.extend(value.as_object().cloned().unwrap()),
                None => drop(with.insert(key.clone(), value.clone())),
            }
        }
        assert_eq!(same(&with, &without), nothing);
    }

    /// Takes out members that a typed client of OpenKruise v1.4 always writes: it has no way to leave them
    /// out.
    fn unsaid(value: &Value) -> Value {
        const ALWAYS: [&str; 7] = [
            "completionPolicy",
            "failurePolicy",
            "resources",
            "scaleStrategy",
            "status",
            "strategy",
            "updateStrategy",
        ];
        match value {
            Value::Object(all) => {
                let said = |(key, value): &(&String, &Value)| {
                    let is_empty = **value == json!({}) && ALWAYS.contains(&key.as_str());
                    !value.is_null() && !is_empty && (key.as_str(), *value) != ("serviceName", &json!(""))
                };
                Value::Object(
                    all.iter().filter(said).map(|(key, value)| (key.clone(), unsaid(value))).collect(),
                )
            }
            Value::Array(all) => all.iter().map(unsaid).collect(),
            other => other.clone(),
        }
    }

    /// A template that was made without these members is no other one when such a client writes it back.
    #[rstest]
    #[case("advanced-cron-job")]
    #[case("broadcast-job")]
    #[case("clone-set")]
    #[case("daemon-set")]
    #[case("stateful-set")]
    #[case("united-deployment")]
    fn a_typed_client_writes_no_other_template(#[case] file: &str) {
        let path = format!("{}/../../proto/tests/typed/{file}.yaml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert!(!documents.is_empty());
        for document in documents {
            let typed = document["spec"]["template"].as_object().unwrap();
            let given = unsaid(&document["spec"]["template"]);
            assert_ne!(json!(typed), given, "{file}: nothing is tested");
            assert!(same(typed, given.as_object().unwrap()), "{file}: {typed:?}");
            // Another image is another one.
            let other = json!(typed).to_string().replacen("\"image\":\"", "\"image\":\"x", 1);
            assert!(!same(typed, serde_json::from_str::<Value>(&other).unwrap().as_object().unwrap()));
        }
    }

    /// `storageClassName: ""` asks for a volume of no class, and none at all for one of the default.
    #[rstest]
    #[case::class(json!({ "storageClassName": "" }), false)]
    #[case::volume(json!({ "volumeName": "" }), true)]
    #[case::a_group(json!({ "dataSource": { "apiGroup": "" } }), false)]
    fn what_a_claim_asks_for(#[case] more: Value, #[case] nothing: bool) {
        let of = |spec: &Value| {
            let claim = json!({ "metadata": { "name": "data" }, "spec": spec, "status": {} });
            json!({ "volumeClaimTemplates": [claim] }).as_object().cloned().unwrap()
        };
        assert_eq!(same(&of(&more), &of(&json!({}))), nothing);
    }

    #[test]
    fn a_time_that_is_none_says_nothing() {
        let mut back = template(json!({}));
        back["metadata"]["creationTimestamp"] = Value::Null;
        assert!(same(&back, &template(json!({}))));
        back["spec"]["volumes"][0]["emptyDir"] = Value::Null;
        assert!(!same(&back, &template(json!({}))));
    }
}
