//! Pods whose containers are followed closely, because it counts when one of them ends: those with job
//! sidecars, and those that are probed.
//!
//! A process that ends by itself tells nobody. The kubelet finds it in its list and then asks about the
//! containers of the pod: that is the hint to ask, too, where the runtime does not give one at once. Where it
//! does, the kubelet's question is none, but for job sidecars: of forty pods it asks some eight times a
//! second, for their logs. Beside the kubelet there is the pod view.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use crate::{
    config::Path,
    event::Event,
    instances::newest_of,
    model::{ContainerId, ContainerName, ContainerState, PodUid, SandboxId},
    node::Node,
    probes::{self, InstanceState},
    sandbox::{Instance, Sandbox},
    time::later,
};

/// How often the runtime is asked about such a pod although nothing hints at an end.
const PERIOD_INLINE: Duration = Duration::from_secs(30);
const PERIOD_BESIDE: Duration = Duration::from_secs(1);
/// Pause between two questions about the same sandbox, however many hints there are.
const QUESTION_INTERVAL: Duration = Duration::from_millis(50);
/// How long the runtime's list may show a container that has ended as running.
const BEHIND: Duration = Duration::from_millis(500);
/// A runtime that did not answer is asked again.
const AFTER_FAILURE: Duration = Duration::from_secs(1);

impl Node {
    /// The sandboxes of these pods, with the time when the runtime is to be asked about each.
    pub(crate) fn followed_inspections(&self) -> Vec<(&SandboxId, Option<Instant>)> {
        let period = match self.config.path {
            Path::Inline => PERIOD_INLINE,
            Path::Beside => PERIOD_BESIDE,
        };
        self.sandboxes
            .iter()
            .filter(|(_, sandbox)| self.is_followed(&sandbox.pod.uid) && !sandbox.inspection.in_flight)
            .map(|(id, sandbox)| {
                let inspection = &sandbox.inspection;
                let hinted = inspection.answered.is_none_or(|asked| sandbox.hinted > asked.seq);
                let runs = |id| {
                    let instance = sandbox.instances.get(id);
                    instance.is_some_and(|instance| instance.container.state == ContainerState::Running)
                };
                let expected = sandbox.ending.as_ref().filter(|(id, _)| runs(id)).map(|(_, until)| *until);
                let again = inspection.ended.map(|ended| match inspection.asked == inspection.answered {
                    false => later(ended, AFTER_FAILURE),
                    true if hinted || expected.is_some_and(|until| ended < until) => {
                        later(ended, QUESTION_INTERVAL)
                    }
                    true => later(ended, period),
                });
                (id, again)
            })
            .collect()
    }

    /// The runtime says that this container has ended; what it lists may be a moment behind.
    pub(crate) fn end_hinted(&mut self, container: ContainerId, now: Instant) {
        self.hint(&container);
        let sandbox = self.containers.get(&container).and_then(|id| self.sandboxes.get_mut(id));
        if let Some(sandbox) = sandbox {
            sandbox.ending = Some((container, later(now, BEHIND)));
        }
    }

    /// Takes in whether the runtime says which containers end. At each change all pods that are followed are
    /// due: an end around it may have gone unsaid.
    pub(crate) fn ends_told(&mut self, told: bool) {
        if self.ends_told == told {
            return;
        }
        self.ends_told = told;
        let (seq, sidecars, probed) = (self.seq, &self.sidecars, &self.probed);
        let is_followed = |pod: &PodUid| sidecars.has(pod) || probed.contains(pod);
        let followed = self.sandboxes.values_mut().filter(|sandbox| is_followed(&sandbox.pod.uid));
        followed.for_each(|sandbox| sandbox.hinted = seq);
    }

    /// Takes in which pods are probed; no others are. Those that were not are due: nobody has heeded hints at
    /// their ends.
    pub(crate) fn probed_pods(&mut self, pods: BTreeSet<PodUid>) {
        let before = std::mem::replace(&mut self.probed, pods);
        let (seq, now) = (self.seq, &self.probed);
        let begins = |pod: &PodUid| now.contains(pod) && !before.contains(pod);
        let begun = self.sandboxes.values_mut().filter(|sandbox| begins(&sandbox.pod.uid));
        begun.for_each(|sandbox| sandbox.hinted = seq);
    }

    /// A question about this container hints at its end. The kubelet asks about every container of the node
    /// every ten seconds, for its log: that means nothing where no end counts, and where the runtime tells of
    /// ends itself.
    fn is_hint(&self, container: &ContainerId) -> bool {
        let sandbox = self.containers.get(container).and_then(|id| self.sandboxes.get(id));
        sandbox.is_none_or(|sandbox| {
            let pod = &sandbox.pod.uid;
            self.sidecars.has(pod) || !self.ends_told && self.probed.contains(pod)
        })
    }

    /// The kubelet's looks at this container change nothing of what is known: none hints at an end, and no
    /// sidecar waits for one.
    pub(crate) fn looks_mean_nothing(&self, container: &ContainerId) -> bool {
        !self.is_hint(container) && !self.sidecars.is_marked(container)
    }

    /// Tells whether this event says who asks the runtime what, and changes nothing of what is known of
    /// containers.
    pub(crate) fn is_question(&self, event: &Event) -> bool {
        match event {
            Event::RelistAsked { .. } | Event::RelistAnswered { .. } | Event::HookAsked { .. } => true,
            Event::StatusAsked { container, .. } => !self.is_hint(container),
            // What ended well was told before, and is not among the calls any more.
            Event::CallEnded(call) => !self.calls.contains_key(call),
            // Of one that has said nothing, or nothing about containers.
            Event::ConnectionClosed(connection) => !self.connections.contains_key(connection),
            _ => false,
        }
    }

    /// The last event was a question of somebody, so that the containers are those of before.
    pub fn has_only_asked(&self) -> bool {
        self.only_asked
    }

    /// Such a pod has no sandbox here: beside the kubelet one made since is not known before the next list.
    pub(crate) fn misses_followed(&self) -> bool {
        let started =
            |uid: &PodUid| self.pods.get(uid).is_some_and(|pod| !pod.statuses.is_empty() && !pod.ended);
        let all = self.pods.keys().filter(|uid| self.is_followed(uid));
        all.filter(|uid| started(uid)).any(|uid| self.sandboxes_of(uid).next().is_none())
    }

    /// The containers of these pods for [`crate::ProbeEvent::Instances`], by one look at all sandboxes; a pod
    /// of which there is nothing on this node is left out.
    pub fn probed_instances(
        &self,
        pods: &BTreeSet<PodUid>,
    ) -> BTreeMap<PodUid, BTreeMap<ContainerName, probes::Instance>> {
        let mut sandboxes: BTreeMap<&PodUid, Vec<(&SandboxId, &Sandbox)>> = BTreeMap::new();
        for (id, sandbox) in &self.sandboxes {
            if let Some(pod) = pods.get(&sandbox.pod.uid) {
                sandboxes.entry(pod).or_default().push((id, sandbox));
            }
        }
        let instance = |(sandbox, instance): (&SandboxId, &Instance)| probes::Instance {
            id: instance.container.id.clone(),
            sandbox: sandbox.clone(),
            state: match instance.running_since {
                // A container that was there before the agent looked has run since soon after it was created.
                Some(since) => {
                    InstanceState::Running { since: instance.created.map_or(since, |at| at.min(since)) }
                }
                None => InstanceState::NotRunning,
            },
        };
        let containers = |sandboxes| {
            let started = newest_of(sandboxes, |state| state != ContainerState::Created).into_iter();
            started.map(|(name, found)| (name.clone(), instance(found))).collect()
        };
        sandboxes.into_iter().map(|(pod, sandboxes)| (pod.clone(), containers(sandboxes))).collect()
    }

    /// The identity by which this node knows a pod of the API: another one only for static pods.
    pub fn local_uid(&self, uid: &PodUid) -> PodUid {
        if self.pods.contains_key(uid) {
            return uid.clone();
        }
        let mirrored = self.pods.values().find(|pod| pod.mirror.as_ref() == Some(uid));
        mirrored.map_or_else(|| uid.clone(), |pod| pod.pod.uid.clone())
    }

    /// `status.podIP`.
    pub fn ip(&self, pod: &PodUid) -> Option<String> {
        self.pods.get(pod)?.ip.clone()
    }

    /// The pod is being deleted, or has ended.
    pub fn is_ending(&self, pod: &PodUid) -> bool {
        self.pods.get(pod).is_some_and(|pod| pod.deletion.is_some() || pod.ended)
    }

    /// Tells whether there are any such pods.
    pub fn follows(&self) -> bool {
        self.sidecars.has_any() || !self.probed.is_empty()
    }

    pub(crate) fn is_followed(&self, pod: &PodUid) -> bool {
        self.sidecars.has(pod) || self.probed.contains(pod)
    }
}
