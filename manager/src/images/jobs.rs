//! Jobs in: what a job says, whom it selects, what it remembers, and what becomes of its entries when it
//! goes.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ImageIndex, KINDS, TURN_AFTER, Wake, ended,
    entries::kept,
    job::{Job, Secrets, Stage},
    memory,
    pods::counts,
    queue::{Entrant, JobQueue},
    rollout::{Plan, Rank, Rollout, Standing, Which},
    spec::{self, Spec},
    write::JobAct,
};
use crate::{
    effect::Effect,
    notes::ended::is_news,
    store::{JobSeen, Key, Kind, Now, Pods},
    time::later,
};

impl ImageIndex {
    pub(super) fn apply_job(&mut self, seen: &JobSeen, pods: &Pods, now: Now) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        let uid: Arc<str> = seen.uid.as_str().into();
        if self.uids.get(&key).is_some_and(|known| *known != uid) || seen.deleting {
            self.remove_job(&key, pods, now);
        }
        if seen.deleting {
            return;
        }
        let spec = match &seen.spec {
            Ok(spec) => spec::parse(&key, &uid, spec),
            Err(error) => Err(format!("spec of ImagePullJob {key} cannot be read: {error}")),
        };
        let (shown, readable) = match &seen.status {
            Ok(status) => (status.clone(), true),
            Err(_) => (Default::default(), false),
        };
        let stage = match &shown.completion_time {
            _ if !readable => Stage::Unreadable,
            Some(time) => Stage::Over(time.0),
            None => Stage::Open,
        };
        let list = self.views.list(Kind::ImagePullJob);
        self.uids.insert(key.clone(), uid.clone());
        let job = self.jobs.entry(uid.clone()).or_insert_with(|| Job {
            key: key.clone(),
            created: seen.created,
            resource_version: "".into(),
            seen: now.instant,
            spec: Err(String::new()),
            shown: Default::default(),
            stage: Stage::Open,
            // What is over at first sight ended before it could be told.
            ended: matches!(stage, Stage::Over(_)),
            secrets: Secrets::Unknown,
            lacks: None,
            start: None,
            end: None,
            sent: None,
            sent_at: None,
            written: None,
            absorbed: None,
            list,
        });
        job.resource_version = seen.resource_version.as_str().into();
        job.start = shown.start_time.as_ref().map(|time| time.0).or(job.start);
        (job.shown, job.stage, job.list) = (shown, stage, list);
        job.confirm();
        if let Stage::Over(ended) = stage
            && !std::mem::replace(&mut job.ended, true)
            && is_news(self.leads, Some(ended))
        {
            self.effects.extend(ended::note(seen, key.clone()).map(Effect::Note));
        }
        let spec_is_new = job.spec != spec;
        let mut keeps_secrets = true;
        if spec_is_new {
            keeps_secrets =
                matches!((&job.spec, &spec), (Ok(before), Ok(after)) if before.same_secrets(after));
            job.spec = spec;
            job.written = None;
        }
        if !keeps_secrets {
            self.drop_secrets(&uid, now);
        }
        if stage == Stage::Open {
            if spec_is_new {
                self.plan(&uid, pods, now);
            }
            self.absorb(&uid);
        } else if stage != Stage::Unreadable {
            self.job_is_over(&uid, pods, now);
        } else if !self.rollouts.contains_key(&uid)
            && let Some(job) = self.jobs.get(&uid).filter(|job| job.spec.is_err())
        {
            // Nothing of it can be carried out: it would take a turn for nothing.
            let entrant = (job.rank(), uid.clone());
            self.leave_turns(&key.namespace, &entrant);
        }
        self.touched.insert(uid);
    }

    /// The job has a spec it had not before.
    fn plan(&mut self, uid: &Arc<str>, pods: &Pods, now: Now) {
        let Some(job) = self.jobs.get(uid) else { return };
        let (namespace, entrant) = (job.key.namespace.clone(), (job.rank(), uid.clone()));
        let plan = job.spec.as_ref().ok().map(|spec| spec.plan.clone());
        match (plan, self.rollouts.contains_key(uid)) {
            (Some(plan), true) => self.roll_out(uid, entrant.0, plan, pods, now),
            (Some(_), false) => {
                self.turns.entry(namespace.clone()).or_default().enter(entrant);
                self.take_turns(&namespace, pods, now);
            }
            // What it has asked for stays, and so does its turn.
            (None, true) => {}
            (None, false) => self.leave_turns(&namespace, &entrant),
        }
    }

    /// The next jobs of a namespace are carried out. None is before all are known: the oldest may be listed
    /// last.
    pub(super) fn take_turns(&mut self, namespace: &str, pods: &Pods, now: Now) {
        if self.views.complete_since(KINDS).is_none() {
            return;
        }
        loop {
            let is_crowded = self.standings.are_many();
            let Some(turns) = self.turns.get_mut(namespace) else { return };
            let Some((rank, uid)) = turns.next(is_crowded) else { break };
            let Some(job) = self.jobs.get_mut(&uid) else { continue };
            // That it waits was written with its memory, which counts from here on.
            (job.sent, job.written, job.absorbed) = (None, None, None);
            let Ok(Spec { plan, .. }) = &job.spec else { continue };
            let plan = plan.clone();
            self.roll_out(&uid, rank, plan, pods, now);
            self.absorb(&uid);
            self.touched.insert(uid);
        }
        if self.standings.are_many() {
            self.hold_up(namespace);
        }
    }

    /// More turns of the namespace, or places to rest, may be free when there are fewer standings.
    pub(super) fn hold_up(&mut self, namespace: &str) {
        if !self.held_up.iter().any(|known| **known == *namespace) {
            self.held_up.push_back(namespace.into());
        }
    }

    /// Lets the next namespace have them, if there are fewer; those after it come when it has had its own.
    pub(super) fn go_on(&mut self, now: Now) {
        if self.standings.are_many() {
            return;
        }
        let Some(namespace) = self.held_up.pop_front() else { return };
        self.touched.extend(self.turns.get(&namespace).into_iter().flat_map(JobQueue::carried).cloned());
        self.timers.set(Wake::Queue(namespace), Some(later(now.instant, TURN_AFTER)));
    }

    pub(super) fn leave_turns(&mut self, namespace: &str, job: &Entrant) {
        if let Some(turns) = self.turns.get_mut(namespace) {
            self.touched.extend(turns.leave(job).cloned());
            if turns.is_empty() {
                self.turns.remove(namespace);
            }
        }
    }

    /// Drops the Secrets that were read: they were for another image, or the job names others now. Decisions
    /// that are not written yet are made anew with the Secrets that are read now.
    fn drop_secrets(&mut self, uid: &Arc<str>, now: Now) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        job.lacks = None;
        if std::mem::replace(&mut job.secrets, Secrets::Unknown) != Secrets::Unknown {
            self.effects.push(Effect::Forget(uid.clone()));
            self.undecide_all(uid, now);
        }
    }

    /// Nodes are found for a new plan; where only limits have changed, they stay.
    fn roll_out(&mut self, uid: &Arc<str>, rank: Rank, plan: Plan, pods: &Pods, now: Now) {
        if self.rollouts.get(uid).is_some_and(|rollout| rollout.plan.weight != plan.weight) {
            // What was decided was weighed with another weight.
            self.uncrowd_all(uid);
            self.undecide_all(uid, now);
        }
        let fresh = || Rollout::new(rank, plan.clone(), self.standings.clone());
        let same = self
            .rollouts
            .get(uid)
            .is_some_and(|rollout| rollout.plan.which == plan.which && rollout.plan.sealed == plan.sealed);
        let rollout = self.rollouts.entry(uid.clone()).or_insert_with(fresh);
        rollout.plan = plan;
        rollout.changes += 1;
        if same {
            return;
        }
        rollout.forget_pods();
        if let Which::Pods(namespace, _) = rollout.plan.which.clone() {
            for pod in pods.of_namespace(&namespace).filter_map(|(_, pod)| counts(Some(pod))) {
                rollout.add_pod(pod.node, pod.labels);
            }
            self.by_pods.entry(namespace).or_default().insert(uid.clone());
        } else {
            let namespace = rollout.plan.namespace.clone();
            self.leave_pods(&namespace, uid);
        }
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.select(uid, &name, now);
        }
    }

    pub(super) fn leave_pods(&mut self, namespace: &str, uid: &str) {
        if let Some(uids) = self.by_pods.get_mut(namespace) {
            uids.remove(uid);
            if uids.is_empty() {
                self.by_pods.remove(namespace);
            }
        }
    }

    /// Takes over what the job remembers, if that is news: nodes that were there then.
    pub(super) fn absorb(&mut self, uid: &Arc<str>) {
        if self.views.complete_since(KINDS).is_none() {
            return;
        }
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let (Some(text), Some(time)) = (&job.shown.ended_nodes, &job.shown.ended_nodes_time) else { return };
        // What this manager wrote is no news to it.
        let sent = job.sent.as_ref().and_then(|sent| match &sent.act {
            JobAct::Status(status) => status.ended_nodes.as_ref(),
            JobAct::Delete => None,
        });
        if job.absorbed.as_ref() == Some(text) || sent == Some(text) {
            return;
        }
        let (names, time) = (memory::read(text), time.0);
        job.absorbed = Some(text.clone());
        let Some(rollout) = self.rollouts.get_mut(uid) else { return };
        for (name, end) in names {
            let name = self.texts.one(&name);
            let node = self.nodes.get(&name).and_then(|state| state.node.as_ref());
            if node.is_none_or(|node| node.created.is_some_and(|created| created > time)) {
                continue;
            }
            let standing = match rollout.standing(&name) {
                Some(Standing::Ended(_) | Standing::Former(_)) => continue,
                Some(Standing::Crowded) => {
                    if let Some(state) = self.nodes.get_mut(&name) {
                        state.uncrowd(&rollout.plan.namespace, rollout.rank.clone(), uid);
                    }
                    self.dirty.insert(name.clone());
                    Standing::Ended(end)
                }
                Some(Standing::Pending | Standing::Keyless | Standing::Asked(_)) => Standing::Ended(end),
                Some(Standing::Leaving(_)) | None => Standing::Former(end),
            };
            rollout.set(&name, Some(standing));
        }
    }

    /// Its end is shown, and with it everything it remembers: now its entries may go, in time.
    fn job_is_over(&mut self, uid: &Arc<str>, pods: &Pods, now: Now) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let Stage::Over(ended) = job.stage else { return };
        let (namespace, rank) = (job.key.namespace.clone(), job.rank());
        (job.end, job.absorbed) = (None, None);
        if std::mem::replace(&mut job.secrets, Secrets::Unknown) != Secrets::Unknown {
            self.effects.push(Effect::Forget(uid.clone()));
        }
        self.let_go(uid, now, kept(ended, now));
        self.leave_turns(&namespace, &(rank, uid.clone()));
        self.take_turns(&namespace, pods, now);
    }

    pub(super) fn remove_job(&mut self, key: &Key, pods: &Pods, now: Now) {
        let Some(uid) = self.uids.remove(key) else { return };
        if let Some(job) = self.jobs.remove(&uid) {
            if job.secrets != Secrets::Unknown {
                self.effects.push(Effect::Forget(uid.clone()));
            }
            self.leave_turns(&key.namespace, &(job.rank(), uid.clone()));
        }
        self.timers.set(Wake::Wish(uid.clone()), None);
        self.let_go(&uid, now, Duration::ZERO);
        self.take_turns(&key.namespace, pods, now);
    }

    /// Lets go of it: nothing is asked for it any more, and its entries go after a time.
    pub(super) fn let_go(&mut self, uid: &Arc<str>, now: Now, after: Duration) {
        self.uncrowd_all(uid);
        if let Some(rollout) = self.rollouts.remove(uid) {
            self.leave_pods(&rollout.plan.namespace, uid);
        }
        let Some(names) = self.placed.get(uid).cloned() else { return };
        for name in &names {
            let Some(image) = self.nodes.get_mut(name).and_then(|state| state.image.as_mut()) else {
                continue;
            };
            if image.unask(uid) && !image.entries.contains_key(uid) {
                self.unplace(uid, name);
            }
        }
        self.dirty.extend(names);
        self.expire(uid, later(now.instant, after), now);
    }

    /// The entries of this UID go then. What is over already is looked at with its nodes, not by the clock:
    /// it would be over at every look until the last entry is shown gone.
    pub(super) fn expire(&mut self, uid: &Arc<str>, at: Instant, now: Now) {
        if self.placed.contains_key(uid) {
            self.expiry.insert(uid.clone(), at);
            self.timers.set(Wake::Entries(uid.clone()), Some(at).filter(|at| *at > now.instant));
        }
    }
}
