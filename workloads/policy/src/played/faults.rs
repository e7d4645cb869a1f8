//! Faults of the cluster: agents that fail or are silent, and writes that are refused.

use super::Played;
use crate::{action::Action, in_place::InPlacePhase, plan::Failures};

impl Played {
    /// The agent of its node cannot carry out what it is asked for.
    pub(crate) fn fail(&mut self, uid: &str) {
        if let Some(asked) = self.in_place.get_mut(uid).filter(|known| known.phase == InPlacePhase::Pending) {
            asked.phase = InPlacePhase::Failed("no room".to_owned());
        }
    }

    /// The agent of a node is silent, or heard again.
    pub(crate) fn silence(&mut self, node: String) {
        if !self.silent.remove(&node) {
            self.silent.insert(node);
        }
    }

    /// Every write to a pod is refused, or not any more; so is every new pod of a node.
    pub(crate) fn refuse(&mut self, key: String) {
        if !self.refused.remove(&key) {
            self.refused.insert(key);
        }
    }

    /// Nothing is refused any more.
    pub(crate) fn allow_all(&mut self) {
        self.refused.clear();
    }

    /// Tells whether a write is refused, and remembers that.
    pub(crate) fn is_refused(&mut self, action: &Action) -> bool {
        // An entry is no write to the pod.
        let is_entry = matches!(action, Action::UpdateInPlace(_) | Action::ForgetInPlace { .. });
        let key = action.key().filter(|key| !is_entry && self.refused.contains(*key));
        let Some(key) = key else { return false };
        self.put_off.insert(key.to_owned());
        let failure =
            if action.is_about_number() { &mut self.failures.scale } else { &mut self.failures.update };
        *failure = Some("a policy".to_owned());
        true
    }

    /// Ends a pass that has written all.
    pub(crate) fn is_done(&mut self) {
        self.put_off.clear();
        self.failures = Failures::default();
    }
}
