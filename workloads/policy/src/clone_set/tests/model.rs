//! Histories played at random: lost and late events, crashes between any two writes, evictions, deletions by
//! hand, and edits in the midst of a rollout.
//!
//! Whatever happens, no pass takes more pods out of service than it may, none makes a pod that is there, and
//! every history ends with what the set wants.

mod refused;

use std::collections::BTreeMap;

use berth_proto::template_history::{Part, TEMPLATE_HISTORY};
use k8s_openapi::{api::core::v1::PersistentVolumeClaim, apimachinery::pkg::util::intstr::IntOrString};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{
    super::{ClaimView, Plan},
    world::{NODE, World, template},
};
use crate::{
    action::Action,
    names::{REVISION_LABEL, SPECIFIED_DELETE_LABEL, STATE_LABEL},
    played::{Played, STEPS, Step, step, writes},
    pod::PodView,
    store::Store,
};

/// One step of a history.
#[derive(Clone, Debug)]
enum Op {
    Cluster(Step),
    MarkForDeletion(usize),
    Scale(i32),
    Image(i32),
    Partition(i32),
    /// A quota is used up, or not any more.
    Quota,
    /// Writes to a pod are refused, or not any more.
    Refuse(usize),
    /// The update rests, or goes on.
    Pause,
    /// The agent is silent, or heard again.
    Silence,
    /// The agent cannot update a pod.
    Fail(usize),
    /// The one that minds the hook looks at a pod.
    Hook(usize),
    /// A pass of the program, which ends after so many writes.
    Sync(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        STEPS => step().prop_map(Op::Cluster),
        1 => (0..8_usize).prop_map(Op::MarkForDeletion),
        1 => (0..7).prop_map(Op::Scale),
        1 => (1..4).prop_map(Op::Image),
        1 => (0..7).prop_map(Op::Partition),
        1 => Just(Op::Quota),
        1 => (0..8_usize).prop_map(Op::Refuse),
        1 => Just(Op::Pause),
        1 => Just(Op::Silence),
        1 => (0..8_usize).prop_map(Op::Fail),
        3 => (0..8_usize).prop_map(Op::Hook),
        8 => writes().prop_map(Op::Sync),
    ]
}

/// Kind of a set.
#[derive(Clone, Copy, Debug)]
struct Kind {
    type_: &'static str,
    claims: bool,
    most_unavailable: i64,
    most_surge: i64,
    /// Pods are held for their update.
    hooked: bool,
    /// A partition that is raised brings pods back.
    goes_back: bool,
}

/// The cluster as it is, and as the program sees it.
struct Cluster {
    kind: Kind,
    world: World,
    played: Played,
    /// No pod can be made.
    is_refused: bool,
}

impl Cluster {
    fn new(kind: Kind) -> Self {
        let mut spec = json!({
            "replicas": 3,
            "minReadySeconds": 5,
            "updateStrategy": {
                "type": kind.type_, "maxUnavailable": kind.most_unavailable, "maxSurge": kind.most_surge,
            },
        });
        if kind.hooked {
            spec["lifecycle"] = json!({ "inPlaceUpdate": { "labelsHandler": { "hook": "true" } } });
        }
        if kind.claims {
            spec["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
        }
        let mut world = World::new(spec, "");
        world.set.status = None;
        world.settings.partition_rollback = kind.goes_back;
        let mut cluster = Self { kind, world, played: Played::new(&[NODE], false), is_refused: false };
        cluster.has_image(2);
        cluster
    }

    /// The set's author writes another image.
    fn has_image(&mut self, number: i32) {
        let mut template = template(&format!("a:{number}"));
        if self.kind.hooked {
            template["metadata"]["labels"]["hook"] = json!("true");
        }
        self.has_template(template);
    }

    fn has_template(&mut self, template: Map<String, Value>) {
        self.played.template = json!(template);
        let before = std::mem::replace(&mut self.world.set.spec.template.0, template);
        if self.kind.goes_back && self.kind.type_ != "ReCreate" {
            self.note(&before);
        }
        self.is_edited();
    }

    /// Admission notes what the template had.
    fn note(&mut self, before: &Map<String, Value>) {
        let image = before["spec"]["containers"][0]["image"].as_str().unwrap();
        let annotations = self.world.set.metadata.annotations.get_or_insert_with(BTreeMap::new);
        let history = annotations.entry(TEMPLATE_HISTORY.to_owned()).or_default();
        let part = Part::Image { container: "main", image };
        if !part.is_in(history) {
            *history = format!("{},{history}", part.digest());
        }
        self.tell_agents();
    }

    /// Agents look there where the partition keeps pods.
    fn tell_agents(&mut self) {
        let strategy = self.world.set.spec.update_strategy.as_ref().unwrap();
        let keeps = strategy.partition.as_ref().is_some_and(|partition| *partition != IntOrString::Int(0));
        let noted = self.world.set.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE_HISTORY));
        self.played.history = noted.filter(|_| keeps).cloned().unwrap_or_default();
    }

    /// The API server counts what its author has changed.
    fn is_edited(&mut self) {
        let generation = &mut self.world.set.metadata.generation;
        *generation = generation.map(|generation| generation + 1);
    }

    fn play(&mut self, op: &Op) {
        if matches!(op, Op::Scale(_) | Op::Partition(_) | Op::Pause) {
            self.is_edited();
        }
        let spec = &mut self.world.set.spec;
        match op {
            Op::Cluster(step) => self.played.play(step),
            Op::MarkForDeletion(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    let label = (SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
                    self.played.change(&uid, |pod| pod.labels.extend([label]));
                }
            }
            Op::Scale(replicas) => spec.replicas = Some(*replicas),
            Op::Image(number) => self.has_image(*number),
            Op::Partition(partition) => {
                let strategy = spec.update_strategy.as_mut().unwrap();
                strategy.partition = Some(serde_json::from_value(json!(partition)).unwrap());
                self.tell_agents();
            }
            Op::Quota => self.is_refused = !self.is_refused,
            Op::Refuse(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.refuse(uid);
                }
            }
            Op::Pause => {
                let strategy = spec.update_strategy.as_mut().unwrap();
                strategy.paused = !strategy.paused;
            }
            Op::Silence => self.played.silence(NODE.to_owned()),
            Op::Fail(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.fail(&uid);
                }
            }
            Op::Hook(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.mind(&uid);
                }
            }
            Op::Sync(writes) => self.sync(*writes),
        }
    }

    fn plan(&mut self) -> Plan {
        self.world.pods = self.played.seen.iter().cloned().collect();
        self.world.revisions.clone_from(&self.played.revisions);
        self.world.in_place.clone_from(&self.played.in_place);
        self.world.silent.clone_from(&self.played.silent);
        self.world.put_off.clone_from(&self.played.put_off);
        self.world.failures.clone_from(&self.played.failures);
        self.world.plan_at(self.played.now)
    }

    /// One pass: decides on what is seen, writes some of it, and is begun anew if that was not all.
    fn sync(&mut self, writes: usize) {
        let plan = self.plan();
        self.keeps_its_bounds(&plan);
        let creates = plan.actions.iter().any(|action| matches!(action, Action::CreatePod(_)));
        let all = plan.actions.len();
        let (parts, status) = plan.into_parts();
        let mut left = writes;
        let (mut is_done, mut are_written) = (true, true);
        'pass: for part in parts {
            // A pod that is not deleted keeps its claims.
            let mut is_behind = false;
            for action in part {
                if matches!(action, Action::CreatePod(_)) && self.is_refused {
                    self.played.failures.scale = Some("no quota".to_owned());
                    is_done = false;
                    break;
                }
                if matches!(action, Action::DeleteClaim(_)) && is_behind {
                    continue;
                }
                is_behind = self.played.is_refused(&action);
                is_done &= !is_behind;
                if left > 0 && !is_behind {
                    left -= 1;
                    are_written = self.write(action);
                    if !are_written {
                        break 'pass;
                    }
                }
            }
        }
        if is_done {
            self.played.is_done();
        }
        let active = self.played.pods.values().filter(|pod| pod.is_active()).count() as i64;
        if creates && writes >= all {
            assert!(active <= self.replicas() + self.kind.most_surge, "{active} pods");
        }
        if writes < all {
            // Crashed: what it knew is lost, and comes back by a list.
            self.played.seen = Store::default();
            self.played.list();
        } else if let Some(status) = status.filter(|_| are_written) {
            self.world.set.status = Some(status);
        }
    }

    fn replicas(&self) -> i64 {
        self.world.set.spec.replicas.unwrap_or(1).into()
    }

    /// No pass takes more pods out of service than it may, as far as it can see.
    fn keeps_its_bounds(&self, plan: &Plan) {
        let available =
            |uid: &str| self.played.seen.get(uid).is_some_and(|pod| self.played.is_available(pod));
        let before = self.played.seen.iter().filter(|pod| self.played.is_available(pod)).count() as i64;
        let taken = plan.actions.iter().filter(|action| match action {
            Action::DeletePod(target) => available(&target.uid),
            Action::UpdateInPlace(update) => available(&update.uid),
            Action::PatchPod(target, patch) => is_held(patch) && available(&target.uid),
            _ => false,
        });
        let taken = taken.count() as i64;
        let least = self.replicas() - self.kind.most_unavailable;
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

    fn write(&mut self, action: Action) -> bool {
        match action {
            Action::CreateClaim(object) => {
                let claim: PersistentVolumeClaim = serde_json::from_value(object).unwrap();
                let mut claim = ClaimView::of(&claim);
                claim.version = self.played.version();
                claim.uid = format!("claim-{}", claim.version);
                self.world.claims.push(claim);
            }
            Action::DeleteClaim(target) => self.world.claims.retain(|claim| claim.uid != target.uid),
            other => return self.played.write(other),
        }
        true
    }

    /// Lets everybody do their work until there is none.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.played.deliver_all();
            self.sync(usize::MAX);
            self.played.go_on();
            self.played.mind_all();
        }
    }

    fn is_as_wanted(&mut self) {
        self.is_refused = false;
        self.played.allow_all();
        self.world.set.spec.update_strategy.as_mut().unwrap().paused = false;
        if self.kind.type_ == "InPlaceOnly" {
            // Its author asks again for what its nodes could not do: it waits for that, and says so. No pass
            // sees that the template was another one.
            self.played.silent.clear();
            let template = self.world.set.spec.template.0.clone();
            self.has_image(9);
            self.has_template(template);
        }
        self.settle();
        let plan = self.plan();
        assert_eq!(plan.actions, [], "something is left to do");
        assert!(self.played.in_place.keys().all(|uid| self.played.pods.contains_key(uid)), "one is gone");
        let status = plan.status.or(self.world.set.status.clone()).unwrap();
        let (wanted, expected) = (self.replicas(), i64::from(status.expected_updated_replicas));
        assert_eq!(i64::from(status.replicas), wanted);
        assert_eq!(i64::from(status.available_replicas), wanted);
        assert!(i64::from(status.updated_replicas) >= expected, "{status:?}");
        let update = status.update_revision.unwrap();
        let old =
            self.played.pods.values().filter(|pod| pod.is_active() && pod.label(REVISION_LABEL) != update);
        let (old, kept) = (old.count() as i64, wanted - expected);
        assert!(old <= kept, "{old} old, {kept} are to be");
        if self.kind.goes_back && status.current_revision.is_some_and(|current| current != update) {
            assert_eq!(old, kept, "pods that are brought back");
        }
        let instances: Vec<&str> =
            self.played.pods.values().filter(|pod| pod.is_active()).map(PodView::instance).collect();
        let distinct: std::collections::BTreeSet<&str> = instances.iter().copied().collect();
        assert_eq!(distinct.len(), instances.len(), "an instance has one pod");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_well(
        type_ in prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")],
        (claims, hooked, goes_back) in any::<(bool, bool, bool)>(),
        bounds in prop_oneof![Just((1, 0)), Just((2, 0)), Just((0, 1)), Just((1, 2))],
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        // Such a set takes no surge: no pod would ever be made for it.
        let (most_unavailable, most_surge) = if type_ == "InPlaceOnly" { (bounds.0.max(1), 0) } else { bounds };
        let mut cluster =
            Cluster::new(Kind { type_, claims, most_unavailable, most_surge, hooked, goes_back });
        for op in &ops {
            cluster.play(op);
        }
        cluster.is_as_wanted();
    }
}

/// Tells whether a patch takes the pod out of service before its update or its deletion.
fn is_held(patch: &Value) -> bool {
    let state = &patch["metadata"]["labels"][STATE_LABEL];
    ["PreparingUpdate", "PreparingDelete"].iter().any(|held| state == held)
}

/// The shortest history of all, so that a fault of the model itself is seen.
#[test]
fn an_undisturbed_history_ends_well() {
    let mut cluster = Cluster::new(Kind {
        type_: "ReCreate",
        claims: true,
        most_unavailable: 1,
        most_surge: 0,
        hooked: false,
        goes_back: false,
    });
    cluster.is_as_wanted();
    assert_eq!(cluster.world.claims.len(), 3);
    cluster.play(&Op::Image(3));
    cluster.is_as_wanted();
    let images: Vec<Value> = cluster.played.revisions.iter().map(|one| json!(one.template["spec"])).collect();
    assert_eq!(images.len(), 2);
}
