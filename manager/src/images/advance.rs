//! The decisions: whom a job asks next, when it ends, what its status says.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;

use super::{
    EMPTY_AFTER, ImageIndex, KINDS, SECRETS_AWAITED, SECRETS_KEPT, SECRETS_PAUSE, TURN_AFTER, UNHEARD, Wake,
    job::{Job, Secrets, Sent, Stage},
    node::DecidedWish,
    rollout::{Plan, Standing},
    status::{self, SECRET_UNAVAILABLE, Verdict},
    write::{Fetch, JobAct, JobWrite},
};
use crate::{
    effect::Effect,
    store::{Kind, Now},
    time::later,
    write::Write,
};

impl ImageIndex {
    /// Thinks through all that was touched, and gives what is owed.
    pub(super) fn settle(&mut self, now: Now) -> Vec<Effect> {
        if self.leads.is_some() && self.views.complete_since(KINDS).is_some() {
            loop {
                while let Some(uid) = self.touched.pop_first() {
                    let at = self.advance(&uid, now);
                    self.timers.set(Wake::Wish(uid), at);
                }
                let Some(name) = self.dirty.pop_first() else { break };
                if self.readmit(&name) {
                    // Once they have been asked it is written, and looked at whether there is room for more.
                    self.dirty.insert(name);
                } else {
                    self.write_node(&name, now);
                }
            }
        } else {
            // Whoever leads from now on looks at everything.
            self.touched.clear();
            self.dirty.clear();
        }
        self.go_on(now);
        std::mem::take(&mut self.effects)
    }

    /// Returns when to look again.
    fn advance(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        match self.jobs.get(uid).map(|job| (job.stage, job.spec.is_ok())) {
            None | Some((Stage::Unreadable, _)) => None,
            Some((Stage::Over(ended), _)) => self.delete_in_time(uid, ended, now),
            Some((Stage::Open, false)) => self.refuse(uid, now),
            Some((Stage::Open, true)) if self.rollouts.contains_key(uid) => self.carry_out(uid, now),
            Some((Stage::Open, true)) => self.say_it_waits(uid, now),
        }
    }

    /// Silent nodes are given up, and others asked in their place; when the next one will have been silent
    /// for too long.
    fn fill(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        while let Some(name) = self.rollouts.get(uid)?.silent_at(now.instant) {
            self.give_up(uid, &name);
        }
        while let Some(name) = self.rollouts.get(uid)?.next() {
            let rollout = self.rollouts.get_mut(uid)?;
            let Plan { namespace, weight, .. } = &rollout.plan;
            if let Some(state) = self.nodes.get_mut(&name) {
                if !state.has_room(namespace, &rollout.rank, *weight) {
                    state.crowd(namespace, rollout.rank.clone(), uid);
                    rollout.set(&name, Some(Standing::Crowded));
                    // What is only kept to be looked up may give way.
                    self.dirty.insert(name);
                    continue;
                }
                if let Some(image) = &mut state.image {
                    let (namespace, weight) = (namespace.clone(), *weight);
                    image.ask(uid, DecidedWish { since: now.wall, namespace, weight });
                }
            }
            rollout.set(&name, Some(Standing::Asked(later(now.instant, UNHEARD))));
            self.placed.entry(uid.clone()).or_default().insert(name.clone());
            self.dirty.insert(name);
        }
        self.rollouts.get(uid)?.silence()
    }

    /// A job that makes no sense. Nodes that it had asked before are left to it.
    fn refuse(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        if let Some(rollout) = self.rollouts.get_mut(uid) {
            rollout.open = false;
            if rollout.active() == 0 {
                self.rest(uid, now);
            }
        }
        let fault = self.jobs.get(uid)?.spec.as_ref().err()?.clone();
        self.say_refused(uid, "InvalidSpec", &fault, now)
    }

    /// A job that has to wait for its turn. Nothing of it begins, and nothing that it needs is read.
    fn say_it_waits(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        let job = self.jobs.get(uid)?;
        let turns = self.turns.get(&job.key.namespace)?;
        let status = status::waiting(job, now.wall);
        let is_said = job.shown.message == status.message
            && status.conditions.iter().all(|condition| job.shown.conditions.contains(condition));
        if turns.has_waiting(&(job.rank(), uid.clone())) && !is_said {
            self.write_job(uid, JobAct::Status(Box::new(status)), 0, now);
        }
        None
    }

    fn say_refused(&mut self, uid: &Arc<str>, reason: &str, why: &str, now: Now) -> Option<Instant> {
        let job = self.jobs.get(uid)?;
        let shown = job.shown.conditions.iter().find(|condition| condition.type_ == "Accepted");
        if shown.is_some_and(|shown| {
            shown.status == "False" && shown.reason == reason && shown.message == status::cut(why)
        }) {
            return None;
        }
        let rollout = self.rollouts.get(uid).filter(|_| reason == SECRET_UNAVAILABLE);
        let status = status::refused(job, rollout, reason, why, now.wall);
        self.write_job(uid, JobAct::Status(Box::new(status)), 0, now);
        None
    }

    fn delete_in_time(&mut self, uid: &Arc<str>, ended: Timestamp, now: Now) -> Option<Instant> {
        let job = self.jobs.get(uid)?;
        let ttl = job.spec.as_ref().ok()?.ttl?;
        let left = until(ended, i64::from(ttl), now);
        if left.is_zero() {
            self.write_job(uid, JobAct::Delete, 0, now);
            return None;
        }
        now.instant.checked_add(left)
    }

    /// Asks further nodes, and ends the job when its time has come. Returns when to look again.
    fn carry_out(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        if self.jobs.get(uid)?.end.is_some() {
            return self.write_status(uid, now);
        }
        // Without its Secrets no further node is asked; those that were go on, and so does its time.
        let (ready, read_again) = match self.secrets(uid, now) {
            Ok(read_again) => (true, read_again),
            Err(look_again) => (false, look_again),
        };
        let job = self.jobs.get_mut(uid)?;
        let start = *job.start.get_or_insert(now.wall);
        let spec = job.spec.as_ref().ok()?;
        let (never, deadline) = (spec.never, spec.deadline.map(|seconds| until(start, seconds, now)));
        let seen = job.seen;
        self.rollouts.get_mut(uid)?.open = ready;
        let silence = self.fill(uid, now);

        let rollout = self.rollouts.get(uid)?;
        let all_ended = rollout.ended() == rollout.desired();
        let mut verdict = None;
        let mut look = None;
        if all_ended && !never && (ready || rollout.desired() > 0) {
            match self.believable(rollout.desired() == 0, seen, now) {
                None => verdict = Some(Verdict::Ended),
                at => look = at,
            }
        }
        if deadline.is_some_and(|left| left.is_zero()) && verdict.is_none() {
            verdict = Some(Verdict::DeadlineExceeded);
        }
        let over = verdict.is_some();
        if !over && rollout.is_idle() {
            self.rest(uid, now);
        }
        if let Some(verdict) = verdict {
            self.rollouts.get_mut(uid)?.open = false;
            let job = self.jobs.get(uid)?;
            let status = status::ended(job, self.rollouts.get(uid)?, verdict, now.wall);
            self.jobs.get_mut(uid)?.end = Some(Box::new(status));
        }
        let deadline = deadline.and_then(|left| now.instant.checked_add(left));
        // What it lacks is in its status, and stays there.
        let written = if ready || over { self.write_status(uid, now) } else { None };
        if ready && !over && deadline.is_none() && look.is_none() && self.pauses(uid, now) {
            return None;
        }
        earliest([read_again, silence, deadline, look, written])
    }

    /// A job that pauses, and whose status says all there is to know of it, keeps nothing of its nodes: it
    /// enters again when it goes on. One with a deadline does not, nor one that may be over.
    fn pauses(&mut self, uid: &Arc<str>, now: Now) -> bool {
        let (Some(job), Some(rollout)) = (self.jobs.get_mut(uid), self.rollouts.get(uid)) else {
            return false;
        };
        if !rollout.is_paused() || job.written != Some(rollout.changes) {
            return false;
        }
        if std::mem::replace(&mut job.secrets, Secrets::Unknown) != Secrets::Unknown {
            self.effects.push(Effect::Forget(uid.clone()));
        }
        let (namespace, entrant) = (job.key.namespace.clone(), (job.rank(), uid.clone()));
        self.uncrowd_all(uid);
        self.rollouts.remove(uid);
        self.leave_pods(&namespace, uid);
        self.leave_turns(&namespace, &entrant);
        self.timers.set(Wake::Queue(namespace), Some(later(now.instant, TURN_AFTER)));
        true
    }

    /// A job that has nothing to ask for gives its turn to another one, and follows its nodes all the same.
    fn rest(&mut self, uid: &Arc<str>, now: Now) {
        let Some(job) = self.jobs.get(uid) else { return };
        let (namespace, entrant) = (job.key.namespace.clone(), (job.rank(), uid.clone()));
        let is_crowded = self.standings.are_many();
        if self.turns.get_mut(&namespace).is_some_and(|turns| turns.rest(&entrant, is_crowded)) {
            self.timers.set(Wake::Queue(namespace), Some(later(now.instant, TURN_AFTER)));
        } else if is_crowded {
            self.hold_up(&namespace);
        }
    }

    /// Returns `None` if it can be relied on that no more nodes are selected; else when to look again.
    fn believable(&self, none: bool, seen: Instant, now: Now) -> Option<Instant> {
        let doubts = [Kind::Node, Kind::NodeImage, Kind::Pod].map(|kind| self.views.doubt(kind, now.instant));
        let lag = self
            .views
            .complete_since(KINDS)
            .filter(|_| none)
            .map(|since| later(since.max(seen), EMPTY_AFTER));
        doubts.into_iter().chain([lag]).flatten().filter(|at| *at > now.instant).max()
    }

    /// Ok where the job has what it needs of Secrets; when to look again.
    fn secrets(&mut self, uid: &Arc<str>, now: Now) -> Result<Option<Instant>, Option<Instant>> {
        let Some(job) = self.jobs.get_mut(uid) else { return Err(None) };
        let Ok(spec) = &job.spec else { return Err(None) };
        if !spec.plan.sealed {
            return Ok(None);
        }
        let next = match &job.secrets {
            Secrets::Ready(at) | Secrets::Missing(_, at) if *at > now.instant => {
                let at = Some(*at);
                return match &job.secrets {
                    Secrets::Missing(text, _) => {
                        let text = text.clone();
                        self.say_refused(uid, SECRET_UNAVAILABLE, &text, now);
                        Err(at)
                    }
                    _ => Ok(at),
                };
            }
            Secrets::Awaited => return Err(None),
            Secrets::Refreshed => return Ok(None),
            Secrets::Ready(_) => Secrets::Refreshed,
            Secrets::Unknown | Secrets::Missing(..) => Secrets::Awaited,
        };
        let there = next.are_there();
        job.secrets = next;
        let fetch = Fetch {
            uid: uid.clone(),
            job: job.key.clone(),
            names: spec.secrets.clone(),
            image: spec.image().to_owned(),
        };
        self.effects.push(Effect::Fetch(fetch));
        if there { Ok(None) } else { Err(None) }
    }

    /// The Secrets of a job are there.
    pub fn secrets_ready(&mut self, uid: &Arc<str>, now: Now) -> Vec<Effect> {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.secrets = Secrets::Ready(later(now.instant, SECRETS_KEPT));
            if job.lacks.take().is_some() {
                self.say_again(uid);
            }
            self.touched.insert(uid.clone());
        }
        self.settle(now)
    }

    /// Some are not, and these are there: which, and what to do about it. They may be on their way, or their
    /// Role is, so the job waits for a pause; then it goes on without them, as the kubelet does with a pod.
    pub fn secrets_lacking(&mut self, uid: &Arc<str>, text: &str, now: Now) -> Vec<Effect> {
        let Some(job) = self.jobs.get_mut(uid) else { return self.settle(now) };
        let since = job.lacks.as_ref().map_or(now.instant, |(_, since)| *since);
        let is_news = job.lacks.as_ref().is_none_or(|(known, _)| **known != *text);
        job.lacks = Some((text.into(), since));
        let until = later(since, SECRETS_AWAITED);
        if now.instant < until {
            return self.await_secrets(uid, text, until, now);
        }
        let is_news = is_news || !job.secrets.are_there();
        job.secrets = Secrets::Ready(later(now.instant, SECRETS_PAUSE));
        if is_news {
            self.say_again(uid);
        }
        self.touched.insert(uid.clone());
        self.settle(now)
    }

    /// The status of a job says something else, though none of its nodes does.
    fn say_again(&mut self, uid: &Arc<str>) {
        if let Some(rollout) = self.rollouts.get_mut(uid) {
            rollout.changes = rollout.changes.saturating_add(1);
        }
    }

    /// Takes in that Secrets of a job are missing; the text says what, and what to do about it. Nothing
    /// begins without them.
    pub fn secrets_missing(&mut self, uid: &Arc<str>, text: &str, now: Now) -> Vec<Effect> {
        self.await_secrets(uid, text, later(now.instant, SECRETS_PAUSE), now)
    }

    fn await_secrets(&mut self, uid: &Arc<str>, text: &str, until: Instant, now: Now) -> Vec<Effect> {
        if let Some(job) = self.jobs.get_mut(uid) {
            job.secrets = Secrets::Missing(text.into(), until);
            job.written = None;
            self.touched.insert(uid.clone());
            // Nothing can be sealed for nodes that have not got it yet.
            self.undecide_all(uid, now);
        }
        self.settle(now)
    }

    /// The status of a job that is carried out, if it is owed now; else when.
    fn write_status(&mut self, uid: &Arc<str>, now: Now) -> Option<Instant> {
        let (job, rollout) = (self.jobs.get(uid)?, self.rollouts.get(uid)?);
        let on_this_version = job.sent.as_ref().filter(|sent| sent.resource_version == job.resource_version);
        if let Some(end) = &job.end {
            let asked = on_this_version.is_some_and(|sent| sent.act == JobAct::Status(end.clone()));
            if !asked {
                let act = JobAct::Status(end.clone());
                self.write_job(uid, act, rollout.changes, now);
            }
            return None;
        }
        let changes = rollout.changes;
        if job.written == Some(changes) || on_this_version.is_some_and(|sent| sent.changes == changes) {
            return None;
        }
        // The first is not held back, nor when it has to be decided anew.
        let first = job.shown.start_time.is_none() && on_this_version.is_none();
        let every = status::written_every(rollout.desired());
        let at = job.sent_at.map(|at| later(at, every)).filter(|at| !first && *at > now.instant);
        if at.is_none() {
            let status = status::running(job, rollout, now.wall);
            if on_this_version.is_none() && job.shows(&status) {
                // As another manager wrote it.
                self.jobs.get_mut(uid)?.written = Some(changes);
                return None;
            }
            self.write_job(uid, JobAct::Status(Box::new(status)), changes, now);
        }
        at
    }

    fn write_job(&mut self, uid: &Arc<str>, act: JobAct, changes: u64, now: Now) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let resource_version = job.resource_version.clone();
        let asked = |sent: &Sent| sent.resource_version == resource_version && sent.act == act;
        if job.sent.as_ref().is_some_and(asked) {
            return;
        }
        job.sent = Some(Sent { resource_version: resource_version.clone(), changes, act: act.clone() });
        job.sent_at = Some(now.instant);
        let Job { key, .. } = job;
        let order = JobWrite { key: key.clone(), uid: uid.clone(), resource_version, act };
        self.effects.push(Effect::Write(Write::Job(order)));
    }
}

/// Returns the rest of so many seconds after a moment of the API's, by this machine's clock.
fn until(begin: Timestamp, seconds: i64, now: Now) -> Duration {
    let end = i128::from(begin.as_millisecond()) + i128::from(seconds) * 1000;
    let left = end - i128::from(now.wall.as_millisecond());
    Duration::from_millis(u64::try_from(left.max(0)).unwrap_or(u64::MAX))
}

fn earliest<const N: usize>(times: [Option<Instant>; N]) -> Option<Instant> {
    times.into_iter().flatten().min()
}
