//! Tables of cases, with ten nodes a to j. `b:o` is an old pod on b, `b:m` one of the revision between that
//! and the newest; `!` broken, `P` held, `T` going, `F` ended.

mod adopt;
mod grace;
mod held;
mod model;
mod nodes;
mod status;
mod surplus;

use std::collections::{BTreeMap, BTreeSet};

use berth_proto::crd::{AdvancedDaemonSet, AdvancedDaemonSetStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use rstest::rstest;
use serde_json::{Value, json};

use super::{Held, Input, Plan, plan};
use crate::{
    action::Action,
    adopt::Unadopted,
    agents::Agents,
    in_place::{InPlacePhase, InPlaceState},
    lifecycle::State,
    names::{IN_PLACE_GATE, REVISION_LABEL, STATE_LABEL},
    plan::{Failures, NodeView},
    pod::{Phase, PodView},
    predownload::Ahead,
    revision::Revision,
};

const NOW: Timestamp = Timestamp::constant(1_000_000, 0);
const NODES: &str = "abcdefghij";

fn template(image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "log" } },
        "spec": { "containers": [{ "name": "main", "image": image }], "aFieldOfLater": [1] },
    })
}

fn revision(name: &str, number: i64, image: &str) -> Revision {
    Revision {
        namespace: "ns".to_owned(),
        name: name.to_owned(),
        uid: name.to_owned(),
        version: "1".to_owned(),
        number,
        created: Timestamp::UNIX_EPOCH,
        owner: "set".to_owned(),
        mark: None,
        template: template(image).as_object().cloned().unwrap(),
    }
}

fn owners() -> Vec<OwnerReference> {
    let owner = json!({ "apiVersion": "", "kind": "", "name": "log", "uid": "set", "controller": true });
    serde_json::from_value(json!([owner])).unwrap()
}

fn pod(token: &str, at: usize) -> PodView {
    let (node, marks) = token.split_once(':').unwrap();
    let has = |mark| marks.contains(mark);
    let state = if has('P') { State::PreparingDelete } else { State::None };
    let hash = match (has('o'), has('m')) {
        (true, _) => "old",
        (_, true) => "mid",
        _ => "new",
    };
    let mut labels = BTreeMap::from(
        [("app", "log"), (REVISION_LABEL, hash), (STATE_LABEL, state.name())]
            .map(|(key, value)| (key.to_owned(), value.to_owned())),
    );
    if has('P') || has('h') {
        labels.insert("hook".to_owned(), "true".to_owned());
    }
    let is_ready = !has('!') && !has('F');
    PodView {
        namespace: "ns".to_owned(),
        name: format!("log-{at}-{node}"),
        uid: format!("uid-{at}"),
        version: "1".to_owned(),
        labels,
        finalizers: Vec::new(),
        owners: owners(),
        gates: vec![IN_PLACE_GATE.to_owned()],
        placed_on: String::new(),
        node: node.to_owned(),
        phase: if has('F') { Phase::Ended } else { Phase::Running },
        terminating: has('T'),
        ready_since: is_ready.then_some(Timestamp::constant(900_000, 0)),
        gate: (!has('!')).then_some(true),
        kruise_ready: None,
        restarts: 0,
        created: Timestamp::constant(100 + i64::try_from(at).unwrap(), 0),
        deletion_cost: 0,
        shut: None,
        metadata_of: None,
        grace: None,
        shown: None,
        not_up: None,
        failing_since: None,
    }
}

struct World {
    spec: Value,
    annotations: Value,
    pods: Vec<PodView>,
    nodes: Vec<NodeView>,
    rests: BTreeMap<String, Timestamp>,
    held: Held,
    status: Option<AdvancedDaemonSetStatus>,
    /// The newest revision was made first.
    went_back: bool,
    in_place: BTreeMap<String, InPlaceState>,
    /// Refusal of the last update.
    refused: Option<String>,
    unadopted: Unadopted,
    /// Nodes whose agents say nothing.
    silent: BTreeSet<String>,
    /// Nodes whose pods could not be made.
    put_off: BTreeSet<String>,
}

/// Ten pods of this kind, one a node.
fn ten(marks: &str) -> String {
    NODES.chars().map(|node| format!("{node}:{marks} ")).collect()
}

/// Ten pods of one kind, and of another one on some nodes.
fn split(marks: &str, others: &str, on: &str) -> String {
    let all = NODES.chars().map(|node| (node, if on.contains(node) { others } else { marks }));
    all.map(|(node, marks)| format!("{node}:{marks} ")).collect()
}

impl World {
    fn new(rolling: Value, pods: &str) -> Self {
        let node = |name: char| NodeView {
            name: name.to_string(),
            labels: if "ab".contains(name) {
                [("canary".to_owned(), "1".to_owned())].into()
            } else {
                [].into()
            },
            taints: Vec::new(),
        };
        Self {
            spec: json!({
                "selector": { "matchLabels": { "app": "log" } },
                "template": template("a:2"),
                "updateStrategy": { "rollingUpdate": rolling },
            }),
            annotations: json!({}),
            pods: pods.split_whitespace().enumerate().map(|(at, token)| pod(token, at)).collect(),
            nodes: NODES.chars().map(node).collect(),
            rests: BTreeMap::new(),
            held: Held::new(),
            status: None,
            went_back: false,
            in_place: BTreeMap::new(),
            refused: Some("no room".to_owned()),
            unadopted: Unadopted::default(),
            silent: BTreeSet::new(),
            put_off: BTreeSet::new(),
        }
    }

    fn set(&self) -> AdvancedDaemonSet {
        let set = json!({
            "apiVersion": super::API_VERSION,
            "kind": super::KIND,
            "metadata": { "namespace": "ns", "name": "log", "uid": "set", "generation": 4,
                "annotations": self.annotations },
            "spec": self.spec,
            "status": self.status,
        });
        serde_json::from_value(set).unwrap()
    }

    fn plan(&self) -> Plan {
        let set = self.set();
        let pods: Vec<_> = self.pods.iter().collect();
        let nodes = self.nodes.iter().map(|node| (node.name.clone(), node.clone())).collect();
        let mut middle = revision("log-mid", 2, "a:3");
        middle.created = Timestamp::constant(i64::from(self.went_back), 0);
        let here = NODES.chars().map(String::from).collect::<BTreeSet<_>>();
        let input = Input {
            set: &set,
            revisions: &[&revision("log-old", 1, "a:1"), &middle, &revision("log-new", 3, "a:2")],
            pods: &pods,
            nodes: &nodes,
            in_place: &self.in_place,
            agents: Agents {
                updating: &here,
                present: &here,
                labelling: &here,
                recalling: &here,
                silent: &self.silent,
            },
            ahead: Ahead::default(),
            rests_until: &self.rests,
            held: &self.held,
            failures: &Failures { scale: None, update: self.refused.clone() },
            collisions: 0,
            seed: 7,
            unadopted: &self.unadopted,
            put_off: &self.put_off,
        };
        plan(&input, NOW)
    }

    /// Effect of a pass: `+bn` is made on b of the newest template, `-a` deleted, `~c` updated in place.
    fn effect(&self) -> String {
        let node = |name: &str| name.rsplit('-').next().unwrap().to_owned();
        let effects = self.plan().actions.into_iter().map(|action| match action {
            Action::CreatePod(pod) => {
                let terms = &pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"];
                let on = terms["nodeSelectorTerms"][0]["matchFields"][0]["values"][0].as_str().unwrap();
                let label = pod["metadata"]["labels"][REVISION_LABEL].as_str().unwrap();
                format!("+{on}{}", label.chars().next().unwrap())
            }
            Action::DeletePod(target) => format!("-{}", node(&target.name)),
            Action::UpdateInPlace(update) => format!("~{}", node(&update.name)),
            Action::PatchPod(target, _) => format!("held {}", node(&target.name)),
            Action::PatchPodStatus(target, _) => format!("open {}", node(&target.name)),
            Action::ForgetInPlace { node, .. } => format!("forget {node}"),
            other => panic!("{other:?}"),
        });
        effects.collect::<Vec<_>>().join(" ")
    }
}

#[rstest]
#[case::n1(json!({ "maxUnavailable": 2 }), ten("o"), "-j -i")]
#[case::n1_made_again(json!({ "maxUnavailable": 2 }), ten("o").replace("j:o", "").replace("i:o", ""), "+in +jn")]
#[case::n2_broken_ones_first_cost_nothing(json!({}), ten("o").replace("c:o", "c:o!"), "-c")]
#[case::n2_and_no_more_than_may_be_out(json!({}), ten("o").replace("c:o", "c:o!").replace("d:o", "d:o!"), "-d")]
#[case::n3(json!({ "partition": 7, "maxUnavailable": 9 }), ten("o"), "-j -i -h")]
#[case::n4(json!({ "partition": 9, "selector": { "matchLabels": { "canary": "1" } } }), ten("o"), "-b")]
#[case::n6_beside(json!({ "maxSurge": "30%", "maxUnavailable": 0 }), ten("o"), "+jn +in +hn")]
#[case::n6_not_available(json!({ "maxSurge": 1, "maxUnavailable": 0 }), format!("{} j:n!", ten("o")), "")]
#[case::n6_the_old_one_goes(json!({ "maxSurge": 1, "maxUnavailable": 0 }), format!("{} j:n", ten("o")), "-j")]
#[case::n8_comes_back_as_it_was(json!({ "partition": 7 }), ten("o").replace("b:o", ""), "+bo")]
#[case::n8_or_new(json!({ "partition": 7 }), ten("o").replace("j:o", ""), "+jn")]
#[case::n8_all_are_new_already(json!({ "partition": 7 }), ten("n").replace("b:n", ""), "+bn")]
#[case::n8_after_an_undo(json!({ "partition": 7 }), split("n", "o", "hij").replace("b:n", ""), "+bn")]
#[case::n8_two_templates_ago(json!({ "partition": 7 }), split("o", "m", "hij").replace("b:o", ""), "+bo")]
#[case::n8_as_many_of_both(json!({ "partition": 7 }), split("n", "o", "acd").replace("b:n", ""), "+bn")]
#[case::n8_most_of_them(json!({ "partition": 7 }), split("n", "o", "acde").replace("b:n", ""), "+bo")]
#[case::n8_those_that_go_tell_it(json!({ "partition": 7 }), ten("oT").replace("b:oT", ""), "+bo")]
#[case::n8_nobody_tells_it(json!({ "partition": 7 }), "b:n".into(), "+am +cm +dm +em +fm +gm +hm +in +jn")]
#[case::n9_a_new_pod_that_is_broken(json!({}), ten("o").replace("j:o", "j:n!"), "")]
#[case::surging(json!({ "rollingUpdateType": "Surging" }), ten("o"), "+jn")]
#[case::in_place(json!({ "rollingUpdateType": "InPlaceIfPossible" }), ten("o"), "~j")]
#[case::at_rest(json!({ "paused": true }), ten("o"), "")]
#[case::two_on_a_node(json!({}), format!("{} c:n", ten("n")), "-c")]
#[case::one_that_goes_is_waited_for(json!({}), ten("n").replace("c:n", "c:nT"), "")]
#[case::one_that_has_ended(json!({}), ten("n").replace("c:n", "c:nF"), "-c")]
fn cases(#[case] rolling: Value, #[case] pods: String, #[case] effect: &str) {
    assert_eq!(World::new(rolling, &pods).effect(), effect);
}

#[test]
fn n5_a_canary_stays_new_when_its_label_goes() {
    let rolling = json!({ "partition": 9, "selector": { "matchLabels": { "canary": "1" } } });
    let mut world = World::new(rolling, &ten("o").replace("b:o", "b:n"));
    world.nodes[1].labels.clear();
    assert_eq!(world.effect(), "");
}

#[test]
fn n7_pods_come_progressively() {
    let mut world = World::new(json!({ "partition": 7 }), "");
    world.annotations = json!({ "daemonset.kruise.io/progressive-create-pod": "true" });
    assert_eq!(world.effect(), "+an +bn +cn");
}

/// As many have the newest template as the partition lets go: first those that are made. Rows: pods, and what
/// is done.
#[rstest]
#[case("a:n b:n c:n".to_owned(), "")]
#[case("a:n c:n".to_owned(), "+bn")]
#[case("a:o b:o c:o".to_owned(), "+dn +en +fn")]
#[case("a:o b:o c:o d:n e:n f:n".to_owned(), "")]
#[case(ten("o").replace("j:o", ""), "+jn")]
#[case(ten("o"), "-j")]
#[case(ten("o").replace("j:o", "j:n!"), "")]
#[case(ten("o").replace("j:o", "j:n"), "-i")]
fn pods_that_came_progressively_are_updated(#[case] pods: String, #[case] effect: &str) {
    let mut world = World::new(json!({ "partition": 7 }), &pods);
    world.annotations = json!({ "daemonset.kruise.io/progressive-create-pod": "true" });
    assert_eq!(world.effect(), effect);
}

#[test]
fn n10_one_is_held_at_a_time() {
    let hook = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    let mut world = World::new(json!({}), &ten("oh"));
    world.spec["lifecycle"] = hook.clone();
    assert_eq!(world.effect(), "held j");
    let mut world = World::new(json!({}), &ten("oh").replace("j:oh", "j:oP"));
    world.spec["lifecycle"] = hook;
    assert_eq!(world.effect(), "");
}

/// It was held when its template was old, and is let go when the template is the newest again.
#[test]
fn a_deletion_that_is_begun_goes_on() {
    let mut world = World::new(json!({}), &ten("n").replace("j:n", "j:nP"));
    world.spec["lifecycle"] = json!({ "preDelete": { "labelsHandler": { "hook": "true" } } });
    assert_eq!(world.effect(), "");
    world.pods[9].labels.remove("hook");
    assert_eq!(world.effect(), "-j");
}

/// An agent that is silent in the midst of an update: the entry is taken back, then the pod is made anew.
#[test]
fn what_a_silent_agent_has_begun_is_done_by_a_new_pod() {
    let mut world = World::new(json!({ "rollingUpdateType": "InPlaceIfPossible" }), &ten("o"));
    let (node, revision) = ("j".to_owned(), "log-new".to_owned());
    let known =
        InPlaceState { node, revision, attempt: 0, generation: Some(1), phase: InPlacePhase::Pending };
    world.in_place.insert("uid-9".to_owned(), known);
    assert_eq!(world.effect(), "", "it is heard");
    world.silent.insert("j".to_owned());
    assert_eq!(world.effect(), "forget j -j");
    world.spec["updateStrategy"]["rollingUpdate"]["partition"] = json!(10);
    assert_eq!(world.effect(), "forget j -j", "the partition keeps it");
    world.silent.clear();
    assert_eq!(world.effect(), "");
}

/// A new pod would fare no better; that it waits is said.
#[test]
fn a_pod_that_does_not_come_up_stays() {
    let mut world =
        World::new(json!({ "rollingUpdateType": "InPlaceIfPossible" }), &ten("o").replace("j:o", "j:o!"));
    let known = |phase| InPlaceState {
        node: "j".to_owned(),
        revision: "log-new".to_owned(),
        attempt: 0,
        generation: None,
        phase,
    };
    world.refused = None;
    world.in_place.insert("uid-9".to_owned(), known(InPlacePhase::GivenUp("no such image".to_owned())));
    assert_eq!(world.effect(), "");
    let said = |world: &World| world.plan().status.unwrap().conditions.remove(0);
    assert_eq!(said(&world).type_, "FailedUpdatePod");
    assert!(said(&world).message.unwrap().contains("could not do it: no such image"));
    let late = InPlacePhase::NotAskedFor { why: "another image".to_owned(), since: Some(Timestamp::MAX) };
    world.in_place.insert("uid-9".to_owned(), known(late));
    assert_eq!(world.effect(), "");
    world.in_place.insert("uid-9".to_owned(), known(InPlacePhase::Pending));
    world.pods[9].labels.insert(REVISION_LABEL.to_owned(), "new".to_owned());
    world.pods[9].not_up = Some("container main falls over again and again".into());
    assert!(said(&world).message.unwrap().contains("does not come up: container main falls over"));
}

#[test]
fn a_gate_that_nobody_else_opens_is_opened() {
    let mut world = World::new(json!({}), &ten("n").replace("c:n", "c:n!"));
    assert_eq!(world.effect(), "", "its agent opens it");
    world.silent.insert("c".to_owned());
    assert_eq!(world.effect(), "open c");
}

/// A quota that is used up keeps no pod from going, and none from being Ready.
#[test]
fn new_pods_deletions_and_gates_are_parts_of_their_own() {
    let mut world =
        World::new(json!({}), &ten("n").replace("b:n", "").replace("c:n", "c:n!").replace("a:n", "a:nF"));
    world.silent.insert("c".to_owned());
    let (parts, _) = world.plan().into_parts();
    let [new, deleted, gates] = parts.as_slice() else { panic!("{parts:?}") };
    assert!(matches!(new.as_slice(), [Action::CreatePod(_)]), "{new:?}");
    assert!(matches!(deleted.as_slice(), [Action::DeletePod(_)]), "{deleted:?}");
    assert!(matches!(gates.as_slice(), [Action::PatchPodStatus(..)]), "{gates:?}");
}

#[test]
fn a_revision_that_cannot_be_made_is_said() {
    let mut world = World::new(json!({}), &ten("n"));
    world.spec["template"] = template("a:9");
    let plan = world.plan();
    assert!(matches!(plan.actions.as_slice(), [Action::CreateRevision(_)]), "{plan:?}");
    let status = plan.status.unwrap();
    assert_eq!((status.observed_generation, status.conditions.len()), (Some(4), 1));
    assert_eq!(status.conditions[0].message.as_deref(), Some("no room"));
}
