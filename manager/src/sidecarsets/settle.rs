//! Writes that are due: the status of each set that was touched, and the entries of its pods' nodes.

use std::{
    collections::BTreeSet,
    fmt::Write as _,
    ops::Bound,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ANSWERED_EVERY, ANSWERED_WITHIN, FEATURE, KINDS, PLANNED_AT_LEAST, PLANNED_EVERY, PLANNED_FOR_POD,
    SETTLE, SWAPS, SetWrite, SidecarIndex, UPGRADABLE, WRITTEN_EVERY, Wake,
    accepted::{Hook, hook, spared_until, told_of_missing},
    entry::{self, Newest, needs_swap, owner},
    order::Rank,
    plan::{Candidate, Means, Plan, PodRequest, plan},
    progress::Progress,
    revise::Filed,
    set::{Known, Member},
    standing::is_settled,
    status::{shows, status},
};
use crate::{
    effect::Effect,
    notes::{About, Note},
    pod_updates::{EntryId, PodUpdates},
    store::{Key, Kind, Now},
    time::later,
    write::Write,
};

/// Pods of all sets together that are looked at in one go: when a replica begins to lead it looks at all
/// sets, and each pod takes some microseconds.
const LOOKED_AT_ONCE: usize = 20_000;
/// Reasons of the condition for which an upgrade rests, as its author wants it.
const RESTS: [&str; 2] = ["Paused", "PartitionReached"];

impl SidecarIndex {
    /// Thinks through all that was touched, and gives what is owed.
    pub(super) fn settle(&mut self, now: Now) -> Vec<Effect> {
        if self.views.may_decide(self.leads, KINDS, Kind::SidecarSet) {
            if !std::mem::replace(&mut self.begun, true) {
                self.look_at_all();
            }
            while let Some(node) = self.unsure.pop_first() {
                self.claim(&node);
            }
            let mut looked_at = 0_usize;
            while let Some(name) = self.next_touched() {
                self.file(&name, now);
                let planned = self.step(&name, now);
                let written = self.write_status(&name, now);
                let at = [planned, written].into_iter().flatten().min();
                let pods = self.sets.get(&name).map_or(0, |known| known.pods.members.len());
                self.timers.set(Wake::Set(name), at);
                looked_at = looked_at.saturating_add(pods);
                if looked_at >= LOOKED_AT_ONCE {
                    break;
                }
            }
            // The others have their turn at once, but after whatever else has to be done.
            if let Some(next) = self.touched.first().cloned() {
                self.timers.set(Wake::Set(next), Some(now.instant));
            }
            let at = self.flush(now);
            self.timers.set(Wake::Flush, at);
        } else {
            // Whoever leads from now on looks at everything.
            self.touched.clear();
            self.unsure.clear();
        }
        std::mem::take(&mut self.orders)
    }

    /// Takes the next set that was touched. They have their turns by name, round and round: large ones that
    /// are touched all the time must not keep the others waiting.
    fn next_touched(&mut self) -> Option<Arc<str>> {
        let after = self.looked_at.as_ref().and_then(|last| {
            let behind = (Bound::Excluded(&**last), Bound::Unbounded);
            self.touched.range::<str, _>(behind).next()
        });
        let next = after.or_else(|| self.touched.first())?.clone();
        self.touched.remove(&next);
        self.looked_at = Some(next.clone());
        Some(next)
    }

    /// Entries that a manager before this one wrote are this one's now, or are taken back.
    fn claim(&mut self, node: &Arc<str>) {
        for pod in self.updates.unclaimed(node) {
            let set = pod.owner.split_once('/').and_then(|(_, name)| self.sets.get_key_value(name));
            let set = set.map(|(name, known)| (name.clone(), known));
            let key = Key { namespace: pod.namespace.as_str().into(), name: pod.name.as_str().into() };
            let is_its = |known: &Known| {
                let member = known.pods.members.get(&key);
                *known.uid == *pod.owner_uid
                    && member.is_some_and(|member| {
                        member.pod.uid.to_string() == pod.uid && member.pod.node.as_deref() == Some(&**node)
                    })
            };
            match set.filter(|(_, known)| is_its(known)).map(|(name, _)| name) {
                Some(name) => {
                    self.updates.want(pod, node);
                    self.touched.insert(name);
                }
                None => self.updates.gone(&EntryId::of(&pod), node),
            }
        }
    }

    /// Files the revision that a set has now.
    fn file(&mut self, name: &str, now: Now) {
        let Some(known) = self.sets.get_mut(name) else { return };
        let Some(rules) = known.active().cloned() else { return };
        let most = usize::try_from(rules.limit).unwrap_or(0).max(1);
        let filed = known.filed.as_ref().filter(|filed| {
            // More are kept only as long as they are in use.
            let Some((_, older)) = filed.revisions.split_last() else { return true };
            filed.revisions.len() <= most || {
                let in_use = known.in_use();
                older.iter().all(|record| in_use.contains(&record.name))
            }
        });
        if filed.is_none() {
            known.filed = Some(Filed::new(name, known, &rules, now.wall));
        }
    }

    /// Plans the next step of an upgrade, if the newest revision stands in the status; or when.
    fn step(&mut self, name: &Arc<str>, now: Now) -> Option<Instant> {
        let known = self.sets.get_mut(name)?;
        let rules = known.active()?.clone();
        let revision = known.filed.as_ref()?.latest.clone()?;
        let pause = planned_every(known.pods.members.len());
        if let Some(at) = known.planned_at.map(|at| later(at, pause)).filter(|at| *at > now.instant) {
            return Some(at);
        }
        known.planned_at = Some(now.instant);
        #[cfg(test)]
        {
            self.planned += 1;
        }
        let owner = owner(name);
        // One for all of them: there may be tens of thousands, many times a second.
        let mut id = EntryId { uid: String::new(), owner: owner.clone() };
        let agents = Agents { updates: &self.updates, silent: self.silence.silent() };
        let newest = Newest { set: name, uid: &known.uid, revision: &revision, rules: &rules };
        let mut candidates = Vec::with_capacity(known.pods.members.len());
        for (key, member) in &known.pods.members {
            id.uid.clear();
            let _ = write!(id.uid, "{}", member.pod.uid);
            candidates.push(candidate(newest, key, member, &id, agents, now));
        }
        let Plan { ask, tell, take_back, told, progress, again_in } = plan(&rules.strategy, &candidates);
        // The status may say later that it is about this spec, when ControllerRevisions are waited for.
        let ready = known.filed.as_ref().zip(known.shown.as_ref());
        let ready = ready.is_some_and(|(filed, shown)| filed.is_in(shown));
        let (asked, let_go) = (ask.len(), ready && !take_back.is_empty());
        if ready {
            let members: Vec<_> = known.pods.members.iter().collect();
            for (at, attempt) in ask {
                let Some((key, Member { pod, .. })) = members.get(at) else { continue };
                let Some(node) = &pod.node else { continue };
                self.updates.want(entry::entry(newest, key, pod, attempt, now.wall), node);
            }
            for (at, word) in tell {
                let Some((key, Member { pod, .. })) = members.get(at) else { continue };
                let Some(node) = &pod.node else { continue };
                self.updates.want(entry::word(newest, key, pod, word, now.wall), node);
            }
            for at in take_back.into_iter().chain(told) {
                let Some((_, Member { pod, .. })) = members.get(at) else { continue };
                self.updates.forget(&EntryId { uid: pod.uid.to_string(), owner: owner.clone() });
            }
        }
        if let_go {
            // Their places are free, and they wait from now on as others do: one write says both.
            known.planned_at = None;
            return self.step(name, now);
        }
        let mut progress = progress;
        if !ready {
            // They are asked for when their revision stands in the status.
            progress.queued = progress.queued.saturating_add(asked);
            progress.in_flight = progress.in_flight.saturating_sub(asked);
        }
        self.tell(name, &revision, progress);
        again_in.map(|pause| later(now.instant, pause.saturating_add(Duration::from_millis(1))))
    }

    /// Says once for each revision that its upgrade has begun, that pods cannot follow, that some failed, and
    /// that all have it; and that it rests, each time anew.
    fn tell(&mut self, name: &Arc<str>, revision: &str, progress: Progress) {
        let Some(known) = self.sets.get_mut(name) else { return };
        let before = known.progress.replace(progress);
        if known.told.first().is_none_or(|(of, _)| of != revision) {
            known.told = vec![(revision.to_owned(), "")];
        }
        let Progress { matched, not_upgradable, failed, .. } = progress;
        let missing = known.pods.missing.len();
        let was_under_way = before.is_some_and(|before| before.in_flight > 0);
        let done = matched > 0 && progress.updated == matched && progress.in_flight == 0 && was_under_way;
        let (_, stage, sentence) = progress.told();
        if stage == "InProgress" {
            known.told.retain(|(_, told)| !RESTS.contains(told));
        }
        let speaks = stage == "InProgress" || RESTS.contains(&stage);
        let notes = [
            (speaks, false, stage, format!("{revision}: {sentence}")),
            (
                not_upgradable > 0,
                false,
                "NotUpgradablePods",
                format!(
                    "{not_upgradable} pods differ from {revision} in more than images, and get it when they are made anew"
                ),
            ),
            (
                failed > 0,
                true,
                "UpgradeFailed",
                format!(
                    "{failed} pods could not get {revision}; status.pods of their nodes' NodePodUpdates says why"
                ),
            ),
            (missing > 0, true, "NotInjectedPods", told_of_missing(missing)),
            (done, false, "Updated", format!("all {matched} pods have {revision}")),
        ];
        for (_, warning, reason, text) in notes.into_iter().filter(|(holds, ..)| *holds) {
            if known.told.iter().any(|(_, told)| *told == reason) {
                continue;
            }
            known.told.push((revision.to_owned(), reason));
            let key = Key::of_cluster(name);
            let uid = known.uid.clone();
            let note = Note { about: About::SidecarSet, key, uid, warning, reason, text };
            self.orders.push(Effect::Note(note));
        }
    }

    /// Writes what is owed to a set; returns when, if not yet.
    fn write_status(&mut self, name: &Arc<str>, now: Now) -> Option<Instant> {
        let known = self.sets.get_mut(name)?;
        let (observed, filed_until) = self.filing.observed(name, known, now.instant);
        let shown = known.shown.as_ref().filter(|_| !known.deleting)?;
        let progress = known.progress.unwrap_or_default();
        let spared = spared_until(known, now.instant);
        let hook = match hook(&self.webhooks, name, known) {
            Hook::Pending if spared.is_some() => Hook::Unknown,
            hook => hook,
        };
        let status = status(known, observed, &hook, &progress, now.wall);
        let again = spared.into_iter().chain(filed_until).min();
        if shows(shown, &status) {
            known.sent = None;
            return again;
        }
        let under_way = known.sent.as_ref().is_some_and(|(version, _)| *version == known.resource_version);
        if under_way && known.sent.as_ref().is_some_and(|(_, sent)| *sent == status) {
            return again;
        }
        let answers = shown.observed_generation != observed || shown.revisions != status.revisions;
        let pause = match under_way {
            true => ANSWERED_WITHIN,
            false if answers => ANSWERED_EVERY,
            false => WRITTEN_EVERY,
        };
        let at = known.sent_at.map(|at| later(at, pause)).filter(|at| *at > now.instant);
        if at.is_none() {
            let (uid, resource_version) = (known.uid.clone(), known.resource_version.clone());
            known.sent = Some((resource_version.clone(), status.clone()));
            known.sent_at = Some(now.instant);
            let order = SetWrite { name: name.clone(), uid, resource_version, status: Box::new(status) };
            self.orders.push(Effect::Write(Write::SidecarSet(order)));
        }
        at.or(again)
    }

    /// Asks for what is owed to nodes; or says when.
    fn flush(&mut self, now: Now) -> Option<Instant> {
        if !self.updates.owes() {
            return None;
        }
        let at = self.flushed_at.map(|at| later(at, SETTLE)).filter(|at| *at > now.instant);
        if at.is_some() {
            return at;
        }
        let (owed, again) = self.updates.owed(now.instant);
        if !owed.is_empty() {
            self.flushed_at = Some(now.instant);
        }
        self.orders.extend(owed.into_iter().map(|order| Effect::Write(Write::PodUpdates(order))));
        again
    }

    pub(super) fn look_at_all(&mut self) {
        self.touched.extend(self.sets.keys().cloned());
        self.unsure.extend(self.nodes.keys().cloned());
    }

    pub(super) fn forget_orders(&mut self) {
        self.flushed_at = None;
        for known in self.sets.values_mut() {
            (known.sent, known.sent_at, known.planned_at, known.wait) = (None, None, None, None);
        }
    }

    /// Another replica leads: what it asks for stands in the objects of the nodes, and is claimed from there.
    pub(super) fn forget_wishes(&mut self) {
        self.updates.rest();
    }
}

/// Time between two looks at so many pods of a set: each look takes some microseconds of CPU a pod, and all
/// looks together must not take a good part of a core.
fn planned_every(pods: usize) -> Duration {
    let pods = u32::try_from(pods).unwrap_or(u32::MAX);
    PLANNED_EVERY.saturating_add(PLANNED_FOR_POD.saturating_mul(pods)).min(PLANNED_AT_LEAST)
}

/// Agents of the nodes: what they can do and have said, and who is silent.
#[derive(Clone, Copy)]
struct Agents<'a> {
    updates: &'a PodUpdates,
    silent: &'a BTreeSet<String>,
}

/// A pod as the plan looks at it.
fn candidate<'a>(
    Newest { set, revision, rules, .. }: Newest<'_>,
    key: &'a Key,
    Member { pod, state }: &'a Member,
    id: &EntryId,
    Agents { updates, silent }: Agents<'_>,
    now: Now,
) -> Candidate<'a> {
    let sidecars = pod.sidecars.as_deref();
    let ready = sidecars.is_some_and(|sidecars| sidecars.ready);
    let settled =
        sidecars.is_some_and(|sidecars| rules.containers.iter().all(|one| is_settled(one, sidecars)));
    let without_image = sidecars.and_then(|sidecars| sidecars.without_image(set));
    let asked = updates.wanted(id).map(|wanted| {
        let said = updates.progress(id);
        PodRequest {
            word: wanted.upgradable,
            newest: wanted.revision == revision,
            given: updates.is_given(id),
            attempt: wanted.attempt,
            phase: said.map(|said| said.phase),
            ago: said.map_or(Duration::ZERO, |said| now.instant.saturating_duration_since(said.seen)),
        }
    });
    let has = sidecars.and_then(|sidecars| sidecars.revision(set));
    let is_newest = has.is_some_and(|has| **has == *revision);
    let means = match &pod.node {
        None => Means::Unscheduled,
        Some(node) if updates.can(node, FEATURE) && silent.contains(&**node) => Means::Silent,
        Some(node) if updates.can(node, FEATURE) => match needs_swap(rules, pod) && !updates.can(node, SWAPS)
        {
            true => Means::NoSwaps,
            false => Means::Agent,
        },
        Some(_) => Means::NoAgent,
    };
    Candidate {
        namespace: &key.namespace,
        name: &key.name,
        labels: pod.labels.clone(),
        rank: Rank {
            scheduled: pod.node.is_some(),
            phase: sidecars.map(|sidecars| sidecars.phase).unwrap_or_default(),
            ready,
            ready_since: sidecars.map_or(0, |sidecars| sidecars.ready_since),
            restarts: pod.restarts(),
            created: i64::from(pod.created),
        },
        // One whose twins stand in the middle of a swap has the hash, and not the sidecars.
        updated: state.updated && !needs_swap(rules, pod) && (!rules.refreshes || is_newest),
        available: state.ready,
        changing: ready && !settled,
        upgradable: without_image.is_some_and(|hash| **hash == *rules.hashes.without_image),
        told: sidecars.and_then(|sidecars| sidecars.upgradable(set)),
        tells: pod.node.as_ref().is_some_and(|node| updates.can(node, UPGRADABLE)),
        means,
        entry: asked,
    }
}
