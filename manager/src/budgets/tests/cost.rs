//! Cost of an event of a pod: each count of a budget asks for the scale of its workload.

use std::time::Duration;

use rstest::rstest;
use serde_json::json;

use super::world::{World, of_web, owner};
use crate::seen::{PodSeen, PodStage};

#[rstest]
#[case::again(|_: &mut PodSeen| {}, false)]
#[case::another_version(|pod: &mut PodSeen| pod.version += 1, false)]
#[case::an_address(|pod: &mut PodSeen| pod.ip = "10.0.0.1".parse().ok(), false)]
#[case::another_node(|pod: &mut PodSeen| pod.node = Some("n1".to_owned()), false)]
#[case::initialized(|pod: &mut PodSeen| pod.initialized = false, false)]
#[case::not_available(|pod: &mut PodSeen| pod.available = false, true)]
#[case::goes(|pod: &mut PodSeen| pod.stage = PodStage::Terminating, true)]
#[case::another_one(|pod: &mut PodSeen| pod.uid = "other".to_owned(), true)]
#[case::another_owner(|pod: &mut PodSeen| pod.owner = Some(owner("CloneSet", "other")), true)]
#[case::another_namespace(|pod: &mut PodSeen| pod.namespace = "other".to_owned(), false)]
fn an_event_that_cannot_matter_is_not_counted(#[case] change: fn(&mut PodSeen), #[case] counted: bool) {
    let mut world = World::new(3, of_web(json!({"maxUnavailable": 1})), json!({}));
    world.pass(Duration::from_secs(5));
    let before = world.looked.len();
    world.show("p0", change);
    world.pass(Duration::from_secs(5));
    assert_eq!(world.looked.len() > before, counted);
}
