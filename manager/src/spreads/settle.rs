//! Counting: replicas are asked for where shares follow from them, pods are looked at, and the status is
//! written that follows.

use std::time::Instant;

use berth_proto::crd::WorkloadSpreadStatus;
use berth_spread::{Facts, Member, count};
use tracing::{info, warn};

use super::{
    COUNTED_EVERY, KINDS, Known, SpreadIndex,
    adapter::{Replicas, SpreadStep},
};
use crate::{
    condition::accepted,
    effect::Effect,
    steps::LOST_AFTER,
    store::{Key, Now, PodStage, Pods},
    time::later,
    work::{asked_after, looked_after, pods_unseen_until},
};

impl SpreadIndex {
    /// Goes on with the spreads that were touched.
    pub(super) fn advance(&mut self, pods: &Pods, now: Now) {
        let due = self.queue.due(now.instant);
        let (Some(leads), Some(_)) = (self.leads, self.views.complete_since(KINDS)) else { return };
        let doubt = pods_unseen_until(&self.views, leads, now);
        for key in due {
            let Some(known) = self.spreads.get_mut(&key).filter(|known| !known.object.deleting) else {
                continue;
            };
            // A pod that is not seen yet would leave its place to another one.
            let at = match doubt {
                Some(until) => Some(until),
                None => advance(&key, known, pods, now, &mut self.effects),
            };
            self.queue.again(key, at);
        }
    }

    /// Takes in how many pods a workload wants.
    pub fn found(&mut self, answer: Replicas, now: Instant) {
        let Replicas { key, uid, target, wants } = answer;
        let Some(known) =
            self.spreads.get_mut(&key).filter(|known| *known.object.uid == *uid && known.asked.is_some())
        else {
            return;
        };
        // It may be about the workload of before.
        if known.target() != Some(&target) {
            return;
        }
        match wants {
            Ok(wants) => (known.replicas, known.failures) = (Some(wants), 0),
            Err(error) => {
                warn!(spread = %key, error, "WorkloadSpread not counted, its workload was not read");
                known.failures = known.failures.saturating_add(1);
                known.asked = Some(later(now, asked_after(known.failures)));
            }
        }
        self.queue.touch(key);
    }
}

/// Goes on with one spread, and says when to look again.
fn advance(
    key: &Key,
    known: &mut Known,
    pods: &Pods,
    now: Now,
    effects: &mut Vec<Effect>,
) -> Option<Instant> {
    if let Some(until) = known.object.waits(now.instant) {
        return Some(until);
    }
    let spread = match &known.spread {
        Ok(spread) => spread,
        Err(error) => {
            let status = known.object.status.clone().unwrap_or_default();
            let next = WorkloadSpreadStatus {
                observed_generation: known.object.generation,
                conditions: vec![accepted(&status.conditions, "False", "NotCarriedOut", error, now.wall)],
                ..WorkloadSpreadStatus::default()
            };
            return known.object.owe(key, next, now.instant, effects);
        }
    };
    if let Some(at) = known.counted.map(|at| later(at, COUNTED_EVERY)).filter(|at| *at > now.instant) {
        return Some(at);
    }
    if spread.is_by_share() && known.replicas.is_none() {
        if let Some(until) = known.asked.filter(|until| *until > now.instant) {
            return Some(until);
        }
        known.asked = Some(later(now.instant, LOST_AFTER));
        let target = spread.target.clone();
        let step = SpreadStep::Ask { key: key.clone(), uid: known.object.uid.clone(), target };
        effects.push(Effect::Spread(step));
        return known.asked;
    }
    // One that cannot be read is left alone.
    let Ok(status) = &known.object.status else { return None };
    let mut members = Vec::new();
    for (name, pod) in pods.of_namespace(&key.namespace) {
        let Some(matched) = pod.spread.as_deref().filter(|matched| *matched.name == *key.name) else {
            continue;
        };
        let owner = pod.owner.as_deref();
        let is_of = |one: &crate::store::Owner| {
            spread.target.is(&one.api_version, &one.kind, &one.name)
                || spread.target.may_have(&one.api_version, &one.kind, &one.name)
        };
        if !owner.is_some_and(is_of) {
            continue;
        }
        members.push(Member {
            name,
            entry: matched.entry.as_deref().unwrap_or(name),
            subset: &matched.subset,
            active: pod.stage == PodStage::Active,
            unschedulable: matched.unschedulable && pod.node.is_none(),
            created: pod.created.into(),
        });
    }
    let facts =
        Facts { generation: known.object.generation, replicas: known.replicas.unwrap_or(0), pods: &members };
    let counted = count(spread, status, &mut known.ages, &facts, (now.instant, now.wall));
    let mut next = counted.status;
    next.conditions =
        vec![accepted(&status.conditions, "True", "CarriedOut", "its pods are counted", now.wall)];
    (known.counted, known.asked, known.replicas) = (Some(now.instant), None, None);
    for note in counted.notes {
        info!(spread = %key, reason = note.reason, text = note.text, "Told of a WorkloadSpread");
        effects.push(Effect::Spread(SpreadStep::Tell {
            key: key.clone(),
            uid: known.object.uid.clone(),
            note,
        }));
    }
    let late = known.object.owe(key, next, now.instant, effects);
    let again = counted.again.map(|left| later(now.instant, left));
    let look = known.spread.as_ref().is_ok_and(berth_spread::Spread::is_by_share);
    let look = look.then(|| later(now.instant, looked_after(key)));
    [again, late, look].into_iter().flatten().min()
}
