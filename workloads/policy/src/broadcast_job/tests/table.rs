//! Tables of cases.

use std::time::Duration;

use rstest::rstest;
use serde_json::{Value, json};

use super::{
    super::Plan,
    world::{World, node},
};
use crate::jobs::{Action, Kind};

const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];

#[test]
fn a_pod_is_built_of_the_template_and_its_node() {
    let world = World::new(&["a"], json!({}));
    let plan = world.plan();
    let [Action::Create(Kind::Pod, pod)] = &plan.actions[..] else { panic!("{plan:?}") };
    assert!(pod["metadata"]["name"].as_str().unwrap().starts_with("sweep-"));
    assert_eq!(
        pod["metadata"]["labels"],
        json!({
            "app": "sweep", "broadcastjob-name": "sweep", "broadcastjob-controller-uid": "u",
        })
    );
    assert_eq!(
        pod["metadata"]["ownerReferences"],
        json!([{
            "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "name": "sweep", "uid": "u",
            "controller": true, "blockOwnerDeletion": true,
        }])
    );
    let terms =
        "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    assert_eq!(
        pod.pointer(terms),
        Some(&json!([{
            "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["a"] }],
        }]))
    );
    assert_eq!(pod["spec"]["aFieldOfLater"], 1);
    // That it began is on file before its first pod.
    assert!(plan.status_first && plan.status.unwrap().start_time.is_some());
}

/// Nodes that a pod is made on, of five.
#[rstest]
#[case::all(json!({}), &FIVE)]
#[case::half(json!({ "parallelism": "50%" }), &["a", "b", "c"])]
#[case::two(json!({ "parallelism": 2 }), &["a", "b"])]
#[case::a_little(json!({ "parallelism": "1%" }), &["a"])]
#[case::none(json!({ "parallelism": 0 }), &[])]
#[case::paused(json!({ "paused": true }), &[])]
#[case::by_label(template(json!({ "nodeSelector": { "zone": "b" } })), &[])]
#[case::by_name(template(json!({ "nodeName": "b" })), &["b"])]
#[case::too_large(template(json!({ "containers": [{ "resources": { "requests": { "cpu": "3" } } }] })), &[])]
#[case::a_thing_that_no_node_has(
    template(json!({ "containers": [{ "resources": { "limits": { "example.com/gpu": 1 } } }] })), &[])]
fn where_pods_are_made(#[case] spec: Value, #[case] nodes: &[&str]) {
    let mut world = World::new(&FIVE, spec);
    world.settle();
    assert_eq!(world.made, nodes);
}

fn template(more: Value) -> Value {
    let mut spec = json!({ "restartPolicy": "Never", "containers": [] });
    spec.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
    json!({ "template": { "spec": spec } })
}

/// Nodes that do not fit at first and become fit; OpenKruise looks at few of these changes.
#[rstest]
#[case::cordoned(json!({ "spec": { "unschedulable": true } }), json!([]))]
#[case::not_ready(json!({ "spec": { "taints": [
    { "key": "node.kubernetes.io/not-ready", "effect": "NoSchedule" }] } }), json!([]))]
#[case::evicted(json!({ "spec": { "taints": [{ "key": "x", "effect": "NoExecute" }] } }), json!([]))]
#[case::virtual_node(json!({ "spec": { "taints": [
    { "key": "virtual-kubelet.io/provider", "value": "x", "effect": "NoSchedule" }] } }), json!([]))]
#[case::small(json!({ "status": { "allocatable": { "cpu": "500m" } } }), json!([]))]
#[case::full(json!({ "status": { "allocatable": { "cpu": "4", "pods": "0" } } }), json!([]))]
#[case::of_no_room(json!({ "status": { "allocatable": { "cpu": "4" } } }), json!([]))]
fn a_node_that_becomes_fit(#[case] flaw: Value, #[case] tolerations: Value) {
    let mut spec = template(json!({ "containers": [{ "resources": { "requests": { "cpu": "1" } } }] }));
    spec["template"]["spec"]["tolerations"] = tolerations;
    let mut world = World::new(&["a", "b"], spec);
    let flawed = world.nodes.get_mut("b").unwrap();
    for (key, value) in flaw.as_object().unwrap() {
        flawed[key] = value.clone();
    }
    world.settle();
    assert_eq!(world.made, ["a"]);
    world.is("running", 1, 1, 0, 0);
    world.nodes.insert("b".to_owned(), node("b"));
    world.settle();
    assert_eq!(world.made, ["a", "b"]);
    world.is("running", 2, 2, 0, 0);
}

#[rstest]
#[case::a_cordon(json!({ "unschedulable": true }), json!([{ "key": "node.kubernetes.io/unschedulable", "operator": "Exists" }]))]
#[case::virtual_nodes(json!({ "taints": [{ "key": "virtual-kubelet.io/provider", "value": "x", "effect": "NoSchedule" }] }),
    json!([{ "key": "virtual-kubelet.io/provider", "operator": "Exists", "effect": "NoSchedule" }]))]
#[case::everything(json!({ "unschedulable": true, "taints": [{ "key": "x", "effect": "NoExecute" }] }),
    json!([{ "operator": "Exists" }]))]
fn a_node_that_is_tolerated(#[case] of_node: Value, #[case] tolerations: Value) {
    let mut world = World::new(&["a"], template(json!({ "tolerations": tolerations })));
    world.nodes.get_mut("a").unwrap()["spec"] = of_node;
    world.settle();
    assert_eq!(world.made, ["a"]);
}

/// A pod that runs goes on through a cordon and a taint; one that waits for its node, or whose node has other
/// labels now, goes.
#[rstest]
#[case::cordoned(json!({ "spec": { "unschedulable": true } }), &[], &["a"])]
#[case::tainted(json!({ "spec": { "taints": [{ "key": "x", "effect": "NoSchedule" }] } }), &[], &["a"])]
#[case::evicted(json!({ "spec": { "taints": [{ "key": "x", "effect": "NoExecute" }] } }), &[], &["a"])]
#[case::relabelled(json!({ "metadata": { "name": "a", "labels": { "zone": "b" } } }), &["a"], &["a"])]
#[case::gone(Value::Null, &[], &["a"])]
fn a_node_that_fits_no_more(#[case] change: Value, #[case] running: &[&str], #[case] waiting: &[&str]) {
    for (bound, deleted) in [(true, running), (false, waiting)] {
        let mut world = World::new(&["a", "b"], template(json!({ "nodeSelector": { "zone": "a" } })));
        world.settle();
        world.pod("a").bound = bound;
        match change.as_object() {
            Some(fields) => {
                let node = world.nodes.get_mut("a").unwrap();
                fields.iter().for_each(|(key, value)| node[key] = value.clone());
            }
            None => {
                world.nodes.remove("a");
            }
        }
        world.settle();
        assert_eq!(world.deleted, deleted, "bound: {bound}");
        assert_eq!(world.job.status.as_ref().unwrap().desired, 1);
        // What ended there stays, and is not failed for it.
        let mut world = World::new(&["a", "b"], template(json!({ "nodeSelector": { "zone": "a" } })));
        world.settle();
        world.end(&["a"]);
        world.nodes.get_mut("a").unwrap()["metadata"]["labels"] = json!({});
        world.settle();
        assert!(world.deleted.is_empty());
        world.is("running", 1, 1, 1, 0);
    }
}

#[test]
fn it_completes_when_every_node_is_done() {
    let mut world = World::new(&FIVE, json!({ "failurePolicy": { "type": "Continue" } }));
    world.settle();
    world.end(&["a", "b", "c", "f:d"]);
    world.settle();
    world.is("running", 5, 1, 3, 1);
    world.end(&["f:e"]);
    let plan = world.plan();
    assert!(plan.notes.iter().any(|note| note.reason == "JobComplete"));
    world.settle();
    world.is("completed", 5, 0, 3, 2);
    assert_eq!(world.reason().as_deref(), Some("Complete"));
    assert!(world.message().unwrap().starts_with("Job completed, "), "{:?}", world.message());
    assert!(world.job.status.as_ref().unwrap().completion_time.is_some());
    // It stays so, whatever comes.
    world.nodes.insert("f".to_owned(), node("f"));
    assert_eq!(world.settle(), Plan::default());
}

#[test]
fn one_that_never_completes_serves_new_nodes() {
    let mut world = World::new(&["a"], json!({ "completionPolicy": { "type": "Never" } }));
    world.settle();
    world.end(&["a"]);
    world.settle();
    world.is("running", 1, 0, 1, 0);
    world.nodes.insert("b".to_owned(), node("b"));
    world.settle();
    world.is("running", 2, 1, 1, 0);
}

#[test]
fn without_a_node_it_goes_on() {
    let mut world = World::new(&[], json!({}));
    world.settle();
    world.is("running", 0, 0, 0, 0);
}

#[test]
fn the_share_is_filled_again() {
    let mut world = World::new(&FIVE, json!({ "parallelism": "40%" }));
    world.settle();
    assert_eq!(world.made, ["a", "b"]);
    world.end(&["a"]);
    world.settle();
    assert_eq!(world.made, ["a", "b", "c"]);
    // One that is going runs still, and its node is not empty.
    world.pod("b").terminating = true;
    world.settle();
    assert_eq!(world.made, ["a", "b", "c", "d"]);
    let name = world.pod("b").name.clone();
    world.pods.remove(&name);
    world.settle();
    assert_eq!(world.made, ["a", "b", "c", "d"]);
    world.end(&["c"]);
    world.settle();
    assert_eq!(world.made, ["a", "b", "c", "d", "b"]);
}

/// A pod that failed fails the job: that is on file first, and then the others go.
#[test]
fn the_first_failure_ends_the_job() {
    let mut world = World::new(&["a", "b", "c", "d"], json!({}));
    world.settle();
    world.end(&["a", "f:b"]);
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.status_first, "{plan:?}");
    let why = "failure policy is FailurePolicyTypeFailFast and failed pod is found";
    let note = &plan.notes[0];
    let told = format!("{why}: 1 pods succeeded, 3 pods failed");
    assert_eq!((note.warning, note.reason, &note.text), (true, "failed pod is found", &told));
    world.carry_out(&plan, usize::MAX);
    // Whoever goes on from here decides the same.
    world.is("failed", 4, 0, 1, 3);
    assert_eq!((world.reason().as_deref(), world.message().as_deref()), (Some("Failed"), Some(why)));
    world.settle();
    assert_eq!((world.deleted.len(), world.made.len()), (2, 4));
    world.is("failed", 4, 0, 1, 3);
}

/// It rests on file, and goes on when somebody has paused it and lets it go. OpenKruise forgets it with the
/// next status, and cannot go on while the failed pod is there.
#[test]
fn a_failure_pauses_until_it_is_let_go() {
    let spec = json!({ "parallelism": 1, "failurePolicy": { "type": "Pause" } });
    let mut world = World::new(&["a", "b", "c"], spec);
    world.settle();
    world.end(&["f:a"]);
    assert_eq!(world.plan().notes[0].reason, "Paused");
    world.settle();
    world.is("paused", 3, 0, 0, 1);
    assert!(world.plan().notes.is_empty());
    world.job.spec.paused = Some(true);
    world.settle();
    world.is("paused", 3, 0, 0, 1);
    world.job.spec.paused = Some(false);
    assert_eq!(world.plan().notes[0].reason, "Continue");
    world.settle();
    assert_eq!(world.made, ["a", "b"]);
    world.is("running", 3, 1, 0, 1);
    // The next failure is another one.
    world.end(&["f:b"]);
    world.settle();
    world.is("paused", 3, 0, 0, 2);
    // With its pod the failure goes too: its node has another try.
    let name = world.pod("b").name.clone();
    world.pods.remove(&name);
    world.settle();
    assert_eq!(world.made, ["a", "b", "b"]);
    world.end(&["b"]);
    world.settle();
    world.end(&["c"]);
    world.settle();
    world.is("completed", 3, 0, 2, 1);
}

/// A pod that was restarted too often has failed, and does not keep the job from its end; in OpenKruise it
/// does, without end.
#[rstest]
#[case::within(3, "running", 1, 0)]
#[case::over(4, "completed", 0, 1)]
fn a_pod_that_is_restarted(
    #[case] restarts: i64,
    #[case] phase: &str,
    #[case] active: i32,
    #[case] failed: i32,
) {
    let spec = json!({
        "template": { "spec": { "restartPolicy": "OnFailure", "containers": [] } },
        "failurePolicy": { "type": "Continue", "restartLimit": 3 },
    });
    let mut world = World::new(&["a", "b"], spec);
    world.settle();
    world.end(&["b"]);
    let pod = world.pod("a");
    (pod.bound, pod.restarts, pod.restarts_on_failure) = (true, restarts, true);
    world.settle();
    world.is(phase, 2, active, 1, failed);
    // It does not run on after the end.
    let deleted: &[&str] = if failed > 0 { &["a"] } else { &[] };
    assert_eq!(world.deleted, deleted);
}

#[test]
fn the_deadline_counts_from_the_start() {
    let spec = json!({ "completionPolicy": { "activeDeadlineSeconds": 60, "ttlSecondsAfterFinished": 5 } });
    let mut world = World::new(&["a", "b"], spec);
    assert_eq!(world.settle().again, Some(Duration::from_millis(60_001)));
    world.end(&["a"]);
    world.later(59);
    // A controller that begins now knows it still.
    assert_eq!(world.settle().again, Some(Duration::from_millis(1001)));
    world.later(1);
    world.settle();
    world.is("failed", 2, 0, 1, 1);
    let why = "Job ns/sweep was active longer than specified deadline";
    assert_eq!((world.reason().as_deref(), world.message().as_deref()), (Some("Failed"), Some(why)));
    assert_eq!(world.deleted, ["b"]);
    world.later(4);
    world.settle();
    assert!(!world.is_gone);
    world.later(1);
    world.settle();
    assert!(world.is_gone);
}

#[test]
fn without_time_to_live_it_goes_at_its_end() {
    let mut world = World::new(&["a"], json!({ "completionPolicy": { "ttlSecondsAfterFinished": 0 } }));
    world.settle();
    world.end(&["a"]);
    world.settle();
    assert!(world.is_gone);
}

/// While it is paused nothing is made, and what runs goes on; nothing fails for its time.
#[test]
fn paused_by_hand() {
    let spec = json!({ "parallelism": 1, "completionPolicy": { "activeDeadlineSeconds": 60 } });
    let mut world = World::new(&["a", "b"], spec);
    world.settle();
    world.job.spec.paused = Some(true);
    world.later(100);
    world.end(&["a"]);
    world.settle();
    world.is("paused", 2, 0, 1, 0);
    world.job.spec.paused = None;
    world.settle();
    world.is("failed", 2, 0, 1, 0);
}

#[test]
fn one_that_is_going_is_left_alone() {
    let mut world = World::new(&["a"], json!({}));
    world.job.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    assert_eq!(world.plan(), Plan::default());
}

#[rstest]
#[case(json!({ "template": { "spec": {} } }), "spec.template.spec.restartPolicy is neither")]
#[case(template(json!({ "restartPolicy": "Always" })), "spec.template.spec.restartPolicy is neither")]
#[case(template(json!({ "tolerations": vec![json!({ "operator": "Exists" }); 1025] })),
    "spec.template.spec has 1025 tolerations, nodeSelectorTerms and requirements")]
#[case(json!({ "parallelism": "1e9%" }), "spec.parallelism is 1e9%")]
#[case(json!({ "parallelism": "-5%" }), "spec.parallelism is -5%")]
#[case(json!({ "parallelism": " 5 %" }), "spec.parallelism is  5 %")]
#[case(json!({ "parallelism": "" }), "spec.parallelism is ")]
#[case(json!({ "template": { "metadata": { "labels": { "broadcastjob-name": "x" } } } }),
    "spec.template.metadata.labels has broadcastjob-name")]
#[case(json!({ "parallelism": -1 }), "spec.parallelism is -1")]
#[case(json!({ "parallelism": "many" }), "spec.parallelism is many")]
#[case(json!({ "completionPolicy": { "type": "Sometimes" } }), "spec.completionPolicy.type is \"Sometimes\"")]
#[case(json!({ "completionPolicy": { "type": "Never", "activeDeadlineSeconds": 1 } }),
    "spec.completionPolicy.activeDeadlineSeconds is only for type Always")]
#[case(json!({ "completionPolicy": { "activeDeadlineSeconds": -1 } }),
    "spec.completionPolicy.activeDeadlineSeconds is -1")]
#[case(json!({ "completionPolicy": { "ttlSecondsAfterFinished": -1 } }),
    "spec.completionPolicy.ttlSecondsAfterFinished is -1")]
#[case(json!({ "failurePolicy": { "type": "Weep" } }), "spec.failurePolicy.type is \"Weep\"")]
fn bad_input_is_told_and_harms_nothing(#[case] spec: Value, #[case] why: &str) {
    let mut world = World::new(&["a"], spec);
    let plan = world.plan();
    assert!(plan.actions.is_empty() && plan.notes[0].text.starts_with(why), "{plan:?}");
    assert!(plan.notes[0].text.contains(": give ") || plan.notes[0].text.contains(": leave "), "{plan:?}");
    world.carry_out(&plan, usize::MAX);
    assert_eq!(world.reason().as_deref(), Some("InvalidSpec"));
    // It is told once.
    assert_eq!(world.plan(), Plan::default());
}

/// No number that an author writes makes a sum overflow.
#[test]
fn the_largest_numbers() {
    let spec = json!({
        "parallelism": i32::MAX,
        "completionPolicy": { "activeDeadlineSeconds": i64::MAX, "ttlSecondsAfterFinished": i32::MAX },
        "failurePolicy": { "type": "Pause", "restartLimit": i32::MAX },
        "template": { "spec": { "restartPolicy": "Never", "containers": [
            { "resources": { "requests": { "cpu": "9e99" } } },
            { "resources": { "requests": { "cpu": "9e99" } } },
        ]}},
    });
    let mut world = World::new(&FIVE, spec);
    world.settle();
    world.is("running", 0, 0, 0, 0);
}
