//! Rollouts with pods beyond the wanted number, played to their end.

use rstest::rstest;
use serde_json::json;

use super::world::{NODE, World, pod};
use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{REVISION_LABEL, STATE_LABEL, SURGE_LABEL, TEMPLATE_HASH_LABEL},
};

/// Rollout of a set, one pass after the other.
struct Rollout {
    world: World,
    made: usize,
    /// Pods that were there when it began.
    first: Vec<String>,
    /// Most pods that were there at once.
    most: usize,
}

impl Rollout {
    fn new(type_: &str, replicas: usize, surge: i32, unavailable: i32) -> Self {
        let spec = json!({
            "replicas": replicas,
            "updateStrategy": { "type": type_, "maxUnavailable": unavailable, "maxSurge": surge },
        });
        let world = World::new(spec, &format!("{replicas}o"));
        let first = world.pods.iter().map(|pod| pod.name.clone()).collect();
        Self { world, made: 0, first, most: replicas }
    }

    /// One pass. True: it did something.
    fn pass(&mut self) -> bool {
        let plan = self.world.plan();
        for action in &plan.actions {
            match action {
                Action::CreatePod(object) => {
                    let labels = object["metadata"]["labels"].as_object().unwrap();
                    let mut new = pod(&format!("new-{}", self.made), "n!");
                    self.made += 1;
                    let text = |(key, value): (&String, &serde_json::Value)| {
                        (key.clone(), value.as_str().unwrap().to_owned())
                    };
                    new.labels = labels.iter().map(text).collect();
                    self.world.pods.push(new);
                }
                Action::DeletePod(target) => self.world.pods.retain(|pod| pod.name != target.name),
                Action::UpdateInPlace(update) => {
                    let known = InPlaceState {
                        node: NODE.to_owned(),
                        revision: update.revision.clone(),
                        attempt: update.attempt,
                        generation: update.generation,
                        phase: InPlacePhase::Pending,
                    };
                    self.world.in_place.insert(update.uid.clone(), known);
                }
                Action::ForgetInPlace { uid, .. } => drop(self.world.in_place.remove(uid)),
                other => panic!("{other:?}"),
            }
        }
        self.world.set.status = plan.status.or(self.world.set.status.take());
        self.most = self.most.max(self.world.pods.len());
        !plan.actions.is_empty()
    }

    /// The next thing on a node, the newest pod last: one pod is ready, or updated.
    fn node(&mut self) -> bool {
        if let Some((uid, known)) =
            self.world.in_place.iter_mut().find(|(_, known)| known.phase == InPlacePhase::Pending)
        {
            known.phase = InPlacePhase::Done;
            let pod = self.world.pods.iter_mut().find(|pod| pod.uid == *uid).unwrap();
            for (key, value) in [
                (REVISION_LABEL, "shop-new"),
                (TEMPLATE_HASH_LABEL, "new"),
                (STATE_LABEL, State::Normal.name()),
            ] {
                pod.labels.insert(key.to_owned(), value.to_owned());
            }
            // Later than any other, and it was restarted.
            (pod.ready_since, pod.restarts) = (Some(super::world::NOW), 1);
            return true;
        }
        let Some(pod) = self.world.pods.iter_mut().find(|pod| !pod.is_ready()) else { return false };
        pod.ready_since = Some(super::world::NOW);
        true
    }

    fn serve(&self) -> usize {
        let busy = |uid: &str| {
            self.world.in_place.get(uid).is_some_and(|known| known.phase == InPlacePhase::Pending)
        };
        self.world.pods.iter().filter(|pod| pod.is_ready() && !busy(&pod.uid)).count()
    }

    fn run(&mut self, least: usize) {
        for _ in 0..500 {
            while self.pass() {
                assert!(self.serve() >= least, "{} serve", self.serve());
            }
            if !self.node() {
                return;
            }
        }
        panic!("it does not end");
    }
}

/// In OpenKruise as many pods are deleted as were made beyond the number, and only the others updated in
/// place.
#[rstest]
#[case::some(5, 2, 0)]
#[case::one(5, 1, 1)]
#[case::more_than_there_are(3, 7, 0)]
fn pods_beyond_the_number_are_there_for_the_time_of_an_update_in_place(
    #[case] replicas: usize,
    #[case] surge: i32,
    #[case] unavailable: i32,
) {
    let mut rollout = Rollout::new("InPlaceIfPossible", replicas, surge, unavailable);
    rollout.run(replicas - usize::try_from(unavailable).unwrap());
    let names: Vec<&str> = rollout.world.pods.iter().map(|pod| pod.name.as_str()).collect();
    assert_eq!(names, rollout.first, "all that were there are, and those that were made are gone");
    assert!(rollout.world.pods.iter().all(|pod| pod.label(REVISION_LABEL) == "shop-new"));
    let most = replicas + usize::try_from(surge).unwrap().min(replicas);
    assert_eq!((rollout.most, rollout.made), (most, most - replicas));
}

/// A partition keeps pods, and a pod that is only too many is no one of these.
#[test]
fn the_pods_of_the_partition_stay() {
    let mut rollout = Rollout::new("InPlaceIfPossible", 5, 2, 0);
    rollout.world.set.spec.update_strategy.as_mut().unwrap().partition =
        Some(serde_json::from_value(json!(3)).unwrap());
    rollout.run(5);
    let old = rollout.world.pods.iter().filter(|pod| pod.label(REVISION_LABEL) == "shop-old").count();
    assert_eq!((rollout.world.pods.len(), old, rollout.made), (5, 3, 2));
    assert!(rollout.world.pods.iter().all(|pod| !pod.labels.contains_key(SURGE_LABEL)));
}

/// Fewer are wanted in the midst of it: the partition keeps its pods, and those that were made go first.
#[rstest]
#[case::without_surge(0, "", "delete o, delete n x3")]
#[case::with_surge(2, "", "delete o, delete n")]
#[case::some_were_made(2, "new", "delete n x2")]
fn a_scale_in_leaves_the_partition_alone(#[case] surge: i32, #[case] made: &str, #[case] effect: &str) {
    let spec = json!({
        "replicas": 4,
        "updateStrategy": { "type": "InPlaceIfPossible", "partition": 2, "maxUnavailable": 4, "maxSurge": surge },
    });
    let mut world = World::new(spec, if surge == 0 { "3o 5n" } else { "3o 4n" });
    for pod in world.pods.iter_mut().filter(|_| !made.is_empty()).skip(4).take(2) {
        pod.labels.insert(SURGE_LABEL.to_owned(), "true".to_owned());
    }
    assert_eq!(world.effect(), effect);
}

/// Its template cannot be followed in place: pods are replaced, as without.
#[test]
fn what_is_replaced_is_no_extra() {
    let mut rollout = Rollout::new("InPlaceIfPossible", 4, 2, 0);
    rollout.world.updating_nodes.clear();
    rollout.run(4);
    assert_eq!(rollout.world.pods.len(), 4);
}

/// In OpenKruise the next pods are made when all of the last ones serve, and steps become smaller.
#[test]
fn each_pod_that_serves_lets_the_next_one_go() {
    let mut rollout = Rollout::new("ReCreate", 10, 3, 0);
    let mut old = Vec::new();
    loop {
        while rollout.pass() {
            assert!(rollout.serve() >= 10);
        }
        old.push(rollout.world.pods.iter().filter(|pod| pod.label(REVISION_LABEL) == "shop-old").count());
        let new = || rollout.world.pods.iter().filter(|pod| pod.label(REVISION_LABEL) == "shop-new");
        let (serve, not_ready) =
            (new().filter(|pod| pod.is_ready()).count(), new().filter(|pod| !pod.is_ready()).count());
        assert_eq!(not_ready, (10 - serve).min(3), "as many are made as may be: {old:?}");
        // One pod at a time; the slowest of them is the last one.
        if !rollout.node() {
            break;
        }
    }
    assert_eq!(old, [10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0]);
}
