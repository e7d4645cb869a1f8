//! Pods that a hook holds and takes out of service: the condition `KruisePodReady`.
//!
//! Several writers share the condition. Each has entries of its own in the message, and it is True when none
//! is left. The entry of a hook follows from the state of the pod on every pass: whatever way a pod leaves
//! the state, the entry goes with it.

use berth_proto::crd::LifecycleHook;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::{action::Action, lifecycle::State, names::READY_GATE, pod::PodView, time::whole_second};

/// Writer of the entries of hooks.
const USER_AGENT: &str = "Lifecycle";
/// Keys of the two hooks that may take a pod out of service.
const PRE_DELETE: &str = "preDeleteHook";
const PRE_UPDATE: &str = "preUpdateHook";

/// Hooks of a workload that may take a pod out of service.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hooks<'a> {
    pub(crate) pre_delete: Option<&'a LifecycleHook>,
    pub(crate) in_place_update: Option<&'a LifecycleHook>,
}

impl Hooks<'_> {
    /// Brings the conditions of pods to what the hooks want.
    pub(crate) fn mark<'b>(
        &self,
        pods: impl Iterator<Item = &'b PodView>,
        now: Timestamp,
    ) -> impl Iterator<Item = Action> {
        pods.filter(|pod| pod.is_active() && pod.has_gate(READY_GATE))
            .filter_map(move |pod| Some(Action::PatchPodStatus(pod.target(), self.marked(pod, now)?)))
    }

    /// Key of the hook that takes the pod out of service.
    fn key(&self, pod: &PodView) -> Option<&'static str> {
        let (hook, key) = match State::of(pod) {
            State::PreparingDelete => (self.pre_delete, PRE_DELETE),
            State::PreparingUpdate | State::Updating => (self.in_place_update, PRE_UPDATE),
            _ => return None,
        };
        hook.filter(|hook| hook.mark_pod_not_ready).map(|_| key)
    }

    /// Status that the pod is to have; `None`: it has it.
    fn marked(&self, pod: &PodView, now: Timestamp) -> Option<Value> {
        let wanted: Vec<Entry> =
            self.key(pod).into_iter().map(|key| (USER_AGENT.to_owned(), key.to_owned())).collect();
        let before = pod.kruise_ready.as_ref().map(|(is_true, message)| (*is_true, entries(message)));
        let (own, mut all): (Vec<Entry>, Vec<Entry>) = before
            .iter()
            .flat_map(|(_, entries)| entries.iter().cloned())
            .partition(|(writer, _)| writer == USER_AGENT);
        let is_said = match &before {
            Some((is_true, _)) => own == wanted && (wanted.is_empty() || !is_true),
            // A gate that nobody has written is opened by the agent of the node.
            None => wanted.is_empty(),
        };
        if is_said {
            return None;
        }
        all.extend(wanted);
        all.sort();
        all.dedup();
        let is_true = all.is_empty();
        // Equal entries are equal texts, as the other writers have them.
        let entry =
            |(writer, key): &Entry| format!(r#"{{"userAgent":{},"key":{}}}"#, json!(writer), json!(key));
        let message = format!("[{}]", all.iter().map(entry).collect::<Vec<_>>().join(","));
        let mut condition = json!({
            "type": READY_GATE,
            "status": if is_true { "True" } else { "False" },
            "message": message,
        });
        if before.is_none_or(|(was_true, _)| was_true != is_true) {
            condition["lastTransitionTime"] = whole_second(now).to_string().into();
        }
        Some(json!({ "status": { "conditions": [condition] } }))
    }
}

/// Writer and key of an entry.
type Entry = (String, String);

/// Entries of a message. One that cannot be read has none: whoever wrote it did not follow the protocol.
fn entries(message: &str) -> Vec<Entry> {
    let all: Vec<Value> = serde_json::from_str(message).unwrap_or_default();
    let text = |one: &Value, key: &str| one.get(key).and_then(Value::as_str).map(str::to_owned);
    let entry = |one: &Value| Some((text(one, "userAgent")?, text(one, "key")?));
    all.iter().filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use rstest::rstest;

    use super::*;
    use crate::names::STATE_LABEL;

    const DELETE: &str = r#"[{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;
    const UPDATE: &str = r#"[{"userAgent":"Lifecycle","key":"preUpdateHook"}]"#;
    const OTHER: &str = r#"[{"userAgent":"ContainerRecreateRequest","key":"n/a"}]"#;
    const BOTH: &str = r#"[{"userAgent":"ContainerRecreateRequest","key":"n/a"},{"userAgent":"Lifecycle","key":"preDeleteHook"}]"#;

    fn pod(state: &str, condition: Option<(&str, &str)>) -> PodView {
        let conditions = condition
            .map(|(status, message)| json!({ "type": READY_GATE, "status": status, "message": message }));
        let pod = json!({
            "metadata": { "name": "p", "uid": "u", "labels": { STATE_LABEL: state } },
            "spec": { "containers": [], "readinessGates": [{ "conditionType": READY_GATE }] },
            "status": { "phase": "Running", "conditions": conditions.into_iter().collect::<Vec<_>>() },
        });
        PodView::of(&serde_json::from_value(pod).unwrap())
    }

    /// Each row: the pod, and the status and message that are written.
    #[rstest]
    #[case::new(pod("Normal", None), None)]
    #[case::held_before_it_was_ever_open(pod("PreparingDelete", None), Some(("False", DELETE)))]
    #[case::in_service(pod("Normal", Some(("True", "[]"))), None)]
    #[case::prose(pod("Normal", Some(("True", ""))), None)]
    #[case::held_before_its_deletion(pod("PreparingDelete", Some(("True", "[]"))), Some(("False", DELETE)))]
    #[case::held_still(pod("PreparingDelete", Some(("False", DELETE))), None)]
    #[case::somebody_made_it_ready(pod("PreparingDelete", Some(("True", DELETE))), Some(("False", DELETE)))]
    #[case::called_back(pod("Normal", Some(("False", DELETE))), Some(("True", "[]")))]
    #[case::held_before_its_update(pod("PreparingUpdate", Some(("True", "[]"))), Some(("False", UPDATE)))]
    #[case::being_updated(pod("Updating", Some(("False", UPDATE))), None)]
    #[case::updated(pod("Updated", Some(("False", UPDATE))), Some(("True", "[]")))]
    // Rolled back before the hook let go: OpenKruise leaves it out of service for ever.
    #[case::rolled_back(pod("Normal", Some(("False", UPDATE))), Some(("True", "[]")))]
    #[case::from_one_to_the_other(pod("PreparingDelete", Some(("False", UPDATE))), Some(("False", DELETE)))]
    #[case::another_writer_too(pod("PreparingDelete", Some(("False", OTHER))), Some(("False", BOTH)))]
    #[case::another_writer_alone(pod("Normal", Some(("False", BOTH))), Some(("False", OTHER)))]
    #[case::another_writer(pod("Normal", Some(("False", OTHER))), None)]
    #[case::going(PodView { terminating: true, ..pod("PreparingDelete", None) }, None)]
    #[case::no_gate(PodView { gates: vec![], ..pod("PreparingDelete", None) }, None)]
    fn entries_follow_states(#[case] pod: PodView, #[case] written: Option<(&str, &str)>) {
        let hook = LifecycleHook { mark_pod_not_ready: true, ..LifecycleHook::default() };
        let hooks = Hooks { pre_delete: Some(&hook), in_place_update: Some(&hook) };
        let found: Vec<Action> = hooks.mark([&pod].into_iter(), Timestamp::UNIX_EPOCH).collect();
        let found = found.first().map(|action| match action {
            Action::PatchPodStatus(_, patch) => patch["status"]["conditions"][0].clone(),
            other => panic!("{other:?}"),
        });
        let found =
            found.as_ref().map(|one| (one["status"].as_str().unwrap(), one["message"].as_str().unwrap()));
        assert_eq!(found, written);
    }

    #[test]
    fn a_hook_that_marks_nothing_takes_nothing_out_of_service() {
        let hook = LifecycleHook::default();
        let hooks = Hooks { pre_delete: Some(&hook), in_place_update: None };
        let held = pod("PreparingDelete", Some(("True", "[]")));
        assert_eq!(hooks.mark([&held].into_iter(), Timestamp::UNIX_EPOCH).count(), 0);
    }
}
