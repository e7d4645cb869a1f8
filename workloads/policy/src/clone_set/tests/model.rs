//! Histories played at random: lost and late events, crashes between any two writes, evictions, deletions by
//! hand, and edits in the midst of a rollout.
//!
//! Whatever happens, no pass takes more pods out of service than it may, none makes a pod that is there, and
//! every history ends with what the set wants.

use std::collections::{BTreeMap, VecDeque};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::{
    apps::v1::ControllerRevision,
    core::v1::{PersistentVolumeClaim, Pod},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    super::{ClaimView, Plan},
    world::{NODE, NOW, World, template},
};
use crate::{
    action::{Action, Target},
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{REVISION_LABEL, SPECIFIED_DELETE_LABEL},
    pod::{Phase, PodView},
    revision::Revision,
    store::Store,
};

/// One step of a history.
#[derive(Clone, Debug)]
enum Op {
    /// The watch shows so many events.
    Deliver(usize),
    /// The watch breaks: its events are lost, and all is listed anew.
    Lose,
    /// The kubelet does its next thing for a pod.
    Kubelet(usize),
    Evict(usize),
    DeleteByHand(usize),
    MarkForDeletion(usize),
    Scale(i32),
    Image(i32),
    Partition(i32),
    Pass(i64),
    /// A pass of the program, which ends after so many writes.
    Sync(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        3 => (0..6_usize).prop_map(Op::Deliver),
        1 => Just(Op::Lose),
        6 => (0..8_usize).prop_map(Op::Kubelet),
        1 => (0..8_usize).prop_map(Op::Evict),
        1 => (0..8_usize).prop_map(Op::DeleteByHand),
        1 => (0..8_usize).prop_map(Op::MarkForDeletion),
        1 => (0..7).prop_map(Op::Scale),
        1 => (1..4).prop_map(Op::Image),
        1 => (0..7).prop_map(Op::Partition),
        2 => (1..20_i64).prop_map(Op::Pass),
        8 => prop_oneof![Just(usize::MAX), 0..4_usize].prop_map(Op::Sync),
    ]
}

enum Event {
    Applied(Box<PodView>),
    Gone(String),
}

/// The cluster as it is, and as the program sees it.
struct Cluster {
    world: World,
    pods: BTreeMap<String, PodView>,
    events: VecDeque<Event>,
    seen: Store<PodView>,
    count: u64,
    now: Timestamp,
    most_unavailable: i64,
    most_surge: i64,
}

impl Cluster {
    fn new(kind: &str, claims: bool, most_unavailable: i64, most_surge: i64) -> Self {
        let mut spec = json!({
            "replicas": 3,
            "minReadySeconds": 5,
            "updateStrategy": { "type": kind, "maxUnavailable": most_unavailable, "maxSurge": most_surge },
        });
        if claims {
            spec["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
        }
        let mut world = World::new(spec, "");
        world.revisions.clear();
        world.set.status = None;
        let (pods, events, seen) = (BTreeMap::new(), VecDeque::new(), Store::default());
        Self { world, pods, events, seen, count: 0, now: NOW, most_unavailable, most_surge }
    }

    fn version(&mut self) -> String {
        self.count += 1;
        self.count.to_string()
    }

    /// Changes a pod, as seen by all who watch.
    fn change(&mut self, uid: &str, change: impl FnOnce(&mut PodView)) -> Option<PodView> {
        let version = self.version();
        let pod = self.pods.get_mut(uid)?;
        change(pod);
        pod.version = version;
        let pod = pod.clone();
        self.events.push_back(Event::Applied(Box::new(pod.clone())));
        Some(pod)
    }

    fn remove(&mut self, uid: &str) {
        if self.pods.remove(uid).is_some() {
            self.events.push_back(Event::Gone(uid.to_owned()));
        }
    }

    fn nth(&self, at: usize) -> Option<String> {
        let count = self.pods.len();
        self.pods.keys().nth(at.checked_rem(count)?).cloned()
    }

    fn play(&mut self, op: &Op) {
        let now = self.now;
        let spec = &mut self.world.set.spec;
        match op {
            Op::Deliver(count) => (0..*count).for_each(|_| self.deliver()),
            Op::Lose => self.list(),
            Op::Kubelet(at) => {
                if let Some(uid) = self.nth(*at) {
                    self.kubelet(&uid);
                }
            }
            Op::Evict(at) => {
                if let Some(uid) = self.nth(*at) {
                    self.change(&uid, |pod| {
                        pod.phase = Phase::Ended;
                        pod.ready_since = None;
                    });
                }
            }
            Op::DeleteByHand(at) => {
                if let Some(uid) = self.nth(*at) {
                    self.change(&uid, |pod| pod.terminating = true);
                }
            }
            Op::MarkForDeletion(at) => {
                if let Some(uid) = self.nth(*at) {
                    let label = (SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
                    self.change(&uid, |pod| pod.labels.extend([label]));
                }
            }
            Op::Scale(replicas) => spec.replicas = Some(*replicas),
            Op::Image(number) => spec.template.0 = template(&format!("a:{number}")),
            Op::Partition(partition) => {
                let strategy = spec.update_strategy.as_mut().unwrap();
                strategy.partition = Some(serde_json::from_value(json!(partition)).unwrap());
            }
            Op::Pass(seconds) => {
                self.now = now.checked_add(SignedDuration::from_secs(*seconds)).unwrap();
            }
            Op::Sync(writes) => self.sync(*writes),
        }
    }

    fn deliver(&mut self) {
        match self.events.pop_front() {
            Some(Event::Applied(pod)) => drop(self.seen.applied(*pod)),
            Some(Event::Gone(uid)) => drop(self.seen.gone(&uid)),
            None => {}
        }
    }

    fn list(&mut self) {
        self.events.clear();
        self.seen.list_begins();
        for pod in self.pods.values() {
            self.seen.applied(pod.clone());
        }
        self.seen.list_ends();
    }

    fn kubelet(&mut self, uid: &str) {
        let now = self.now;
        let Some(pod) = self.pods.get(uid) else { return };
        if pod.terminating {
            return self.remove(uid);
        }
        if pod.phase == Phase::Ended {
            return;
        }
        let asked = self.world.in_place.get_mut(uid).filter(|known| known.phase == InPlacePhase::Pending);
        let revision = asked.map(|asked| {
            asked.phase = InPlacePhase::Done;
            asked.revision.clone()
        });
        self.change(uid, |pod| {
            pod.node = NODE.to_owned();
            pod.phase = Phase::Running;
            pod.ready_since = pod.ready_since.filter(|_| revision.is_none()).or(Some(now));
            if let Some(revision) = revision {
                pod.labels.insert(REVISION_LABEL.to_owned(), revision);
            }
        });
    }

    /// One pass: decides on what is seen, writes some of it, and is begun anew if that was not all.
    fn sync(&mut self, writes: usize) {
        self.world.pods = self.seen.iter().cloned().collect();
        let plan = self.world.plan_at(self.now);
        self.keeps_its_bounds(&plan);
        let creates = plan.actions.iter().any(|action| matches!(action, Action::CreatePod(_)));
        let all = plan.actions.len();
        for action in plan.actions.into_iter().take(writes) {
            self.write(action);
        }
        let active = self.pods.values().filter(|pod| pod.is_active()).count() as i64;
        if creates && writes >= all {
            assert!(active <= self.replicas() + self.most_surge, "{active} pods");
        }
        if writes < all {
            // Crashed: what it knew is lost, and comes back by a list.
            self.seen = Store::default();
            self.list();
        } else if let Some(status) = plan.status {
            self.world.set.status = Some(status);
        }
    }

    fn replicas(&self) -> i64 {
        self.world.set.spec.replicas.unwrap_or(1).into()
    }

    fn is_available(&self, pod: &PodView) -> bool {
        let in_place = self.world.in_place.get(&pod.uid);
        pod.is_active()
            && pod.is_ready_for(5, self.now)
            && State::of(pod).serves()
            && in_place.is_none_or(|known| known.phase != InPlacePhase::Pending)
    }

    /// No pass takes more pods out of service than it may, as far as it can see.
    fn keeps_its_bounds(&self, plan: &Plan) {
        let available = |uid: &str| self.seen.get(uid).is_some_and(|pod| self.is_available(pod));
        let before = self.seen.iter().filter(|pod| self.is_available(pod)).count() as i64;
        let taken = plan.actions.iter().filter(|action| match action {
            Action::DeletePod(target) => available(&target.uid),
            Action::UpdateInPlace(update) => available(&update.uid),
            _ => false,
        });
        let taken = taken.count() as i64;
        let least = self.replicas() - self.most_unavailable;
        assert!(taken == 0 || before - taken >= least, "{before} available, {taken} taken, least {least}");
        let mut deleted: Vec<&str> = plan
            .actions
            .iter()
            .filter_map(|action| match action {
                Action::DeletePod(target) => Some(target.uid.as_str()),
                _ => None,
            })
            .collect();
        let count = deleted.len();
        deleted.sort_unstable();
        deleted.dedup();
        assert_eq!(deleted.len(), count, "a pod is deleted once");
    }

    fn write(&mut self, action: Action) {
        match action {
            Action::CreatePod(object) => {
                let pod: Pod = serde_json::from_value(object).unwrap();
                let mut pod = PodView::of(&pod);
                assert!(self.pods.values().all(|known| known.name != pod.name), "{} is made twice", pod.name);
                pod.version = self.version();
                pod.uid = format!("uid-{}", pod.version);
                pod.created = self.now;
                self.pods.insert(pod.uid.clone(), pod.clone());
                self.events.push_back(Event::Applied(Box::new(pod.clone())));
                self.seen.wrote(pod);
            }
            Action::DeletePod(Target { uid, .. }) => {
                let is_bound = self.pods.get(&uid).is_some_and(|pod| !pod.node.is_empty());
                if !is_bound {
                    self.remove(&uid);
                    self.seen.ended(&uid);
                } else if let Some(pod) = self.change(&uid, |pod| pod.terminating = true) {
                    self.seen.wrote(pod);
                }
            }
            Action::PatchPod(Target { uid, version, .. }, patch) => {
                // A conflict, or gone: decided anew.
                if self.pods.get(&uid).is_none_or(|pod| pod.version != version) {
                    return;
                }
                let labels = patch["metadata"]["labels"].as_object().cloned().unwrap_or_default();
                let labels = labels.into_iter().map(|(key, value)| (key, value.as_str().unwrap().to_owned()));
                if let Some(pod) = self.change(&uid, |pod| pod.labels.extend(labels)) {
                    self.seen.wrote(pod);
                }
            }
            Action::CreateClaim(object) => {
                let claim: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
                let mut claim = ClaimView::of(&claim);
                claim.version = self.version();
                claim.uid = format!("claim-{}", claim.version);
                self.world.claims.push(claim);
            }
            Action::DeleteClaim(target) => self.world.claims.retain(|claim| claim.uid != target.uid),
            Action::CreateRevision(object) => {
                let revision: ControllerRevision = serde_json::from_value(object).unwrap();
                let mut revision = Revision::of(&revision).unwrap();
                revision.uid.clone_from(&revision.name);
                self.world.revisions.push(revision);
            }
            Action::RaiseRevision(target, number) => {
                let known = self.world.revisions.iter_mut().find(|one| one.name == target.name);
                known.unwrap().number = number;
            }
            Action::DeleteRevision(target) => self.world.revisions.retain(|one| one.name != target.name),
            Action::UpdateInPlace(update) => {
                let (node, revision, attempt) = (update.node, update.revision, update.attempt);
                let asked = InPlaceState { node, revision, attempt, phase: InPlacePhase::Pending };
                self.world.in_place.insert(update.uid, asked);
            }
            Action::ForgetInPlace { uid, .. } => drop(self.world.in_place.remove(&uid)),
            Action::PatchPodStatus(..)
            | Action::CreatePullJob(_)
            | Action::DeletePullJob(_)
            | Action::PatchClaim(..)
            | Action::KeepPodsToDelete(_) => panic!("{action:?}"),
        }
    }

    /// Lets everybody do their work until there is none.
    fn settle(&mut self) {
        for _ in 0..200 {
            while !self.events.is_empty() {
                self.deliver();
            }
            self.sync(usize::MAX);
            for uid in self.pods.keys().cloned().collect::<Vec<_>>() {
                self.kubelet(&uid);
            }
            // Those that were evicted are removed by somebody.
            self.now = self.now.checked_add(SignedDuration::from_secs(10)).unwrap();
        }
    }

    fn is_as_wanted(&mut self) {
        self.settle();
        self.world.pods = self.seen.iter().cloned().collect();
        let plan = self.world.plan_at(self.now);
        assert_eq!(plan.actions, [], "something is left to do");
        let status = plan.status.or(self.world.set.status.clone()).unwrap();
        let (wanted, expected) = (self.replicas(), i64::from(status.expected_updated_replicas));
        assert_eq!(i64::from(status.replicas), wanted);
        assert_eq!(i64::from(status.available_replicas), wanted);
        assert!(i64::from(status.updated_replicas) >= expected, "{status:?}");
        let update = status.update_revision.unwrap();
        let old = self.pods.values().filter(|pod| pod.is_active() && pod.label(REVISION_LABEL) != update);
        assert!(old.count() as i64 <= wanted - expected);
        let instances: Vec<&str> =
            self.pods.values().filter(|pod| pod.is_active()).map(PodView::instance).collect();
        let distinct: std::collections::BTreeSet<&str> = instances.iter().copied().collect();
        assert_eq!(distinct.len(), instances.len(), "an instance has one pod");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_well(
        kind in prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible")],
        claims in any::<bool>(),
        bounds in prop_oneof![Just((1, 0)), Just((2, 0)), Just((0, 1)), Just((1, 2))],
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        let mut cluster = Cluster::new(kind, claims, bounds.0, bounds.1);
        for op in &ops {
            cluster.play(op);
        }
        cluster.is_as_wanted();
    }
}

/// The shortest history of all, so that a fault of the model itself is seen.
#[test]
fn an_undisturbed_history_ends_well() {
    let mut cluster = Cluster::new("ReCreate", true, 1, 0);
    cluster.is_as_wanted();
    assert_eq!(cluster.world.claims.len(), 3);
    cluster.play(&Op::Image(3));
    cluster.is_as_wanted();
    let images: Vec<Value> = cluster.world.revisions.iter().map(|one| json!(one.template["spec"])).collect();
    assert_eq!(images.len(), 2);
}
