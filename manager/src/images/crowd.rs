//! Wishes for which there is no room on a node: who is next when there is some.

use std::{collections::BTreeSet, sync::Arc};

use super::{ImageIndex, rollout::Standing};

impl ImageIndex {
    /// Jobs that wait for room on a node and find some, of each namespace the first ones, may be asked again.
    /// Tells whether there are any.
    pub(super) fn readmit(&mut self, name: &Arc<str>) -> bool {
        let Some(state) = self.nodes.get(name).filter(|state| !state.crowded.is_empty()) else {
            return false;
        };
        let Some(image) = &state.image else { return false };
        let mut room = image.room.clone();
        let mut found = Vec::new();
        // The first one of each namespace; the next one only after it.
        let mut waiting: BTreeSet<_> = BTreeSet::new();
        let mut rest: Vec<_> = state.crowded.values().map(BTreeSet::iter).collect();
        for (number, of) in rest.iter_mut().enumerate() {
            waiting.extend(of.next().map(|first| (first, number)));
        }
        while let Some(((_, uid), number)) = waiting.pop_first() {
            let Some(rollout) = self.rollouts.get(uid) else { continue };
            let (namespace, weight) = (&rollout.plan.namespace, rollout.plan.weight);
            if rollout.may_ask() {
                if !room.fits(namespace, weight) {
                    continue;
                }
                room.take(namespace, weight);
            }
            // One whose job may not ask a further node now waits for that, and holds up nobody here.
            found.push(uid.clone());
            waiting.extend(rest[number].next().map(|next| (next, number)));
        }
        for uid in &found {
            self.uncrowd(uid, name);
            self.touched.insert(uid.clone());
        }
        !found.is_empty()
    }

    fn uncrowd(&mut self, uid: &Arc<str>, name: &Arc<str>) {
        let Some(rollout) = self.rollouts.get_mut(uid) else { return };
        if let Some(state) = self.nodes.get_mut(name) {
            state.uncrowd(&rollout.plan.namespace, rollout.rank.clone(), uid);
        }
        rollout.set(name, Some(Standing::Pending));
    }

    /// Takes it from all crowds: it waits for room nowhere any more; whom it held up may be next.
    pub(super) fn uncrowd_all(&mut self, uid: &Arc<str>) {
        let Some(rollout) = self.rollouts.get(uid) else { return };
        for name in rollout.crowded().clone() {
            self.uncrowd(uid, &name);
            self.dirty.insert(name);
        }
    }
}
