//! Faults of a set when it is written, and the words in which they are told.

use berth_sidecarset::{Set, WhiteList, check, warnings};
use rstest::rstest;
use serde_json::{Value, json};

use crate::{
    worked::with,
    world::{parsed, stored},
};

fn log() -> Value {
    json!({"containers": [{"name": "log"}]})
}

fn log_with(member: &str, value: Value) -> Value {
    json!({"containers": [with(json!({"name": "log"}), member, value)]})
}

fn hot(more: Value) -> Value {
    let mut container = json!({"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}});
    for (member, value) in more.as_object().unwrap() {
        container[member] = value.clone();
    }
    json!({"containers": [container]})
}

fn strategy(fields: Value) -> Value {
    with(log(), "updateStrategy", fields)
}

fn annotated(entries: Value) -> Value {
    with(log(), "patchPodMetadata", entries)
}

fn open() -> WhiteList {
    WhiteList::parse(None, true).unwrap()
}

/// Faults, each with its field before it.
fn faults(set: &Value, old: Option<&Value>, others: &[Set], white_list: &WhiteList) -> Vec<String> {
    let others: Vec<&Set> = others.iter().collect();
    check(set, old, &others, white_list).iter().map(ToString::to_string).collect()
}

/// Checks that there is one fault, and that it says this.
fn refused(faults: &[String], field: &str, part: &str) {
    let found = faults.iter().any(|fault| fault.starts_with(field) && fault.contains(part));
    assert!(found && faults.len() == 1, "{field} ... {part}: {faults:#?}");
}

#[rstest]
#[case::name(with(log(), "$name", json!("a.b")), "metadata.name", "alphanumeric characters or '-'")]
#[case::long_name(with(log(), "$name", json!("a".repeat(64))), "metadata.name", "no more than 63")]
#[case::no_selector(with(log(), "selector", Value::Null), "spec.selector", "no selector defined")]
#[case::empty_selector(with(log(), "selector", json!({})), "spec.selector", "empty selector is not valid")]
#[case::bad_selector(with(log(), "selector", json!({"matchLabels": {"a b": "c"}})), "spec.selector", "is no label")]
#[case::bad_operator(with(log(), "selector", json!({"matchExpressions": [{"key": "a", "operator": "Gt", "values": []}]})),
    "spec.selector.matchExpressions[0].operator", "give one of them")]
#[case::empty_namespaces(with(log(), "namespaceSelector", json!({})), "spec.namespaceSelector", "empty selector is not valid")]
#[case::both_namespaces(
    with(with(log(), "namespace", json!("a")), "namespaceSelector", json!({"matchLabels": {"a": "b"}})),
    "spec.namespace", "mutually exclusive")]
#[case::no_revision(with(log(), "injectionStrategy", json!({"revision": {}})),
    "spec.injectionStrategy.revision", "cannot be empty simultaneously")]
#[case::unknown_revision(with(log(), "injectionStrategy", json!({"revision": {"revisionName": "x"}})),
    "spec.injectionStrategy.revision", "Cannot find specific ControllerRevision x")]
#[case::unknown_version(with(log(), "injectionStrategy", json!({"revision": {"customVersion": "x"}})),
    "spec.injectionStrategy.revision", "Cannot find specific ControllerRevision x")]
#[case::unknown_policy(
    with(with(log(), "injectionStrategy", json!({"revision": {"revisionName": "r", "policy": "Often"}})),
        "$status", json!({"revisions": [{"name": "r", "revision": 1}]})),
    "spec.injectionStrategy.revision.policy", "not supported")]
#[case::type_(strategy(json!({"type": "Recreate"})), "spec.updateStrategy.type", "not supported")]
#[case::update_selector(strategy(json!({"selector": {}})), "spec.updateStrategy.selector", "empty selector")]
#[case::partition(strategy(json!({"partition": -1})), "spec.updateStrategy.partition", "from 0 on")]
#[case::partition_of_words(strategy(json!({"partition": "some"})), "spec.updateStrategy.partition", "from 0 on")]
#[case::unavailable(strategy(json!({"maxUnavailable": "101%"})), "spec.updateStrategy.maxUnavailable", "from 0 on")]
#[case::unavailable_nothing(strategy(json!({"maxUnavailable": "0%"})), "spec.updateStrategy.maxUnavailable", "upgrades no pod")]
#[case::scatter(strategy(json!({"scatterStrategy": [{"key": "", "value": "a"}]})),
    "spec.updateStrategy.scatterStrategy[0]", "has no key")]
#[case::scatter_twice(strategy(json!({"scatterStrategy": [{"key": "a", "value": "b"}, {"key": "a", "value": "b"}]})),
    "spec.updateStrategy.scatterStrategy[1]", "repeats")]
#[case::priorities(strategy(json!({"priorityStrategy": {"orderPriority": [{"orderedKey": "a"}],
    "weightPriority": [{"weight": 1, "matchSelector": {"matchLabels": {"a": "b"}}}]}})),
    "spec.updateStrategy.priorityStrategy", "exclude each other")]
#[case::weight(strategy(json!({"priorityStrategy": {
    "weightPriority": [{"weight": 101, "matchSelector": {"matchLabels": {"a": "b"}}}]}})),
    "spec.updateStrategy.priorityStrategy.weightPriority[0].weight", "from 0 to 100")]
#[case::native(json!({"initContainers": [{"name": "i", "restartPolicy": "Always"}]}),
    "spec.initContainers", "in-place upgrade is not currently supported")]
#[case::nothing(json!({}), "spec.containers", "no initContainer or container defined")]
#[case::inject_policy(log_with("podInjectPolicy", json!("Somewhere")),
    "spec.containers[0].podInjectPolicy", "unsupported pod inject policy")]
#[case::share_policy(log_with("shareVolumePolicy", json!({"type": "on"})),
    "spec.containers[0].shareVolumePolicy.type", "unsupported share volume policy")]
#[case::upgrade_type(log_with("upgradeStrategy", json!({"upgradeType": "Warm"})),
    "spec.containers[0].upgradeStrategy.upgradeType", "unsupported upgrade type")]
#[case::source_path(log_with("transferEnv", json!([{"sourceContainerNameFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])),
    "spec.containers[0].transferEnv[0].sourceContainerNameFrom.fieldRef.fieldPath", "unsupported fieldPath")]
#[case::many_variables(log_with("transferEnv", json!([{"envNames": vec!["A"; 1024]}])),
    "spec.containers[0].transferEnv", "at most 1024")]
#[case::resources_policy(log_with("resourcesPolicy", json!({"targetContainersMode": "sum"})),
    "spec.containers[0].resourcesPolicy", "not supported")]
#[case::container_name(json!({"containers": [{"name": "Log"}]}), "spec.containers[0].name", "no DNS label")]
#[case::no_image(log_with("image", json!("")), "spec.containers[0].image", "Required value")]
#[case::image_space(log_with("image", json!("a:1 ")), "spec.containers[0].image", "whitespace")]
#[case::pull_policy(log_with("imagePullPolicy", json!("Often")), "spec.containers[0].imagePullPolicy", "unsupported")]
#[case::names_once(json!({"containers": [{"name": "a"}, {"name": "a"}]}), "spec.containers[1].name", "Duplicate value")]
#[case::names_once_with_init(json!({"containers": [{"name": "a"}], "initContainers": [{"name": "a"}]}),
    "spec.containers[0].name", "Duplicate value")]
#[case::host_ports_once(json!({"containers": [{"name": "a", "ports": [{"containerPort": 1, "hostPort": 5}]},
    {"name": "b", "ports": [{"containerPort": 2, "hostPort": 5}]}]}),
    "spec.containers[1].ports[0].hostPort", "Duplicate value")]
#[case::port(log_with("ports", json!([{"containerPort": 70_000}])), "spec.containers[0].ports[0].containerPort", "65535")]
#[case::mount(log_with("volumeMounts", json!([{"name": "v", "mountPath": "/v"}])),
    "spec.containers[0].volumeMounts[0].name", "Not found")]
#[case::mount_twice(with(log_with("volumeMounts", json!([{"name": "v", "mountPath": "/v"}, {"name": "v", "mountPath": "/v"}])),
    "volumes", json!([{"name": "v"}])), "spec.containers[0].volumeMounts[1].mountPath", "must be unique")]
#[case::sub_paths(with(log_with("volumeMounts", json!([{"name": "v", "mountPath": "/v", "subPath": "a", "subPathExpr": "b"}])),
    "volumes", json!([{"name": "v"}])), "spec.containers[0].volumeMounts[0].subPathExpr", "mutually exclusive")]
#[case::sub_path_up(with(log_with("volumeMounts", json!([{"name": "v", "mountPath": "/v", "subPath": "a/.."}])),
    "volumes", json!([{"name": "v"}])), "spec.containers[0].volumeMounts[0].subPath", "relative")]
#[case::volumes_once(with(log(), "volumes", json!([{"name": "v"}, {"name": "v"}])), "spec.volumes[1].name", "Duplicate value")]
#[case::volume_kinds(with(log(), "volumes", json!([{"name": "v", "emptyDir": {}, "hostPath": {"path": "/"}}])),
    "spec.volumes[0]", "more than 1 volume type")]
#[case::env_name(log_with("env", json!([{"name": "A=B"}])), "spec.containers[0].env[0].name", "no name of a variable")]
#[case::env_letters(log_with("env", json!([{"name": "A\tB"}])), "spec.containers[0].env[0].name", "no name of a variable")]
#[case::port_name(log_with("ports", json!([{"containerPort": 1, "name": "HTTP"}])), "spec.containers[0].ports[0].name", "no name of a port")]
#[case::env_both(log_with("env", json!([{"name": "A", "value": "1", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}])),
    "spec.containers[0].env[0].valueFrom", "may not be specified")]
#[case::handlers(log_with("livenessProbe", json!({"exec": {}, "tcpSocket": {"port": 1}})),
    "spec.containers[0].livenessProbe", "more than 1 handler")]
#[case::no_handler(log_with("livenessProbe", json!({"periodSeconds": 1})),
    "spec.containers[0].livenessProbe", "must specify a handler type")]
#[case::init_probe(json!({"initContainers": [{"name": "a", "livenessProbe": {"exec": {}}}]}),
    "spec.initContainers[0].livenessProbe", "may not be set for init containers")]
#[case::requests(log_with("resources", json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1100m"}})),
    "spec.containers[0].resources.requests[cpu]", "less than or equal")]
#[case::no_empty_image(log_with("upgradeStrategy", json!({"upgradeType": "HotUpgrade"})),
    "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage", "is required")]
#[case::empty_image_is_the_image(hot(json!({"image": "e"})),
    "spec.containers[0].upgradeStrategy.hotUpgradeEmptyImage", "neither twin would be idle")]
#[case::twin_name_taken(with(hot(json!({})), "initContainers", json!([{"name": "mesh-2"}])),
    "spec.containers[0].name", "Duplicate value: \"mesh-2\"")]
#[case::twin_name_long(hot(json!({"name": "m".repeat(62)})), "spec.containers[0].name", "too long for its twins")]
#[case::hot_host_port(hot(json!({"ports": [{"containerPort": 1, "hostPort": 1}]})),
    "spec.containers[0].ports[0].hostPort", "both twins")]
#[case::annotations_empty(annotated(json!([{"annotations": {}}])), "spec.patchPodMetadata[0].annotations", "no annotations")]
#[case::annotation_key(annotated(json!([{"annotations": {"a b": "c"}}])), "spec.patchPodMetadata[0].annotations", "no annotation key")]
#[case::annotation_twice(annotated(json!([{"annotations": {"a": "c"}}, {"annotations": {"a": "d"}}])),
    "spec.patchPodMetadata[1].annotations", "already exist")]
#[case::patch_policy(annotated(json!([{"annotations": {"a": "c"}, "patchPolicy": "Never"}])),
    "spec.patchPodMetadata[0].patchPolicy", "not supported")]
#[case::no_json(annotated(json!([{"annotations": {"a": "c"}, "patchPolicy": "MergePatchJson"}])),
    "spec.patchPodMetadata[0].annotations", "no JSON object to merge")]
#[case::json_but_no_object(annotated(json!([{"annotations": {"a": "[1]"}, "patchPolicy": "MergePatchJson"}])),
    "spec.patchPodMetadata[0].annotations", "no JSON object to merge")]
#[case::canary_of_nothing(with(strategy(json!({"type": "NotUpdate"})), "$annotations",
    json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "gone"})),
    "metadata.annotations", "is no other SidecarSet")]
#[case::canary_that_updates(with(log(), "$annotations",
    json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"})),
    "spec.updateStrategy.type", "give NotUpdate")]
#[case::migration_of_words(with(log(), "$annotations", json!({"berth.dev/migration-seconds": "a minute"})),
    "metadata.annotations[berth.dev/migration-seconds]", "from 1 on")]
#[case::no_time_to_migrate(with(log(), "$annotations", json!({"berth.dev/migration-seconds": "0"})),
    "metadata.annotations[berth.dev/migration-seconds]", "from 1 on")]
fn a_set_is_refused(#[case] spec: Value, #[case] field: &str, #[case] part: &str) {
    let base = parsed(
        &json!({"$name": "base", "containers": [{"name": "base"}], "selector": {"matchLabels": {"app": "x"}}}),
    );
    refused(&faults(&stored(&spec), None, &[base], &open()), field, part);
}

#[rstest]
#[case::plain(log())]
#[case::named_revision(with(with(log(), "injectionStrategy", json!({"revision": {"revisionName": "r", "policy": "Partial"}})),
    "$status", json!({"revisions": [{"name": "r", "revision": 1}]})))]
#[case::native(with(json!({"initContainers": [{"name": "i", "restartPolicy": "Always", "livenessProbe": {"exec": {}}}]}),
    "updateStrategy", json!({"type": "NotUpdate"})))]
#[case::hot(hot(json!({"readinessProbe": {"exec": {}}, "ports": [{"containerPort": 1}]})))]
#[case::partition_with_selector(strategy(json!({"partition": "50%", "selector": {"matchLabels": {"a": "b"}}})))]
#[case::nothing_unavailable(strategy(json!({"maxUnavailable": 0})))]
#[case::annotations(annotated(json!([{"annotations": {"a": "{}"}, "patchPolicy": "MergePatchJson"}])))]
#[case::migration(with(log(), "$annotations", json!({"berth.dev/migration-seconds": "900"})))]
fn a_set_is_taken(#[case] spec: Value) {
    assert_eq!(faults(&stored(&spec), None, &[], &open()), Vec::<String>::new());
}

#[rstest]
#[case::new_container(json!({"containers": [{"name": "log"}, {"name": "more"}]}), "spec.containers[1].name", "is not found")]
#[case::upgrade_type(log_with("upgradeStrategy", json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"})),
    "spec.containers[0].upgradeStrategy.upgradeType", "upgradeType is immutable")]
#[case::becomes_a_canary(with(strategy(json!({"type": "NotUpdate"})), "$annotations",
    json!({"apps.kruise.io/sidecarset-canary": "true", "apps.kruise.io/sidecarset-base": "base"})),
    "metadata.annotations", "immutable")]
fn an_update_is_refused(#[case] spec: Value, #[case] field: &str, #[case] part: &str) {
    let base = parsed(
        &json!({"$name": "base", "containers": [{"name": "base"}], "selector": {"matchLabels": {"app": "x"}}}),
    );
    refused(&faults(&stored(&spec), Some(&stored(&log())), &[base], &open()), field, part);
}

/// An annotation that was taken before it was looked at is no reason to refuse another edit.
#[test]
fn what_stands_is_no_fault_of_an_edit() {
    let set =
        |seconds: &str| stored(&with(log(), "$annotations", json!({"berth.dev/migration-seconds": seconds})));
    assert_eq!(faults(&set("soon"), Some(&set("soon")), &[], &open()), Vec::<String>::new());
    refused(&faults(&set("later"), Some(&set("soon")), &[], &open()), "metadata.annotations[", "from 1 on");
}

const MEET: &str = "";

#[rstest]
#[case::container(log(), log(), "container log already exist in t")]
#[case::init(json!({"initContainers": [{"name": "a"}]}), json!({"initContainers": [{"name": "a"}]}), "container a already exist in t")]
#[case::container_and_init(log(), json!({"initContainers": [{"name": "log"}]}), "container log already exist in t")]
#[case::twin(hot(json!({})), json!({"containers": [{"name": "mesh-2"}]}), "container mesh-2 already exist in t")]
#[case::volume(with(log(), "volumes", json!([{"name": "v", "hostPath": {"path": "/"}}])),
    json!({"containers": [{"name": "b"}], "volumes": [{"name": "v"}]}), "in conflict with sidecarset t")]
#[case::equal_volumes(with(log(), "volumes", json!([{"name": "v"}])),
    json!({"containers": [{"name": "b"}], "volumes": [{"name": "v"}]}), MEET)]
#[case::overwritten_twice(annotated(json!([{"annotations": {"a": "1"}, "patchPolicy": "Overwrite"}])),
    json!({"containers": [{"name": "b"}], "patchPodMetadata": [{"annotations": {"a": "2"}, "patchPolicy": "Overwrite"}]}),
    "in conflict with sidecarset t")]
#[case::overwritten_and_merged(annotated(json!([{"annotations": {"a": "{}"}, "patchPolicy": "MergePatchJson"}])),
    json!({"containers": [{"name": "b"}], "patchPodMetadata": [{"annotations": {"a": "2"}, "patchPolicy": "Overwrite"}]}),
    "in conflict with sidecarset t")]
#[case::retained(annotated(json!([{"annotations": {"a": "1"}}])),
    json!({"containers": [{"name": "b"}], "patchPodMetadata": [{"annotations": {"a": "2"}, "patchPolicy": "Overwrite"}]}), MEET)]
#[case::other_value_of_a_label(log(), with(log(), "selector", json!({"matchLabels": {"app": "x"}})), MEET)]
#[case::other_label(log(), with(log(), "selector", json!({"matchLabels": {"tier": "x"}})), "already exist in t")]
#[case::not_in(log(), with(log(), "selector",
    json!({"matchExpressions": [{"key": "app", "operator": "NotIn", "values": ["shop"]}]})), MEET)]
#[case::absent(log(), with(log(), "selector", json!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]})), MEET)]
#[case::present(log(), with(log(), "selector", json!({"matchExpressions": [{"key": "app", "operator": "Exists"}]})), "already exist in t")]
#[case::other_namespace(with(log(), "namespace", json!("a")), with(log(), "namespace", json!("b")), MEET)]
#[case::one_of_all_namespaces(with(log(), "namespace", json!("a")), log(), "already exist in t")]
#[case::namespace_by_its_name(with(log(), "namespace", json!("a")),
    with(log(), "namespaceSelector", json!({"matchLabels": {"kubernetes.io/metadata.name": "b"}})), MEET)]
#[case::namespace_by_another_label(with(log(), "namespace", json!("a")),
    with(log(), "namespaceSelector", json!({"matchLabels": {"team": "b"}})), "already exist in t")]
fn sets_beside_each_other(#[case] spec: Value, #[case] other: Value, #[case] part: &str) {
    let found = faults(&stored(&spec), None, &[parsed(&with(other, "$name", json!("t")))], &open());
    if part == MEET {
        assert_eq!(found, Vec::<String>::new());
    } else {
        refused(&found, "spec.", part);
    }
}

const RULES: &str =
    r#"{"rules":[{"selector":{"matchLabels":{"a":"b"}},"allowedAnnotationKeyExprs":["^oom","x$"]}]}"#;

#[rstest]
#[case::none(None, false, "oom", "whitelist not found")]
#[case::none_but_open(None, true, "oom", "")]
#[case::rule(Some(RULES), false, "oom-score", "")]
#[case::second_expression(Some(RULES), false, "anything-x", "")]
#[case::other_key(Some(RULES), false, "my-oom", "is not allowed")]
#[case::other_key_though_open(Some(RULES), true, "my-oom", "is not allowed")]
#[case::rule_of_other_sets(
    Some(r#"{"rules":[{"selector":{"matchLabels":{"a":"c"}},"allowedAnnotationKeyExprs":["."]}]}"#),
    false,
    "oom",
    "whitelist not found"
)]
#[case::rule_without_expressions(
    Some(r#"{"rules":[{"selector":{"matchLabels":{"a":"b"}}}]}"#),
    false,
    "oom",
    "whitelist not found"
)]
#[case::rule_with_a_misspelt_list(
    Some(r#"{"rules":[{"allowedAnnotationKeyExpr":["^x"]}]}"#),
    true,
    "oom",
    ""
)]
#[case::beside_one_with_some(
    Some(r#"{"rules":[{},{"allowedAnnotationKeyExprs":["^x"]}]}"#),
    true,
    "oom",
    "is not allowed"
)]
#[case::empty_selector(
    Some(r#"{"rules":[{"selector":{},"allowedAnnotationKeyExprs":["^x"]}]}"#),
    true,
    "oom",
    "is not allowed"
)]
#[case::rule_of_all_sets(Some(r#"{"rules":[{"allowedAnnotationKeyExprs":["."]}]}"#), false, "oom", "")]
fn annotations_on_the_white_list(
    #[case] list: Option<&str>,
    #[case] open: bool,
    #[case] key: &str,
    #[case] part: &str,
) {
    let spec = annotated(json!([{"annotations": {key: "1"}}]));
    let set = stored(&with(spec, "$labels", json!({"a": "b"})));
    let found = faults(&set, None, &[], &WhiteList::parse(list, open).unwrap());
    if part.is_empty() {
        assert_eq!(found, Vec::<String>::new());
    } else {
        refused(&found, "spec.patchPodMetadata[0].annotations", part);
    }
}

#[rstest]
#[case::no_json("rules", "no JSON")]
#[case::no_expression(r#"{"rules":[{"allowedAnnotationKeyExprs":["("]}]}"#, "no regular expression")]
#[case::large_program(
    r#"{"rules":[{"allowedAnnotationKeyExprs":["(a{1000}){1000}"]}]}"#,
    "no regular expression"
)]
#[case::selector(r#"{"rules":[{"selector":{"matchLabels":{"a b":""}}}]}"#, "is no label")]
fn white_lists_that_are_none(#[case] list: &str, #[case] part: &str) {
    let fault = WhiteList::parse(Some(list), false).unwrap_err().to_string();
    assert!(fault.contains(part), "{fault}");
}

#[rstest]
#[case::plain(log(), &[])]
#[case::hot(hot(json!({"readinessProbe": {}, "ports": [{"containerPort": 1}]})), &["readinessProbe", "ports", "postStart"])]
#[case::hot_with_a_hook(hot(json!({"lifecycle": {"postStart": {"exec": {}}}})), &[])]
#[case::unknown(log_with("imagePulPolicy", json!("Always")), &["spec.containers[0].imagePulPolicy: unknown field"])]
#[case::unknown_below(log_with("ports", json!([{"port": 1}])), &["spec.containers[0].ports[0].port: unknown field"])]
#[case::kept_annotations(annotated(json!([{"annotations": {"a": "c"}}])), &[])]
#[case::annotations_of_running_pods(annotated(json!([{"annotations": {"a": "c"}, "patchPolicy": "Overwrite"}])), &["berth.dev/agent-labels"])]
#[case::partition_and_selector(strategy(json!({"partition": 1, "selector": {"matchLabels": {"a": "b"}}})), &["cannot be used together"])]
fn warns(#[case] spec: Value, #[case] parts: &[&str]) {
    let found = warnings(&stored(&spec));
    assert!(
        found.len() == parts.len() && parts.iter().zip(&found).all(|(part, found)| found.contains(part)),
        "{found:#?}"
    );
}
