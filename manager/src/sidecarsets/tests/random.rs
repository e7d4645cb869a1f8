//! Random histories: whatever comes in whichever order, the counts are those of the objects as they are, and
//! an upgrade ends.

use berth_proto::crd::UpdatePhase;
use proptest::prelude::*;
use serde_json::json;

use super::world::{World, pod, with};
use crate::store::{PodSeen, PodStage};

#[derive(Clone, Debug)]
enum Deed {
    Pod { pod: u8, image: u8, ready: bool, kind: u8 },
    Gone { pod: u8 },
    Edit { image: u8, most: u8, paused: bool },
    Drop,
    Label { team: bool },
    Agent { succeeds: bool },
    Pass { millis: u16 },
    FailOver,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0..6_u8, 0..3_u8, any::<bool>(), 0..6_u8)
            .prop_map(|(pod, image, ready, kind)| Deed::Pod { pod, image, ready, kind }),
        2 => (0..6_u8).prop_map(|pod| Deed::Gone { pod }),
        3 => (0..3_u8, 0..3_u8, prop::bool::weighted(0.3))
            .prop_map(|(image, most, paused)| Deed::Edit { image, most, paused }),
        1 => Just(Deed::Drop),
        1 => any::<bool>().prop_map(|team| Deed::Label { team }),
        4 => any::<bool>().prop_map(|succeeds| Deed::Agent { succeeds }),
        4 => (0..3_000_u16).prop_map(|millis| Deed::Pass { millis }),
        1 => Just(Deed::FailOver),
    ]
}

fn a_pod(number: u8, image: u8, ready: bool, kind: u8) -> PodSeen {
    let pod = with(pod(&format!("p{number}"), &format!("log:{image}")), |it| it.ready = ready);
    match kind {
        0 => PodSeen { sidecars: None, ..pod },
        1 => PodSeen { stage: PodStage::Terminating, ..pod },
        2 => PodSeen { labels: [("app".into(), "db".into())].into(), ..pod },
        3 => PodSeen { node: None, ..pod },
        _ => pod,
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_same_as_from_scratch(deeds in prop::collection::vec(deed(), 1..50)) {
        let mut world = World::new();
        world.upgrade("log:0", json!({}));
        for deed in deeds {
            match deed {
                Deed::Pod { pod, image, ready, kind } => world.pod(a_pod(pod, image, ready, kind)),
                Deed::Gone { pod } => world.no_pod(&format!("p{pod}")),
                Deed::Edit { image, most, paused } => {
                    let strategy = json!({ "maxUnavailable": most, "paused": paused });
                    world.upgrade(&format!("log:{image}"), strategy);
                }
                Deed::Drop => world.no_set("s"),
                Deed::Label { team } => world.space("shop", if team { &[("team", "a")] } else { &[] }),
                Deed::Agent { succeeds } => {
                    world.agent("n0", if succeeds { UpdatePhase::Succeeded } else { UpdatePhase::Failed });
                }
                Deed::Pass { millis } => world.pass(millis.into()),
                Deed::FailOver => world.fail_over(),
            }
        }
        if !world.sets.contains_key("s") {
            world.upgrade("log:1", json!({}));
        }
        world.pass(5_000);
        let (counts, latest) = (world.counts(), world.status().latest_revision.clone());
        world.fail_over();
        world.pass(5_000);
        prop_assert_eq!((world.counts(), &world.status().latest_revision), (counts, &latest));
        // With agents that do what they are told it ends: all that can be upgraded is, and nothing is asked.
        world.upgrade("log:9", json!({ "maxUnavailable": 2 }));
        for _ in 0..12 {
            world.pass(3_000);
            let broken: Vec<_> = world.pods.values().filter(|pod| pod.sidecars.as_ref().is_some_and(|it| !it.ready)).cloned().collect();
            broken.into_iter().for_each(|pod| world.pod(with(pod, |it| it.ready = true)));
            world.agent("n0", UpdatePhase::Succeeded);
        }
        world.pass(3_000);
        prop_assert_eq!(world.asked("n0"), Vec::<&str>::new());
        let members = world.pods.values().filter(|pod| {
            pod.sidecars.is_some() && pod.stage == PodStage::Active && pod.labels["app"] == "web"
        });
        let (mut all, mut placed) = (0, 0);
        for pod in members {
            all += 1;
            placed += i32::from(pod.node.is_some());
        }
        prop_assert_eq!(world.counts()[..2].to_vec(), vec![all, placed]);
    }
}
