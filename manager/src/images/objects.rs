//! Facts in: what each kind of object says, and whom it concerns.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    ImageIndex, UNKNOWN_KEPT,
    entries::kept,
    job::{Job, Secrets, Stage},
    memory,
    order::{Effect, JobAct},
    pods::Change,
    rollout::{Owner, Plan, Rollout, Standing, Which},
    site::{Image, Node, Site},
    spec::{self, Spec},
    timers::Wake,
};
use crate::seen::{JobSeen, Key, Kind, NodeImageSeen, NodeSeen, Now, PodSeen};

impl ImageIndex {
    pub(super) fn apply_pod(&mut self, seen: &PodSeen, now: Now) {
        let list = self.views.list(Kind::Pod);
        if let Some((namespace, change)) = self.pods.apply(seen, list, &mut self.texts, &mut self.sets) {
            self.pod_changed(&namespace, &change, now);
        }
    }

    /// Only the jobs of its namespace look at it.
    fn pod_changed(&mut self, namespace: &str, Change { before, after }: &Change, now: Now) {
        for uid in self.by_pods.get(namespace).cloned().unwrap_or_default() {
            let Some(rollout) = self.rollouts.get_mut(&uid) else { continue };
            // First what comes: a pod that only changes its labels keeps its node selected.
            let came = after.as_ref().filter(|pod| rollout.add_pod(&pod.node, &pod.labels));
            let left = before.as_ref().filter(|pod| rollout.remove_pod(&pod.node, &pod.labels));
            for pod in [came, left].into_iter().flatten() {
                self.select(&uid, &pod.node, now);
            }
        }
    }

    pub(super) fn apply_node(&mut self, seen: &NodeSeen, now: Now) {
        let name = self.texts.one(&seen.name);
        let labels = self.sets.one(&seen.labels, &mut self.texts);
        let (list, uid) = (self.views.list(Kind::Node), seen.uid.as_str().into());
        let site = self.sites.entry(name.clone()).or_default();
        let node = Node { uid, created: seen.created, labels, list };
        let before = site.node.replace(node);
        let Some(node) = &site.node else { return };
        match before {
            Some(before) if before.uid == node.uid && before.labels == node.labels => {}
            Some(before) if before.uid != node.uid => {
                self.forget_node(&name);
                self.select_for_all(&name, now);
            }
            _ => self.select_for_all(&name, now),
        }
    }

    pub(super) fn apply_node_image(&mut self, seen: &NodeImageSeen, now: Now) {
        let name = self.texts.one(&seen.name);
        let list = self.views.list(Kind::NodeImage);
        let site = self.sites.entry(name.clone()).or_default();
        let before = (site.usable(), site.has_key());
        let old = site.image.take();
        let rollouts = &self.rollouts;
        let shared = |uid: &str, content| match (rollouts.get(uid), &old) {
            (Some(rollout), _) if *rollout.plan.content == content => rollout.plan.content.clone(),
            (_, Some(Image { entries, .. }))
                if entries.get(uid).is_some_and(|old| *old.content == content) =>
            {
                entries[uid].content.clone()
            }
            _ => Arc::new(content),
        };
        let mut image = Image::new(seen.clone(), list, &mut self.texts, shared);
        // Those of which something is new here, and nobody else.
        let mut changed: Vec<Arc<str>> = Vec::new();
        if let Some(old) = old {
            let differs = |uid: &&Arc<str>| old.entries.get(*uid) != image.entries.get(*uid);
            changed.extend(old.uids().chain(image.uids()).filter(differs).cloned());
            if old.uid == image.uid {
                let waits = |uid: &Arc<str>| !image.entries.contains_key(uid);
                image.asked = old.asked.into_iter().filter(|(uid, _)| waits(uid)).collect();
                image.sent = old.sent;
            } else {
                changed.extend(old.asked.into_keys());
            }
        } else {
            changed.extend(image.entries.keys().cloned());
        }
        for uid in &changed {
            if image.entries.contains_key(uid) || image.asked.contains_key(uid) {
                self.placed.entry(uid.clone()).or_default().insert(name.clone());
            } else {
                self.unplace(uid, &name);
            }
        }
        let site = self.sites.entry(name.clone()).or_default();
        site.image = Some(image);
        if (site.usable(), site.has_key()) == before {
            for uid in changed {
                self.place(&uid, &name, None, now);
            }
        } else {
            self.select_for_all(&name, now);
        }
        self.dirty.insert(name);
    }

    /// An entry is not there any more.
    pub(super) fn unplace(&mut self, uid: &Arc<str>, name: &Arc<str>) {
        if let Some(names) = self.placed.get_mut(uid) {
            names.remove(name);
            if names.is_empty() {
                self.placed.remove(uid);
                self.expiry.remove(uid);
                self.timers.set(Wake::Entries(uid.clone()), None);
            }
        }
    }

    pub(super) fn apply_job(&mut self, seen: &JobSeen, now: Now) {
        let key = self.texts.key(&seen.namespace, &seen.name);
        let uid: Arc<str> = seen.uid.as_str().into();
        if self.uids.get(&key).is_some_and(|known| *known != uid) || seen.deleting {
            self.remove_job(&key, now);
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
            resource_version: "".into(),
            seen: now.instant,
            spec: Err(String::new()),
            shown: Default::default(),
            stage: Stage::Open,
            secrets: Secrets::Unknown,
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
        let spec_is_new = job.spec != spec;
        if spec_is_new {
            job.spec = spec;
            job.written = None;
        }
        if stage == Stage::Open {
            if spec_is_new {
                self.plan(&uid, &key, now);
            }
            self.absorb(&uid);
        } else if stage != Stage::Unreadable {
            self.job_is_over(&uid, now);
        }
        self.touched.insert(uid);
    }

    /// The job has a spec it had not before.
    fn plan(&mut self, uid: &Arc<str>, key: &Key, now: Now) {
        let Some(Job { spec: Ok(Spec { plan, .. }), secrets, .. }) = self.jobs.get_mut(uid) else { return };
        let plan = plan.clone();
        *secrets = Secrets::Unknown;
        self.roll_out(uid, Owner::Job(key.clone()), plan, now);
    }

    /// Nodes are found for a new plan; where only limits have changed, they stay.
    pub(super) fn roll_out(&mut self, uid: &Arc<str>, owner: Owner, plan: Plan, now: Now) {
        let fresh = || Rollout::new(owner, plan.clone());
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
            for pod in self.pods.of_namespace(&namespace) {
                rollout.add_pod(&pod.node, &pod.labels);
            }
            self.by_pods.entry(namespace).or_default().insert(uid.clone());
        } else {
            self.leave_pods(uid);
        }
        for name in self.sites.keys().cloned().collect::<Vec<_>>() {
            self.select(uid, &name, now);
        }
    }

    fn leave_pods(&mut self, uid: &str) {
        self.by_pods.retain(|_, uids| {
            uids.remove(uid);
            !uids.is_empty()
        });
    }

    /// Takes over what the job remembers, if that is news: nodes that were there then.
    pub(super) fn absorb(&mut self, uid: &Arc<str>) {
        if self.views.complete_since().is_none() {
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
            let node = self.sites.get(&name).and_then(|site| site.node.as_ref());
            if node.is_none_or(|node| node.created.is_some_and(|created| created > time)) {
                continue;
            }
            let standing = match rollout.standing(&name) {
                Some(Standing::Ended(_) | Standing::Former(_)) => continue,
                Some(Standing::Pending | Standing::Keyless | Standing::Asked(_)) => Standing::Ended(end),
                Some(Standing::Leaving(_)) | None => Standing::Former(end),
            };
            rollout.set(&name, Some(standing));
        }
    }

    /// Its end is shown, and with it everything it remembers: now its entries may go, in time.
    fn job_is_over(&mut self, uid: &Arc<str>, now: Now) {
        let Some(job) = self.jobs.get_mut(uid) else { return };
        let Stage::Over(ended) = job.stage else { return };
        (job.end, job.absorbed) = (None, None);
        if std::mem::replace(&mut job.secrets, Secrets::Unknown) != Secrets::Unknown {
            self.effects.push(Effect::Forget(uid.clone()));
        }
        self.let_go(uid, now, kept(ended, now));
    }

    fn remove_job(&mut self, key: &Key, now: Now) {
        let Some(uid) = self.uids.remove(key) else { return };
        if let Some(job) = self.jobs.remove(&uid)
            && job.secrets != Secrets::Unknown
        {
            self.effects.push(Effect::Forget(uid.clone()));
        }
        self.timers.set(Wake::Wish(uid.clone()), None);
        self.let_go(&uid, now, Duration::ZERO);
    }

    /// Nothing is asked for it any more, and its entries go after a time.
    pub(super) fn let_go(&mut self, uid: &Arc<str>, now: Now, after: Duration) {
        if self.rollouts.remove(uid).is_some() {
            self.leave_pods(uid);
        }
        let Some(names) = self.placed.get(uid).cloned() else { return };
        for name in &names {
            let Some(image) = self.sites.get_mut(name).and_then(|site| site.image.as_mut()) else { continue };
            if image.asked.remove(uid).is_some() && !image.entries.contains_key(uid) {
                self.unplace(uid, name);
            }
        }
        self.dirty.extend(names);
        self.expire(uid, now.instant + after);
    }

    /// The entries of this UID go then.
    pub(super) fn expire(&mut self, uid: &Arc<str>, at: Instant) {
        if self.placed.contains_key(uid) {
            self.expiry.insert(uid.clone(), at);
            self.timers.set(Wake::Entries(uid.clone()), Some(at));
        }
    }

    pub(super) fn remove(&mut self, kind: Kind, namespace: &str, name: &str, now: Now) {
        match kind {
            Kind::Pod => {
                if let Some((namespace, change)) = self.pods.delete(namespace, name) {
                    self.pod_changed(&namespace, &change, now);
                }
            }
            Kind::ImagePullJob => {
                let key = self.texts.key(namespace, name);
                self.remove_job(&key, now);
            }
            Kind::Node => {
                let name = self.texts.one(name);
                let Some(site) = self.sites.get_mut(&name) else { return };
                site.node = None;
                self.forget_node(&name);
                self.select_for_all(&name, now);
                self.sweep(&name);
            }
            Kind::NodeImage => {
                let name = self.texts.one(name);
                let Some(site) = self.sites.get_mut(&name) else { return };
                if let Some(image) = site.image.take() {
                    for uid in image.uids() {
                        self.unplace(uid, &name);
                    }
                }
                self.select_for_all(&name, now);
                self.sweep(&name);
            }
            Kind::Request => {}
        }
    }

    fn sweep(&mut self, name: &str) {
        if self.sites.get(name).is_some_and(Site::is_empty) {
            self.sites.remove(name);
        }
    }

    pub(super) fn vanished(&self, kind: Kind) -> Vec<(Arc<str>, Box<str>)> {
        let list = self.views.list(kind);
        let sites = |gone: fn(&Site, u32) -> bool| {
            let names = self.sites.iter().filter(|(_, site)| gone(site, list));
            names.map(|(name, _)| ("".into(), (**name).into())).collect()
        };
        match kind {
            Kind::Pod => self.pods.vanished(list),
            Kind::Node => sites(|site, list| site.node.as_ref().is_some_and(|node| node.list != list)),
            Kind::NodeImage => {
                sites(|site, list| site.image.as_ref().is_some_and(|image| image.list != list))
            }
            Kind::ImagePullJob => {
                let gone = self.jobs.values().filter(|job| job.list != list);
                gone.map(|job| (job.key.namespace.clone(), (*job.key.name).into())).collect()
            }
            Kind::Request => Vec::new(),
        }
    }

    /// Everything has been listed: what waited for that.
    pub(super) fn begin(&mut self, now: Now) {
        for uid in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.absorb(&uid);
        }
        for uid in self.placed.keys().cloned().collect::<Vec<_>>() {
            if !self.rollouts.contains_key(&uid) && !self.jobs.contains_key(&uid) {
                self.expire(&uid, now.instant + UNKNOWN_KEPT);
            }
        }
        self.touched.extend(self.rollouts.keys().cloned());
        self.dirty.extend(self.sites.keys().cloned());
    }
}
