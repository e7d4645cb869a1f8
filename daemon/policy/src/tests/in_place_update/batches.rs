//! Batches: which container goes when, and with how many restarts.

use std::time::Duration;

use super::world::{World, told, update};
use crate::in_place_update::{Gate, Liveness, Next, Record, Update, Why};

type Containers<'a> = &'a [(&'a str, Option<i32>, &'a [&'a str])];
type Pairs<'a> = &'a [(&'a str, &'a str)];

#[test]
fn batches_follow_the_launch_order() {
    // Containers, new images, new annotations, the steps between "not ready" and "ready", restarts.
    type Row<'a> = (Containers<'a>, Pairs<'a>, Pairs<'a>, &'a [&'a str], &'a [u32]);
    let table: &[Row<'_>] = &[
        // No priorities, no order.
        (&[("a", None, &[]), ("b", None, &[])], &[("a", "x"), ("b", "y")], &[], &["patch x y"], &[1, 1]),
        // Equal ones are one batch.
        (
            &[("a", Some(3), &[]), ("b", Some(3), &[])],
            &[("a", "x"), ("b", "y")],
            &[],
            &["patch x y"],
            &[1, 1],
        ),
        // The highest first, wherever it stands.
        (
            &[("a", Some(-1), &[]), ("b", Some(5), &[]), ("c", Some(0), &[])],
            &[("a", "x"), ("b", "y"), ("c", "z")],
            &[],
            &["patch y", "patch z", "patch x"],
            &[1, 1, 1],
        ),
        // Only those that change.
        (
            &[("a", Some(2), &["k"]), ("b", Some(1), &[]), ("c", Some(0), &[])],
            &[("a", "a:1"), ("c", "z")],
            &[("k", "1")],
            &["patch z"],
            &[0, 0, 1],
        ),
        // One without a priority does not wait.
        (
            &[("a", None, &[]), ("b", Some(1), &[]), ("c", Some(0), &[])],
            &[("a", "x"), ("b", "y"), ("c", "z")],
            &[],
            &["patch x y", "patch z"],
            &[1, 1, 1],
        ),
        // Image and env together: one restart, by the kubelet.
        (&[("a", None, &["k"])], &[("a", "x")], &[("k", "2")], &["patch x k=2"], &[1]),
        // Env alone.
        (
            &[("a", Some(1), &["k"]), ("b", Some(0), &["l"])],
            &[],
            &[("k", "2"), ("l", "2")],
            &["patch k=2", "recreate a", "patch l=2", "recreate b"],
            &[1, 1],
        ),
        // In one batch, each as it needs it.
        (
            &[("a", None, &["k"]), ("b", None, &["k"]), ("c", None, &[])],
            &[("b", "y")],
            &[("k", "2")],
            &["patch y k=2", "recreate a"],
            &[1, 1, 0],
        ),
        // Who reads a changed key cannot wait, nor who shares another one with that.
        (
            &[
                ("a", Some(3), &["k"]),
                ("b", Some(2), &[]),
                ("c", Some(1), &["k", "l"]),
                ("d", Some(0), &["l"]),
            ],
            &[("b", "y"), ("d", "z")],
            &[("k", "2"), ("l", "2")],
            &["patch z k=2 l=2", "recreate a c", "patch y"],
            &[1, 1, 1, 1],
        ),
        // Sharing a key that is not changed joins nobody.
        (
            &[("a", Some(1), &["k", "same"]), ("b", Some(0), &["same"])],
            &[("b", "y")],
            &[("k", "2"), ("same", "1")],
            &["patch k=2", "recreate a", "patch y"],
            &[1, 1],
        ),
        // What nobody reads goes with the first batch.
        (
            &[("a", Some(1), &[]), ("b", Some(0), &[])],
            &[("a", "x"), ("b", "y")],
            &[("unread", "2")],
            &["patch x unread=2", "patch y"],
            &[1, 1],
        ),
    ];
    for (containers, images, annotations, expected, restarts) in table {
        let mut world = World::of(containers);
        let update = update("r", images, annotations);
        let (steps, end) = world.play(&update, &[]);
        assert_eq!(end, Next::Done, "{expected:?}");
        let told = told(&steps);
        let begin = told.iter().position(|step| step == "not ready").unwrap();
        assert_eq!(&told[begin + 1..told.len() - 1], *expected);
        assert_eq!(told.last().unwrap(), "ready");
        assert!(told[..begin].iter().all(|step| step.starts_with("pull ")), "{told:?}");
        assert_eq!(world.restarts(), *restarts, "{expected:?}");
        world.is_what_is_wanted(&update);
    }
}

#[test]
fn unread_metadata_restarts_nothing() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])]);
    let (steps, end) = world.play(&update("r", &[], &[("unread", "2")]), &[]);
    assert_eq!((told(&steps), end), (vec!["patch unread=2".to_owned()], Next::Done));
    assert_eq!(world.restarts(), [0, 0]);
}

#[test]
fn all_images_are_pulled_before_anything_else() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])]);
    let update = update("r", &[("a", "x"), ("b", "y")], &[]);
    assert_eq!(told(&[world.next(&update)]), ["pull x y"]);
    world.on_node.insert("x".into());
    assert_eq!(told(&[world.next(&update)]), ["pull y"]);
    world.on_node.insert("y".into());
    assert_eq!(told(&[world.next(&update)]), ["not ready"]);
}

#[test]
fn the_next_batch_waits_for_complete_and_ready() {
    let mut world = World::of(&[("a", Some(1), &["k"]), ("b", Some(0), &[])]);
    world.on_node.insert("y".into());
    let update = update("r", &[("b", "y")], &[("k", "2")]);
    let step = |world: &mut World, act: &dyn Fn(&mut World)| {
        act(world);
        let step = world.next(&update);
        assert!(world.carry_out(&step, world.version));
        told(&[step]).remove(0)
    };
    assert_eq!(step(&mut world, &|_| {}), "not ready");
    assert_eq!(step(&mut world, &|_| {}), "patch k=2");
    let unknown = format!("wait: {}", Why::Kubelet);
    assert_eq!(step(&mut world, &|_| {}), unknown, "it would read the old value");
    assert_eq!(step(&mut world, &World::kubelet_learns), "recreate a");
    assert_eq!(step(&mut world, &|_| {}), "recreate a", "until it is seen");
    let restart = format!("wait: {}", Why::Restart("a".into()));
    assert_eq!(step(&mut world, &|world| world.kubelet_syncs(0)), restart);
    let ready = format!("wait: {}", Why::Ready { container: "a".into(), restarts: 1 });
    assert_eq!(step(&mut world, &|world| world.kubelet_syncs(0)), ready);
    assert_eq!(step(&mut world, &|world| world.becomes_ready(0)), "patch y");
    assert_eq!(world.restarts(), [1, 0]);
}

#[test]
fn the_grace_passes_between_not_ready_and_the_first_patch() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])]);
    world.on_node.extend(["x".into(), "y".into()]);
    let grace = Duration::from_secs(5);
    let update = Update { grace, ..update("r", &[("a", "x"), ("b", "y")], &[]) };
    let since = world.now;
    assert_eq!(world.next(&update), Next::SetNotReady);
    world.carry_out(&Next::SetNotReady, 0);
    let until = Some(since + grace);
    assert_eq!(world.next(&update), Next::Wait { until, why: Why::Grace });
    world.now = since + grace - Duration::from_millis(1);
    assert_eq!(world.next(&update), Next::Wait { until, why: Why::Grace });
    world.now = since + grace;
    assert_eq!(told(&[world.next(&update)]), ["patch x"]);
    let (steps, _) = world.play(&update, &[]);
    assert_eq!(told(&steps), ["patch x", "patch y", "ready"]);
    assert_eq!(world.now, since + grace, "once");
}

#[test]
fn a_workloads_pod_says_its_revision_while_the_grace_passes() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &[])]);
    world.on_node.extend(["x".into(), "y".into()]);
    let grace = Duration::from_secs(5);
    let images = [("a", "x"), ("b", "y")];
    let update = Update { grace, bears_crashes: true, ..update("r", &images, &[("k", "2")]) };
    let wait = Next::Wait { until: Some(world.now + grace), why: Why::Grace };
    world.carry_out(&Next::SetNotReady, 0);
    let request = Update { bears_crashes: false, ..update.clone() };
    assert_eq!(world.next(&request), wait, "a request says it with the first batch");
    let said = world.next(&update);
    assert_eq!(told(std::slice::from_ref(&said)), ["patch k=2"]);
    let Next::Patch(patch) = &said else { panic!("{said:?}") };
    let Record { revision, next_container_images, container_batches_record, .. } = &patch.record;
    assert_eq!((revision.as_str(), next_container_images.len()), ("r", 2));
    assert!(container_batches_record.is_empty(), "nothing has moved");
    assert!(world.carry_out(&said, 0));
    world.kubelet_learns();
    assert_eq!(world.next(&update), wait, "once");
    world.now += grace;
    let (steps, end) = world.play(&update, &[]);
    assert_eq!(told(&steps), ["patch x", "patch y", "ready"]);
    assert_eq!(end, Next::Done);
}

#[test]
fn without_the_gate_nothing_is_said_of_it() {
    let mut world = World::of(&[("a", Some(1), &[]), ("b", Some(0), &["k"])]);
    world.gate = Gate::Absent;
    let wanted = Update { grace: Duration::from_secs(5), ..update("r", &[("a", "x")], &[("k", "2")]) };
    let (steps, end) = world.play(&wanted, &[]);
    assert_eq!(told(&steps), ["pull x", "patch x", "patch k=2", "recreate b"]);
    assert_eq!(end, Next::Done);
}

#[test]
fn the_same_digest_under_another_tag_completes() {
    let mut world = World::of(&[("a", None, &[])]);
    let update = update("r", &[("a", "a:latest")], &[]);
    for step in [Next::Pull(["a:latest".into()].into()), Next::SetNotReady] {
        world.carry_out(&step, 0);
    }
    let patch = world.next(&update);
    assert!(world.carry_out(&patch, 0));
    world.settle(&[]);
    world.container("a").instance.image_id = "sha256:a:1".to_owned();
    assert_eq!(world.next(&update), Next::SetReady);
}

#[test]
fn values_edited_beside_an_update_restart_nothing() {
    let mut world = World::of(&[("a", Some(1), &["k"]), ("b", Some(0), &[])]);
    world.metadata.insert(super::world::annotation("k"), "by hand".to_owned());
    let (_, end) = world.play(&update("r", &[("b", "y")], &[]), &[]);
    assert_eq!(end, Next::Done);
    assert_eq!(world.restarts(), [0, 1]);
    // Asked for, they count.
    let wanted = update("r2", &[], &[("k", "by hand")]);
    let (steps, end) = world.play(&wanted, &[]);
    assert_eq!(told(&steps), ["not ready", "patch", "recreate a", "ready"]);
    assert_eq!(end, Next::Done);
    assert_eq!(world.restarts(), [1, 1]);
    world.is_what_is_wanted(&wanted);
}

#[test]
fn env_values_nobody_saw_count_as_others() {
    let mut world = World::of(&[("a", None, &["k"]), ("b", None, &[])]);
    world.container("a").instance.env = None;
    world.container("b").instance.env = None;
    let (_, end) = world.play(&update("r", &[("b", "b:1")], &[("k", "1")]), &[]);
    assert_eq!(end, Next::Done);
    assert_eq!(world.restarts(), [1, 0], "b reads nothing");
}

#[test]
fn a_pod_that_cannot_be_updated_is_left_alone() {
    for (liveness, told_of) in [
        (Liveness::Static, "failed: StaticPod"),
        (Liveness::Gone, "failed: PodGone"),
        (Liveness::Ended, "failed: PodEnded"),
    ] {
        let mut world = World::of(&[("a", None, &[])]);
        world.liveness = liveness;
        assert_eq!(told(&[world.next(&update("r", &[("a", "x")], &[]))]), [told_of]);
    }
    let world = World::of(&[("a", None, &[])]);
    assert_eq!(told(&[world.next(&update("r", &[("b", "x")], &[]))]), ["failed: ContainerNotFound"]);
}
