//! Counting: facts are asked for, pods are looked at, and the status is written that follows.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use berth_proto::crd::PodUnavailableBudgetStatus;
use tracing::warn;

use super::{
    BudgetIndex, COUNTED_EVERY, KINDS, LOOKED_UP_WITHIN, MOST_OF_ROUND, Parent, Parents, RENEWED_EVERY, Step,
    count::{Facts, Member, count},
    held::Held,
    in_flight::InFlight,
    known::{Known, Round},
    lookup::{Fact, Lookup, What},
    spec::{Budget, Cover, Workload, is_replica_set},
};
use crate::{
    condition::accepted,
    effect::Effect,
    store::{Key, Now, Owner, Pod, PodStage, Pods},
    time::later,
    work::{AGAIN, asked_after, looked_after, pods_unseen_until},
};

impl BudgetIndex {
    /// Goes on with the budgets that were touched.
    pub(super) fn advance(&mut self, pods: &Pods, now: Now) {
        let due = self.queue.due(now.instant);
        let (Some(leads), Some(_)) = (self.leads, self.views.complete_since(KINDS)) else { return };
        let doubt = pods_unseen_until(&self.views, leads, now);
        self.asked.forget_lost(now.instant);
        for key in due {
            let Some(known) = self.budgets.get_mut(&key).filter(|known| !known.object.deleting) else {
                continue;
            };
            if let Some(until) = known.waits_for_entry(&key, &self.entered, now.instant) {
                self.queue.again(key, Some(until));
                continue;
            }
            let (known_of, out) = ((&self.parents, &self.held), (&mut self.asked, &mut self.steps));
            let at = advance(&key, known, known_of, pods, doubt, now, out);
            self.queue.again(key, at);
        }
        while let Some(lookup) = self.asked.hand_out(now.instant) {
            self.steps.push(Effect::Budget(Step::LookUp(lookup)));
        }
    }
}

/// Goes on with one budget, and says when to look again.
fn advance(
    key: &Key,
    known: &mut Known,
    known_of: (&Parents, &Held),
    pods: &Pods,
    doubt: Option<Instant>,
    now: Now,
    (asked, steps): (&mut InFlight, &mut Vec<Effect>),
) -> Option<Instant> {
    let pauses = known.pauses.filter(|until| *until > now.instant);
    if let Some(until) = known.object.waits(now.instant).max(pauses) {
        return Some(until);
    }
    let budget = match &known.budget {
        Ok(budget) => budget.clone(),
        Err(error) => {
            let error = error.clone();
            return refuse(key, known, &error, now, steps);
        }
    };
    if known.round.is_none() {
        if let Some(at) = known.counted.map(|at| later(at, COUNTED_EVERY)).filter(|at| *at > now.instant) {
            return Some(at);
        }
        (known.round, known.dirty, known.counted) = (Some(Round::new(now.instant)), false, Some(now.instant));
    }
    let round = known.round.as_mut()?;
    if !round.open.is_empty() {
        // One whose answer is lost, or was asked for too early, is asked for again.
        round.open.iter().for_each(|lookup| asked.ask(lookup, &key.name));
        return Some(later(now.instant, AGAIN));
    }
    if let Some((lookup, error)) = round.failed.take() {
        warn!(budget = %key, ?lookup, error, "Budget not counted, a fact could not be read");
        known.failures = known.failures.saturating_add(1);
        let until = later(now.instant, asked_after(known.failures));
        // What else was found counts, as long as it is new.
        if later(round.began, LOOKED_UP_WITHIN) <= until {
            known.round = None;
        }
        known.pauses = Some(until);
        return Some(until);
    }
    // One that cannot be read is left alone.
    let Ok(status) = &known.object.status else { return None };
    let survey = Survey::of(key, &budget, status, &round.found, known_of, pods, now.instant);
    if survey.fault.is_none() && !survey.missing.is_empty() {
        for lookup in survey.missing {
            if round.open.len() >= MOST_OF_ROUND {
                break;
            }
            asked.ask(&lookup, &key.name);
            round.open.insert(lookup);
        }
        return Some(later(now.instant, AGAIN));
    }
    (known.round, known.failures) = (None, 0);
    if let Some(fault) = survey.fault {
        let late = refuse(key, known, &fault, now, steps);
        return late.into_iter().chain([later(now.instant, looked_after(key))]).min();
    }
    let facts = Facts {
        generation: known.object.generation,
        version: known.version(),
        total: survey.total,
        doubted: doubt.is_some(),
        pods: &survey.members,
    };
    let (mut next, soonest) = count(&budget, status, &mut known.permits, &facts, now.instant);
    let (reason, message) = match survey.left_out {
        None => ("Kept", "its pods are counted, and its limit is kept".to_owned()),
        Some(remedy) => ("KeptInPart", format!("its limit is kept but for these pods: {remedy}")),
    };
    next.conditions = vec![accepted(&status.conditions, "True", reason, &message, now.wall)];
    let late = known.object.owe(key, next, now.instant, steps);
    let again = known.dirty.then(|| later(now.instant, COUNTED_EVERY));
    let rests = later(now.instant, looked_after(key));
    let looks = [Some(rests), soonest, doubt, again, late, survey.renews];
    looks.into_iter().flatten().min()
}

/// A budget that cannot be kept limits nothing, and says so.
fn refuse(key: &Key, known: &mut Known, fault: &str, now: Now, steps: &mut Vec<Effect>) -> Option<Instant> {
    let status = known.object.status.clone().unwrap_or_default();
    let next = PodUnavailableBudgetStatus {
        observed_generation: known.object.generation,
        conditions: vec![accepted(&status.conditions, "False", "NotKept", fault, now.wall)],
        ..PodUnavailableBudgetStatus::default()
    };
    known.object.owe(key, next, now.instant, steps)
}

/// Pods of a budget, and what is not known of them yet.
#[derive(Debug, Default)]
struct Survey<'a> {
    members: Vec<Member<'a>>,
    total: i32,
    /// Facts to be looked up first.
    missing: Vec<Lookup>,
    /// Why it cannot be counted.
    fault: Option<String>,
    /// Workloads whose scale may not be read, which are left out: the right that is missing.
    left_out: Option<String>,
    /// When a ReplicaSet that may have another controller by now is to be asked for again.
    renews: Option<Instant>,
}

impl<'a> Survey<'a> {
    /// Looks at all pods of the namespace: which of them count, and what has to be looked up for that.
    fn of(
        key: &Key,
        budget: &Budget,
        status: &PodUnavailableBudgetStatus,
        found: &HashMap<Lookup, Fact>,
        (parents, held): (&Parents, &Held),
        pods: &'a Pods,
        now: Instant,
    ) -> Self {
        let mut survey = Self::default();
        let look = |what| Lookup { namespace: key.namespace.clone(), what };
        let mut needed: Vec<Workload> = budget.workload().cloned().into_iter().collect();
        let mut candidates = Vec::new();
        for (name, pod) in pods.of_namespace(&key.namespace) {
            let has_permit =
                status.disrupted_pods.contains_key(&**name) || status.unavailable_pods.contains_key(&**name);
            let top = match top(budget, pod, &key.namespace, parents) {
                Top::Unknown { name, uid } if pod.stage == PodStage::Active => {
                    survey.missing.push(look(What::Parent { name, uid }));
                    continue;
                }
                Top::Unknown { .. } | Top::None => None,
                Top::Stray => {
                    survey.may_have_another(pod, key, parents, now);
                    None
                }
                Top::Bare => Some(None),
                Top::Of(owner) => Some(Some(owner)),
            };
            // A pod that has ended is wanted by nobody: a Job keeps those of its past.
            if let (Some(Some(owner)), None) = (&top, budget.workload())
                && pod.stage != PodStage::Finished
            {
                needed.push(Workload::from(&**owner));
            }
            if top.is_some() || has_permit {
                candidates.push((&**name, pod, top));
            }
        }
        needed.sort();
        needed.dedup();
        let Some(scales) = survey.scales(needed, key, budget, found) else { return survey };
        survey.total = scales.values().fold(0_i32, |sum, fact| match fact {
            Fact::Wants { replicas, .. } => sum.saturating_add(*replicas),
            _ => sum,
        });
        if survey.total == 0 && budget.workload().is_none() {
            survey.total = budget.total.unwrap_or(0);
        }
        // Its author has stated their number.
        survey.left_out = survey.left_out.filter(|_| budget.total.is_none());
        for (name, pod, top) in candidates {
            let covered = match &top {
                None => false,
                Some(None) => true,
                // Its owner may name another version of the workload than the budget.
                Some(Some(owner)) => {
                    let scale = scales.get(&budget.workload().cloned().unwrap_or_else(|| (&**owner).into()));
                    let is_another = match scale {
                        Some(Fact::Wants { uid, .. }) => *uid != owner.uid,
                        Some(Fact::Gone) => true,
                        _ => false,
                    };
                    if is_another || pod.owner.as_ref() == Some(owner) {
                        survey.may_have_another(pod, key, parents, now);
                    }
                    match scale {
                        Some(Fact::Wants { uid, replicas }) => *uid == owner.uid && *replicas > 0,
                        // The number that its author states is of pods whose workloads say none.
                        Some(Fact::NoScale) => budget.total.is_some(),
                        _ => false,
                    }
                }
            };
            let held = held.contains(&key.namespace, name);
            survey.members.push(Member {
                name,
                stage: pod.stage,
                ends: pod.ends,
                available: pod.available && covered,
                held,
            });
        }
        survey.missing.sort();
        survey.missing.dedup();
        survey
    }

    /// Finds the scales of these workloads. `None`: the budget cannot be counted, and it is noted why.
    fn scales<'f>(
        &mut self,
        needed: Vec<Workload>,
        key: &Key,
        budget: &Budget,
        found: &'f HashMap<Lookup, Fact>,
    ) -> Option<BTreeMap<Workload, &'f Fact>> {
        let mut scales = BTreeMap::new();
        for workload in needed {
            let what = What::Scale(workload.clone());
            let lookup = Lookup { namespace: key.namespace.clone(), what };
            let scale = match found.get(&lookup) {
                None => {
                    self.missing.push(lookup);
                    continue;
                }
                Some(fact)
                    if budget.workload().is_some()
                        && (*fact == Fact::NoScale || *fact == Fact::Gone && workload.never_scales()) =>
                {
                    let Workload { api_version, kind, .. } = &workload;
                    self.fault = Some(format!(
                        "spec.targetRef: {kind} of {api_version} has no scale; name a workload that has one"
                    ));
                    return None;
                }
                Some(Fact::Forbidden(remedy)) if budget.workload().is_some() => {
                    self.fault = Some(remedy.clone());
                    return None;
                }
                // The other workloads of a selector have their limit all the same.
                Some(Fact::Forbidden(remedy)) => {
                    self.left_out.get_or_insert_with(|| remedy.clone());
                    &Fact::NoScale
                }
                Some(fact) => fact,
            };
            scales.insert(workload, scale);
        }
        Some(scales)
    }

    /// The ReplicaSet of a pod belongs to nobody, or to a workload that is not there any more: it may have
    /// been adopted since it was looked up, and no event says so.
    fn may_have_another(&mut self, pod: &Pod, key: &Key, parents: &Parents, now: Instant) {
        let set = pod.owner.as_ref().filter(|owner| pod.stage == PodStage::Active && is_replica_set(owner));
        let Some(set) = set else { return };
        let (name, uid): (Arc<str>, Arc<str>) = (set.name.as_str().into(), set.uid.as_str().into());
        let Some(known) = parents.get(&(key.namespace.clone(), uid.clone())) else { return };
        let due = later(known.at, RENEWED_EVERY);
        if due <= now {
            let what = What::Parent { name, uid };
            self.missing.push(Lookup { namespace: key.namespace.clone(), what });
        } else {
            self.renews = Some(self.renews.map_or(due, |renews| renews.min(due)));
        }
    }
}

/// Workload whose pod it is.
enum Top {
    /// The budget does not cover it.
    None,
    /// It belongs to nobody.
    Bare,
    /// It belongs to this one.
    Of(Arc<Owner>),
    /// It belongs to a ReplicaSet that nobody has; the budget is of a workload.
    Stray,
    /// It belongs to a ReplicaSet of which that is not known yet.
    Unknown { name: Arc<str>, uid: Arc<str> },
}

/// Finds the workload that a pod counts for, if the budget covers it.
fn top(budget: &Budget, pod: &Pod, namespace: &Arc<str>, parents: &Parents) -> Top {
    if let Cover::Selector(selector) = &budget.cover
        && !selector.matches(&pod.labels)
    {
        return Top::None;
    }
    let wanted = budget.workload();
    let Some(owner) = &pod.owner else {
        return if wanted.is_some() { Top::None } else { Top::Bare };
    };
    if wanted.is_some_and(|workload| workload.is(owner)) {
        return Top::Of(owner.clone());
    }
    if !is_replica_set(owner) {
        return if wanted.is_some() { Top::None } else { Top::Of(owner.clone()) };
    }
    if wanted.is_some_and(|workload| !workload.may_have(&owner.name)) {
        return Top::None;
    }
    let uid: Arc<str> = owner.uid.as_str().into();
    match parents.get(&(namespace.clone(), uid.clone())).map(|known| &known.parent) {
        None => Top::Unknown { name: owner.name.as_str().into(), uid },
        Some(Parent::Gone) => Top::None,
        Some(Parent::Itself) if wanted.is_some() => Top::Stray,
        Some(Parent::Itself) => Top::Of(owner.clone()),
        Some(Parent::Owner(parent)) => match wanted {
            Some(workload) if !workload.is(parent) => Top::None,
            _ => Top::Of(parent.clone()),
        },
    }
}
