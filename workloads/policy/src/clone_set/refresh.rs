//! States of pods, brought up to date: what a hook has let go goes on.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::{Pass, member::Member, numbers::Numbers};
use crate::{
    action::Action,
    in_place::{self, InPlacePhase},
    lifecycle::{State, entering, has_all},
    names::{REVISION_LABEL, TEMPLATE_HASH_LABEL},
    revision,
};

impl Pass<'_> {
    /// Writes states, but of no pod that is `going`. Returns whether updates wait for that, and the number of
    /// available pods that go out of service by it. Nobody waits for pods that could not be written to.
    pub(super) fn refresh(&mut self, numbers: &Numbers, going: &BTreeSet<String>) -> (bool, i64) {
        // Pods are brought back to the revision before: one that has the newest may be held for that.
        let goes_back = numbers.update < 0;
        let (mut actions, mut settled) = (Vec::new(), Vec::new());
        let mut leaving = 0;
        for member in &self.members {
            if member.is_preparing_delete() || going.contains(&member.pod.uid) {
                continue;
            }
            if let Some(action) = in_place::end_grace(member.pod, member.in_place) {
                actions.push(action);
            } else if let Some(known) = member.in_place.filter(|known| known.phase == InPlacePhase::Done) {
                match self.settle(member) {
                    Some(action) => {
                        leaving += i64::from(member.available && !self.after_update(member).serves());
                        actions.push(action);
                    }
                    // One with hooks begins its next update in a state that an entry must not speak about.
                    None if self.rules.has_lifecycle() || known.revision != self.live.update.name => {
                        let (node, uid) = (known.node.clone(), member.pod.uid.clone());
                        actions.push(Action::ForgetInPlace { node, uid });
                    }
                    None => settled.push((known.node.clone(), member.pod.uid.clone())),
                }
            } else if let Some(state) = self.next_state(member, goes_back) {
                actions.push(super::scale::enter(member.pod, state, self.now));
            }
        }
        self.settled = settled;
        (self.write_states(actions), leaving)
    }

    /// Writes states, those of pods that could not be written to after all others. True: there are others.
    fn write_states(&mut self, actions: Vec<Action>) -> bool {
        self.plan.add_but(self.input.put_off, actions, &mut self.late_states)
    }

    /// State that the pod passes into now.
    fn next_state(&self, member: &Member<'_>, goes_back: bool) -> Option<State> {
        let pod = member.pod;
        match member.state {
            State::PreparingNormal if has_all(self.rules.pre_normal(), pod) => Some(State::Normal),
            State::Updated if has_all(self.rules.in_place_update(), pod) => Some(State::Normal),
            // Its update is not wanted any more.
            State::PreparingUpdate | State::Updating
                if member.updated && !goes_back && !member.is_being_updated() =>
            {
                Some(self.after_update(member))
            }
            _ => None,
        }
    }

    /// Has pods serve again that are held for an update which nobody wants any more: the partition was
    /// raised. `wanted`: those that wait for one. True: updates wait for what is written.
    pub(super) fn let_serve(&mut self, wanted: &[Member<'_>]) -> bool {
        let wanted: BTreeSet<&str> = wanted.iter().map(|wanted| wanted.pod.uid.as_str()).collect();
        let is_wanted = |one: &Member<'_>| wanted.contains(one.pod.uid.as_str());
        let mut written = self.plan.written();
        written.extend(self.late_states.pods());
        let left = self.members.iter().filter(|one| {
            one.state.awaits_update()
                && !one.is_being_updated()
                && !is_wanted(one)
                && !written.contains(&one.pod.uid)
        });
        let actions: Vec<Action> =
            left.map(|one| super::scale::enter(one.pod, self.after_update(one), self.now)).collect();
        self.write_states(actions)
    }

    fn after_update(&self, member: &Member<'_>) -> State {
        let held = self.rules.has_lifecycle() && !has_all(self.rules.in_place_update(), member.pod);
        if held { State::Updated } else { State::Normal }
    }

    /// Forgets updates that are over, and those of pods that are gone, some of them later.
    pub(super) fn forget_settled(&mut self) {
        let goes_on = self.members.iter().any(Member::is_being_updated);
        let mut settled = std::mem::take(&mut self.settled);
        settled.extend(in_place::of_gone(self.input.in_place, self.input.pods));
        in_place::forget(settled, goes_on, &mut self.plan.actions);
    }

    /// Labels of a pod that its node has updated; `None`: it has them.
    fn settle(&self, member: &Member<'_>) -> Option<Action> {
        let (known, pod) = (member.in_place?, member.pod);
        let hash = revision::short(&known.revision);
        let label = if self.input.settings.short_hash { hash } else { known.revision.as_str() };
        let state = self.after_update(member);
        let is_labelled = revision::short(pod.label(REVISION_LABEL)) == hash
            && pod.label(TEMPLATE_HASH_LABEL) == hash
            && (member.state == state || member.state == State::None);
        if is_labelled {
            return None;
        }
        let mut metadata = entering(state, self.now);
        if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
            labels.insert(REVISION_LABEL.to_owned(), label.into());
            labels.insert(TEMPLATE_HASH_LABEL.to_owned(), hash.into());
        }
        Some(Action::PatchPod(pod.target(), json!({ "metadata": metadata })))
    }
}
