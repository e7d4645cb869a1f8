//! Hooks that hold pods.

use serde_json::{Value, json};

use super::world::World;
use crate::{
    action::Action,
    lifecycle::State,
    names::{SPECIFIED_DELETE_LABEL, STATE_LABEL},
};

fn hooked(replicas: i32) -> Value {
    json!({ "replicas": replicas, "lifecycle": { "preDelete": { "labelsHandler": { "hook": "true" } } } })
}

fn hold(world: &mut World, pods: &[usize]) {
    for at in pods {
        world.pods[*at].labels.insert("hook".to_owned(), "true".to_owned());
    }
}

#[test]
fn a_pod_that_is_too_many_waits_for_its_hook() {
    let mut world = World::new(hooked(2), "3n");
    hold(&mut world, &[0, 1, 2]);
    assert_eq!(world.effect(), "PreparingDelete n");
    // It is not counted a second time.
    world.pods[0].labels.insert(STATE_LABEL.to_owned(), State::PreparingDelete.name().to_owned());
    assert_eq!(world.effect(), "");
    world.pods[0].labels.remove("hook");
    assert_eq!(world.effect(), "delete n");
}

#[test]
fn a_pod_that_is_needed_again_comes_back() {
    let mut world = World::new(hooked(3), "2n 1nP");
    assert_eq!(world.effect(), "Normal n");
    // Unless somebody wants it gone.
    world.pods[2].labels.insert(SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "");
}

/// OpenKruise deletes no other pod while one is held.
#[test]
fn a_pod_that_is_held_holds_up_no_other_one() {
    let world = World::new(hooked(2), "4n 1ndP");
    assert_eq!(world.effect(), "delete n x2");
}

/// The label keeps it from being called back.
#[test]
fn a_pod_that_is_replaced_is_marked() {
    let mut world = World::new(hooked(3), "3o");
    hold(&mut world, &[0, 1, 2]);
    let plan = world.plan();
    let [Action::PatchPod(_, patch)] = plan.actions.as_slice() else { panic!("{plan:?}") };
    assert_eq!(patch["metadata"]["labels"][STATE_LABEL], "PreparingDelete");
    assert_eq!(patch["metadata"]["labels"][SPECIFIED_DELETE_LABEL], "true");
}

#[test]
fn a_new_pod_counts_when_its_hook_is_there() {
    let spec =
        json!({ "replicas": 1, "lifecycle": { "preNormal": { "labelsHandler": { "joined": "true" } } } });
    let mut world = World::new(spec, "1n");
    let pod = World::new(world_spec(&world), "").plan();
    let Some(Action::CreatePod(pod)) = pod.actions.first() else { panic!("{pod:?}") };
    assert_eq!(pod["metadata"]["labels"][STATE_LABEL], "PreparingNormal");
    let state = |world: &mut World, state: State| {
        world.pods[0].labels.insert(STATE_LABEL.to_owned(), state.name().to_owned());
    };
    state(&mut world, State::PreparingNormal);
    assert_eq!(world.effect(), "");
    assert_eq!(world.plan().status.unwrap().available_replicas, 0);
    world.pods[0].labels.insert("joined".to_owned(), "true".to_owned());
    assert_eq!(world.effect(), "Normal n");
    state(&mut world, State::Normal);
    assert_eq!(world.plan().status.unwrap().available_replicas, 1);
}

fn world_spec(world: &World) -> Value {
    serde_json::to_value(&world.set.spec).unwrap()
}

#[test]
fn pods_are_named_by_their_set_or_their_label() {
    let spec = json!({ "replicas": 3, "scaleStrategy": { "podsToDelete": ["p1", "gone"] } });
    let world = World::new(spec, "4n");
    assert_eq!(world.effect(), "delete n, keep [\"p1\"]");
}

#[test]
fn a_pod_that_is_not_selected_any_more_is_given_free_and_replaced() {
    let mut world = World::new(json!({ "replicas": 3 }), "3n");
    world.pods[0].labels.insert("app".to_owned(), "other".to_owned());
    assert_eq!(world.effect(), "release n, create n");
    // Not while all are about to go.
    world.set.metadata.deletion_timestamp =
        Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(super::world::NOW));
    assert_eq!(world.effect(), "");
}

/// All of them wait for their update, and none is called back. Twenty times as many take about twenty times
/// as long, not four hundred.
#[test]
fn many_pods_that_are_held_take_little_time() {
    let hook = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    let seconds = |pods: usize, passes: usize| {
        let spec = json!({
            "replicas": pods, "lifecycle": hook,
            "updateStrategy": { "type": "InPlaceIfPossible", "maxUnavailable": "100%" },
        });
        let mut world = World::new(spec, &format!("{pods}o"));
        for pod in &mut world.pods {
            pod.labels.insert("hook".to_owned(), "true".to_owned());
            pod.labels.insert(STATE_LABEL.to_owned(), State::PreparingUpdate.name().to_owned());
        }
        let begin = processor_seconds();
        for _ in 0..passes {
            assert_eq!(world.effect(), "");
        }
        processor_seconds() - begin
    };
    // As many pods on either side: the clock of a thread is exact to some milliseconds.
    let (few, many) = (seconds(1000, 20), seconds(20_000, 1));
    assert!(many < 3.0 * few, "{few} {many}");
}

/// Time that this thread was on a processor: what else the computer does is no part of it (first field of
/// `schedstat`, in nanoseconds).
fn processor_seconds() -> f64 {
    let of_thread = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    of_thread.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1e9
}
