//! State of one node, in the eyes of one job.

use std::sync::Arc;

use super::{
    ImageIndex, SILENCE, UNHEARD,
    rollout::{End, Standing},
};
use crate::{store::Now, time::later};

impl ImageIndex {
    /// A node came, went, or has other labels: every selector looks at it anew.
    pub(super) fn select_for_all(&mut self, name: &Arc<str>, now: Now) {
        for uid in self.rollouts.keys().cloned().collect::<Vec<_>>() {
            self.select(&uid, name, now);
        }
        self.dirty.insert(name.clone());
    }

    /// One selector looks at one node.
    pub(super) fn select(&mut self, uid: &Arc<str>, name: &Arc<str>, now: Now) {
        let (Some(rollout), Some(state)) = (self.rollouts.get(uid), self.nodes.get(name)) else { return };
        let selected = state.labels().is_some_and(|labels| rollout.selects(name, labels));
        #[cfg(test)]
        {
            self.evaluations += 1;
        }
        self.place(uid, name, Some(selected), now);
    }

    /// Settles where the node stands. Without `selected` it is selected if it was.
    pub(super) fn place(&mut self, uid: &Arc<str>, name: &Arc<str>, selected: Option<bool>, now: Now) {
        let Some(rollout) = self.rollouts.get_mut(uid) else { return };
        let before = rollout.standing(name);
        let selected =
            selected.unwrap_or(!matches!(before, None | Some(Standing::Former(_) | Standing::Leaving(_))));
        let state = self.nodes.get(name);
        let image = state.filter(|state| state.usable()).and_then(|state| state.image.as_ref());
        let entry = image.and_then(|image| image.entries.get(uid));
        let remembered = match before {
            Some(Standing::Ended(end) | Standing::Former(end)) => Some(end),
            _ => entry.and_then(|entry| entry.end()),
        };
        let asked = entry.is_some() || image.is_some_and(|image| image.asked().contains_key(uid));
        let has_key = image.is_some_and(|image| image.key.is_some());
        let standing = match remembered {
            Some(end) if selected => Some(Standing::Ended(end)),
            Some(end) => Some(Standing::Former(end)),
            // What was decided stands until it is seen, and is taken back then: an order on its way cannot be
            // called back.
            None if !selected && asked => Some(match before {
                Some(Standing::Leaving(until)) => Standing::Leaving(until),
                _ => Standing::Leaving(later(now.instant, UNHEARD)),
            }),
            None if !selected => None,
            None if asked => {
                let word = entry.is_some_and(|entry| entry.pull.is_some());
                Some(match before {
                    Some(Standing::Asked(until)) if !word => Standing::Asked(until),
                    // A word of the agent is a sign of life: from it on it has the time that all attempts may
                    // take.
                    _ if word => {
                        Standing::Asked(later(now.instant, rollout.plan.patience.saturating_add(SILENCE)))
                    }
                    _ => Standing::Asked(later(now.instant, UNHEARD)),
                })
            }
            None if rollout.plan.sealed && !has_key => Some(Standing::Keyless),
            // Until there is room.
            None if before == Some(Standing::Crowded) => before,
            None => Some(Standing::Pending),
        };
        if standing != before {
            if before == Some(Standing::Crowded) {
                let (namespace, rank) = (rollout.plan.namespace.clone(), rollout.rank.clone());
                if let Some(state) = self.nodes.get_mut(name) {
                    state.uncrowd(&namespace, rank, uid);
                }
                self.dirty.insert(name.clone());
            }
            rollout.set(name, standing);
            self.touched.insert(uid.clone());
        }
        if matches!(standing, None | Some(Standing::Leaving(_))) {
            self.dirty.insert(name.clone());
        }
    }

    /// A decision that nobody has seen is none.
    pub(super) fn undecide(&mut self, uid: &Arc<str>, name: &Arc<str>) {
        let Some(image) = self.nodes.get_mut(name).and_then(|state| state.image.as_mut()) else { return };
        self.dirty.insert(name.clone());
        if image.unask(uid) {
            // Decided once more, it may be with another content.
            image.sent = None;
            if !image.entries.contains_key(uid) {
                self.unplace(uid, name);
            }
        }
    }

    /// The same for all nodes of a job.
    pub(super) fn undecide_all(&mut self, uid: &Arc<str>, now: Now) {
        for name in self.placed.get(uid).cloned().unwrap_or_default() {
            self.undecide(uid, &name);
            self.place(uid, &name, None, now);
        }
    }

    /// The Node is gone, or is another one now: whatever its name ended before.
    pub(super) fn forget_node(&mut self, name: &Arc<str>) {
        for (uid, rollout) in &mut self.rollouts {
            if matches!(rollout.standing(name), Some(Standing::Ended(_) | Standing::Former(_))) {
                rollout.set(name, None);
                self.touched.insert(uid.clone());
            }
        }
    }

    /// The node has been silent for too long.
    pub(super) fn give_up(&mut self, uid: &Arc<str>, name: &Arc<str>) {
        if let Some(rollout) = self.rollouts.get_mut(uid) {
            let leaves = matches!(rollout.standing(name), Some(Standing::Leaving(_)));
            rollout.set(name, (!leaves).then_some(Standing::Ended(End::Silent)));
        }
        self.undecide(uid, name);
    }

    /// All decisions that nobody has seen are none.
    pub(super) fn forget_decisions(&mut self, now: Now) {
        for job in self.jobs.values_mut() {
            (job.sent, job.end, job.written, job.sent_at) = (None, None, None, None);
            (job.secrets, job.lacks) = (super::job::Secrets::Unknown, None);
        }
        let decided: Vec<(Arc<str>, Arc<str>)> = self
            .nodes
            .iter_mut()
            .filter_map(|(name, state)| Some((name, state.image.as_mut()?)))
            .flat_map(|(name, image)| {
                image.sent = None;
                image.asked().keys().map(|uid| (uid.clone(), name.clone())).collect::<Vec<_>>()
            })
            .collect();
        for (uid, name) in decided {
            self.undecide(&uid, &name);
            self.place(&uid, &name, None, now);
        }
    }
}
