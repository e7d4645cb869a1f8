//! Sets and pods in few words, and a view of a pod that is short enough for a table.

use std::collections::BTreeMap;

use berth_proto::crd::SidecarSet;
use berth_sidecarset::{Context, Refusal, Set, complete, inject};
use jiff::Timestamp;
use serde_json::{Map, Value, json};

/// A complete SidecarSet of this spec, which takes pods with `app: shop` unless it says others. `$` members
/// go elsewhere: `$name`, `$annotations`, `$status`.
pub(crate) fn stored(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().unwrap();
    let name = fields.remove("$name").unwrap_or(json!("s"));
    let labels = fields.remove("$labels").unwrap_or(json!({}));
    let annotations = fields.remove("$annotations").unwrap_or(json!({}));
    let status = fields.remove("$status");
    fields.entry("selector").or_insert(json!({"matchLabels": {"app": "shop"}}));
    for list in ["containers", "initContainers"] {
        for container in fields.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            let image = format!("{}:1", container["name"].as_str().unwrap_or_default());
            container.as_object_mut().unwrap().entry("image").or_insert(image.into());
        }
    }
    let mut set = json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "SidecarSet",
        "metadata": {"name": name, "labels": labels, "annotations": annotations},
        "spec": spec,
    });
    complete(&mut set, None).unwrap();
    if let Some(status) = status {
        set["status"] = status;
    }
    set
}

pub(crate) fn typed(set: &Value) -> SidecarSet {
    serde_json::from_value(set.clone()).unwrap()
}

pub(crate) fn parsed(spec: &Value) -> Set {
    Set::parse(&typed(&stored(spec))).unwrap()
}

/// A pod with container `app`, unless the spec has others. `$labels` and `$annotations` go elsewhere.
pub(crate) fn pod(spec: &Value) -> Value {
    let mut spec = spec.clone();
    let fields = spec.as_object_mut().unwrap();
    let labels = fields.remove("$labels").unwrap_or(json!({"app": "shop"}));
    let annotations = fields.remove("$annotations");
    fields.entry("containers").or_insert(json!([{"name": "app", "image": "app:1"}]));
    let mut pod = json!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"generateName": "shop-", "labels": labels},
        "spec": spec,
    });
    if let Some(annotations) = annotations {
        pod["metadata"]["annotations"] = annotations;
    }
    pod
}

/// Injects into the pod; `draw` is what each draw gives.
pub(crate) fn injected(pod: &mut Value, sets: &[Set], draw: u8) -> Result<Vec<String>, Refusal> {
    let sets: Vec<&Set> = sets.iter().collect();
    let labels = BTreeMap::from([("team".to_owned(), "shop".to_owned())]);
    let cx = Context {
        namespace: "default",
        namespace_labels: Some(&labels),
        draw: &mut || draw,
        now: "2026-11-22T14:00:00.123Z".parse::<Timestamp>().unwrap(),
    };
    inject(pod, &sets, cx).map(|injected| injected.warnings)
}

/// Checks a row of a table: the sets' specs, the pod's, and what the pod shows afterwards. Asked for again,
/// nothing may change.
pub(crate) fn row(sets: &Value, given: &Value, expected: &Value) {
    let sets: Vec<Set> = sets.as_array().unwrap().iter().map(parsed).collect();
    let mut after = pod(given);
    let before = after.clone();
    let shown = match injected(&mut after, &sets, 50) {
        Ok(warnings) => shown(&after, &warnings, expected),
        Err(refusal) => {
            assert_eq!(after, before, "a pod that is refused stays as it was");
            let text = refusal.to_string();
            let part = expected["refused"].as_str().unwrap_or_default();
            assert!(!part.is_empty() && text.contains(part), "refused: {text}");
            return;
        }
    };
    assert_eq!(shown, *expected);
    let once = after.clone();
    injected(&mut after, &sets, 50).unwrap();
    assert_eq!(after, once, "injected twice");
}

/// View of the pod by the members that are expected: `C` and `I` containers, `E` variables, `M` mounts, `V`
/// volumes, `S` pull secrets, `A` annotations, `W` warnings, and paths of the pod.
fn shown(pod: &Value, warnings: &[String], expected: &Value) -> Value {
    let spec = &pod["spec"];
    let mut all = Map::new();
    for (member, wanted) in expected.as_object().unwrap() {
        let value = match member.as_str() {
            "C" => names(&spec["containers"]).into(),
            "I" => names(&spec["initContainers"]).into(),
            "V" => names(&spec["volumes"]).into(),
            "S" => names(&spec["imagePullSecrets"]).into(),
            "E" => of_containers(pod, wanted, |container| variables(&container["env"])),
            "M" => of_containers(pod, wanted, |container| {
                let mounts = container["volumeMounts"].as_array().into_iter().flatten();
                let mounts = mounts.chain(container["volumeDevices"].as_array().into_iter().flatten());
                let path =
                    |of: &Value| of["mountPath"].as_str().or(of["devicePath"].as_str()).map(str::to_owned);
                let mounts =
                    mounts.map(|of| format!("{}@{}", of["name"].as_str().unwrap(), path(of).unwrap()));
                mounts.collect::<Vec<_>>().join(" ")
            }),
            "A" => {
                let keys = wanted.as_object().unwrap().keys();
                keys.map(|key| (key.clone(), pod["metadata"]["annotations"][key].clone())).collect()
            }
            "W" => warnings.len().into(),
            path => pod.pointer(path).cloned().unwrap_or_default(),
        };
        all.insert(member.clone(), value);
    }
    all.into()
}

fn names(list: &Value) -> String {
    let names = list.as_array().into_iter().flatten().map(|of| of["name"].as_str().unwrap_or_default());
    names.collect::<Vec<_>>().join(" ")
}

fn variables(env: &Value) -> String {
    let variables = env.as_array().into_iter().flatten().map(|variable| {
        let name = variable["name"].as_str().unwrap();
        match variable["value"].as_str() {
            Some(value) => format!("{name}={value}"),
            None => format!("{name}<"),
        }
    });
    variables.collect::<Vec<_>>().join(" ")
}

fn of_containers(pod: &Value, wanted: &Value, view: impl Fn(&Value) -> String) -> Value {
    let lists = [&pod["spec"]["containers"], &pod["spec"]["initContainers"]];
    let all: Vec<&Value> = lists.into_iter().filter_map(Value::as_array).flatten().collect();
    let found = wanted.as_object().unwrap().keys().map(|name| {
        let container = all.iter().find(|container| container["name"] == name.as_str());
        (name.clone(), container.map_or(Value::Null, |container| view(container).into()))
    });
    found.collect()
}
