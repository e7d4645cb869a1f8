//! Pods as the pod view shows them, and the moments at which it does.
//!
//! Authors of pods can write one that nobody here can read. Nothing that it declares is known, so it
//! counts as one that is not shown:
//!
//! - its order is not known. A container that declares one is not created, unless the kubelet shows the pod
//!   whole; the others are, and its stops wait for nobody;
//! - nothing is done to it. A request to recreate its containers fails, and says so.

use std::time::Instant;

use crate::{
    model::{Pod, PodRef, PodUid},
    node::Node,
    set_aside::Subject,
    step::{About, Notice},
};

/// The reason of the Event on a pod that cannot be read.
const REASON: &str = "SetAside";

impl Node {
    /// The pod view shows this pod, new or changed.
    pub(crate) fn pod_seen(&mut self, pod: Pod, now: Instant) {
        for (name, report) in &pod.statuses {
            // Whoever may write a status can name somebody else's instance in it.
            if self.is_instance_of(&report.id, &pod.pod.uid)
                && let Some(instance) = self.instance_mut(&report.id)
            {
                let before = instance.ready_since;
                instance.ready_since = report.ready.then(|| before.unwrap_or(now));
                if report.ready && before.is_none() {
                    self.note_ready(&pod.pod, name, now);
                }
            }
        }
        self.tell_of_lost_order(&pod);
        self.sidecars.pod_seen(&pod);
        let seq = self.seq;
        let own = self.sandboxes.values_mut().filter(|sandbox| sandbox.pod.uid == pod.pod.uid);
        own.for_each(|sandbox| sandbox.hinted = seq);
        let uid = pod.pod.uid.clone();
        self.pods.insert(uid.clone(), pod);
        self.note_launch_of(&uid);
    }

    /// The pod view shows it no more.
    pub(crate) fn pod_gone(&mut self, uid: &PodUid) {
        self.pods.remove(uid);
        self.announced.gone(uid);
        self.sidecars.pod_gone(uid);
    }

    /// The pod view shows these pods, and no others.
    pub(crate) fn pods_listed(&mut self, pods: Vec<Pod>, now: Instant) {
        self.pods_are_listed = true;
        self.pods.keys().for_each(|uid| self.sidecars.pod_gone(uid));
        self.pods.clear();
        for pod in pods {
            // One that cannot be taken in does not keep the others out.
            let uid = pod.pod.uid.clone();
            let set_aside = std::mem::take(&mut self.set_aside);
            set_aside.evaluate(|| Subject::Pod(uid.clone()), now, || self.pod_seen(pod, now));
            self.set_aside = set_aside;
        }
        let pods = &self.pods;
        self.announced.listed(|uid| pods.contains_key(uid));
    }

    /// The pod of this UID, where the node still knows it.
    pub fn pod_of(&self, uid: &PodUid) -> Option<PodRef> {
        let view = self.pods.get(uid).map(|pod| pod.pod.clone());
        view.or_else(|| self.sandboxes_of(uid).next().map(|sandbox| sandbox.pod.clone()))
    }

    /// Returns a pod by its own name, where the node knows that: whoever gives a UID may give any name.
    pub fn by_own_name(&self, pod: PodRef) -> PodRef {
        self.pod_of(&pod.uid).unwrap_or(pod)
    }

    /// Tells whether the pod view has shown all pods once.
    pub fn has_listed_pods(&self) -> bool {
        self.pods_are_listed
    }

    /// Tells whether the runtime has a pod of this UID with another name: an object of the API that says to
    /// mirror it is a lie then. Anybody who makes pods can write one.
    pub fn is_of_another_name(&self, pod: &PodRef) -> bool {
        self.sandboxes_of(&pod.uid).any(|sandbox| sandbox.pod != *pod)
    }

    /// The pod view has these pods and cannot read them. Their users are told once.
    pub(crate) fn pods_unread(&mut self, pods: Vec<PodRef>) {
        let before = std::mem::take(&mut self.unread);
        for pod in pods {
            // Whatever was known of it is old by now.
            self.pod_gone(&pod.uid);
            self.unread.insert(pod.uid.clone());
            if !before.contains(&pod.uid) {
                let note = "Berth cannot read this pod and does not know its order: containers that declare one are not \
                            created, the others start and stop in any order. Mostly such a pod has too many lists and \
                            maps, such as env entries, or more than a thousand containers: give it fewer";
                let note = note.to_owned();
                self.notices.push((pod, Notice { about: About::Pod, reason: REASON, warning: true, note }));
            }
        }
    }
}
