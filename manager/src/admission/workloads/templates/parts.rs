//! Parts of templates that the API server refuses in every pod, whoever fills in what: labels and
//! annotations, and of whole templates the variables, ports, mounts and probes of containers.
//!
//! Only what all servers refuse that the manager runs with: they take names of variables of all printable
//! letters of ASCII, and what a later one has beside the members that are known here is left to it.

use std::collections::BTreeSet;

use berth_proto::names::{is_dns_subdomain, is_label_value, is_port_name, is_qualified, is_variable_name};
use serde_json::Value;

use super::{LISTS, members, short, text};

/// The most bytes of all annotations.
const MOST_ANNOTATIONS: usize = 256 << 10;
/// The largest number of a port.
const LARGEST_PORT: i64 = 65_535;
/// Sources of a variable's value.
const SOURCES: [&str; 4] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef"];
/// Ways to probe.
const HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
/// Numbers of a probe.
const NUMBERS: [&str; 6] = [
    "initialDelaySeconds",
    "timeoutSeconds",
    "periodSeconds",
    "successThreshold",
    "failureThreshold",
    "terminationGracePeriodSeconds",
];
const PULL_POLICIES: [&str; 3] = ["Always", "IfNotPresent", "Never"];
const DNS_POLICIES: [&str; 4] = ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];
/// Words for what names of labels are made of.
const LETTERS: &str =
    "at most 63 letters, digits, dashes, dots and underscores, with a letter or a digit at both ends";

/// Tells what is wrong with a template that stands at this path; where it is whole, with its parts too.
pub(super) fn fault(template: Option<&Value>, path: &str, is_whole: bool) -> Option<String> {
    let template = template?;
    let spec = template.get("spec").filter(|_| is_whole);
    metadata(template, path).or_else(|| pod(spec?, &format!("{path}.spec")))
}

fn metadata(template: &Value, path: &str) -> Option<String> {
    let map = |name: &str| template.get("metadata").and_then(|metadata| metadata.get(name)?.as_object());
    let (mut labels, field) = (map("labels").into_iter().flatten(), format!("{path}.metadata.labels"));
    if let Some(fault) = labels.find_map(|(key, value)| label(&field, key, value)) {
        return Some(fault);
    }
    let (annotations, field) = (map("annotations")?, format!("{path}.metadata.annotations"));
    // As with the API server, capitals are let in here.
    if let Some(key) = annotations.keys().find(|key| !is_qualified(&key.to_lowercase())) {
        return Some(wrong_key(&field, key));
    }
    let bytes = |(key, value): (&String, &Value)| key.len() + value.as_str().map_or(0, str::len);
    let all: usize = annotations.iter().map(bytes).fold(0, usize::saturating_add);
    (all > MOST_ANNOTATIONS).then(|| format!("{field} have {all} bytes: give at most {MOST_ANNOTATIONS}"))
}

/// Tells what is wrong with a label. One that is no text is nothing that is read at all.
fn label(field: &str, key: &str, value: &Value) -> Option<String> {
    if !is_qualified(key) {
        return Some(wrong_key(field, key));
    }
    let value = value.as_str().filter(|value| !is_label_value(value))?;
    Some(format!("{field}[{key:?}] is {:?}: give {LETTERS}", short(value)))
}

fn wrong_key(field: &str, key: &str) -> String {
    format!("{field} has the key {:?}: give {LETTERS}, after a domain and / or alone", short(key))
}

fn pod(spec: &Value, field: &str) -> Option<String> {
    let mut nodes = spec.get("nodeSelector").and_then(Value::as_object).into_iter().flatten();
    if let Some(fault) = nodes.find_map(|(key, value)| label(&format!("{field}.nodeSelector"), key, value)) {
        return Some(fault);
    }
    if let Some(fault) = one_of(spec, field, "dnsPolicy", &DNS_POLICIES) {
        return Some(fault);
    }
    let account = text(spec, "serviceAccountName");
    if !account.is_empty() && !is_dns_subdomain(account) {
        return Some(format!(
            "{field}.serviceAccountName is {:?}: give the name of a ServiceAccount",
            short(account)
        ));
    }
    let mut containers = LISTS.into_iter().flat_map(|list| {
        let all = members(Some(spec), list).iter().enumerate();
        all.map(move |(at, one)| (format!("{field}.{list}[{at}]"), one))
    });
    containers.find_map(|(field, one)| container(one, &field))
}

fn container(one: &Value, field: &str) -> Option<String> {
    one_of(one, field, "imagePullPolicy", &PULL_POLICIES)
        .or_else(|| variables(one, field))
        .or_else(|| ports(one, field))
        .or_else(|| mounts(one, field))
        .or_else(|| probes(one, field))
}

/// Tells whether a word that is given is none of those that are known.
fn one_of(of: &Value, field: &str, name: &str, words: &[&str]) -> Option<String> {
    let word = text(of, name);
    let is_known = word.is_empty() || words.contains(&word);
    (!is_known).then(|| format!("{field}.{name} is {:?}: give one of {}", short(word), words.join(", ")))
}

fn variables(container: &Value, field: &str) -> Option<String> {
    let fault = |(at, one): (usize, &Value)| {
        let field = format!("{field}.env[{at}]");
        let name = text(one, "name");
        if name.is_empty() {
            return Some(format!("{field}.name is empty: name the variable"));
        }
        if !is_variable_name(name) {
            return Some(format!("{field}.name is {:?}: give letters and digits, without =", short(name)));
        }
        let from = one.get("valueFrom")?.as_object()?;
        let sources = || from.iter().filter(|(_, source)| !source.is_null());
        let known = sources().filter(|(name, _)| SOURCES.contains(&name.as_str())).count();
        match (known, sources().count()) {
            (0, 0) => Some(format!("{field}.valueFrom is empty: give one of {}", SOURCES.join(", "))),
            (2.., _) => Some(format!("{field}.valueFrom has {known} sources: give one of them")),
            (1, _) if !text(one, "value").is_empty() => {
                Some(format!("{field}.valueFrom goes not with value: leave one of them out"))
            }
            _ => None,
        }
    };
    members(Some(container), "env").iter().enumerate().find_map(fault)
}

fn ports(container: &Value, field: &str) -> Option<String> {
    let mut names = BTreeSet::new();
    for (at, port) in members(Some(container), "ports").iter().enumerate() {
        let field = format!("{field}.ports[{at}]");
        // What is no number is not read at all.
        let given = |name: &str| port.get(name).filter(|number| !number.is_null());
        for (name, least) in [("containerPort", 1), ("hostPort", 0)] {
            let number = given(name).map_or(Some(0), Value::as_i64);
            if let Some(number) = number.filter(|number| !(least..=LARGEST_PORT).contains(number)) {
                return Some(format!("{field}.{name} is {number}: give a number from 1 to {LARGEST_PORT}"));
            }
        }
        if let Some(fault) = one_of(port, &field, "protocol", &PROTOCOLS) {
            return Some(fault);
        }
        let name = text(port, "name");
        if !name.is_empty() && !is_port_name(name) {
            return Some(format!(
                "{field}.name is {:?}: give at most 15 small letters, digits and single dashes, a \
                 letter among them and no dash at either end",
                short(name)
            ));
        }
        if !name.is_empty() && !names.insert(name) {
            return Some(format!("{field}.name repeats {name:?}: give each port a name of its own"));
        }
    }
    None
}

fn mounts(container: &Value, field: &str) -> Option<String> {
    let mut paths = BTreeSet::new();
    let fault = |(at, mount): (usize, &Value)| {
        let (field, path) = (format!("{field}.volumeMounts[{at}].mountPath"), text(mount, "mountPath"));
        if path.is_empty() {
            return Some(format!("{field} is empty: say where the volume is to be"));
        }
        let is_taken = !paths.insert(path.to_owned());
        is_taken.then(|| format!("{field} repeats {:?}: give each mount a path of its own", short(path)))
    };
    members(Some(container), "volumeMounts").iter().enumerate().find_map(fault)
}

fn probes(container: &Value, field: &str) -> Option<String> {
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let Some(probe) = container.get(name).and_then(Value::as_object) else { continue };
        let given = || probe.iter().filter(|(_, value)| !value.is_null()).map(|(name, _)| name.as_str());
        let handlers = given().filter(|name| HANDLERS.contains(name)).count();
        let is_known = given().all(|name| HANDLERS.contains(&name) || NUMBERS.contains(&name));
        if handlers > 1 || handlers == 0 && is_known {
            let one = HANDLERS.join(", ");
            return Some(format!("{field}.{name} has {handlers} ways to probe: give one of {one}"));
        }
        let successes = probe.get("successThreshold").and_then(Value::as_i64).unwrap_or(0);
        if name != "readinessProbe" && !(0..=1).contains(&successes) {
            return Some(format!("{field}.{name}.successThreshold is {successes}: give 1, or leave it out"));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use rstest::rstest;
    use serde_json::json;

    use super::*;

    fn told(template: &Value, is_whole: bool) -> Option<String> {
        fault(Some(template), "t", is_whole)
    }

    fn of_container(parts: Value) -> Value {
        let mut one = json!({ "name": "a", "image": "i" });
        one.as_object_mut().unwrap().extend(parts.as_object().cloned().unwrap());
        json!({ "spec": { "containers": [one] } })
    }

    /// Rows: parts of a container, and what is said of them, after its path.
    #[rstest]
    #[case::none(json!({}), None)]
    #[case::nulls(json!({ "env": null, "ports": null, "volumeMounts": null, "livenessProbe": null, "imagePullPolicy": null }), None)]
    #[case::variables(json!({ "env": [{ "name": "A" }, { "name": "1.a-b c", "value": "x" }, { "name": "A" }] }), None)]
    #[case::no_name(json!({ "env": [{ "name": "A" }, { "value": "x" }] }), Some("env[1].name is empty: name"))]
    #[case::equals(json!({ "env": [{ "name": "A=B" }] }), Some("env[0].name is \"A=B\": give"))]
    #[case::no_ascii(json!({ "env": [{ "name": "Ä" }] }), Some("env[0].name is \"Ä\": give"))]
    #[case::a_tab(json!({ "env": [{ "name": "A\t" }] }), Some("env[0].name is \"A\\t\": give"))]
    #[case::a_source(json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": { "fieldPath": "spec.nodeName" }, "secretKeyRef": null } }] }), None)]
    #[case::an_empty_value(json!({ "env": [{ "name": "A", "value": "", "valueFrom": { "fieldRef": {} } }] }), None)]
    #[case::no_source(json!({ "env": [{ "name": "A", "valueFrom": {} }] }), Some("env[0].valueFrom is empty: give"))]
    #[case::a_later_source(json!({ "env": [{ "name": "A", "valueFrom": { "fileKeyRef": {} } }] }), None)]
    #[case::two_sources(json!({ "env": [{ "name": "A", "valueFrom": { "fieldRef": {}, "secretKeyRef": {} } }] }), Some("env[0].valueFrom has 2 sources: give"))]
    #[case::both(json!({ "env": [{ "name": "A", "value": "x", "valueFrom": { "fieldRef": {} } }] }), Some("env[0].valueFrom goes not with value: leave"))]
    #[case::ports(json!({ "ports": [{ "containerPort": 80, "name": "http" }, { "containerPort": 80, "protocol": "UDP", "hostPort": 0 }] }), None)]
    #[case::no_port(json!({ "ports": [{ "name": "http" }] }), Some("ports[0].containerPort is 0: give"))]
    #[case::too_large(json!({ "ports": [{ "containerPort": 65536 }] }), Some("ports[0].containerPort is 65536: give"))]
    #[case::of_the_node(json!({ "ports": [{ "containerPort": 1, "hostPort": -1 }] }), Some("ports[0].hostPort is -1: give"))]
    #[case::no_number(json!({ "ports": [{ "containerPort": "80" }] }), None)]
    #[case::protocol(json!({ "ports": [{ "containerPort": 1, "protocol": "tcp" }] }), Some("ports[0].protocol is \"tcp\": give one of TCP,"))]
    #[case::port_name(json!({ "ports": [{ "containerPort": 1, "name": "HTTP" }] }), Some("ports[0].name is \"HTTP\": give"))]
    #[case::port_names(json!({ "ports": [{ "containerPort": 1, "name": "a" }, { "containerPort": 2, "name": "a" }] }), Some("ports[1].name repeats \"a\": give"))]
    #[case::mounts(json!({ "volumeMounts": [{ "mountPath": "/a" }, { "mountPath": "/a/" }] }), None)]
    #[case::no_path(json!({ "volumeMounts": [{ "name": "v" }] }), Some("volumeMounts[0].mountPath is empty: say"))]
    #[case::one_path(json!({ "volumeMounts": [{ "mountPath": "/a" }, { "mountPath": "/a" }] }), Some("volumeMounts[1].mountPath repeats \"/a\": give"))]
    #[case::a_probe(json!({ "livenessProbe": { "exec": {}, "httpGet": null, "successThreshold": 1 }, "readinessProbe": { "grpc": {}, "successThreshold": 2 } }), None)]
    #[case::a_later_probe(json!({ "livenessProbe": { "later": {} } }), None)]
    #[case::no_way(json!({ "readinessProbe": { "periodSeconds": 1 } }), Some("readinessProbe has 0 ways to probe: give one of exec,"))]
    #[case::two_ways(json!({ "startupProbe": { "exec": {}, "grpc": {} } }), Some("startupProbe has 2 ways to probe: give"))]
    #[case::successes(json!({ "livenessProbe": { "exec": {}, "successThreshold": 2 } }), Some("livenessProbe.successThreshold is 2: give 1"))]
    #[case::pulls(json!({ "imagePullPolicy": "Sometimes" }), Some("imagePullPolicy is \"Sometimes\": give one of Always,"))]
    fn what_no_container_can_have_is_refused(#[case] parts: Value, #[case] says: Option<&str>) {
        let template = of_container(parts);
        let path = |list: &str| says.map(|says| format!("t.spec.{list}[0].{says}"));
        let check = |template: &Value, expected: Option<String>| match (told(template, true), expected) {
            (Some(told), Some(expected)) => assert!(told.starts_with(&expected), "{told}"),
            (told, expected) => assert_eq!(told, expected),
        };
        check(&template, path("containers"));
        assert_eq!(told(&template, false), None, "a SidecarSet may replace the container");
        let containers = &template["spec"]["containers"];
        check(&json!({ "spec": { "initContainers": containers } }), path("initContainers"));
    }

    /// Labels and annotations are looked at in every kind: they stay on the pod, whoever changes its
    /// containers.
    #[rstest]
    #[case::right(json!({ "labels": { "a.b/C": "x_1.y-z", "e": "" }, "annotations": { "A.b/c": "any thing" } }), None)]
    #[case::nothing(json!({ "labels": null, "annotations": 7 }), None)]
    #[case::a_key(json!({ "labels": { "a b": "x" } }), Some("t.metadata.labels has the key \"a b\": give"))]
    #[case::a_value(json!({ "labels": { "a": "x y" } }), Some("t.metadata.labels[\"a\"] is \"x y\": give"))]
    #[case::long(json!({ "labels": { "a": "x".repeat(64) } }), Some("t.metadata.labels[\"a\"] is"))]
    #[case::an_annotation(json!({ "annotations": { "a/b/c": "x" } }), Some("t.metadata.annotations has the key \"a/b/c\": give"))]
    #[case::too_much(json!({ "annotations": { "a": "x".repeat(MOST_ANNOTATIONS) } }), Some("t.metadata.annotations have 262145 bytes: give at most 262144"))]
    fn labels_and_annotations(#[case] metadata: Value, #[case] says: Option<&str>) {
        for is_whole in [true, false] {
            let told = told(&json!({ "metadata": metadata }), is_whole);
            match says {
                None => assert_eq!(told, None),
                Some(says) => assert!(told.as_deref().is_some_and(|told| told.starts_with(says)), "{told:?}"),
            }
        }
    }

    #[rstest]
    #[case::right(json!({ "nodeSelector": { "disk": "ssd" }, "dnsPolicy": "None", "serviceAccountName": "a.b" }), None)]
    // The API server takes it, for 1.
    #[case::a_grace_period(json!({ "terminationGracePeriodSeconds": -1 }), None)]
    #[case::a_node(json!({ "nodeSelector": { "disk": "s s d" } }), Some("t.spec.nodeSelector[\"disk\"] is \"s s d\": give"))]
    #[case::names(json!({ "dnsPolicy": "clusterFirst" }), Some("t.spec.dnsPolicy is \"clusterFirst\": give one of"))]
    #[case::an_account(json!({ "serviceAccountName": "A" }), Some("t.spec.serviceAccountName is \"A\": give"))]
    fn what_no_pod_can_have_is_refused(#[case] spec: Value, #[case] says: Option<&str>) {
        let template = json!({ "spec": spec });
        let told = told(&template, true);
        match says {
            None => assert_eq!(told, None),
            Some(says) => assert!(told.as_deref().is_some_and(|told| told.starts_with(says)), "{told:?}"),
        }
        assert_eq!(fault(Some(&template), "t", false), None);
    }
}
