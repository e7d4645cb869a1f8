//! The committed definitions are those of the types, and the types hold whatever an OpenKruise manifest says.

use std::{fs, path::PathBuf};

use berth_proto::crd::{
    AdvancedCronJob, AdvancedDaemonSet, AdvancedStatefulSet, BroadcastJob, CloneSet,
    ContainerRecreateRequest, ContainerUpdateRequest, ImagePullJob, MOST_SECONDS, NodeImage, NodePodProbe,
    NodePodUpdate, PersistentPodState, PodProbeMarker, PodUnavailableBudget, ResourceDistribution,
    SidecarSet, UnitedDeployment, WorkloadSpread, documents,
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

fn read(path: &str) -> Value {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path);
    let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

#[test]
fn committed_definitions_are_current() {
    for (file, document) in documents() {
        let committed = read(&format!("../deploy/{file}"));
        assert!(committed == document, "deploy/{file} is old: run `cargo run -p berth-proto --example crds`");
    }
}

/// Checks that the API server can merge the fields that two field managers write in one status, and that each
/// says only its part.
#[test]
fn no_status_requires_a_field() {
    for (file, document) in documents() {
        let schema = &document["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        let status = &schema["properties"]["status"];
        assert!(status["required"].is_null(), "{file}: {}", status["required"]);
        assert_eq!(status["properties"]["conditions"]["x-kubernetes-list-type"], "map", "{file}");
    }
}

/// Without a manager the API server converts by the name of the version alone: what one version knew and the
/// other one did not would be pruned. And who applies the definition anew takes nothing back that the manager
/// has written.
#[test]
fn both_versions_of_a_stateful_set_have_all_fields() {
    let definitions = documents();
    let (_, document) =
        definitions.iter().find(|(file, _)| file == "workloads/crds/statefulsets.yaml").expect("it is there");
    let versions = document["spec"]["versions"].as_array().expect("versions");
    let of = |name: &str| versions.iter().find(|version| version["name"] == name).expect("the version");
    let (beta, alpha) = (of("v1beta1"), of("v1alpha1"));
    assert_eq!((beta["storage"].as_bool(), alpha["storage"].as_bool()), (Some(true), Some(false)));
    for field in ["schema", "subresources", "additionalPrinterColumns", "served"] {
        assert!(!beta[field].is_null() && beta[field] == alpha[field], "{field}");
    }
    // What the conversion keeps for a client of `v1alpha1` no default may stand in the place of.
    let fields = &alpha["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let later =
        ["lifecycle", "ordinals", "persistentVolumeClaimRetentionPolicy", "reserveOrdinals", "scaleStrategy"];
    for later in later {
        assert!(fields[later].is_object() && fields[later]["default"].is_null(), "{later}");
    }
    assert!(document["spec"]["conversion"].is_null());
    assert_eq!(document["metadata"]["annotations"]["berth.dev/converted-by"], "berth-manager");
}

/// The API server itself has the bound of these.
const WITHOUT: [(&str, &str); 1] = [("date-time", "a text that is a time is as long as a time")];

/// Objects of Kubernetes' own types that are kept as they were given, newer fields included: the API server
/// bounds the size of the whole object, and admission what it reads of them.
const AS_GIVEN: [&str; 53] = [
    // Who writes a status is a controller of its kind, and those of later versions keep more there. Whoever
    // reads one takes no more of it than of any object.
    "crds/workloadspreads.yaml.status",
    "uniteddeployments/crds/uniteddeployments.yaml.status",
    "workloads/crds/statefulsets.yaml.status",
    "distribution/crds/resourcedistributions.yaml.spec.resource",
    "distribution/crds/resourcedistributions.yaml.spec.resource.metadata",
    "distribution/crds/resourcedistributions.yaml.spec.resource.metadata.ownerReferences[]",
    "jobs/crds/advancedcronjobs.yaml.spec.template.broadcastJobTemplate",
    "jobs/crds/advancedcronjobs.yaml.spec.template.broadcastJobTemplate.metadata",
    "jobs/crds/advancedcronjobs.yaml.spec.template.jobTemplate",
    "jobs/crds/advancedcronjobs.yaml.spec.template.jobTemplate.metadata",
    "jobs/crds/broadcastjobs.yaml.spec.template",
    "jobs/crds/broadcastjobs.yaml.spec.template.metadata",
    "jobs/crds/broadcastjobs.yaml.spec.template.spec",
    "workloads/crds/clonesets.yaml.spec.template",
    "workloads/crds/clonesets.yaml.spec.template.metadata",
    "workloads/crds/clonesets.yaml.spec.template.spec",
    "workloads/crds/clonesets.yaml.spec.volumeClaimTemplates[]",
    "workloads/crds/clonesets.yaml.spec.volumeClaimTemplates[].metadata",
    "workloads/crds/daemonsets.yaml.spec.template",
    "workloads/crds/daemonsets.yaml.spec.template.metadata",
    "workloads/crds/daemonsets.yaml.spec.template.spec",
    "workloads/crds/statefulsets.yaml.spec.template",
    "workloads/crds/statefulsets.yaml.spec.template.metadata",
    "workloads/crds/statefulsets.yaml.spec.template.spec",
    "workloads/crds/statefulsets.yaml.spec.volumeClaimTemplates[]",
    "workloads/crds/statefulsets.yaml.spec.volumeClaimTemplates[].metadata",
    "crds/sidecarsets.yaml.spec.containers[]",
    "crds/sidecarsets.yaml.spec.initContainers[]",
    "crds/sidecarsets.yaml.spec.volumes[]",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.advancedStatefulSetTemplate",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.advancedStatefulSetTemplate.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.advancedStatefulSetTemplate.spec",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.advancedStatefulSetTemplate.spec.template",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.advancedStatefulSetTemplate.spec.template.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.cloneSetTemplate",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.cloneSetTemplate.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.cloneSetTemplate.spec",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.cloneSetTemplate.spec.template",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.cloneSetTemplate.spec.template.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.deploymentTemplate",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.deploymentTemplate.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.deploymentTemplate.spec",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.deploymentTemplate.spec.template",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.deploymentTemplate.spec.template.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.statefulSetTemplate",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.statefulSetTemplate.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.statefulSetTemplate.spec",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.statefulSetTemplate.spec.template",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.template.statefulSetTemplate.spec.template.metadata",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.topology.subsets[].patch",
    "uniteddeployments/crds/uniteddeployments.yaml.spec.topology.subsets[].patch.metadata",
    "crds/workloadspreads.yaml.spec.subsets[].patch",
    "crds/workloadspreads.yaml.spec.subsets[].patch.metadata",
];

/// Every text, list, map and number has a bound, so that no author of an object decides how large others'
/// objects are.
#[test]
fn nothing_is_without_a_bound() {
    let mut free = Vec::new();
    for (file, document) in documents() {
        unbounded(&document["spec"]["versions"][0]["schema"]["openAPIV3Schema"], &file, &mut free);
    }
    assert!(free.is_empty(), "{}", free.join("\n"));
}

fn unbounded(schema: &Value, path: &str, free: &mut Vec<String>) {
    let has = |field: &str| !schema[field].is_null();
    let either = schema["x-kubernetes-int-or-string"] == true;
    let kind = schema["type"].as_str().unwrap_or_default();
    let fixed = has("enum") || WITHOUT.iter().any(|(format, _)| schema["format"] == *format);
    let mut missing = Vec::new();
    if (kind == "string" || either) && !fixed && !has("maxLength") {
        missing.push("maxLength");
    }
    if kind == "array" && !has("maxItems") {
        missing.push("maxItems");
    }
    if schema["additionalProperties"].is_object() && !has("maxProperties") {
        missing.push("maxProperties");
    }
    if matches!(kind, "integer" | "number") || either {
        missing.extend(["minimum", "maximum"].into_iter().filter(|field| !has(field)));
    }
    // What is not described could be anything.
    let described = has("properties") || schema["additionalProperties"].is_object();
    // An object without fields takes none: what is given is pruned.
    let pruned = kind == "object" && path.ends_with(".yaml.spec");
    let as_given = AS_GIVEN.contains(&path);
    if (kind == "object" && !described && !pruned && !as_given)
        || (schema["x-kubernetes-preserve-unknown-fields"] == true && !as_given)
        || schema["additionalProperties"] == true
    {
        missing.push("a description of its fields");
    }
    free.extend(missing.into_iter().map(|what| format!("{path} has no {what}: add a line to crd/bounds.rs")));
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        unbounded(property, &format!("{path}.{name}"), free);
    }
    for (field, mark) in [("items", "[]"), ("additionalProperties", "{}")] {
        if schema[field].is_object() {
            unbounded(&schema[field], &format!("{path}{mark}"), free);
        }
    }
}

/// Added to any time that a program knows, it stays one; and OpenKruise's types, which are of 32 bits, hold
/// it.
#[test]
fn the_most_seconds_overflow_nothing() {
    assert!(i32::try_from(MOST_SECONDS).is_ok());
    let text = documents().into_iter().map(|(_, document)| document.to_string()).collect::<String>();
    let over = text
        .split("\"maximum\":")
        .skip(1)
        .filter_map(|rest| rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<i64>().ok());
    assert!(over.clone().count() > 50 && over.max() == Some(1 << 53));
}

/// Goes through the type and comes out as it went in.
fn keeps<T: DeserializeOwned + Serialize>(file: &str) {
    let manifest = read(&format!("tests/manifests/{file}.yaml"));
    let typed: T = serde_json::from_value(manifest.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
    assert_eq!(serde_json::to_value(typed).unwrap(), manifest, "{file}");
}

#[test]
fn no_field_of_an_openkruise_manifest_is_lost() {
    keeps::<ContainerRecreateRequest>("recreate-plain");
    keeps::<ContainerRecreateRequest>("recreate-all-fields");
    keeps::<ImagePullJob>("image-pull-job-names");
    keeps::<ImagePullJob>("image-pull-job-labels");
    keeps::<ImagePullJob>("image-pull-job-pods");
    keeps::<NodeImage>("node-image");
    keeps::<PodProbeMarker>("pod-probe-marker");
    keeps::<NodePodProbe>("node-pod-probe");
    keeps::<PodUnavailableBudget>("pod-unavailable-budget");
    keeps::<SidecarSet>("sidecar-set-plain");
    keeps::<SidecarSet>("sidecar-set-all-fields");
    keeps::<CloneSet>("clone-set-all-fields");
    keeps::<AdvancedStatefulSet>("stateful-set-all-fields");
    keeps::<AdvancedDaemonSet>("daemon-set-all-fields");
    keeps::<BroadcastJob>("broadcast-job-all-fields");
    keeps::<PersistentPodState>("persistent-pod-state-all-fields");
    keeps::<ResourceDistribution>("resource-distribution-all-fields");
    keeps::<AdvancedCronJob>("advanced-cron-job-all-fields");
    keeps::<AdvancedCronJob>("advanced-cron-job-broadcast");
    keeps::<UnitedDeployment>("united-deployment-all-fields");
    keeps::<UnitedDeployment>("united-deployment-in-order");
    keeps::<WorkloadSpread>("workload-spread-all-fields");
}

/// Objects with the zero values and nulls that Go writes are objects to our programs too.
#[test]
fn objects_of_typed_clients_are_read() {
    fn reads<T: DeserializeOwned>(file: &str) {
        let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/typed/{file}.yaml"));
        let text = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let objects: Vec<Value> = serde_saphyr::from_multiple(&text).unwrap();
        assert!(objects.len() > 1 && objects.iter().all(|object| object["status"].is_object()), "{file}");
        for object in objects {
            if let Err(error) = serde_json::from_value::<T>(object.clone()) {
                panic!("{file}: {error}: {object}");
            }
        }
    }
    reads::<AdvancedCronJob>("advanced-cron-job");
    reads::<AdvancedDaemonSet>("daemon-set");
    reads::<AdvancedStatefulSet>("stateful-set");
    reads::<BroadcastJob>("broadcast-job");
    reads::<CloneSet>("clone-set");
    reads::<ContainerRecreateRequest>("container-recreate-request");
    reads::<ImagePullJob>("image-pull-job");
    reads::<NodeImage>("node-image");
    reads::<NodePodProbe>("node-pod-probe");
    reads::<PersistentPodState>("persistent-pod-state");
    reads::<PodProbeMarker>("pod-probe-marker");
    reads::<PodUnavailableBudget>("pod-unavailable-budget");
    reads::<ResourceDistribution>("resource-distribution");
    reads::<SidecarSet>("sidecar-set");
    reads::<UnitedDeployment>("united-deployment");
    reads::<WorkloadSpread>("workload-spread");
}

/// With everything a status can say.
#[test]
fn no_field_of_an_update_is_lost() {
    keeps::<ContainerUpdateRequest>("update-all-fields");
    keeps::<NodePodUpdate>("node-pod-update");
}

/// A client that leaves the strategy out reads back what OpenKruise's webhook would have written.
#[test]
fn a_request_has_the_default_of_its_strategy() {
    let definitions = documents();
    let (_, document) = definitions
        .iter()
        .find(|(file, _)| file == "crds/containerrecreaterequests.yaml")
        .expect("its definition");
    let strategy = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/strategy";
    let default = |of: &str| document.pointer(&format!("{strategy}{of}/default")).cloned();
    assert_eq!(default(""), Some(serde_json::json!({})));
    assert_eq!(default("/properties/failurePolicy"), Some(serde_json::json!("Fail")));
}

/// A phase says only that a request ended; a list of requests must show how.
#[test]
fn a_request_that_failed_is_seen_to_have_failed() {
    for (file, document) in documents() {
        assert_eq!(document["spec"]["names"]["categories"], serde_json::json!(["berth"]), "{file}");
        let columns = document["spec"]["versions"][0]["additionalPrinterColumns"].as_array().cloned();
        let names = columns.unwrap_or_default().into_iter().map(|column| column["name"].clone());
        let names: Vec<String> = names.filter_map(|name| name.as_str().map(str::to_owned)).collect();
        assert!(!names.is_empty(), "{file} shows names alone");
        if file.ends_with("requests.yaml") {
            assert!(
                ["RESULT", "REASON"].iter().all(|one| names.contains(&(*one).to_owned())),
                "{file}: {names:?}"
            );
        }
    }
}
