//! Updates in place that are tried anew.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::world::{NODE, NOW, World};
use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
};

/// The template went away and came back between two passes: a node that looked meanwhile refused what is
/// wanted again. Each change of the set gives one more try.
#[test]
fn what_failed_is_tried_anew_when_the_set_has_changed() {
    let spec = json!({ "replicas": 3, "updateStrategy": { "type": "InPlaceOnly", "maxUnavailable": 1 } });
    let failed = || InPlacePhase::Failed("the template does not name the image".to_owned());
    // Generation of the try, of the set now, and what is tried.
    for (then, now, effect) in [
        (Some(1), Some(1), ""),
        (Some(1), Some(3), "update o"),
        (Some(3), Some(3), ""),
        // Answers of before it was noted.
        (None, Some(3), ""),
        (Some(1), None, ""),
        (Some(3), Some(1), ""),
    ] {
        let mut world = World::new(spec.clone(), "2n 1o");
        world.set.metadata.generation = now;
        let (node, revision) = (NODE.to_owned(), "shop-new".to_owned());
        let known = InPlaceState { node, revision, attempt: 0, generation: then, phase: failed() };
        world.in_place.insert("uid-p2".to_owned(), known);
        assert_eq!(world.effect(), effect, "{then:?} {now:?}");
        let plan = world.plan();
        match plan.actions.as_slice() {
            [Action::UpdateInPlace(update)] => {
                assert_eq!((update.attempt, update.generation), (1, now), "{then:?} {now:?}");
            }
            _ => {
                let condition = plan.status.unwrap().conditions.remove(0);
                assert!(condition.message.unwrap().contains("does not name the image"), "{then:?} {now:?}");
            }
        }
    }
}

/// The node looked at the set before the program did, and answered an entry of the template before. Whatever
/// the watch shows first, no pod is made anew for that: the pod is asked for again when the change of the set
/// is there, or after a while.
#[test]
fn what_was_not_asked_for_by_then_is_asked_for_anew() {
    // Revision of the entry, seconds since it was written, its generation, and what is done.
    for (revision, seconds, generation, effect) in [
        ("shop-new", Some(0), Some(1), ""),
        ("shop-new", Some(59), Some(1), ""),
        ("shop-new", Some(60), Some(1), "update o"),
        // A clock that was set back.
        ("shop-new", Some(-5), Some(1), ""),
        ("shop-new", None, None, "update o"),
        // The change of the set is there.
        ("shop-new", Some(0), Some(0), "update o"),
        ("shop-between", Some(0), Some(1), "update o"),
    ] {
        for type_ in ["InPlaceIfPossible", "InPlaceOnly"] {
            let spec = json!({ "replicas": 3, "updateStrategy": { "type": type_, "maxUnavailable": 1 } });
            let mut world = World::new(spec, "2n 1o");
            world.set.metadata.generation = Some(1);
            let since: Option<Timestamp> =
                seconds.map(|ago| NOW.checked_sub(SignedDuration::from_secs(ago)).unwrap());
            let why = "the template does not name the image".to_owned();
            let known = InPlaceState {
                node: NODE.to_owned(),
                revision: revision.to_owned(),
                attempt: 0,
                generation,
                phase: InPlacePhase::NotAskedFor { why, since },
            };
            world.in_place.insert("uid-p2".to_owned(), known);
            assert_eq!(world.effect(), effect, "{revision} {seconds:?} {generation:?}");
            let plan = world.plan();
            let left = seconds.and_then(|ago| u64::try_from(60 - ago).ok()).filter(|left| *left > 0);
            assert_eq!(plan.again, left.map(Duration::from_secs), "{revision} {seconds:?}");
            if effect.is_empty() {
                let condition = plan.status.unwrap().conditions.remove(0);
                assert!(condition.message.unwrap().ends_with("the template does not name the image"));
            }
        }
    }
}
