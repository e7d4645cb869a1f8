//! Facts in: what each kind of object says, and whom it concerns.

use std::sync::Arc;

use super::{
    ImageIndex, UNKNOWN_KEPT, Wake,
    node::{Image, Node, NodeState},
    pods::PodAt,
    room,
};
use crate::{
    store::{Key, Kind, NodeImageSeen, NodeSeen, Now, Pods},
    time::later,
};

impl ImageIndex {
    /// Takes in a change of a pod. Only the jobs of its namespace look at it.
    pub(super) fn pod_changed(
        &mut self,
        namespace: &str,
        before: Option<PodAt<'_>>,
        after: Option<PodAt<'_>>,
        now: Now,
    ) {
        for uid in self.by_pods.get(namespace).cloned().unwrap_or_default() {
            let Some(rollout) = self.rollouts.get_mut(&uid) else { continue };
            // First what comes: a pod that only changes its labels keeps its node selected.
            let came = after.filter(|pod| rollout.add_pod(pod.node, pod.labels));
            let left = before.filter(|pod| rollout.remove_pod(pod.node, pod.labels));
            for pod in [came, left].into_iter().flatten() {
                self.select(&uid, pod.node, now);
            }
        }
    }

    pub(super) fn apply_node(&mut self, seen: &NodeSeen, now: Now) {
        let name = self.texts.one(&seen.name);
        let labels = self.sets.one(&seen.labels, &mut self.texts);
        let (list, uid) = (self.views.list(Kind::Node), seen.uid.as_str().into());
        let state = self.nodes.entry(name.clone()).or_default();
        let node = Node { uid, created: seen.created, labels, list };
        let before = state.node.replace(node);
        let Some(node) = &state.node else { return };
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
        let alone = seen.alone.as_ref().map(|labels| self.sets.one(labels, &mut self.texts));
        let state = self.nodes.entry(name.clone()).or_default();
        let before = (state.labels().cloned(), state.has_key());
        let old = state.image.take();
        self.node_images += usize::from(old.is_none());
        // A job that waits for its turn, or for the other lists, has a plan as well.
        let spec = |uid: &str| self.jobs.get(uid).and_then(|job| job.spec.as_ref().ok());
        let plan = |uid: &str| self.rollouts.get(uid).map(|of| &of.plan).or(spec(uid).map(|of| &of.plan));
        let shared = |uid: &str, content| match (plan(uid), &old) {
            (Some(plan), _) if *plan.content == content => (plan.content.clone(), plan.content_weight()),
            (_, Some(Image { entries, .. }))
                if entries.get(uid).is_some_and(|old| *old.content == content) =>
            {
                (entries[uid].content.clone(), entries[uid].content_weight())
            }
            _ => {
                let weight = room::weight(&content, 0);
                (Arc::new(content), weight)
            }
        };
        let mut image = Image::new(seen.clone(), alone, list, &mut self.texts, shared);
        // Those of which something is new here, and nobody else.
        let mut changed: Vec<Arc<str>> = Vec::new();
        if let Some(old) = old {
            let differs = |uid: &&Arc<str>| old.entries.get(*uid) != image.entries.get(*uid);
            changed.extend(old.uids().chain(image.uids()).filter(differs).cloned());
            if old.uid == image.uid {
                for (uid, asked) in old.asked() {
                    if !image.entries.contains_key(uid) {
                        image.ask(uid, asked.clone());
                    }
                }
                image.sent = old.sent;
            } else {
                changed.extend(old.asked().keys().cloned());
            }
        } else {
            changed.extend(image.entries.keys().cloned());
        }
        for uid in &changed {
            if image.entries.contains_key(uid) || image.asked().contains_key(uid) {
                self.placed.entry(uid.clone()).or_default().insert(name.clone());
            } else {
                self.unplace(uid, &name);
            }
        }
        let state = self.nodes.entry(name.clone()).or_default();
        state.image = Some(image);
        if (state.labels().cloned(), state.has_key()) == before {
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

    pub(super) fn remove(&mut self, kind: Kind, namespace: &str, name: &str, pods: &Pods, now: Now) {
        match kind {
            Kind::ImagePullJob => {
                let key = self.texts.key(namespace, name);
                self.remove_job(&key, pods, now);
            }
            Kind::Node => {
                let name = self.texts.one(name);
                let Some(state) = self.nodes.get_mut(&name) else { return };
                state.node = None;
                self.forget_node(&name);
                self.select_for_all(&name, now);
                self.sweep(&name);
            }
            Kind::NodeImage => {
                let name = self.texts.one(name);
                let Some(state) = self.nodes.get_mut(&name) else { return };
                if let Some(image) = state.image.take() {
                    self.node_images -= 1;
                    for uid in image.uids() {
                        self.unplace(uid, &name);
                    }
                }
                self.select_for_all(&name, now);
                self.sweep(&name);
            }
            _ => {}
        }
    }

    fn sweep(&mut self, name: &str) {
        if self.nodes.get(name).is_some_and(NodeState::is_empty) {
            self.nodes.remove(name);
        }
    }

    pub(super) fn vanished(&self, kind: Kind) -> Vec<Key> {
        let list = self.views.list(kind);
        let nodes = |gone: fn(&NodeState, u32) -> bool| {
            let names = self.nodes.iter().filter(|(_, state)| gone(state, list));
            names.map(|(name, _)| Key::of_cluster(name)).collect()
        };
        match kind {
            Kind::Node => nodes(|state, list| state.node.as_ref().is_some_and(|node| node.list != list)),
            Kind::NodeImage => {
                nodes(|state, list| state.image.as_ref().is_some_and(|image| image.list != list))
            }
            Kind::ImagePullJob => {
                let gone = self.jobs.values().filter(|job| job.list != list);
                gone.map(|job| job.key.clone()).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Begins what has waited until all was listed.
    pub(super) fn begin(&mut self, pods: &Pods, now: Now) {
        for namespace in self.turns.keys().cloned().collect::<Vec<_>>() {
            self.take_turns(&namespace, pods, now);
        }
        for uid in self.jobs.keys().cloned().collect::<Vec<_>>() {
            self.absorb(&uid);
        }
        for uid in self.placed.keys().cloned().collect::<Vec<_>>() {
            if !self.rollouts.contains_key(&uid) && !self.jobs.contains_key(&uid) {
                self.expire(&uid, later(now.instant, UNKNOWN_KEPT), now);
            }
        }
        self.touched.extend(self.rollouts.keys().cloned());
        self.dirty.extend(self.nodes.keys().cloned());
    }
}
