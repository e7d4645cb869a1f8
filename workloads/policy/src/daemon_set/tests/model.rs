//! Histories played at random: lost and late events, crashes between any two writes, evictions, deletions by
//! hand, agents that are silent, hooks that let pods go, nodes that come, go and are tainted, and edits in
//! the midst of a rollout.

use berth_proto::crd::AdvancedDaemonSetStatus;
use proptest::prelude::*;

use super::*;
use crate::played::{Played, STEPS, Step, step, writes};

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// One step of a history.
#[derive(Clone, Debug)]
enum Op {
    Cluster(Step),
    Image(i32),
    Partition(i32),
    /// A node is tainted, or not any more.
    Taint(usize),
    /// A node goes, or comes back, with its pods if it has any left.
    Node(usize),
    /// The agent of a node is silent, or heard again.
    Silence(usize),
    /// The one that minds the hook looks at a pod.
    Hook(usize),
    /// The agent of a pod cannot update it.
    Fail(usize),
    /// Writes to a pod are refused, or not any more.
    Refuse(usize),
    /// New pods of a node are refused, or not any more.
    RefuseNode(usize),
    /// A pass of the program, which ends after so many writes.
    Sync(usize),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        STEPS => step().prop_map(Op::Cluster),
        1 => (1..4).prop_map(Op::Image),
        1 => (0..5).prop_map(Op::Partition),
        1 => (0..4_usize).prop_map(Op::Taint),
        1 => (0..4_usize).prop_map(Op::Node),
        1 => (0..4_usize).prop_map(Op::Silence),
        3 => (0..8_usize).prop_map(Op::Hook),
        1 => (0..4_usize).prop_map(Op::Fail),
        1 => (0..4_usize).prop_map(Op::Refuse),
        1 => (0..4_usize).prop_map(Op::RefuseNode),
        8 => writes().prop_map(Op::Sync),
    ]
}

struct History {
    played: Played,
    spec: Value,
    status: Option<AdvancedDaemonSetStatus>,
    nodes: BTreeMap<String, NodeView>,
    held: Held,
}

/// Tells whether the pod is held before its deletion.
fn is_going(pod: &PodView) -> bool {
    State::of(pod) == State::PreparingDelete
}

fn node(name: &str) -> NodeView {
    NodeView { name: name.to_owned(), labels: [].into(), taints: Vec::new() }
}

impl History {
    /// A set that may have so many nodes out of service for its update, or so many pods beside the old ones.
    fn new(kind: &str, most: i32, hooked: bool) -> Self {
        let most_key = if kind == "Surging" { "maxSurge" } else { "maxUnavailable" };
        let mut spec = json!({
            "selector": { "matchLabels": { "app": "log" } },
            "template": template("a:1"),
            "minReadySeconds": 5,
            "updateStrategy": { "rollingUpdate": {
                "rollingUpdateType": kind, most_key: most, "partition": 0,
            } },
        });
        if hooked {
            spec["template"]["metadata"]["labels"]["hook"] = json!("true");
            spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
        }
        let nodes = NAMES.map(|name| (name.to_owned(), node(name))).into();
        Self { played: Played::new(&NAMES, true), spec, status: None, nodes, held: Held::new() }
    }

    fn rolling(&self) -> &Value {
        &self.spec["updateStrategy"]["rollingUpdate"]
    }

    fn surges(&self) -> bool {
        self.rolling()["rollingUpdateType"] == "Surging"
    }

    fn plan(&self) -> Plan {
        let set = json!({
            "apiVersion": super::super::API_VERSION,
            "kind": super::super::KIND,
            "metadata": { "namespace": "ns", "name": "log", "uid": "set" },
            "spec": self.spec,
        });
        let mut set: AdvancedDaemonSet = serde_json::from_value(set).unwrap();
        set.status.clone_from(&self.status);
        let pods: Vec<&PodView> = self.played.seen.iter().collect();
        let all: BTreeSet<String> = self.played.nodes.iter().cloned().collect();
        let input = Input {
            set: &set,
            revisions: &self.played.revisions.iter().collect::<Vec<_>>(),
            pods: &pods,
            nodes: &self.nodes,
            in_place: &self.played.in_place,
            agents: Agents {
                updating: &all,
                present: &all,
                labelling: &all,
                recalling: &all,
                silent: &self.played.silent,
            },
            ahead: Ahead::default(),
            rests_until: &BTreeMap::new(),
            held: &self.held,
            failures: &self.played.failures,
            collisions: 0,
            unadopted: &Unadopted::default(),
            put_off: &self.played.put_off,
            // Names differ from pass to pass.
            seed: self.played.now.as_second() as u64 ^ self.played.pods.len() as u64,
        };
        plan(&input, self.played.now)
    }

    fn play(&mut self, op: &Op) {
        match op {
            Op::Cluster(step) => self.played.play(step),
            Op::Image(number) => {
                let image = format!("a:{number}");
                self.spec["template"]["spec"]["containers"][0]["image"] = json!(image);
            }
            Op::Partition(partition) => {
                self.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(partition);
            }
            Op::Taint(at) => {
                if let Some(node) = self.nodes.get_mut(NAMES[*at]) {
                    let taint = json!({ "key": "x", "effect": "NoExecute" });
                    node.taints = if node.taints.is_empty() { vec![taint] } else { Vec::new() };
                }
            }
            Op::Node(at) => {
                let name = NAMES[*at];
                if self.nodes.remove(name).is_none() {
                    self.nodes.insert(name.to_owned(), node(name));
                }
            }
            Op::Silence(at) => self.played.silence(NAMES[*at].to_owned()),
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
            Op::RefuseNode(at) => self.played.refuse(NAMES[*at].to_owned()),
            Op::Sync(writes) => self.sync(*writes),
        }
        self.played.template.clone_from(&self.spec["template"]);
    }

    fn fits(&self, name: &str) -> bool {
        self.nodes.get(name).is_some_and(|node| node.taints.is_empty())
    }

    /// One pass: decides on what is seen, writes some of it.
    fn sync(&mut self, writes: usize) {
        let mut plan = self.plan();
        self.keeps_its_bounds(&plan);
        match plan.held.take() {
            // Crashed: what it knew is lost.
            _ if plan.actions.len() > writes => self.held.clear(),
            Some(held) => self.held = held,
            None => {}
        }
        let mut is_all = plan.actions.len() <= writes;
        let mut is_done = is_all;
        for action in plan.actions.into_iter().take(writes) {
            if let Action::CreatePod(pod) = &action {
                let pod = PodView::of(&serde_json::from_value(pod.clone()).unwrap());
                let beside =
                    self.played.pods.values().filter(|one| {
                        one.is_active() && one.wanted_node() == pod.placed_on && !is_going(one)
                    });
                let most = usize::from(self.surges());
                assert!(beside.count() <= most, "one pod too many on node {}", pod.placed_on);
            }
            let is_refused = self.played.is_refused(&action);
            is_done &= !is_refused;
            if !is_refused && !self.played.write(action) {
                is_all = false;
                break;
            }
        }
        if is_done && is_all {
            self.played.is_done();
        }
        if is_all && let Some(status) = plan.status {
            self.status = Some(status);
        }
    }

    /// No pass leaves more nodes without an available pod than it may, as far as it can see: none, where new
    /// pods are made beside the old ones.
    fn keeps_its_bounds(&self, plan: &Plan) {
        let gone = |uid: &str| {
            plan.actions.iter().any(|action| match action {
                Action::DeletePod(target) => target.uid == uid,
                Action::UpdateInPlace(update) => update.uid == uid,
                Action::PatchPod(target, patch) => {
                    let state = &patch["metadata"]["labels"][STATE_LABEL];
                    state == State::PreparingDelete.name() && target.uid == uid
                }
                _ => false,
            })
        };
        let serves = |name: &str, counts: &dyn Fn(&PodView) -> bool| {
            self.played
                .seen
                .iter()
                .any(|pod| pod.wanted_node() == name && self.played.is_available(pod) && counts(pod))
        };
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| self.fits(name)).collect();
        let before = wanted.iter().filter(|name| serves(name, &|_| true)).count() as i64;
        let after = wanted.iter().filter(|name| serves(name, &|pod| !gone(&pod.uid))).count() as i64;
        let most = if self.surges() { 0 } else { self.rolling()["maxUnavailable"].as_i64().unwrap() };
        let least = wanted.len() as i64 - most;
        assert!(after == before || after >= least, "{before} serve, {after} are left, least {least}");
    }

    /// Whatever cannot be done on one node, the pods of all others get the newest revision, and serve.
    fn others_are_new(&self, node: &str) {
        let hash = self.status.as_ref().unwrap().daemon_set_hash.clone().unwrap();
        let others = self.played.pods.values().filter(|pod| pod.wanted_node() != node);
        let others: Vec<&PodView> = others.collect();
        assert_eq!(others.len(), 3);
        for pod in others {
            let is_new = pod.label(REVISION_LABEL) == hash;
            assert!(is_new && self.played.is_available(pod), "{}: {:?}", pod.name, pod.labels);
        }
    }

    /// Lets everybody do their work until there is none.
    fn settle(&mut self) {
        for _ in 0..120 {
            self.played.deliver_all();
            self.sync(usize::MAX);
            self.played.go_on();
            self.played.mind_all();
            let nodes = &self.nodes;
            self.played.collect(|pod| !nodes.contains_key(pod.wanted_node()));
        }
        self.played.deliver_all();
    }

    fn is_as_wanted(&mut self) {
        self.played.allow_all();
        self.played.template.clone_from(&self.spec["template"]);
        self.settle();
        let plan = self.plan();
        assert_eq!(plan.actions, [], "something is left to do");
        assert!(self.played.in_place.keys().all(|uid| self.played.pods.contains_key(uid)), "one is gone");
        let mut there: Vec<&str> = self.played.pods.values().map(PodView::wanted_node).collect();
        there.sort_unstable();
        let wanted: Vec<&str> = NAMES.into_iter().filter(|name| self.fits(name)).collect();
        assert_eq!(there, wanted);
        assert!(self.played.pods.values().all(|pod| self.played.is_available(pod)));
        let partition = self.rolling()["partition"].as_u64().unwrap() as usize;
        let status = plan.status.or(self.status.clone()).unwrap();
        let hash = status.daemon_set_hash.unwrap();
        let old = self.played.pods.values().filter(|pod| pod.label(REVISION_LABEL) != hash).count();
        assert!(old <= partition, "{old} old pods, partition {partition}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_history_ends_well(
        kind in prop_oneof![Just("Standard"), Just("InPlaceIfPossible"), Just("Surging")],
        most in 1..3_i32,
        hooked in any::<bool>(),
        ops in proptest::collection::vec(op(), 0..60),
    ) {
        let mut history = History::new(kind, most, hooked);
        for op in &ops {
            history.play(op);
        }
        history.is_as_wanted();
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]

    /// A policy lets nobody write to a pod, or make one on its node, which is out of service then.
    #[test]
    fn a_node_that_is_refused_stops_no_other_one(
        kind in prop_oneof![Just("Standard"), Just("InPlaceIfPossible"), Just("Surging")],
        most in 1..3_i32,
        (is_lost, hooked) in any::<(bool, bool)>(),
        at in 0..4_usize,
    ) {
        // A node that is out of service counts, and so does one whose old pod cannot be deleted.
        let most = if is_lost || kind == "Surging" { 2 } else { most };
        let mut history = History::new(kind, most, hooked);
        history.is_as_wanted();
        let uid = history.played.nth(at).unwrap();
        let node = history.played.pods[&uid].node.clone();
        if is_lost {
            history.played.refuse(node.clone());
            history.play(&Op::Cluster(Step::DeleteByHand(at)));
        } else {
            history.played.refuse(uid);
        }
        history.play(&Op::Image(2));
        history.settle();
        history.others_are_new(&node);
        history.is_as_wanted();
    }
}
