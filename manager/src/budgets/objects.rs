//! Facts that come in: budgets, pods, and what was looked up.

use std::{sync::Arc, time::Instant};

use super::{
    BudgetIndex, LookedUp, MOST_OWNERS, Parent, Parents,
    adapter::Answer,
    known::Known,
    lookup::{Fact, What},
    spec::{Budget, Cover, is_replica_set},
};
use crate::{
    requests::under_way,
    store::{BudgetSeen, Key, Kind, Pod, PodChange, RecreateSeen},
};

impl BudgetIndex {
    pub(super) fn apply_budget(&mut self, seen: &BudgetSeen) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        let mut next = Known::new(seen, self.views.list(Kind::Budget));
        if let Some(known) = self.budgets.get_mut(&key).filter(|known| known.object.uid == next.object.uid) {
            if !next.object.follow(&mut known.object) {
                return;
            }
            next.permits = std::mem::take(&mut known.permits);
            (next.counted, next.entering) = (known.counted, known.entering);
            if known.budget == next.budget {
                next.round = known.round.take();
                (next.failures, next.pauses) = (known.failures, known.pauses);
            }
        }
        // Each version counts: a permit may end by what was written after it alone.
        let version = next.version();
        if let Ok(status) = &next.object.status {
            next.permits.note(status, version);
        }
        self.spaces.insert(&key);
        self.finder.put(&key, &next);
        self.budgets.insert(key.clone(), next);
        self.queue.touch(key);
    }

    pub(super) fn remove_budget(&mut self, namespace: &str, name: &str) {
        let key = self.texts.key(namespace, name);
        self.budgets.remove(&key);
        self.finder.remove(&key);
        self.queue.forget(&key);
        if self.spaces.remove(&key) {
            self.parents.retain(|(of, _), _| **of != *namespace);
            self.asked.forget(namespace);
        }
    }

    /// Touches the budgets that the pod may count for.
    pub(super) fn pod_changed(&mut self, change: &PodChange) {
        let relevant = match (&change.before, &change.after) {
            (Some(before), Some(after)) => {
                let of = |pod: &Pod| (pod.available, pod.stage, pod.uid.clone());
                of(before) != of(after)
                    || !Arc::ptr_eq(&before.labels, &after.labels)
                    || before.owner != after.owner
            }
            _ => true,
        };
        if !relevant {
            return;
        }
        for name in self.finder.of_pod(change) {
            let key = Key { namespace: change.key.namespace.clone(), name };
            let Some(known) = self.budgets.get_mut(&key) else { continue };
            let Ok(budget) = &known.budget else { continue };
            let pods = [&change.before, &change.after];
            let has_permit = known.object.status.as_ref().is_ok_and(|status| {
                status.disrupted_pods.contains_key(&*change.key.name)
                    || status.unavailable_pods.contains_key(&*change.key.name)
            });
            let may_be_its_own = |pod: &Arc<Pod>| may_cover(budget, pod, &key.namespace, &self.parents);
            if has_permit || pods.into_iter().flatten().any(may_be_its_own) {
                known.dirty = true;
                self.queue.touch(key);
            }
        }
    }

    /// A request to recreate containers of a pod: a permit of it stands while that goes on.
    pub(super) fn apply_request(&mut self, seen: &RecreateSeen) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        if seen.is_aside {
            // There was no room for it: whether it goes on is not known, so what stands for it stays.
            self.held.stays(&key, self.views.list(Kind::Request));
            return;
        }
        let pod = seen.spec.as_ref().ok().filter(|_| under_way(seen)).map(|spec| spec.pod_name.as_str());
        let before = match pod {
            Some(pod) => {
                let pod = self.texts.one(pod);
                self.held.hold(key.clone(), pod, self.views.list(Kind::Request))
            }
            None => self.held.let_go(&key),
        };
        self.released(&key.namespace, before);
    }

    pub(super) fn remove_request(&mut self, namespace: &str, name: &str) {
        let key = self.texts.key(namespace, name);
        let before = self.held.let_go(&key);
        self.released(&key.namespace, before);
    }

    /// Takes in that nobody recreates the pod any more: a permit of it ends as any other.
    fn released(&mut self, namespace: &Arc<str>, pod: Option<Arc<str>>) {
        let Some(pod) = pod else { return };
        for name in self.finder.of_permit(namespace, &pod) {
            let key = Key { namespace: namespace.clone(), name };
            let Some(known) = self.budgets.get_mut(&key) else { continue };
            if known.object.status.as_ref().is_ok_and(|status| status.unavailable_pods.contains_key(&*pod)) {
                known.dirty = true;
                self.queue.touch(key);
            }
        }
    }

    /// A fact was looked up.
    pub fn found(&mut self, answer: Answer, now: Instant) {
        let Answer { lookup, found } = answer;
        if let (What::Parent { uid, .. }, Ok(fact)) = (&lookup.what, &found) {
            let parent = match fact {
                Fact::Parent(Some(owner)) => Parent::Owner(Arc::new(owner.clone())),
                Fact::Parent(None) => Parent::Itself,
                _ => Parent::Gone,
            };
            if self.parents.len() >= MOST_OWNERS {
                self.parents.clear();
            }
            self.parents.insert((lookup.namespace.clone(), uid.clone()), LookedUp { parent, at: now });
        }
        self.asked.was_read(&lookup, found.is_ok());
        let Some((since, waiters)) = self.asked.answered(&lookup) else { return };
        for name in waiters {
            let key = Key { namespace: lookup.namespace.clone(), name };
            let Some(round) = self.budgets.get_mut(&key).and_then(|known| known.round.as_mut()) else {
                continue;
            };
            if !round.open.contains(&lookup) {
                continue;
            }
            let is_scale = matches!(lookup.what, What::Scale(_));
            if is_scale && since < round.began {
                // It may be of before what the round is about: it is asked for anew.
                self.queue.touch(key);
                continue;
            }
            round.open.remove(&lookup);
            match &found {
                Ok(fact) if is_scale => drop(round.found.insert(lookup.clone(), fact.clone())),
                Ok(_) => {}
                Err(error) => round.failed = Some((lookup.clone(), error.clone())),
            }
            if round.open.is_empty() {
                self.queue.touch(key);
            }
        }
    }
}

/// Says whether the pod may be of the budget, as far as the owner of its ReplicaSet is known.
fn may_cover(budget: &Budget, pod: &Pod, namespace: &Arc<str>, parents: &Parents) -> bool {
    match (&budget.cover, &pod.owner) {
        (Cover::Selector(selector), _) => selector.matches(&pod.labels),
        (Cover::Workload(workload), Some(owner)) => {
            let known = || parents.get(&(namespace.clone(), owner.uid.as_str().into()));
            let is_of_another = || match known().map(|known| &known.parent) {
                Some(Parent::Owner(parent)) => !workload.is(parent),
                _ => false,
            };
            workload.is(owner) || is_replica_set(owner) && workload.may_have(&owner.name) && !is_of_another()
        }
        (Cover::Workload(_), None) => false,
    }
}
