//! Any JSON at all: nothing panics, a refused pod stays as it was, and what was injected stays as it is.

use berth_sidecarset::{Set, WhiteList, check, complete, decode, warnings};
use proptest::prelude::*;
use rstest::rstest;
use serde_json::{Value, json};

use crate::world::{injected, parsed};

/// Words that mean something somewhere.
const WORDS: [&str; 40] = [
    "name",
    "image",
    "env",
    "value",
    "valueFrom",
    "fieldRef",
    "fieldPath",
    "containers",
    "initContainers",
    "volumes",
    "volumeMounts",
    "mountPath",
    "subPathExpr",
    "$(A)",
    "app",
    "log",
    "A",
    "IS_INJECTED",
    "true",
    "upgradeStrategy",
    "upgradeType",
    "HotUpgrade",
    "hotUpgradeEmptyImage",
    "shareVolumePolicy",
    "type",
    "enabled",
    "transferEnv",
    "sourceContainerName",
    "envName",
    "envNames",
    "ports",
    "hostPort",
    "resources",
    "limits",
    "cpu",
    "1e999999",
    "patchPodMetadata",
    "annotations",
    "imagePullSecrets",
    "restartPolicy",
];

fn word() -> impl Strategy<Value = String> {
    prop_oneof![9 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned), 1 => ".{0,8}"]
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..6).prop_map(|members| json!(members)),
        ]
    })
}

/// An object that may well be a container.
fn container() -> impl Strategy<Value = Value> {
    (prop::sample::select(vec!["app", "log", "mesh", "mesh-1"]), any_json(), any::<bool>(), any_json())
        .prop_map(|(name, env, hot, more)| {
            let mut container =
                json!({"name": name, "image": "i:1", "shareVolumePolicy": {"type": "enabled"}});
            if let Value::Object(more) = more {
                container.as_object_mut().unwrap().extend(more);
            }
            container["env"] = json!([{"name": "A", "value": "1"}, {"name": "B", "valueFrom": env}]);
            container["volumeMounts"] =
                json!([{"name": "v", "mountPath": "/v", "subPathExpr": "$(A)$(B)$("}]);
            if hot {
                container["upgradeStrategy"] =
                    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"});
            }
            container
        })
}

fn pod() -> impl Strategy<Value = Value> {
    let containers = prop::collection::vec(container(), 0..4);
    let odd = (any_json(), any_json(), any_json());
    (containers, odd, any::<bool>()).prop_map(|(containers, (metadata, spec, annotations), odd)| {
        let mut pod = json!({"metadata": {}, "spec": {}});
        for (member, more) in [("metadata", metadata), ("spec", spec)] {
            if let Value::Object(more) = more {
                pod[member].as_object_mut().unwrap().extend(more);
            } else if odd {
                pod[member] = more;
            }
        }
        if pod["metadata"].is_object() {
            pod["metadata"]["labels"] = json!({"app": "shop"});
            pod["metadata"]["annotations"] = if odd { annotations } else { json!({"k": "{\"a\":1}"}) };
        }
        if pod["spec"].is_object() {
            pod["spec"]["containers"] = json!(containers);
        }
        pod
    })
}

/// A sidecar that is often taken.
fn sidecar() -> impl Strategy<Value = Value> {
    let names = prop::sample::select(vec!["a", "b", "a-1", "c"]);
    let ports = prop::sample::select(vec![
        json!([]),
        json!([{"containerPort": 1}]),
        json!([{"containerPort": 1, "hostPort": 2}]),
    ]);
    let env =
        prop::sample::select(vec![json!([]), json!([{"name": "A", "value": "1"}]), json!([{"name": "A=B"}])]);
    (names, ports, env, 0..4, any::<bool>()).prop_map(|(name, ports, env, upgrade, mounts)| {
        let mut sidecar = json!({"name": name, "image": "i:1", "ports": ports, "env": env});
        match upgrade {
            0 => {
                sidecar["upgradeStrategy"] =
                    json!({"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"});
            }
            1 => sidecar["upgradeStrategy"] = json!({"upgradeType": "HotUpgrade"}),
            _ => {}
        }
        if mounts {
            sidecar["volumeMounts"] = json!([{"name": "v", "mountPath": "/v"}]);
        }
        sidecar
    })
}

fn sets() -> Vec<Set> {
    let spec = json!({
        "containers": [
            {"name": "log", "shareVolumePolicy": {"type": "enabled"},
             "transferEnv": [{"sourceContainerName": "app", "envNames": ["A", "B"]}]},
            {"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e"}},
        ],
        "initContainers": [{"name": "init"}],
        "imagePullSecrets": [{"name": "a"}],
        "patchPodMetadata": [{"annotations": {"k": r#"{"b":{"c":null}}"#}, "patchPolicy": "MergePatchJson"}],
    });
    let other = json!({"$name": "r", "containers": [{"name": "other", "podInjectPolicy": "AfterAppContainer"}],
        "patchPodMetadata": [{"annotations": {"k": r#"{"b":{"d":1}}"#}, "patchPolicy": "MergePatchJson"}]});
    vec![parsed(&spec), parsed(&other)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_pod(pod in prop_oneof![4 => pod(), 1 => any_json()]) {
        let sets = sets();
        let mut after = pod.clone();
        if injected(&mut after, &sets, 7).is_err() {
            prop_assert_eq!(after, pod);
        } else {
            let once = after.clone();
            prop_assert!(injected(&mut after, &sets, 93).is_ok());
            prop_assert_eq!(&after, &once);
            // The order in which the sets are known is no part of it.
            let mut reversed = pod.clone();
            let sets: Vec<Set> = sets.into_iter().rev().collect();
            prop_assert!(injected(&mut reversed, &sets, 7).is_ok());
            prop_assert_eq!(&reversed, &once);
        }
    }

    #[test]
    fn any_set(spec in any_json(), containers in prop::collection::vec(container(), 0..3), whole in any::<bool>()) {
        let mut set = json!({"metadata": {"name": "s"}, "spec": spec});
        if !whole && set["spec"].is_object() {
            set["spec"]["selector"] = json!({"matchLabels": {"app": "shop"}});
            set["spec"]["containers"] = json!(containers);
        }
        warnings(&set);
        let old = set.clone();
        if complete(&mut set, Some(&old)).is_ok() {
            let once = set.clone();
            prop_assert!(complete(&mut set, Some(&old)).is_ok());
            prop_assert_eq!(&set, &once);
            warnings(&set);
            let others = sets();
            let others: Vec<&Set> = others.iter().collect();
            let _ = check(&set, Some(&old), &others, &WhiteList::default());
        }
    }

    /// A set that is taken is one whose pods are taken.
    #[test]
    fn what_is_taken_is_injected(
        containers in prop::collection::vec(sidecar(), 0..3),
        inits in prop::collection::vec(sidecar(), 0..2),
        value in prop::sample::select(vec!["{}", "x"]),
    ) {
        let mut set = json!({"metadata": {"name": "s"}, "spec": {
            "selector": {"matchLabels": {"app": "shop"}}, "containers": containers, "initContainers": inits,
            "volumes": [{"name": "v"}],
            "patchPodMetadata": [{"annotations": {"k": value}, "patchPolicy": "MergePatchJson"}],
        }});
        complete(&mut set, None).unwrap();
        if check(&set, None, &[], &WhiteList::parse(None, true).unwrap()).is_empty() {
            let set = Set::parse(&serde_json::from_value(set).unwrap()).unwrap();
            let mut pod = crate::world::pod(&json!({}));
            prop_assert_eq!(injected(&mut pod, &[set], 0), Ok(Vec::new()));
        }
    }

    #[test]
    fn any_value(value in any_json()) {
        let mut set = value.clone();
        let _ = complete(&mut set, Some(&value));
        let _ = check(&value, Some(&value), &[], &WhiteList::default());
        let _ = warnings(&value);
        let _ = WhiteList::parse(Some(&value.to_string()), true);
    }

    #[test]
    fn any_history(text in ".{0,64}") {
        let _ = decode(&text);
    }
}

/// A pod that nobody has checked yet, with as many variables and references as an API server sends. Each is
/// looked up: to walk through all variables for each reference would take minutes.
#[test]
fn references_of_a_large_pod_are_looked_up() {
    let sidecar = json!({"name": "log", "shareVolumePolicy": {"type": "enabled"}});
    let set = parsed(&json!({"containers": [sidecar]}));
    let env: Vec<Value> = (0..60_000).map(|at| json!({"name": format!("A{at}"), "value": "1"})).collect();
    let path = format!("{}$(A59999)$(A3)$(A3)", "$(Z)".repeat(200_000));
    let mounts = json!([{"name": "v", "mountPath": "/v", "subPathExpr": path}]);
    let app = json!({"name": "app", "image": "app:1", "env": env, "volumeMounts": mounts});
    let mut pod = crate::world::pod(&json!({"containers": [app]}));
    injected(&mut pod, &[set], 0).unwrap();
    let containers = pod["spec"]["containers"].as_array().unwrap();
    let log = containers.iter().find(|container| container["name"] == "log").unwrap();
    let names: Vec<_> =
        log["env"].as_array().unwrap().iter().map(|env| env["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["IS_INJECTED", "A59999", "A3"]);
}

/// One volume that a container mounts a thousand times comes once.
#[test]
fn a_volume_comes_once() {
    let mounts: Vec<Value> =
        (0..1_000).map(|at| json!({"name": "v", "mountPath": format!("/{at}")})).collect();
    let set = parsed(&json!({
        "containers": [{"name": "log", "volumeMounts": mounts}, {"name": "mesh", "volumeMounts": mounts}],
        "volumes": [{"name": "v", "configMap": {"name": "c"}}],
    }));
    let mut pod = crate::world::pod(&json!({}));
    injected(&mut pod, &[set], 0).unwrap();
    let names: Vec<_> = pod["spec"]["volumes"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["v"]);
}

/// A text may stand for eighty times as much memory, and nobody has checked how long those of a new pod are.
#[rstest]
#[case::of_berth("kruise.io/sidecarset-hash", r#"{"s":{"hash":"h","sidecarList":"#, "}}")]
#[case::to_be_merged("k", r#"{"a":"#, "}")]
fn an_annotation_of_many_maps_is_refused(#[case] key: &str, #[case] before: &str, #[case] after: &str) {
    let patch = json!([{"annotations": {"k": r#"{"b":1}"#}, "patchPolicy": "MergePatchJson"}]);
    let sets = [parsed(&json!({"containers": [{"name": "log"}], "patchPodMetadata": patch}))];
    for (maps, is_taken) in [(1_000, true), (100_000, false)] {
        let maps = json!(vec![json!({"c": 1}); maps]);
        let annotations = json!({key: format!("{before}{maps}{after}")});
        let mut pod = crate::world::pod(&json!({"$annotations": annotations}));
        assert_eq!(injected(&mut pod, &sets, 0).is_ok(), is_taken);
    }
}
