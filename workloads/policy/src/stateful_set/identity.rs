//! Names of pods as labels: a Service is for one pod alone by it. A pod that was adopted may have none, and
//! one that somebody takes off would be missed for good.

use serde_json::json;

use super::Pass;
use crate::{action::Action, names::POD_NAME_LABEL, plan::Cause};

/// The most pods that one pass writes the label of; the next pass goes on.
const MOST_NAMED: usize = 200;
/// Length of a label's value at most.
const LONGEST_VALUE: usize = 63;

impl Pass<'_> {
    /// Gives pods the label of their name. True: a pod was written.
    pub(super) fn name_pods(&mut self) -> bool {
        let pods = self.members.values().map(|member| member.pod);
        let nameless = pods.filter(|pod| {
            pod.is_active() && pod.label(POD_NAME_LABEL) != pod.name && pod.name.len() <= LONGEST_VALUE
        });
        let actions: Vec<Action> = nameless
            .take(MOST_NAMED)
            .map(|pod| {
                let patch = json!({ "metadata": { "labels": { POD_NAME_LABEL: pod.name } } });
                Action::PatchPod(pod.target(), patch)
            })
            .collect();
        let some = !actions.is_empty();
        let repaired = actions.iter().filter_map(|action| match action {
            Action::PatchPod(target, _) => Some((target.uid.clone(), Cause::Repair)),
            _ => None,
        });
        self.plan.causes.extend(repaired);
        self.plan.actions.extend(actions);
        some
    }
}
