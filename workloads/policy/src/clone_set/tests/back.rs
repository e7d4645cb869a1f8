//! The way back to the current revision, in place, when the partition is raised.

use std::collections::BTreeMap;

use berth_proto::template_history::{Part, TEMPLATE_HISTORY};
use serde_json::{Value, json};

use super::{
    in_place::{known, spec},
    world::{NODE, NOW, World, pod},
};
use crate::{
    action::{Action, InPlaceUpdate},
    in_place::InPlacePhase,
    names::{REVISION_LABEL, STATE_LABEL, TEMPLATE_HASH_LABEL},
};

const IMAGE: Part<'_> = Part::Image { container: "main", image: "a:1" };
const LABEL: Part<'_> = Part::Label { key: "tier", value: "1" };

/// A set that keeps all three pods from its template, of which one has it, and what is noted of earlier ones.
fn world(type_: &str, noted: &[Part<'_>]) -> World {
    let mut spec = spec(type_);
    spec["updateStrategy"]["partition"] = json!(3);
    let mut world = World::new(spec, "2o 1n");
    world.settings.partition_rollback = true;
    let digests: Vec<String> = noted.iter().map(|part| part.digest()).collect();
    world.set.metadata.annotations = Some([(TEMPLATE_HISTORY.to_owned(), digests.join(","))].into());
    world
}

fn keeps(world: &mut World, partition: i32) {
    let strategy = world.set.spec.update_strategy.as_mut().unwrap();
    strategy.partition = Some(serde_json::from_value(json!(partition)).unwrap());
}

/// The one update that is asked for.
fn asked(world: &World) -> InPlaceUpdate {
    let plan = world.plan();
    let updates = plan.actions.iter().filter_map(|action| match action {
        Action::UpdateInPlace(update) => Some(update.clone()),
        _ => None,
    });
    let [update]: [InPlaceUpdate; 1] = updates.collect::<Vec<_>>().try_into().unwrap();
    update
}

fn image(image: &str) -> BTreeMap<String, String> {
    BTreeMap::from([("main".to_owned(), image.to_owned())])
}

#[test]
fn what_is_noted_goes_back_in_place() {
    for type_ in ["InPlaceIfPossible", "InPlaceOnly"] {
        let mut world = world(type_, &[IMAGE]);
        assert_eq!(world.effect(), "update n");
        let update = asked(&world);
        assert_eq!((update.name.as_str(), update.revision.as_str(), update.attempt), ("p2", "shop-old", 0));
        assert_eq!(update.images, image("a:1"));
        assert_eq!(
            (update.labels[REVISION_LABEL].as_str(), update.labels[TEMPLATE_HASH_LABEL].as_str()),
            ("shop-old", "old")
        );
        let mut pending = known(InPlacePhase::Pending);
        "shop-old".clone_into(&mut pending.revision);
        world.in_place.insert("uid-p2".to_owned(), pending);
        assert_eq!(world.effect(), "", "it is on its way");
        let status = world.plan().status.unwrap();
        assert_eq!((status.updated_replicas, status.available_replicas), (0, 2));
        world.in_place.get_mut("uid-p2").unwrap().phase = InPlacePhase::Done;
        for (key, value) in [(REVISION_LABEL, "shop-old"), (TEMPLATE_HASH_LABEL, "old")] {
            world.pods[2].labels.insert(key.to_owned(), value.to_owned());
        }
        assert_eq!(world.effect(), "forget");
        world.in_place.clear();
        assert_eq!(world.effect(), "");
    }
}

/// All that the pod gets has to be noted, and its agent has to look there.
#[test]
fn what_is_not_noted_is_made_anew() {
    for (noted, has_label, recalls, goes) in [
        (vec![IMAGE], false, true, true),
        (vec![IMAGE], false, false, false),
        (vec![], false, true, false),
        (vec![LABEL], false, true, false),
        (vec![IMAGE], true, true, false),
        (vec![LABEL, IMAGE], true, true, true),
    ] {
        let row = format!("{noted:?} {has_label} {recalls}");
        let of = |type_: &str| {
            let mut world = world(type_, &noted);
            if has_label {
                world.revisions[0].template["metadata"]["labels"]["tier"] = json!("1");
            }
            if !recalls {
                world.recalling_nodes.clear();
            }
            world
        };
        // Labels come first, and the entry is written beside.
        let update = if has_label { "release n, update n" } else { "update n" };
        assert_eq!(of("InPlaceIfPossible").effect(), if goes { update } else { "delete n" }, "{row}");
        assert_eq!(of("InPlaceOnly").effect(), if goes { update } else { "" }, "{row}");
        if !goes {
            let condition = of("InPlaceOnly").plan().status.unwrap().conditions.remove(0);
            let message = condition.message.unwrap();
            let why = if recalls { TEMPLATE_HISTORY } else { "takes images of the template alone" };
            assert!(message.contains("goes back to revision shop-old"), "{message}");
            assert!(message.contains(why) && message.contains("delete it"), "{message}");
        }
    }
}

/// A way back that comes to nothing is not over: the pod has no revision that anybody knows.
#[test]
fn a_way_back_that_fails_is_not_the_end() {
    let late = InPlacePhase::NotAskedFor { why: "too late".to_owned(), since: Some(NOW) };
    for (phase, is_silent, anew) in [
        (InPlacePhase::Failed("no room".to_owned()), false, "forget, delete n"),
        (InPlacePhase::GivenUp("no image".to_owned()), false, ""),
        (late, false, ""),
        (InPlacePhase::Pending, true, "forget, delete n"),
    ] {
        for (type_, effect) in [("InPlaceIfPossible", anew), ("InPlaceOnly", "")] {
            let mut world = world(type_, &[IMAGE]);
            let mut lost = known(phase.clone());
            "shop-old".clone_into(&mut lost.revision);
            world.in_place.insert("uid-p2".to_owned(), lost);
            if is_silent {
                world.silent.insert(NODE.to_owned());
            }
            assert_eq!(world.effect(), effect, "{type_} {phase:?}");
            world.silent.clear();
            if is_silent {
                continue;
            }
            // Its author asks again, or the partition is lowered.
            world.set.metadata.generation = Some(2);
            let update = asked(&world);
            assert_eq!((update.revision.as_str(), update.attempt), ("shop-old", 1), "{type_} {phase:?}");
            keeps(&mut world, 2);
            let update = asked(&world);
            assert_eq!((update.name.as_str(), update.revision.as_str()), ("p2", "shop-new"));
            assert_eq!(update.images, image("a:2"), "all of it: some containers may have gone back");
        }
    }
}

/// The newest image does not come up, and the partition is raised for that: the pod is the one that goes
/// back. Its label says that its node had begun.
#[test]
fn a_pod_that_the_newest_revision_failed_on_goes_back() {
    for phase in [InPlacePhase::GivenUp("no image".to_owned()), InPlacePhase::Failed("no room".to_owned())] {
        let mut world = world("InPlaceOnly", &[IMAGE]);
        world.in_place.insert("uid-p2".to_owned(), known(phase.clone()));
        let update = asked(&world);
        assert_eq!((update.name.as_str(), update.revision.as_str()), ("p2", "shop-old"), "{phase:?}");
        assert_eq!(update.images, image("a:1"));
        let status = world.plan().status.unwrap();
        assert_eq!((status.updated_replicas, status.updated_ready_replicas), (0, 0), "nobody knows");
        // It is the first one.
        world.pods =
            ["o", "n", "n"].iter().zip(0..).map(|(marks, at)| pod(&format!("p{at}"), marks)).collect();
        assert_eq!(asked(&world).name, "p2");
        // While the way back rests, nobody takes its label for the end of the rollout.
        let strategy = world.set.spec.update_strategy.as_mut().unwrap();
        strategy.paused = true;
        world.pods[0] = pod("p0", "n");
        assert_eq!(world.plan().status.unwrap().current_revision.as_deref(), Some("shop-old"));
    }
}

/// Rows: whether pods go back, the revision that a pod of the partition was to have, and what is done while
/// its agent is heard.
#[test]
fn a_pod_of_the_partition_is_not_left_to_a_silent_agent() {
    for (goes_back, revision, heard) in
        [(false, "shop-new", ""), (true, "shop-old", ""), (true, "shop-new", "update o")]
    {
        for (type_, silent) in [("InPlaceIfPossible", "forget, delete o"), ("InPlaceOnly", "")] {
            let mut world = world(type_, &[IMAGE]);
            world.settings.partition_rollback = goes_back;
            world.pods = ["p0", "p1", "p2"].iter().map(|name| pod(name, "o")).collect();
            let mut begun = known(InPlacePhase::Pending);
            revision.clone_into(&mut begun.revision);
            world.in_place.insert("uid-p1".to_owned(), begun);
            assert_eq!(world.effect(), heard, "{type_} {revision}");
            world.silent.insert(NODE.to_owned());
            assert_eq!(world.effect(), silent, "{type_} {revision}");
            if silent.is_empty() {
                let condition = world.plan().status.unwrap().conditions.remove(0);
                assert!(condition.message.unwrap().contains("has been silent"), "{revision}");
            }
        }
    }
}

/// The program has given the pod its labels, or the state of its hook, and ended before its node was told.
#[test]
fn a_way_back_that_was_not_asked_for_goes_on() {
    let mut world = world("InPlaceOnly", &[IMAGE]);
    world.pods[2].metadata_of = Some("new/old".into());
    let update = asked(&world);
    assert_eq!((update.name.as_str(), update.revision.as_str()), ("p2", "shop-old"));
    keeps(&mut world, 2);
    assert_eq!(asked(&world).revision, "shop-new", "its labels are put back");

    let mut world = self::world("InPlaceOnly", &[IMAGE]);
    let hook: Value = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
    world.set.spec.lifecycle = Some(serde_json::from_value(hook).unwrap());
    world.pods[2].labels.insert(STATE_LABEL.to_owned(), "Updating".to_owned());
    assert_eq!(world.effect(), "update n");
    keeps(&mut world, 2);
    assert_eq!(world.effect(), "Updated n", "it is not to go back any more");
}
