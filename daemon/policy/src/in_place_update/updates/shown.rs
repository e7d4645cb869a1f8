//! Word of the agent on the pod itself that it has done its part of an update: said with the write that opens
//! the gate, where whoever asked goes by it. It is said of the plain case alone, one entry of a workload that
//! gives its pod other images, and then of every container: by how many restarts the kubelet has to count,
//! nobody takes the container of before for the next one, nor one that has fallen over since for one that is
//! there to stay.

use std::collections::BTreeMap;

use super::{CarriedOut, PodView};
use crate::{
    in_place_update::{UpdateOwner, UpdateRequest},
    instances::InstanceView,
    model::{ContainerName, ContainerState},
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
