use rstest::rstest;

use super::*;

fn request(spec: Value) -> Request {
    let object = json!({
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "ContainerRecreateRequest",
        "metadata": {"name": "r", "namespace": "n"}, "spec": spec,
    });
    Request { uid: "u".to_owned(), object, ..Request::default() }
}

fn pod() -> Pod {
    let status = |name: &str, id: &str, restarts: i32| json!({"name": name, "containerID": id, "restartCount": restarts, "image": "i", "imageID": "i", "ready": true});
    serde_json::from_value(json!({
        "metadata": {"name": "p", "namespace": "n", "uid": "pod-uid"},
        "spec": {
            "nodeName": "node-a",
            "terminationGracePeriodSeconds": 45,
            "initContainers": [
                {"name": "sidecar", "image": "i", "restartPolicy": "Always"},
                {"name": "init", "image": "i"},
            ],
            "containers": [
                {"name": "a", "image": "i", "ports": [{"name": "http", "containerPort": 80}],
                    "lifecycle": {"preStop": {"httpGet": {"path": "/stop", "port": "http"}}}},
                {"name": "b", "image": "i", "ports": [{"containerPort": 81}],
                    "lifecycle": {"preStop": {"exec": {"command": ["stop"]}}}},
                {"name": "late", "image": "i"},
            ],
        },
        "status": {
            "initContainerStatuses": [status("sidecar", "containerd://s", 3), status("init", "containerd://i", 0)],
            "containerStatuses": [status("a", "containerd://a", 1), status("b", "containerd://b", 0)],
        },
    }))
    .unwrap()
}

fn completed(spec: Value) -> Value {
    match complete(&request(spec), Found::Pod(&pod())) {
        Verdict::Allowed { object: Some(object), warnings } if warnings.is_empty() => object,
        other => panic!("{other:?}"),
    }
}

#[rstest]
#[case::http_hook_with_its_ports("a", json!({"name": "a",
    "statusContext": {"containerID": "containerd://a", "restartCount": 1},
    "preStop": {"httpGet": {"path": "/stop", "port": "http"}},
    "ports": [{"name": "http", "containerPort": 80}]}))]
#[case::another_hook_without("b", json!({"name": "b",
    "statusContext": {"containerID": "containerd://b", "restartCount": 0},
    "preStop": {"exec": {"command": ["stop"]}}}))]
#[case::a_sidecar("sidecar", json!({"name": "sidecar",
    "statusContext": {"containerID": "containerd://s", "restartCount": 3}}))]
fn a_container(#[case] name: &str, #[case] filled: Value) {
    let object = completed(json!({"podName": "p", "containers": [{"name": name}]}));
    assert_eq!(object["spec"]["containers"], json!([filled]));
    let labels = json!({POD_UID: "pod-uid", NODE_NAME: "node-a", ACTIVE: "true"});
    assert_eq!(object["metadata"]["labels"], labels);
    assert_eq!(object["spec"]["strategy"]["terminationGracePeriodSeconds"], 45);
    assert_eq!(
        serde_json::from_value::<ContainerRecreateRequestSpec>(object["spec"].clone()).unwrap().check(),
        Ok(())
    );
}

#[test]
fn what_the_author_says_stays() {
    let spec = json!({"podName": "p", "containers": [{"name": "b"}, {"name": "a"}],
        "strategy": {"terminationGracePeriodSeconds": 5, "failurePolicy": "Ignore"}});
    let strategy = spec["strategy"].clone();
    let object = completed(spec);
    assert_eq!(object["spec"]["strategy"], strategy);
    assert_eq!(object["spec"]["containers"][0]["name"], "b");
    let mut asked = request(json!({"podName": "p", "containers": [{"name": "a"}]}));
    asked.object["metadata"]["labels"] = json!({"mine": "x"});
    let Verdict::Allowed { object: Some(object), .. } = complete(&asked, Found::Pod(&pod())) else {
        panic!()
    };
    assert_eq!(object["metadata"]["labels"]["mine"], "x");
}

#[test]
fn an_ordered_one_is_in_the_order_of_the_pod() {
    let names = ["b", "sidecar", "a"].map(|name| json!({"name": name}));
    let object =
        completed(json!({"podName": "p", "containers": names, "strategy": {"orderedRecreate": true}}));
    let order: Vec<_> =
        object["spec"]["containers"].as_array().unwrap().iter().map(|one| one["name"].as_str()).collect();
    assert_eq!(order, [Some("sidecar"), Some("a"), Some("b")]);
}

#[rstest]
#[case::context(json!({"name": "a", "statusContext": {"containerID": "x", "restartCount": 0}}), "spec.containers[0].statusContext")]
#[case::hook(json!({"name": "a", "preStop": {"exec": {"command": ["x"]}}}), "spec.containers[0].preStop")]
#[case::ports(json!({"name": "a", "ports": [{"containerPort": 1}]}), "spec.containers[0].ports")]
fn what_an_author_filled_in_is_refused(#[case] container: Value, #[case] field: &str) {
    let asked = request(json!({"podName": "p", "containers": [container.clone()]}));
    let refused = complete(&asked, Found::Pod(&pod()));
    let Verdict::Refused { code: 422, message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.starts_with(field), "{message}");
    // With the label of OpenKruise's webhook it is read anew.
    let mut asked = asked;
    asked.object["metadata"]["labels"] = json!({POD_UID: "of another pod"});
    let Verdict::Allowed { object: Some(object), .. } = complete(&asked, Found::Pod(&pod())) else {
        panic!()
    };
    assert_eq!(object["spec"]["containers"][0]["statusContext"]["containerID"], "containerd://a");
    assert_eq!(object["metadata"]["labels"][POD_UID], "pod-uid");
}

#[rstest]
#[case::one_that_has_not_started("late", json!({}), "container \"late\" of pod \"p\" has never started")]
#[case::with_an_empty_id("late", json!({"status": {"containerStatuses": [{"name": "late", "containerID": "",
    "restartCount": 0, "image": "i", "imageID": "", "ready": false}]}}), "has never started")]
#[case::an_init_container("init", json!({}), "is an init container that runs once")]
#[case::none_of_the_pod("z", json!({}), "container \"z\" is not in pod \"p\"")]
#[case::without_a_node("a", json!({"spec": {"nodeName": ""}}), "is not scheduled to a node yet")]
#[case::of_a_pod_that_ended("a", json!({"status": {"phase": "Failed"}}), "has ended")]
#[case::of_one_being_deleted("a", json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}), "is being deleted")]
fn one_that_nobody_can_carry_out_is_refused(#[case] name: &str, #[case] merge: Value, #[case] text: &str) {
    let mut of = serde_json::to_value(pod()).unwrap();
    for (section, members) in merge.as_object().unwrap() {
        for (member, value) in members.as_object().unwrap() {
            of[section][member] = value.clone();
        }
    }
    let asked = request(json!({"podName": "p", "containers": [{"name": name}]}));
    let refused = complete(&asked, Found::Pod(&serde_json::from_value(of).unwrap()));
    let Verdict::Refused { code: 400, message, .. } = &refused else { panic!("{refused:?}") };
    assert!(message.contains(text), "{message}");
}

#[test]
fn one_whose_pod_is_not_there_is_refused_and_one_whose_pod_was_not_read_is_let_in() {
    let asked = request(json!({"podName": "gone", "containers": [{"name": "a"}]}));
    let Verdict::Refused { code: 400, message, .. } = complete(&asked, Found::Nothing) else { panic!() };
    assert!(message.starts_with("pod \"gone\" is not in namespace"), "{message}");
    let Verdict::Allowed { object: None, warnings } = complete(&asked, Found::Unknown) else { panic!() };
    assert!(warnings[0].contains("\"gone\""), "{warnings:?}");
}

/// The definition says what is wrong with it.
#[test]
fn one_that_cannot_be_read_is_let_in() {
    let twice = json!({"podName": "p", "containers": [{"name": "a"}, {"name": "b"}, {"name": "a"}]});
    for spec in [json!(null), json!({}), json!({"podName": 1}), json!([1]), twice] {
        assert_eq!(complete(&request(spec), Found::Pod(&pod())), Verdict::AS_IT_IS);
    }
    let mut long = pod();
    long.spec.as_mut().unwrap().node_name = Some("n".repeat(64));
    let asked = request(json!({"podName": "p", "containers": [{"name": "a"}]}));
    let Verdict::Allowed { object: Some(object), .. } = complete(&asked, Found::Pod(&long)) else { panic!() };
    assert_eq!(object["metadata"]["labels"].get(NODE_NAME), None);
}
