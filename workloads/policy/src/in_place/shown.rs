//! End of an update in place as the pod itself shows it, so that nobody has to wait for the node's report.
//!
//! Label, gate and `Ready` alone would not show it: they may be as they will be before the agent has begun.
//! So it takes the agent's word, of this try of this revision, which the agent gives when it opens the gate
//! and takes back when it shuts it; and the kubelet's, of the very containers that the agent has named. One
//! that was restarted once more has fallen over: of that the node's report tells.
//!
//! Tries are counted anew once an entry is forgotten, and what restarts nothing leaves the gate as it is. So
//! a word may outlive what it was said of: of a pod whose label says another revision by now it says nothing.

use berth_proto::shown_end::ShownEnd;
use k8s_openapi::api::core::v1::Pod;

use super::{InPlacePhase, InPlaceState};
use crate::{
    names::{IN_PLACE_GATE, REVISION_LABEL},
    pod::PodView,
    revision::short,
};

/// Update that the pod shows as ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Hash of the revision.
    revision: Box<str>,
    attempt: i32,
}

impl Shown {
    /// Reads it off a pod; `None`: it shows none.
    pub(crate) fn of(pod: &Pod) -> Option<Box<Self>> {
        let status = pod.status.as_ref()?;
        let is_true = |type_: &str| {
            let mut all = status.conditions.iter().flatten();
            all.find(|condition| condition.type_ == type_ && condition.status == "True")
        };
        let end = ShownEnd::read(is_true(IN_PLACE_GATE)?.message.as_deref()?)?;
        is_true("Ready")?;
        let label = pod.metadata.labels.as_ref()?.get(REVISION_LABEL)?;
        if short(label) != short(&end.revision) {
            return None;
        }
        let runs = |(name, restarts): (&String, &u32)| {
            let mut all = status.container_statuses.iter().flatten();
            let counts = |counted: i32| u32::try_from(counted) == Ok(*restarts);
            all.any(|one| one.name == *name && one.ready && counts(one.restart_count))
        };
        let is_there = !end.restarts.is_empty() && end.restarts.iter().all(runs);
        is_there.then(|| Box::new(Self { revision: short(&end.revision).into(), attempt: end.attempt }))
    }
}

impl InPlaceState {
    /// Returns it as it is with what the pod shows. What its node has said counts more.
    #[must_use]
    pub fn seen_on(self, pod: &PodView) -> Self {
        let is_it = |shown: &Shown| {
            self.is_pending() && *shown.revision == *short(&self.revision) && shown.attempt == self.attempt
        };
        match pod.shown.as_deref().is_some_and(is_it) {
            true => Self { phase: InPlacePhase::Done, ..self },
            false => self,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const WORD: &str = r#"{"revision":"shop-5d4","attempt":1,"restarts":{"app":3,"log":0}}"#;

    /// A pod with a label of its revision, of which the agent has said this, with these restarts of its
    /// containers.
    fn pod(label: &str, gate: (&str, &str), ready: &str, containers: &[(&str, i32, bool)]) -> PodView {
        let statuses = containers.iter().map(|(name, restarts, ready)| {
            json!({ "name": name, "restartCount": restarts, "ready": ready, "image": "a:1", "imageID": "" })
        });
        let (status, message) = gate;
        let pod = json!({
            "metadata": { "name": "p", "uid": "p", "labels": { REVISION_LABEL: label } },
            "status": {
                "phase": "Running", "containerStatuses": statuses.collect::<Vec<Value>>(),
                "conditions": [
                    { "type": IN_PLACE_GATE, "status": status, "message": message },
                    { "type": "Ready", "status": ready },
                ],
            },
        });
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    fn known(revision: &str, attempt: i32, phase: InPlacePhase) -> InPlaceState {
        let revision = revision.to_owned();
        InPlaceState { node: "n".to_owned(), revision, attempt, generation: None, phase }
    }

    /// Rows: the gate and its message, `Ready`, the containers, and whether the update has ended.
    #[test]
    fn an_end_takes_both_words() {
        type Row<'a> = (&'a str, (&'a str, &'a str), &'a str, &'a [(&'a str, i32, bool)], bool);
        let good: &[(&str, i32, bool)] = &[("app", 3, true), ("log", 0, true)];
        let other = WORD.replace("5d4", "77f");
        let first = WORD.replace(":1,", ":0,");
        let nothing = r#"{"revision":"shop-5d4","attempt":1,"restarts":{}}"#;
        let table: &[Row<'_>] = &[
            ("it has", ("True", WORD), "True", good, true),
            ("another beside", ("True", WORD), "True", &[good[0], good[1], ("x", 0, false)], true),
            ("the gate is shut", ("False", WORD), "True", good, false),
            ("somebody else opened it", ("True", ""), "True", good, false),
            ("the pod is not Ready", ("True", WORD), "False", good, false),
            ("the container of before", ("True", WORD), "True", &[("app", 2, true), ("log", 0, true)], false),
            ("it fell over", ("True", WORD), "True", &[("app", 4, true), ("log", 0, true)], false),
            ("one is not ready", ("True", WORD), "True", &[("app", 3, true), ("log", 0, false)], false),
            ("one is not told of", ("True", WORD), "True", &[("app", 3, true)], false),
            ("another revision", ("True", other.as_str()), "True", good, false),
            ("the try before", ("True", first.as_str()), "True", good, false),
            ("no container", ("True", nothing), "True", good, false),
        ];
        for (row, gate, ready, containers, ended) in table {
            let pod = pod("shop-5d4", *gate, ready, containers);
            let seen = known("shop-5d4", 1, InPlacePhase::Pending).seen_on(&pod);
            let phase = if *ended { InPlacePhase::Done } else { InPlacePhase::Pending };
            assert_eq!(seen.phase, phase, "{row}");
        }
    }

    /// Rows: label of the pod, and whether the update has ended. A change that restarts nothing leaves the
    /// word of the update before it, and the next update to that revision may have the same number.
    #[test]
    fn a_word_counts_while_the_pod_has_the_revision() {
        let containers: &[(&str, i32, bool)] = &[("app", 3, true), ("log", 0, true)];
        for (label, ended) in [("shop-5d4", true), ("5d4", true), ("shop-77f", false), ("", false)] {
            let pod = pod(label, ("True", WORD), "True", containers);
            let seen = known("shop-5d4", 1, InPlacePhase::Pending).seen_on(&pod);
            assert_eq!(!seen.is_pending(), ended, "{label:?}");
        }
    }

    #[test]
    fn what_the_node_has_said_counts_more() {
        let pod = pod("5d4", ("True", WORD), "True", &[("app", 3, true), ("log", 0, true)]);
        for phase in [InPlacePhase::Failed("no".to_owned()), InPlacePhase::GivenUp("no".to_owned())] {
            let said = known("shop-5d4", 1, phase);
            assert_eq!(said.clone().seen_on(&pod), said);
        }
        // Agents say the hash alone where the label does.
        assert_eq!(known("5d4", 1, InPlacePhase::Pending).seen_on(&pod).phase, InPlacePhase::Done);
    }
}
