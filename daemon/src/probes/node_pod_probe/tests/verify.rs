use serde_json::{Value, json};

use super::*;

/// A change of an object.
type Change = fn(&mut Value);

fn pod(uid: &str, namespace: &str, name: &str) -> PodRef {
    PodRef { uid: uid.into(), namespace: namespace.to_owned(), name: name.to_owned() }
}

/// The pod `shop/game`, with a container that has a port named `web`, and a sidecar.
fn live() -> LivePod {
    let pod = serde_json::from_value(json!({
        "metadata": { "name": "game", "namespace": "shop", "uid": "u", "labels": { "app": "game", "tier": "a" } },
        "spec": {
            "initContainers": [
                { "name": "once" },
                { "name": "side", "restartPolicy": "Always" },
            ],
            "containers": [{ "name": "main", "ports": [{ "name": "web", "containerPort": 8080 }] }],
        },
    }));
    LivePod::of(&pod.unwrap()).unwrap().1
}

fn marker(change: impl FnOnce(&mut Value)) -> MarkerSeen {
    let mut object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "PodProbeMarker",
        "metadata": { "name": "m", "namespace": "shop" },
        "spec": {
            "selector": { "matchLabels": { "app": "game" } },
            "probes": [{
                "name": "idle",
                "containerName": "main",
                "probe": { "exec": { "command": ["test", "-f", "/idle"] }, "periodSeconds": 3 },
                "podConditionType": "game.io/idle",
                "markerPolicy": [
                    { "state": "Succeeded", "labels": { "idle": "true" }, "annotations": { "cost": "-10" } },
                    { "state": "Failed", "labels": { "idle": "false" } },
                ],
            }, {
                "name": "web",
                "containerName": "main",
                "probe": { "httpGet": { "port": "web", "path": "/x" } },
                "podConditionType": "game.io/web",
            }],
        },
    });
    change(&mut object);
    MarkerSeen::of(serde_json::from_value(object).unwrap())
}

/// An entry as the manager writes it of that marker.
fn entry(change: impl FnOnce(&mut Value)) -> WantedProbe {
    let mut entry = json!({
        "name": "m#idle",
        "containerName": "main",
        "probe": { "exec": { "command": ["test", "-f", "/idle"] }, "periodSeconds": 3 },
        "podConditionType": "game.io/idle",
        "markerPolicy": [
            { "state": "Succeeded", "labels": { "idle": "true" }, "annotations": { "cost": "-10" } },
            { "state": "Failed", "labels": { "idle": "false" } },
        ],
    });
    change(&mut entry);
    let pod = json!({ "name": "game", "namespace": "shop", "uid": "u", "IP": "", "probes": [entry] });
    let listed = [serde_json::from_value(pod).unwrap()];
    convert::wanted(&listed).pods[0].probes[0].clone()
}

fn web(port: Value, path: &str) -> impl FnOnce(&mut Value) {
    let path = path.to_owned();
    move |entry| {
        *entry = json!({
            "name": "m#web",
            "containerName": "main",
            "probe": { "httpGet": { "port": port, "path": path } },
            "podConditionType": "game.io/web",
        });
    }
}

fn verdict_of(entry: &WantedProbe, marker: &MarkerSeen) -> Verdict {
    judge(&pod("u", "shop", "game"), entry, Some(&live()), marker)
}

fn same(_: &mut Value) {}

#[test]
fn what_the_manager_makes_of_a_marker_is_asked_for() {
    let table = [
        ("as it is", entry(same)),
        ("the default in numbers", entry(|entry| entry["probe"]["timeoutSeconds"] = 1.into())),
        (
            "a key that another marker has",
            entry(|entry| {
                entry["markerPolicy"] = json!([{ "state": "Succeeded", "annotations": { "cost": "-10" } }]);
            }),
        ),
        ("a condition that another marker has", entry(|entry| entry["podConditionType"] = Value::Null)),
        ("a port by its number", entry(web(8080.into(), "/x"))),
    ];
    for (case, entry) in table {
        assert_eq!(verdict_of(&entry, &marker(same)), Verdict::Asked, "{case}");
    }
}

#[test]
fn nothing_else_is() {
    let table: [(&str, Change, &str); 15] = [
        ("another command", |entry| entry["probe"]["exec"]["command"] = json!(["sh", "-c", "id"]), "action"),
        (
            "one more argument",
            |entry| entry["probe"]["exec"]["command"] = json!(["test", "-f", "/idle", "x"]),
            "action",
        ),
        (
            "another handler",
            |entry| entry["probe"] = json!({ "tcpSocket": { "port": 80 }, "periodSeconds": 3 }),
            "action",
        ),
        ("another period", |entry| entry["probe"]["periodSeconds"] = 1.into(), "numbers"),
        ("another threshold", |entry| entry["probe"]["failureThreshold"] = 2.into(), "numbers"),
        ("unreadable", |entry| entry["probe"] = json!({}), "action"),
        ("another container", |entry| entry["containerName"] = "side".into(), "another container"),
        ("another condition", |entry| entry["podConditionType"] = "Ready".into(), "conditions"),
        ("another label", |entry| entry["markerPolicy"][0]["labels"] = json!({ "app": "other" }), "labels"),
        ("another value", |entry| entry["markerPolicy"][1]["labels"] = json!({ "idle": "no" }), "labels"),
        ("a key of one state only", |entry| entry["markerPolicy"][1]["labels"] = json!({}), "labels"),
        (
            "one more annotation",
            |entry| entry["markerPolicy"][1]["annotations"] = json!({ "x": "y" }),
            "annotations",
        ),
        ("no probe of the marker", |entry| entry["name"] = "m#other".into(), "no probe of that name"),
        ("no name of a marker", |entry| entry["name"] = "idle".into(), "<PodProbeMarker>#<probe>"),
        ("an empty name of a marker", |entry| entry["name"] = "#idle".into(), "<PodProbeMarker>#<probe>"),
    ];
    for (case, change, says) in table {
        let verdict = verdict_of(&entry(change), &marker(same));
        let Verdict::Not(why) = verdict else { panic!("{case}: {verdict:?}") };
        assert!(why.to_string().contains(says), "{case}: {why}");
    }
}

#[test]
fn a_dial_goes_where_the_marker_says() {
    for entry in [entry(web(8080.into(), "/y")), entry(web(8081.into(), "/x"))] {
        let verdict = verdict_of(&entry, &marker(same));
        assert_eq!(verdict, Verdict::Not(Refusal::Handler(("shop".into(), "m".into()))), "{entry:?}");
    }
}

#[test]
fn a_marker_asks_for_the_pods_it_selects() {
    let table: [(&str, Change, &str); 5] = [
        (
            "selects others",
            |marker| marker["spec"]["selector"] = json!({ "matchLabels": { "app": "other" } }),
            "does not select",
        ),
        (
            "by expression",
            |marker| {
                marker["spec"]["selector"] =
                    json!({ "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["a"] }] });
            },
            "does not select",
        ),
        ("selects all", |marker| marker["spec"]["selector"] = json!({}), "is empty"),
        (
            "no operator",
            |marker| {
                marker["spec"]["selector"] =
                    json!({ "matchExpressions": [{ "key": "tier", "operator": "Is", "values": ["a"] }] });
            },
            "cannot be read",
        ),
        (
            "goes",
            |marker| marker["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(),
            "there is no PodProbeMarker shop/m",
        ),
    ];
    for (case, change, says) in table {
        let verdict = verdict_of(&entry(same), &marker(change));
        let Verdict::Not(why) = verdict else { panic!("{case}: {verdict:?}") };
        assert!(why.to_string().contains(says), "{case}: {why}");
    }
}

#[test]
fn a_pod_is_the_one_of_that_name_namespace_and_uid() {
    let (entry, marker) = (entry(same), marker(same));
    let not = |pod: &PodRef, live: Option<&LivePod>, why| {
        assert_eq!(judge(pod, &entry, live, &marker), Verdict::Not(why), "{pod:?}");
    };
    not(&pod("u", "shop", "game"), None, Refusal::NoPod);
    // The UID of one's victim, with the name of a pod of one's own.
    not(&pod("u", "mine", "game"), Some(&live()), Refusal::OtherPod);
    not(&pod("u", "shop", "other"), Some(&live()), Refusal::OtherPod);
}

#[test]
fn what_is_not_known_is_not_asked_for() {
    let entry = entry(same);
    assert_eq!(verdict_of(&entry, &MarkerSeen::Unheard), Verdict::Open);
    let name: MarkerName = ("shop".into(), "m".into());
    assert_eq!(verdict_of(&entry, &MarkerSeen::Absent), Verdict::Not(Refusal::NoMarker(name)));
    assert_eq!(verdict_of(&entry, &MarkerSeen::Forbidden), Verdict::Not(Refusal::Forbidden));
}
