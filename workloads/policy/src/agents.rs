//! Agents of the nodes: which pods they update in place, and what is done for want of one.
//!
//! An agent that has been silent for ten minutes counts as none. Until then it may be in the midst of an
//! update, and afterwards it may come back: so its entry is taken back before anything else is done with the
//! pod.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{
    action::Action,
    in_place::{InPlacePhase, InPlaceState},
    names::{IN_PLACE_GATE, READY_GATE},
    pod::{PodView, Shut},
    time::whole_second,
};

/// Time in minutes after which an agent that gives no sign of life is not waited for any more.
pub const SILENT_AFTER_MINUTES: u64 = 10;
/// The most gates that one pass opens; the next pass goes on.
const MOST_OPENED: usize = 200;

/// Agents of the nodes, as far as they are there and heard.
#[derive(Clone, Copy, Debug)]
pub struct Agents<'a> {
    /// Nodes whose agents check entries of the kind, and carry them out.
    pub updating: &'a BTreeSet<String>,
    /// Nodes with an agent, whatever it is able to.
    pub present: &'a BTreeSet<String>,
    /// Nodes whose agents set the label `pod-template-hash` along with the update.
    pub labelling: &'a BTreeSet<String>,
    /// Nodes whose agents take what earlier templates of a CloneSet had, where it is noted on the set.
    pub recalling: &'a BTreeSet<String>,
    /// Nodes whose agents have given no sign of life for too long.
    pub silent: &'a BTreeSet<String>,
}

impl Agents<'_> {
    /// Finds out whether the agent of a node updates pods of a kind; or why it does not.
    pub(crate) fn updates(&self, node: &str, kind: &str) -> Result<(), String> {
        if node.is_empty() || !self.updating.contains(node) {
            return Err(format!("node {node:?} has no agent that updates pods of {kind}s"));
        }
        if self.silent.contains(node) {
            let text =
                format!("the agent of node {node:?} has been silent for {SILENT_AFTER_MINUTES} minutes");
            return Err(text);
        }
        Ok(())
    }

    /// Tells whether a pod has a revision, or is being brought to it; `labelled`: so says its label. One
    /// whose update has failed, or is left to a silent agent, has no revision that anybody knows: some of
    /// its containers may have the new image. Nor has one with the metadata of another revision.
    pub(crate) fn is_updated(
        &self,
        pod: &PodView,
        known: Option<&InPlaceState>,
        revision: &str,
        labelled: bool,
    ) -> bool {
        match known.map(|known| (&known.phase, known)) {
            Some((InPlacePhase::Pending, known)) => {
                known.revision == revision && !self.silent.contains(&known.node)
            }
            Some((
                InPlacePhase::Failed(_) | InPlacePhase::GivenUp(_) | InPlacePhase::NotAskedFor { .. },
                _,
            )) => false,
            Some((InPlacePhase::Done, _)) | None => labelled && pod.ahead().is_none(),
        }
    }

    /// Tells whether the agent of a node sets `pod-template-hash`; an older one would refuse the entry.
    pub(crate) fn labels(&self, node: &str) -> bool {
        self.labelling.contains(node)
    }

    /// Tells whether an update, if there is one, is left to a silent agent.
    pub(crate) fn is_left(&self, known: Option<&InPlaceState>) -> bool {
        known.is_some_and(|known| known.is_pending() && self.silent.contains(&known.node))
    }

    /// Tells whether the agent of a node takes what earlier templates had; an older one would refuse it.
    pub(crate) fn recalls(&self, node: &str) -> bool {
        self.recalling.contains(node)
    }

    /// Tells whether the agent of the node opens the gates of pods.
    fn opens_gates(&self, node: &str) -> bool {
        self.present.contains(node) && !self.silent.contains(node)
    }

    /// Opens the gates that nobody else opens. On a node without an agent these are both, where they were
    /// never written. That of updates in place is one where an agent has shut it that is gone, or an
    /// OpenKruise, whose sets these were. An agent that comes back shuts a gate again before it goes on with
    /// the update. `in_place`: updates by pod UID.
    pub(crate) fn open_gates<'b>(
        &self,
        pods: impl Iterator<Item = &'b PodView>,
        in_place: &BTreeMap<String, InPlaceState>,
        now: Timestamp,
    ) -> Vec<Action> {
        let is_updated = |pod: &PodView| in_place.get(&pod.uid).is_some_and(InPlaceState::is_pending);
        let is_left = |pod: &PodView| match &pod.shut {
            Some(Shut::ByAgent) => !self.opens_gates(&pod.node),
            Some(Shut::ByOpenKruise) => !is_updated(pod),
            None => pod.gate.is_none() && !self.opens_gates(&pod.node),
        };
        let opened = |pod: &PodView| {
            if !pod.is_active() || pod.node.is_empty() {
                return None;
            }
            let is_unwritten = pod.kruise_ready.is_none() && !self.opens_gates(&pod.node);
            let in_place = pod.has_gate(IN_PLACE_GATE) && is_left(pod);
            let ready = pod.has_gate(READY_GATE) && is_unwritten;
            (in_place || ready)
                .then(|| Action::PatchPodStatus(pod.target(), status_of_opened(in_place, ready, now)))
        };
        pods.filter_map(opened).take(MOST_OPENED).collect()
    }
}

/// Status of a pod whose gate of updates in place is open, whose gate `KruisePodReady` is, or both.
fn status_of_opened(in_place: bool, ready: bool, now: Timestamp) -> Value {
    let now = whole_second(now).to_string();
    // Merged into what is there: left out, an old reason and message would stay.
    let in_place = in_place.then(|| {
        json!({
            "type": IN_PLACE_GATE, "status": "True", "reason": "", "message": "", "lastTransitionTime": now,
        })
    });
    let ready = ready
        .then(|| json!({ "type": READY_GATE, "status": "True", "message": "[]", "lastTransitionTime": now }));
    let conditions: Vec<Value> = in_place.into_iter().chain(ready).collect();
    json!({ "status": { "conditions": conditions } })
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::names::SHUT_BY_AGENT;

    fn nodes(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// A pod whose gate the agent of its node has shut, and that is out of service by nothing else or not.
    fn shut(node: &str, containers: &str) -> PodView {
        PodView { node: node.into(), ..shut_by("StartInPlaceUpdate", SHUT_BY_AGENT, containers) }
    }

    /// A pod on a node with an agent, whose gate somebody has shut with these words.
    fn shut_by(reason: &str, message: &str, containers: &str) -> PodView {
        let pod = json!({
            "metadata": { "name": "p", "uid": "u", "resourceVersion": "3" },
            "spec": { "nodeName": "alive", "containers": [], "readinessGates": [{ "conditionType": IN_PLACE_GATE }] },
            "status": { "phase": "Running", "conditions": [
                { "type": IN_PLACE_GATE, "status": "False", "reason": reason, "message": message },
                { "type": "ContainersReady", "status": containers },
            ] },
        });
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    fn pod(node: &str, has_gate: bool, condition: Option<&str>) -> PodView {
        let gates: &[&str] = if has_gate { &[IN_PLACE_GATE] } else { &[] };
        gated(node, gates, &condition.map(|status| (IN_PLACE_GATE, status)).into_iter().collect::<Vec<_>>())
    }

    /// A pod with these gates, and conditions with their status.
    fn gated(node: &str, gates: &[&str], conditions: &[(&str, &str)]) -> PodView {
        let gates: Vec<_> = gates.iter().map(|gate| json!({ "conditionType": gate })).collect();
        let conditions = conditions.iter().map(|(type_, status)| json!({ "type": type_, "status": status }));
        let pod = json!({
            "metadata": { "name": "p", "uid": "u", "resourceVersion": "3" },
            "spec": { "nodeName": node, "containers": [], "readinessGates": gates },
            "status": { "phase": "Pending", "conditions": conditions.collect::<Vec<_>>() },
        });
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    #[rstest]
    #[case::no_agent(pod("virtual", true, None), 1)]
    #[case::an_agent(pod("alive", true, None), 0)]
    #[case::an_agent_that_updates_no_such_pods(pod("older", true, None), 0)]
    #[case::a_silent_agent(pod("silent", true, None), 1)]
    #[case::no_node_yet(pod("", true, None), 0)]
    #[case::no_gate(pod("virtual", false, None), 0)]
    #[case::open(pod("virtual", true, Some("True")), 0)]
    // Somebody has shut it on purpose: it is theirs to open.
    #[case::shut(pod("virtual", true, Some("False")), 0)]
    #[case::shut_by_an_agent_that_is_silent(shut("silent", "True"), 1)]
    #[case::shut_by_an_agent_that_is_gone(shut("virtual", "True"), 1)]
    #[case::shut_by_an_agent_at_work(shut("alive", "True"), 0)]
    #[case::shut_in_the_midst_of_a_restart(shut("silent", "False"), 0)]
    #[case::shut_by_an_openkruise(shut_by("StartInPlaceUpdate", "", "True"), 1)]
    #[case::shut_by_an_openkruise_in_the_midst_of_a_restart(shut_by("StartInPlaceUpdate", "", "False"), 0)]
    #[case::shut_by_an_openkruise_and_updated(PodView { uid: "pending".into(), ..shut_by("StartInPlaceUpdate", "", "True") }, 0)]
    #[case::shut_for_another_reason(shut_by("Maintenance", "", "True"), 0)]
    #[case::over(PodView { phase: crate::pod::Phase::Ended, ..pod("virtual", true, None) }, 0)]
    #[case::going(PodView { terminating: true, ..pod("virtual", true, None) }, 0)]
    fn whose_gate_is_opened(#[case] pod: PodView, #[case] opened: usize) {
        let (updating, present) = (nodes(&["alive", "silent"]), nodes(&["alive", "older", "silent"]));
        let agents = Agents {
            updating: &updating,
            present: &present,
            labelling: &updating,
            recalling: &updating,
            silent: &nodes(&["silent"]),
        };
        let pending = InPlaceState {
            node: "alive".to_owned(),
            revision: "r".to_owned(),
            attempt: 0,
            generation: None,
            phase: InPlacePhase::Pending,
        };
        let in_place = [("pending".to_owned(), pending)].into();
        let actions = agents.open_gates([&pod].into_iter(), &in_place, Timestamp::UNIX_EPOCH);
        assert_eq!(actions.len(), opened);
        if let Some(Action::PatchPodStatus(target, patch)) = actions.first() {
            assert_eq!((target.uid.as_str(), target.version.as_str()), ("u", "3"));
            let condition = json!({
                "type": IN_PLACE_GATE, "status": "True", "reason": "", "message": "",
                "lastTransitionTime": "1970-01-01T00:00:00Z",
            });
            assert_eq!(patch, &json!({ "status": { "conditions": [condition] } }));
        }
    }

    #[rstest]
    #[case::both(&[IN_PLACE_GATE, READY_GATE], &[], &[IN_PLACE_GATE, READY_GATE])]
    #[case::one_is_open(&[IN_PLACE_GATE, READY_GATE], &[(IN_PLACE_GATE, "True")], &[READY_GATE])]
    #[case::the_other_is_open(&[IN_PLACE_GATE, READY_GATE], &[(READY_GATE, "True")], &[IN_PLACE_GATE])]
    #[case::alone(&[READY_GATE], &[], &[READY_GATE])]
    // Somebody holds the pod: theirs to open.
    #[case::held(&[READY_GATE], &[(READY_GATE, "False")], &[])]
    #[case::open(&[IN_PLACE_GATE, READY_GATE], &[(IN_PLACE_GATE, "True"), (READY_GATE, "True")], &[])]
    fn gates_are_opened_in_one_write(
        #[case] gates: &[&str],
        #[case] conditions: &[(&str, &str)],
        #[case] expect: &[&str],
    ) {
        let alive = nodes(&["alive"]);
        let agents = Agents {
            updating: &alive,
            present: &alive,
            labelling: &alive,
            recalling: &alive,
            silent: &nodes(&[]),
        };
        let opened = |node| {
            let pod = gated(node, gates, conditions);
            let actions = agents.open_gates([&pod].into_iter(), &BTreeMap::new(), Timestamp::UNIX_EPOCH);
            assert!(actions.len() <= 1, "{actions:?}");
            let conditions = actions.iter().flat_map(|action| match action {
                Action::PatchPodStatus(_, patch) => patch["status"]["conditions"].as_array().unwrap(),
                other => panic!("{other:?}"),
            });
            conditions.map(|one| one["type"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(opened("virtual"), expect);
        assert_eq!(opened("alive"), [""; 0], "the agent of the node does it");
    }

    #[test]
    fn why_an_agent_updates_nothing_is_said() {
        let (updating, present) = (nodes(&["alive", "silent"]), nodes(&[]));
        let agents = Agents {
            updating: &updating,
            present: &present,
            labelling: &updating,
            recalling: &updating,
            silent: &nodes(&["silent"]),
        };
        assert_eq!(agents.updates("alive", "CloneSet"), Ok(()));
        for (node, why) in [
            ("silent", "the agent of node \"silent\" has been silent for 10 minutes"),
            ("virtual", "node \"virtual\" has no agent that updates pods of CloneSets"),
            ("", "node \"\" has no agent that updates pods of CloneSets"),
        ] {
            assert_eq!(agents.updates(node, "CloneSet"), Err(why.to_owned()));
        }
    }
}
