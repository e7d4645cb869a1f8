//! Recording: annotations are asked for where some are recorded, pods are looked at, and the status is
//! written that follows.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::Instant,
};

use berth_pod_state::{Labels, PodView, Records, Rules, Target, record};
use berth_proto::crd::{PersistentPodStateStatus, PodState};
use tracing::warn;

use super::{
    AGAIN, Known, KnownNode, KnownSet, MOST_READ, PodStateIndex, RECORDED_EVERY,
    adapter::{Annotated, PodStateStep},
    of_set,
};
use crate::{
    condition::accepted,
    effect::Effect,
    steps::LOST_AFTER,
    store::{Key, Now, Pod, PodStage, Pods, SetSeen},
    time::later,
};

/// Facts that a state is recorded by.
struct Facts<'a> {
    set: Option<&'a SetSeen>,
    nodes: &'a HashMap<Arc<str>, KnownNode>,
    pods: &'a Pods,
}

impl PodStateIndex {
    /// Goes on with the states that were touched.
    pub(super) fn advance(&mut self, pods: &Pods, now: Now) {
        let due = self.queue.due(now.instant);
        if !self.leads {
            return;
        }
        for key in due {
            let Some(known) = self.states.get_mut(&key).filter(|known| !known.object.deleting) else {
                continue;
            };
            if let Ok(rules) = &known.rules {
                let advanced = rules.target().advanced;
                // The end of the last list makes it due again.
                if self.views.complete_since(&of_set(advanced)).is_none() {
                    continue;
                }
            }
            let target = known.rules.as_ref().ok().map(Rules::target);
            let set = target.and_then(|target| {
                let key = key.sibling(&target.name.as_str().into());
                self.sets[usize::from(target.advanced)].get(&key)
            });
            let set = set.map(|KnownSet { seen, .. }| seen).filter(|seen| !seen.deleting);
            let facts = Facts { set, nodes: &self.nodes, pods };
            let at = advance(&key, known, &facts, now, &mut self.effects);
            self.queue.again(key, at);
        }
    }

    /// Takes in annotations of pods that were read.
    pub fn found(&mut self, answer: Annotated, now: Instant) {
        let Annotated { key, uid, generation, pods } = answer;
        let known = self.states.get_mut(&key);
        let known = known.filter(|known| *known.object.uid == *uid && known.object.generation == generation);
        let Some(known) = known.filter(|known| known.asked.is_some()) else { return };
        let mut is_news = false;
        for (name, read) in pods {
            match read {
                Ok(Some((uid, annotations))) => {
                    known.annotations.insert(name, (uid, annotations));
                    is_news = true;
                }
                // Its end is seen.
                Ok(None) => {}
                Err(error) => warn!(state = %key, pod = name, error, "Annotations of a pod not read"),
            }
        }
        known.asked = (!is_news).then(|| later(now, AGAIN));
        self.queue.touch(key);
    }
}

/// Goes on with one state, and says when to look again.
fn advance(
    key: &Key,
    known: &mut Known,
    facts: &Facts<'_>,
    now: Now,
    effects: &mut Vec<Effect>,
) -> Option<Instant> {
    if let Some(until) = known.object.waits(now.instant) {
        return Some(until);
    }
    // One that cannot be read is left alone.
    let Ok(status) = &known.object.status else { return None };
    let rules = match &known.rules {
        Ok(rules) => rules,
        Err(error) => {
            // Records of a spec that made sense once stay.
            let next = PersistentPodStateStatus {
                observed_generation: known.object.generation,
                conditions: vec![accepted(&status.conditions, "False", "NotCarriedOut", error, now.wall)],
                pod_states: status.pod_states.clone(),
            };
            return known.object.owe(key, next, now.instant, effects);
        }
    };
    if let Some(at) = known.looked.map(|at| later(at, RECORDED_EVERY)).filter(|at| *at > now.instant) {
        return Some(at);
    }
    known.looked = Some(now.instant);
    let (own, none) = (own(facts, key), Labels::new());
    let Sight { views, unread, used } = look(known, rules, status, &own, &none);
    let target = facts.set.map(|set| Target {
        replicas: set.replicas,
        start: set.start,
        reserved: set.reserved.clone(),
    });
    let keys: BTreeSet<&str> = rules.keys().map(String::as_str).collect();
    let labels_of = |node: &str| {
        let asked = facts.nodes.get(node)?.labels.iter().filter(|(key, _)| keys.contains(&**key));
        Some(asked.map(|(key, value)| (key.to_string(), value.to_string())).collect::<Labels>())
    };
    let Records { states, left_out } = record(rules, target.as_ref(), &views, labels_of, &status.pod_states);
    let (reason, message) = match left_out {
        0 => ("CarriedOut", "its pods are recorded when they are ready".to_owned()),
        more => ("Full", format!("there is no room for the records of {more} pods: record fewer labels")),
    };
    let next = PersistentPodStateStatus {
        // The records of a new spec are whole when all pods have been read.
        observed_generation: if unread.is_empty() {
            known.object.generation
        } else {
            status.observed_generation
        },
        conditions: vec![accepted(&status.conditions, "True", reason, &message, now.wall)],
        pod_states: states,
    };
    drop(views);
    known.annotations = used;
    let at = known.object.owe(key, next, now.instant, effects);
    at.into_iter().chain(ask(key, known, unread, now.instant, effects)).min()
}

/// Pods of a StatefulSet as they are to be recorded.
struct Sight<'a> {
    views: Vec<PodView<'a>>,
    /// Names and UIDs of those whose annotations are to be read first.
    unread: Vec<(String, String)>,
    /// Annotations that were read for these records, by name, with the pod's UID.
    used: BTreeMap<String, (String, Labels)>,
}

/// Looks at the pods; `none` are the annotations of those of which none are known.
fn look<'a>(
    known: &'a Known,
    rules: &Rules,
    status: &'a PersistentPodStateStatus,
    own: &'a [(&'a Arc<str>, &'a Pod)],
    none: &'a Labels,
) -> Sight<'a> {
    let is_old = status.observed_generation != known.object.generation;
    let (mut views, mut unread, mut used) = (Vec::with_capacity(own.len()), Vec::new(), BTreeMap::new());
    for (name, pod) in own {
        let ready = pod.node.as_deref().filter(|_| pod.ready && pod.stage == PodStage::Active);
        let mut view = PodView { name, ready_on: ready, annotations: none };
        if let Some(node) = ready.filter(|_| !rules.annotations().is_empty()) {
            let before = status.pod_states.get(&***name);
            let before = before.filter(|state| !is_old && state.node_name.as_deref() == Some(node));
            let uid = pod.uid.to_string();
            let read = known.annotations.get(&***name).filter(|(of, _)| *of == uid);
            match (before, read) {
                // As they were when it became ready there.
                (Some(PodState { annotations, .. }), _) => view.annotations = annotations,
                (None, Some((_, annotations))) => {
                    view.annotations = annotations;
                    used.insert(name.to_string(), (uid, annotations.clone()));
                }
                (None, None) => {
                    unread.push((name.to_string(), uid));
                    view.ready_on = None;
                }
            }
        }
        views.push(view);
    }
    Sight { views, unread, used }
}

/// Asks for annotations, unless some are on their way. Returns when to look again.
fn ask(
    key: &Key,
    known: &mut Known,
    mut unread: Vec<(String, String)>,
    now: Instant,
    effects: &mut Vec<Effect>,
) -> Option<Instant> {
    let waits = known.asked.filter(|until| *until > now);
    if unread.is_empty() || waits.is_some() {
        return waits;
    }
    unread.truncate(MOST_READ);
    known.asked = Some(later(now, LOST_AFTER));
    effects.push(Effect::PodState(PodStateStep::Read {
        key: key.clone(),
        uid: known.object.uid.clone(),
        generation: known.object.generation,
        pods: unread,
        keys: known.rules.as_ref().map(|rules| rules.annotations().to_vec()).unwrap_or_default(),
    }));
    known.asked
}

/// Pods of the StatefulSet.
fn own<'a>(facts: &Facts<'a>, key: &Key) -> Vec<(&'a Arc<str>, &'a Pod)> {
    let Some(set) = facts.set else { return Vec::new() };
    let pods = facts.pods.of_namespace(&key.namespace).map(|(name, pod)| (name, &**pod));
    pods.filter(|(_, pod)| pod.owner.as_ref().is_some_and(|owner| owner.uid == set.uid)).collect()
}
