use rstest::rstest;
use serde_json::{Value, json};

use super::*;

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
    asked::wanted(&listed).pods[0].probes[0].clone()
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

#[rstest]
#[case::as_it_is(entry(same))]
#[case::the_default_in_numbers(entry(|entry| entry["probe"]["timeoutSeconds"] = 1.into()))]
#[case::a_key_that_another_marker_has(entry(|entry| {
    entry["markerPolicy"] = json!([{ "state": "Succeeded", "annotations": { "cost": "-10" } }]);
}))]
#[case::a_condition_that_another_marker_has(entry(|entry| entry["podConditionType"] = Value::Null))]
#[case::a_port_by_its_number(entry(web(8080.into(), "/x")))]
fn what_the_manager_makes_of_a_marker_is_asked_for(#[case] entry: WantedProbe) {
    assert_eq!(verdict_of(&entry, &marker(same)), Verdict::Asked);
}

#[rstest]
#[case::another_command(|entry: &mut Value| entry["probe"]["exec"]["command"] = json!(["sh", "-c", "id"]), "action")]
#[case::one_more_argument(|entry: &mut Value| entry["probe"]["exec"]["command"] = json!(["test", "-f", "/idle", "x"]), "action")]
#[case::another_handler(|entry: &mut Value| entry["probe"] = json!({ "tcpSocket": { "port": 80 }, "periodSeconds": 3 }), "action")]
#[case::another_period(|entry: &mut Value| entry["probe"]["periodSeconds"] = 1.into(), "numbers")]
#[case::another_threshold(|entry: &mut Value| entry["probe"]["failureThreshold"] = 1.into(), "numbers")]
#[case::unreadable(|entry: &mut Value| entry["probe"] = json!({}), "action")]
#[case::another_container(|entry: &mut Value| entry["containerName"] = "side".into(), "another container")]
#[case::another_condition(|entry: &mut Value| entry["podConditionType"] = "Ready".into(), "conditions")]
#[case::another_label(|entry: &mut Value| entry["markerPolicy"][0]["labels"] = json!({ "app": "other" }), "labels")]
#[case::another_value(|entry: &mut Value| entry["markerPolicy"][1]["labels"] = json!({ "idle": "no" }), "labels")]
#[case::a_key_of_one_state_only(|entry: &mut Value| entry["markerPolicy"][1]["labels"] = json!({}), "labels")]
#[case::one_more_annotation(|entry: &mut Value| entry["markerPolicy"][1]["annotations"] = json!({ "x": "y" }), "annotations")]
#[case::no_probe_of_the_marker(|entry: &mut Value| entry["name"] = "m#other".into(), "no probe of that name")]
#[case::no_name_of_a_marker(|entry: &mut Value| entry["name"] = "idle".into(), "<PodProbeMarker>#<probe>")]
#[case::an_empty_name_of_a_marker(|entry: &mut Value| entry["name"] = "#idle".into(), "<PodProbeMarker>#<probe>")]
fn nothing_else_is(#[case] change: fn(&mut Value), #[case] says: &str) {
    let verdict = verdict_of(&entry(change), &marker(same));
    let Verdict::Not(why) = verdict else { panic!("{verdict:?}") };
    assert!(why.to_string().contains(says), "{why}");
}

#[rstest]
#[case::another_path(entry(web(8080.into(), "/y")))]
#[case::another_port(entry(web(8081.into(), "/x")))]
fn a_dial_goes_where_the_marker_says(#[case] entry: WantedProbe) {
    let verdict = verdict_of(&entry, &marker(same));
    assert_eq!(verdict, Verdict::Not(Refusal::Handler(("shop".into(), "m".into()))));
}

#[rstest]
#[case::selects_others(|marker: &mut Value| marker["spec"]["selector"] = json!({ "matchLabels": { "app": "other" } }), "does not select")]
#[case::by_expression(|marker: &mut Value| {
    marker["spec"]["selector"] = json!({ "matchExpressions": [{ "key": "tier", "operator": "NotIn", "values": ["a"] }] });
}, "does not select")]
#[case::selects_all(|marker: &mut Value| marker["spec"]["selector"] = json!({}), "is empty")]
#[case::no_operator(|marker: &mut Value| {
    marker["spec"]["selector"] = json!({ "matchExpressions": [{ "key": "tier", "operator": "Is", "values": ["a"] }] });
}, "cannot be read")]
#[case::goes(|marker: &mut Value| marker["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into(), "there is no PodProbeMarker shop/m")]
fn a_marker_asks_for_the_pods_it_selects(#[case] change: fn(&mut Value), #[case] says: &str) {
    let verdict = verdict_of(&entry(same), &marker(change));
    let Verdict::Not(why) = verdict else { panic!("{verdict:?}") };
    assert!(why.to_string().contains(says), "{why}");
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
