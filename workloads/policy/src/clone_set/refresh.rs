//! States of pods, brought up to date: what a hook has let go goes on.

use serde_json::{Value, json};

use super::{Pass, member::Member, numbers::Numbers};
use crate::{
    action::Action,
    in_place::InPlacePhase,
    lifecycle::{State, entering, has_all},
    names::{REVISION_LABEL, TEMPLATE_HASH_LABEL},
    revision,
};

impl Pass<'_> {
    /// True: a pod was written.
    pub(super) fn refresh(&mut self, numbers: &Numbers) -> bool {
        // Pods are brought back to the revision before: one that has the newest may be held for that.
        let goes_back = numbers.update < 0;
        let mut actions = Vec::new();
        for member in &self.members {
            if member.is_preparing_delete() {
                continue;
            }
            if member.in_place.is_some_and(|known| known.phase == InPlacePhase::Done) {
                actions.extend(self.settled(member));
            } else if let Some(state) = self.next_state(member, goes_back) {
                actions.push(super::scale::enter(member.pod, state, self.now));
            }
        }
        let some = !actions.is_empty();
        self.plan.actions.extend(actions);
        some
    }

    /// State that the pod passes into now.
    fn next_state(&self, member: &Member<'_>, goes_back: bool) -> Option<State> {
        let pod = member.pod;
        match member.state {
            State::PreparingNormal if has_all(self.rules.pre_normal(), pod) => Some(State::Normal),
            State::Updated if has_all(self.rules.in_place_update(), pod) => Some(State::Normal),
            // Its update is not wanted any more.
            State::PreparingUpdate if member.updated && !goes_back && !member.is_being_updated() => {
                Some(self.after_update(member))
            }
            State::Updating if !member.is_being_updated() && member.updated => {
                Some(self.after_update(member))
            }
            _ => None,
        }
    }

    /// Has pods serve again that are held for an update which nobody wants any more: the partition was
    /// raised. `wanted`: those that wait for one. True: a pod was written.
    pub(super) fn let_serve(&mut self, wanted: &[Member<'_>]) -> bool {
        let is_wanted = |one: &Member<'_>| wanted.iter().any(|wanted| wanted.pod.uid == one.pod.uid);
        let left = self
            .members
            .iter()
            .filter(|one| one.state == State::PreparingUpdate && !one.is_being_updated() && !is_wanted(one));
        let actions: Vec<Action> =
            left.map(|one| super::scale::enter(one.pod, self.after_update(one), self.now)).collect();
        let some = !actions.is_empty();
        self.plan.actions.extend(actions);
        some
    }

    fn after_update(&self, member: &Member<'_>) -> State {
        let held = self.rules.has_lifecycle() && !has_all(self.rules.in_place_update(), member.pod);
        if held { State::Updated } else { State::Normal }
    }

    /// Labels of a pod that its node has updated; then the update is forgotten.
    fn settled(&self, member: &Member<'_>) -> Vec<Action> {
        let (Some(known), pod) = (member.in_place, member.pod) else { return Vec::new() };
        let hash = revision::short(&known.revision);
        let label = if self.input.settings.short_hash { hash } else { known.revision.as_str() };
        let state = self.after_update(member);
        let is_labelled = revision::short(pod.label(REVISION_LABEL)) == hash
            && pod.label(TEMPLATE_HASH_LABEL) == hash
            && (member.state == state || member.state == State::None);
        if is_labelled {
            return vec![Action::ForgetInPlace { node: known.node.clone(), uid: pod.uid.clone() }];
        }
        let mut metadata = entering(state, self.now);
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.insert(REVISION_LABEL.to_owned(), label.into());
            labels.insert(TEMPLATE_HASH_LABEL.to_owned(), hash.into());
        }
        vec![Action::PatchPod(pod.target(), json!({ "metadata": metadata }))]
    }
}
