//! Word of the agent on the pod itself that it has done its part of an update: said with the write that opens
//! the gate, where whoever asked goes by it. It is said of the plain case alone, one entry of a workload that
//! gives its pod other images, and then of every container: by how many restarts the kubelet has to count,
//! nobody takes the container of before for the next one, nor one that has fallen over since for one that is
//! there to stay.
//!
//! The owner that goes by it may be faster than this agent, which waits until the kubelet must have the
//! newest version of the pod, and take the entry away before. It counts as ended well where the pod shows it
//! by then.

use std::collections::BTreeMap;

use super::{CarriedOut, GateView, PodView, UpdateAction, Updates};
use crate::{
    in_place_update::{UpdateOwner, UpdateRequest},
    instances::InstanceView,
    model::{ContainerName, ContainerState, RequestId},
};

/// Word for a gate that is opened now on `requests`, which are all open ones of the pod; `None`: it can say
/// nothing, and the end has to be reported.
pub fn carried_out(
    requests: &[UpdateRequest],
    view: &PodView,
    instances: &BTreeMap<ContainerName, InstanceView>,
) -> Option<CarriedOut> {
    let [request] = requests else { return None };
    let attempt = request.shown_as?;
    let record = view.records.get(&UpdateOwner::Workload)?;
    let is_plain = request.is_one_way()
        && request.deadline.is_none()
        && !request.ignore_failures
        && !request.images.is_empty()
        && request.merges.is_empty()
        && request.defaults.is_empty()
        && request.swaps.is_empty()
        && record.is_of(&request.revision)
        && !record.has_next()
        && !record.update_env_from_metadata;
    // The gate of an update that has failed is opened as well.
    let is_there = request.images.iter().all(|(name, image)| {
        view.containers.iter().any(|container| container.name == *name && container.image == *image)
    }) && request.metadata.iter().all(|(key, value)| view.metadata.get(key) == Some(value));
    if !is_plain || !is_there {
        return None;
    }
    let restarts = view.containers.iter().map(|container| {
        let newest = instances.get(&container.name)?;
        let restarts = match newest.state {
            ContainerState::Created | ContainerState::Running => newest.attempt,
            // It was stopped, and the next one runs what is wanted.
            ContainerState::Exited { .. } | ContainerState::Unknown => newest.attempt.saturating_add(1),
        };
        Some((container.name.clone(), restarts))
    });
    let restarts = restarts.collect::<Option<_>>()?;
    Some(CarriedOut { revision: request.revision.clone(), attempt, restarts })
}

/// Word that this process has said on a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// Request that is carried out.
    pub(crate) request: UpdateRequest,
    restarts: BTreeMap<ContainerName, u32>,
}

impl Word {
    /// The word on these requests of a pod, of which it is said of the only one.
    pub(super) fn on(requests: &[UpdateRequest], said: &CarriedOut) -> Option<Box<Self>> {
        let request = requests.first()?.clone();
        Some(Box::new(Self { request, restarts: said.restarts.clone() }))
    }

    /// Tells whether the pod shows the end: the kubelet says so of just these containers.
    fn is_borne_out(&self, view: &PodView) -> bool {
        let is_ready = |(name, restarts): (&ContainerName, &u32)| {
            let mut statuses = view.containers.iter().filter(|container| container.name == *name);
            statuses.any(|container| {
                container.status.as_ref().is_some_and(|status| status.ready && status.restarts == *restarts)
            })
        };
        view.gate == GateView::Ready && self.restarts.iter().all(is_ready)
    }
}

impl Updates {
    /// Counts what was taken away before it was seen to end, where the pod shows that it has.
    pub(super) fn count_taken_away(&mut self, actions: &mut Vec<UpdateAction>) {
        let requests = &self.requests;
        for pod in self.pods.values_mut() {
            let request = |word: &Word| requests.get(&word.request.id);
            let is_over = |word: &Word| request(word).is_none_or(|entry| entry.request.ended.is_some());
            let Some(word) = pod.shown.take_if(|word| is_over(word)) else { continue };
            let is_gone = request(&word).is_none();
            if is_gone && pod.seen.view().is_some_and(|view| word.is_borne_out(view)) {
                actions.push(UpdateAction::Ended(Box::new(word.request)));
            }
        }
    }

    /// Takes note that the end of this request is told, or is about to be.
    pub(super) fn forget_word(&mut self, id: &RequestId) {
        for pod in self.pods.values_mut() {
            pod.shown.take_if(|word| word.request.id == *id);
        }
    }
}
