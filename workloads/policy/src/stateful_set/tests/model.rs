//! Histories played at random: lost and late events, crashes between any two writes, evictions, deletions by
//! hand, claims that go with pods, agents that are silent, hooks that let pods go, and edits in the midst of
//! a rollout.

mod claims;

use berth_proto::crd::AdvancedStatefulSetStatus;
use proptest::prelude::*;

use super::*;
use crate::played::{BROKEN, Played, STEPS, Step, step, writes};

/// One step of a history.
#[derive(Clone, Debug)]
enum Op {
    Cluster(Step),
    Scale(i32),
    /// Another image; pods of number 0 never come up.
    Image(i32),
    /// Another value of a label of the template.
    Tier(i32),
    Partition(i32),
    /// Numbers that no pod gets, by the first and the last one.
    Reserve(i64, i64),
    /// Another first number.
    Start(i64),
    /// Claims go with the set or not, and with pods that are scaled away or not.
    Retention(bool, bool),
    /// Somebody deletes a claim.
    DeleteClaim(usize),
    /// The garbage collector looks at the claims.
    Collect,
    /// The agents of a node are silent, or heard again.
    Silence(usize),
    /// Somebody wants a pod made anew.
    Specify(usize),
    /// The one that minds the hook looks at a pod.
    Hook(usize),
    /// The agent of a pod cannot update it.
    Fail(usize),
    /// Writes to a pod are refused, or not any more.
    Refuse(usize),
    /// A pass of the program, which ends after so many writes.
    Sync(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        STEPS => step().prop_map(Op::Cluster),
        1 => (0..7).prop_map(Op::Scale),
        1 => (0..4).prop_map(Op::Image),
        1 => (1..4).prop_map(Op::Tier),
        1 => (0..7).prop_map(Op::Partition),
        1 => (0..5_i64, 0..3_i64).prop_map(|(first, more)| Op::Reserve(first, first + more)),
        1 => (0..4_i64).prop_map(Op::Start),
        1 => any::<(bool, bool)>().prop_map(|(deleted, scaled)| Op::Retention(deleted, scaled)),
        1 => (0..8_usize).prop_map(Op::DeleteClaim),
        2 => Just(Op::Collect),
        1 => (0..2_usize).prop_map(Op::Silence),
        1 => (0..8_usize).prop_map(Op::Specify),
        3 => (0..8_usize).prop_map(Op::Hook),
        1 => (0..8_usize).prop_map(Op::Fail),
        1 => (0..8_usize).prop_map(Op::Refuse),
        8 => writes().prop_map(Op::Sync),
    ]
}

struct History {
    played: Played,
    spec: Value,
    /// Changes of the spec, counted.
    generation: i64,
    status: Option<AdvancedStatefulSetStatus>,
    claims: Vec<ClaimView>,
}

fn number_of(pod: &str) -> i64 {
    super::super::ordinal("db", pod).unwrap()
}

impl History {
    fn new(policy: &str, ordered: bool, most: i32, hooked: bool, claimed: bool) -> Self {
        let mut spec = json!({
            "replicas": 3,
            "selector": { "matchLabels": { "app": "db" } },
            "template": template("a:1"),
            "podManagementPolicy": if ordered { "OrderedReady" } else { "Parallel" },
            "updateStrategy": { "rollingUpdate": {
                "podUpdatePolicy": policy, "maxUnavailable": most, "minReadySeconds": 5, "partition": 0,
            } },
        });
        if hooked {
            spec["template"]["metadata"]["labels"]["hook"] = json!("true");
            spec["lifecycle"] = json!({
                "preNormal": { "labelsHandler": { "joined": "true" } },
                "inPlaceUpdate": { "labelsHandler": { "hook": "true" } },
            });
        }
        if claimed {
            spec["volumeClaimTemplates"] = json!([{ "metadata": { "name": "data" } }]);
        }
        let played = Played::new(&["n0", "n1"], false);
        Self { played, spec, generation: 1, status: None, claims: Vec::new() }
    }

    fn plan(&self) -> Plan {
        let set = json!({
            "apiVersion": super::super::API_VERSION,
            "kind": super::super::KIND,
            "metadata": { "namespace": "ns", "name": "db", "uid": "set", "generation": self.generation },
            "spec": self.spec,
        });
        let mut set: berth_proto::crd::AdvancedStatefulSet = serde_json::from_value(set).unwrap();
        set.status.clone_from(&self.status);
        let pods: Vec<&PodView> = self.played.seen.iter().collect();
        let nodes: BTreeSet<String> = self.played.nodes.iter().cloned().collect();
        let input = Input {
            set: &set,
            revisions: &self.played.revisions.iter().collect::<Vec<_>>(),
            pods: &pods,
            claims: &self.claims.iter().collect::<Vec<_>>(),
            in_place: &self.played.in_place,
            agents: Agents {
                updating: &nodes,
                present: &nodes,
                labelling: &nodes,
                recalling: &nodes,
                silent: &self.played.silent,
            },
            ahead: Ahead::default(),
            rests_until: &BTreeMap::new(),
            failures: &self.played.failures,
            put_off: &self.played.put_off,
            collisions: 0,
            unadopted: &Unadopted::default(),
        };
        plan(&input, self.played.now)
    }

    fn play(&mut self, op: &Op) {
        let before = self.spec.clone();
        match op {
            Op::Cluster(step) => self.played.play(step),
            Op::Scale(replicas) => self.spec["replicas"] = json!(replicas),
            Op::Image(number) => {
                let image = format!("a:{number}");
                self.spec["template"]["spec"]["containers"][0]["image"] = json!(image);
            }
            Op::Tier(number) => {
                let labels = &mut self.spec["template"]["metadata"]["labels"];
                labels["tier"] = json!(number.to_string());
                // Beside one that is there or is not.
                labels.as_object_mut().unwrap().remove("odd");
                if number % 2 == 1 {
                    labels["odd"] = json!("1");
                }
            }
            Op::Partition(partition) => {
                self.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(partition);
            }
            Op::Reserve(first, last) => {
                self.spec["reserveOrdinals"] = json!([format!("{first}-{last}"), last]);
            }
            Op::Start(start) => self.spec["ordinals"] = json!({ "start": start }),
            Op::Retention(deleted, scaled) => {
                let policy = |is_deleted: &bool| if *is_deleted { "Delete" } else { "Retain" };
                self.spec["persistentVolumeClaimRetentionPolicy"] =
                    json!({ "whenDeleted": policy(deleted), "whenScaled": policy(scaled) });
            }
            Op::DeleteClaim(at) => {
                if let Some(claim) = self.claims.get_mut(*at) {
                    claim.terminating = true;
                }
            }
            Op::Collect => self.collect_claims(),
            Op::Silence(at) => {
                let node = self.played.nodes[*at].clone();
                self.played.silence(node);
            }
            Op::Specify(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    let label = (SPECIFIED_DELETE_LABEL.to_owned(), "true".to_owned());
                    self.played.change(&uid, |pod| pod.labels.extend([label]));
                }
            }
            Op::Hook(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.mind(&uid);
                }
            }
            Op::Fail(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.fail(&uid);
                }
            }
            Op::Refuse(at) => {
                if let Some(uid) = self.played.nth(*at) {
                    self.played.refuse(uid);
                }
            }
            Op::Sync(writes) => self.sync(*writes),
        }
        self.played.template.clone_from(&self.spec["template"]);
        self.generation += i64::from(self.spec != before);
    }

    fn slots(&self) -> Vec<i64> {
        let reserved = self.spec["reserveOrdinals"][0].as_str().and_then(|range| range.split_once('-'));
        let reserved = reserved.map(|(first, last)| first.parse().unwrap()..=last.parse().unwrap());
        let replicas = self.spec["replicas"].as_u64().unwrap() as usize;
        let is_reserved = |ordinal: &i64| reserved.as_ref().is_some_and(|range| range.contains(ordinal));
        (self.start()..).filter(|ordinal| !is_reserved(ordinal)).take(replicas).collect()
    }

    fn start(&self) -> i64 {
        self.spec["ordinals"]["start"].as_i64().unwrap_or(0)
    }

    /// One pass: decides on what is seen, writes some of it.
    fn sync(&mut self, writes: usize) {
        let plan = self.plan();
        self.keeps_its_bounds(&plan);
        let is_all = plan.actions.len() <= writes;
        let (mut is_done, mut are_written) = (is_all, true);
        for action in plan.actions.into_iter().take(writes) {
            let is_refused = self.played.is_refused(&action);
            is_done &= !is_refused;
            if !is_refused && !self.write(action) {
                are_written = false;
                break;
            }
        }
        if is_done && are_written {
            self.played.is_done();
        }
        if is_all
            && are_written
            && let Some(status) = plan.status
        {
            self.status = Some(status);
        }
    }

    /// No pass takes more pods with a slot out of service than it may, as far as it can see.
    fn keeps_its_bounds(&self, plan: &Plan) {
        let slots = self.slots();
        let ordinal = |pod: &PodView| number_of(&pod.name);
        let counts = |pod: &&PodView| self.played.is_available(pod) && slots.contains(&ordinal(pod));
        let before = self.played.seen.iter().filter(counts).count() as i64;
        let available = |uid: &str| self.played.seen.get(uid).as_ref().is_some_and(counts);
        let taken = plan.actions.iter().filter(|action| match action {
            Action::DeletePod(target) => available(&target.uid),
            Action::UpdateInPlace(update) => available(&update.uid),
            Action::PatchPod(target, patch) => is_held(patch) && available(&target.uid),
            _ => false,
        });
        let taken = taken.count() as i64;
        let most = self.spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"].as_i64().unwrap();
        let least = slots.len() as i64 - most;
        assert!(taken == 0 || before - taken >= least, "{before} available, {taken} taken, least {least}");
    }

    /// Whatever cannot be done with one pod, all others get the newest revision, and serve.
    fn others_are_new(&self, refused: &str) {
        let update = self.status.as_ref().unwrap().update_revision.clone().unwrap();
        let others: Vec<&PodView> = self.played.pods.values().filter(|pod| pod.uid != refused).collect();
        assert_eq!(others.len(), 2);
        for pod in others {
            let is_new = pod.label(REVISION_LABEL) == update;
            assert!(is_new && self.played.is_available(pod), "{}: {:?}", pod.name, pod.labels);
        }
    }

    /// Lets everybody do their work until there is none.
    fn settle(&mut self) {
        for _ in 0..150 {
            self.played.deliver_all();
            self.sync(usize::MAX);
            self.played.go_on();
            self.played.mind_all();
            self.collect_claims();
        }
        self.played.deliver_all();
    }

    fn is_as_wanted(&mut self) {
        self.played.allow_all();
        // A broken template is mended, and no pod of the partition is to have it.
        let image = &mut self.spec["template"]["spec"]["containers"][0]["image"];
        let is_broken = |one: &Revision| one.template["spec"]["containers"][0]["image"] == BROKEN;
        if *image == BROKEN || self.played.revisions.iter().any(is_broken) {
            if *image == BROKEN {
                *image = json!("a:1");
            }
            self.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(0);
            self.generation += 1;
        }
        self.played.template.clone_from(&self.spec["template"]);
        if self.spec["updateStrategy"]["rollingUpdate"]["podUpdatePolicy"] == "InPlaceOnly" {
            // The template goes away and comes back, and no pass has seen it: what could not be done is
            // asked for again.
            self.played.silent.clear();
            self.generation += 2;
        }
        self.settle();
        let plan = self.plan();
        assert_eq!(plan.actions, [], "something is left to do");
        assert!(self.played.in_place.keys().all(|uid| self.played.pods.contains_key(uid)), "one is gone");
        let slots = self.slots();
        let mut there: Vec<i64> = self.played.pods.values().map(|pod| number_of(&pod.name)).collect();
        there.sort_unstable();
        assert_eq!(there, slots);
        self.claims_are_as_wanted(&slots);
        assert!(self.played.pods.values().all(|pod| self.played.is_available(pod)));
        assert!(self.played.pods.values().all(|pod| !pod.labels.contains_key(SPECIFIED_DELETE_LABEL)));
        let partition = self.spec["updateStrategy"]["rollingUpdate"]["partition"].as_i64().unwrap();
        let status = plan.status.or(self.status.clone()).unwrap();
        let update = status.update_revision.unwrap();
        let is_new = |pod: &PodView| pod.label(REVISION_LABEL) == update;
        let ordinal = |pod: &PodView| number_of(&pod.name);
        assert!(self.played.pods.values().all(|pod| ordinal(pod) < self.start() + partition || is_new(pod)));
        // Metadata is that of the revision, whoever was to write it.
        for pod in self.played.pods.values().filter(|pod| is_new(pod)) {
            for key in ["tier", "odd"] {
                let wanted = self.spec["template"]["metadata"]["labels"][key].as_str();
                assert_eq!(pod.labels.get(key).map(String::as_str), wanted, "{key} of {}", pod.name);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_well(
        policy in prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")],
        ordered in any::<bool>(),
        most in 1..3_i32,
        (hooked, claimed) in any::<(bool, bool)>(),
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        let mut history = History::new(policy, ordered, most, hooked, claimed);
        for op in &ops {
            history.play(op);
        }
        history.is_as_wanted();
    }
}

/// Tells whether a patch takes the pod out of service before its update or its deletion.
fn is_held(patch: &Value) -> bool {
    let state = &patch["metadata"]["labels"][STATE_LABEL];
    ["PreparingUpdate", "PreparingDelete"].iter().any(|held| state == held)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// A pod that a policy lets nobody write to, and that somebody wants made anew or not. In order the
    /// others wait for it.
    #[test]
    fn a_pod_that_is_refused_stops_no_other_one(
        policy in prop_oneof![Just("ReCreate"), Just("InPlaceIfPossible"), Just("InPlaceOnly")],
        most in 1..3_i32,
        (hooked, specified, claimed) in any::<(bool, bool, bool)>(),
        at in 0..3_usize,
    ) {
        let mut history = History::new(policy, false, most, hooked, claimed);
        history.is_as_wanted();
        let uid = history.played.nth(at).unwrap();
        history.played.refuse(uid.clone());
        if specified {
            history.play(&Op::Specify(at));
        }
        history.play(&Op::Image(2));
        history.settle();
        history.others_are_new(&uid);
        history.is_as_wanted();
    }
}
