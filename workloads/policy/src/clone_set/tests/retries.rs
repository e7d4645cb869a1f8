//! Updates in place that are tried anew.

use serde_json::json;

use super::world::{NODE, World};
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
