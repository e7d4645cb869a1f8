//! Names of pods as labels: a Service is for one pod alone by it. A pod that was adopted may have none, and
//! one that somebody takes off would be missed for good.

use std::collections::BTreeSet;

use serde_json::json;

use super::Pass;
use crate::{action::Action, names::POD_NAME_LABEL, plan::Cause};

/// The most pods that one pass writes the label of; the next pass goes on.
const MOST_NAMED: usize = 200;
/// Length of a label's value at most.
const LONGEST_VALUE: usize = 63;

impl Pass<'_> {
    /// Gives pods the label of their name, but none that is `going`. True: others wait for that.
    pub(super) fn name_pods(&mut self, going: &BTreeSet<String>) -> bool {
        let pods = self.members.values().map(|member| member.pod);
        let nameless = pods.filter(|pod| {
            pod.is_active()
                && pod.label(POD_NAME_LABEL) != pod.name
                && pod.name.len() <= LONGEST_VALUE
                && !going.contains(&pod.uid)
        });
        let mut nameless: Vec<_> = nameless.collect();
        nameless.sort_by_key(|pod| self.input.put_off.contains(&pod.uid));
        let actions: Vec<Action> = nameless
            .into_iter()
            .take(MOST_NAMED)
            .map(|pod| {
                let patch = json!({ "metadata": { "labels": { POD_NAME_LABEL: pod.name } } });
                Action::PatchPod(pod.target(), patch)
            })
            .collect();
        let repaired = actions.iter().filter_map(|action| match action {
            Action::PatchPod(target, _) => Some((target.uid.clone(), Cause::Repair)),
            _ => None,
        });
        self.plan.causes.extend(repaired);
        self.write_states(actions)
    }
}
