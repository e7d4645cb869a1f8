//! Pods that have their update in place, and do not come up with it.

use serde_json::json;

use super::world::{NODE, World, revision};
use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
    names::REVISION_LABEL,
};

/// A bad image, a registry that is away, a database that is late: the pod stays, and so do its claims. A
/// newer revision takes its place in it.
#[test]
fn a_pod_that_does_not_come_up_stays_and_gets_the_next_revision_in_place() {
    for type_ in ["InPlaceIfPossible", "InPlaceOnly"] {
        for phase in [InPlacePhase::Pending, InPlacePhase::GivenUp("no such image".to_owned())] {
            let spec = json!({ "replicas": 3, "updateStrategy": { "type": type_, "maxUnavailable": 1 } });
            let mut world = World::new(spec, "2o 1o!");
            world.pods[2].labels.insert(REVISION_LABEL.to_owned(), "shop-new".to_owned());
            world.pods[2].not_up = Some("container main waits for its image".into());
            let known = InPlaceState {
                node: NODE.to_owned(),
                revision: "shop-new".to_owned(),
                attempt: 0,
                generation: None,
                phase: phase.clone(),
            };
            world.in_place.insert("uid-p2".to_owned(), known);
            assert_eq!(world.effect(), "", "{type_} {phase:?}");
            let condition = world.plan().status.unwrap().conditions.remove(0);
            assert_eq!(condition.type_, "FailedUpdate");
            let why = match phase {
                InPlacePhase::Pending => "does not come up: container main waits for its image",
                _ => "its node could not do it: no such image",
            };
            let message = condition.message.unwrap();
            assert!(message.contains("p2") && message.contains(why), "{message}");

            world.revisions.push(revision("shop-good", 3, "a:3"));
            world.set.spec.template.0.clone_from(&world.revisions[2].template);
            let plan = world.plan();
            let [Action::UpdateInPlace(update)] = plan.actions.as_slice() else { panic!("{plan:?}") };
            assert_eq!((update.name.as_str(), update.revision.as_str()), ("p2", "shop-good"));
            assert_eq!(update.images["main"], "a:3");
        }
    }
}
