//! What is known of a pod right now, and the questions that have to be asked first.

use std::{collections::BTreeMap, sync::Arc, time::Instant};

use berth_policy::{
    ContainerName, ContainerState, InstanceView, PodUid, WishPhase,
    in_place_update::{Presence, Sight, UpdateRequest},
};

use super::{
    Parts,
    drive::{Driver, wish_id},
    jobs,
    observe::{Picture, Sources, observe},
    pods::{Known, Version},
};
use crate::cluster::features::Permission;

impl Driver {
    /// The pod as the policy is to see it, and when that changes by itself.
    pub(super) fn see(
        &mut self,
        pod: &PodUid,
        requests: &[UpdateRequest],
        now: Instant,
    ) -> (Sight, Option<Instant>) {
        match self.parts.permission() {
            Permission::Given => {}
            // Whoever may not write to pods must not even begin.
            Permission::Unknown => return (Sight::Unknown, None),
            Permission::Denied(why) => return (Sight::Forbidden(why), None),
        }
        let Some(request) = requests.first() else { return (Sight::Unknown, None) };
        self.parts.pods.want(pod);
        let version = match self.parts.pods.known(pod) {
            Known::There(version) => version,
            Known::Gone => return (Sight::Gone, None),
            Known::Nothing => {
                let paused = self.is_paused(pod, now);
                if paused.is_none() && self.looking.insert(pod.clone()) {
                    self.jobs.spawn(self.parts.clone().fetch(request.pod.clone()));
                }
                return (Sight::Unknown, paused);
            }
        };
        let instances = self.parts.instances(pod, &version);
        let unknown: Vec<(ContainerName, InstanceView)> = instances
            .iter()
            .filter(|(_, view)| !self.facts.get(&view.id).is_some_and(|facts| facts.are_all(view.state)))
            .map(|(name, view)| (name.clone(), view.clone()))
            .collect();
        if !unknown.is_empty() {
            let paused = self.is_paused(pod, now);
            if paused.is_none() && self.looking.insert(pod.clone()) {
                self.jobs.spawn(self.parts.clone().look_at(version, pod.clone(), unknown));
            }
            return (Sight::Unknown, paused);
        }
        for view in instances.values().filter(|view| view.state == ContainerState::Running) {
            self.running.entry(view.id.clone()).or_insert(now);
        }
        let leftovers = self.leftovers(pod, &instances, now);
        let sources = Sources {
            instances: &instances,
            leftovers,
            running: &self.running,
            facts: &self.facts,
            images: self.images(pod, requests, &version),
            closed: self.closed.get(pod).copied(),
            refused: self.refused.get(pod).cloned(),
            clock: &self.clock,
            now,
        };
        let Picture { observed, again } = observe(&version, sources);
        (Sight::Seen(Box::new(observed)), again)
    }

    /// Gathers the state of the images that are asked for.
    fn images(
        &self,
        pod: &PodUid,
        requests: &[UpdateRequest],
        version: &Version,
    ) -> BTreeMap<Arc<str>, Presence> {
        let previous = requests.iter().filter_map(|request| request.reported.previous.as_ref());
        let images = requests.iter().flat_map(|request| request.images.values());
        let images = images.chain(previous.flat_map(|previous| previous.images.values()));
        let has_secrets =
            version.pod.spec.as_ref().is_some_and(|spec| {
                spec.image_pull_secrets.as_ref().is_some_and(|secrets| !secrets.is_empty())
            });
        images
            .filter_map(|image| {
                let report = self.parts.keeper.report(&wish_id(pod, image))?;
                let presence = match report.phase {
                    WishPhase::Waiting | WishPhase::Pulling => Presence::Unknown,
                    WishPhase::Succeeded => Presence::Present,
                    WishPhase::Failed if has_secrets => Presence::Failed(format!(
                        "{}; if it takes the pod's imagePullSecrets, which the agent does not read: bring it to the node \
                         by an ImagePullJob with pullSecrets first",
                        report.message
                    )),
                    WishPhase::Failed => Presence::Failed(report.message),
                };
                Some((image.clone(), presence))
            })
            .collect()
    }
}

impl Parts {
    /// Gathers the running instances, as the runtime tells; where nobody tells of a restart in time, as the
    /// pod's status does.
    pub(super) fn instances(&self, pod: &PodUid, version: &Version) -> BTreeMap<ContainerName, InstanceView> {
        let mut instances = self.agent.read(|node, _| node.instances(pod));
        let regular = version.pod.spec.iter().flat_map(|spec| &spec.containers);
        let regular: Vec<&str> = regular.map(|container| container.name.as_str()).collect();
        instances.retain(|name, _| regular.contains(&name.as_str()));
        for (name, id, attempt) in jobs::told(&version.pod) {
            // Where the runtime was looked at before the container was started, the status is newer.
            let begun = |known: &InstanceView| known.id == id && known.state == ContainerState::Created;
            if instances.get(&name).is_none_or(|known| known.attempt < attempt || begun(known)) {
                let view = InstanceView { id, attempt, state: ContainerState::Running, stopping: false };
                instances.insert(name, view);
            }
        }
        instances
    }
}
