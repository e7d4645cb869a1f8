//! Records of several owners on one pod: what they say together, which is what the decision goes by, and each
//! owner's part of what is written.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    in_place_update::{
        Batch, Gate, Metadata, Next, Observed, PodPatch, Presence, Record, Records, UpdateOwner,
        UpdateRequest,
    },
    model::ContainerName,
};

/// Revisions that the owners want now, by owner.
fn revisions(open: &[&UpdateRequest]) -> BTreeMap<UpdateOwner, String> {
    open.iter().map(|request| (request.owner.clone(), revision(request))).collect()
}

/// Revision of a request, told from that of its way back. One way back is enough.
pub(super) fn revision(request: &UpdateRequest) -> String {
    match request.is_going_back() {
        true => format!("{}-back", request.revision),
        false => request.revision.clone(),
    }
}

/// The pod as these requests, the newest last, see it: with the record that is theirs, and without a gate
/// where none of them touches it. Images
/// that none of them insists on count as pulled when they cannot be: the kubelet tries.
pub(super) fn view(open: &[&UpdateRequest], seen: &Observed) -> Observed {
    let mut view = seen.clone();
    if !open.is_empty() && open.iter().all(|request| request.keeps_service) {
        view.gate = Gate::Absent;
    }
    let insisting = open.iter().filter(|request| !request.leaves_pull);
    let insisted: BTreeSet<&Arc<str>> = insisting.flat_map(|request| request.all_images()).collect();
    for (image, presence) in &mut view.images {
        if !open.is_empty() && matches!(presence, Presence::Failed(_)) && !insisted.contains(image) {
            *presence = Presence::Present;
        }
    }
    let Some(newest) = open.last() else { return view };
    let wanted = revisions(open);
    let own = seen.records.get(&newest.owner).cloned();
    (view.record, view.is_record_old) = (own, false);
    if wanted.len() < 2 {
        return view;
    }
    for (owner, revision) in wanted.iter().filter(|(owner, _)| **owner != newest.owner) {
        match seen.records.get(owner) {
            Some(record) if record.is_of(revision) => {
                let together = view.record.get_or_insert_with(|| Record {
                    revision: self::revision(newest),
                    update_timestamp: record.update_timestamp,
                    ..Record::default()
                });
                add(together, record.clone());
            }
            Some(_) => view.is_record_old = true,
            None => {}
        }
    }
    view
}

fn add(together: &mut Record, one: Record) {
    together.last_container_statuses.extend(one.last_container_statuses);
    together.update_env_from_metadata |= one.update_env_from_metadata;
    together.update_images |= one.update_images;
    together.next_container_images.extend(one.next_container_images);
    together.next_container_ref_metadata.extend(one.next_container_ref_metadata);
    together.containers_required_ready.extend(one.containers_required_ready);
    together.container_batches_record.extend(one.container_batches_record);
    together.container_batches_record.sort_by_key(|batch| batch.timestamp);
}

/// The step, where it is a patch with the records that are written with it.
pub(super) fn parted(next: Next, open: &[&UpdateRequest], seen: &Observed) -> Next {
    match next {
        Next::Patch(patch) => {
            let records = split(open, seen, &patch);
            Next::Patch(PodPatch { records, ..patch })
        }
        next => next,
    }
}

/// The records that are written with this patch, which was decided on `seen`, the view of these requests.
fn split(open: &[&UpdateRequest], seen: &Observed, patch: &PodPatch) -> Records {
    let wanted = revisions(open);
    let Some(newest) = open.last() else { return Records::new() };
    if wanted.len() < 2 {
        return [(newest.owner.clone(), patch.record.clone())].into();
    }
    let parts: BTreeMap<&UpdateOwner, Part> =
        wanted.keys().map(|owner| (owner, Part::of(owner, open, seen))).collect();
    let is_anyones = |name: &ContainerName| parts.values().any(|part| part.containers.contains(name));
    let added = added(seen, patch);
    let mut records = Records::new();
    for (owner, revision) in &wanted {
        let part = &parts[owner];
        let is_mine = |name: &ContainerName| {
            part.containers.contains(name) || *owner == newest.owner && !is_anyones(name)
        };
        let before = seen.records.get(owner);
        let mut record = match before.filter(|before| before.is_of(revision)) {
            Some(before) => Record { revision: revision.clone(), ..before.clone() },
            None => Record { revision: revision.clone(), update_timestamp: seen.wall, ..Record::default() },
        };
        let containers: BTreeSet<ContainerName> =
            added.iter().flat_map(|batch| &batch.containers).filter(|name| is_mine(name)).cloned().collect();
        let next = &patch.record;
        record.update_images |= patch.images.keys().any(is_mine);
        let statuses = next.last_container_statuses.iter().filter(|(name, _)| containers.contains(*name));
        record.last_container_statuses.extend(statuses.map(|(name, id)| (name.clone(), id.clone())));
        record.next_container_images = only(&next.next_container_images, is_mine);
        record.next_container_ref_metadata = only(&next.next_container_ref_metadata, is_mine);
        // One that waits for values that none of these owners asks for is the newest one's.
        let waits = part.reads || !record.next_container_ref_metadata.is_empty();
        record.update_env_from_metadata |= next.update_env_from_metadata && waits;
        record.containers_required_ready = match record.has_next() {
            true => next.containers_required_ready.clone(),
            false => BTreeSet::new(),
        };
        let touched =
            !containers.is_empty() || patch.metadata.keys().any(|key| part.metadata.contains_key(key));
        if !containers.is_empty() {
            let timestamp = added.map_or(seen.wall, |batch| batch.timestamp);
            let migration = added.and_then(|batch| batch.migration).filter(|_| part.swaps);
            record.container_batches_record.push(Batch { timestamp, containers, migration });
        }
        // As in a record of one owner.
        if touched && *owner == UpdateOwner::Workload && before == Some(&record) {
            record.update_timestamp = seen.wall;
        }
        if before.map_or(touched || record.has_next(), |before| *before != record) {
            records.insert(owner.clone(), record);
        }
    }
    records
}

/// The batch that this patch adds.
fn added<'a>(seen: &Observed, patch: &'a PodPatch) -> Option<&'a Batch> {
    let own = seen.record.as_ref().filter(|record| record.is_of(&patch.record.revision));
    let before = own.map_or(0, |record| record.container_batches_record.len());
    patch.record.container_batches_record.get(before)
}

fn only<T: Clone>(
    of: &BTreeMap<ContainerName, T>,
    is_mine: impl Fn(&ContainerName) -> bool,
) -> BTreeMap<ContainerName, T> {
    let mine = of.iter().filter(|(name, _)| is_mine(name));
    mine.map(|(name, value)| (name.clone(), value.clone())).collect()
}

/// An owner's part of the pod.
struct Part {
    containers: BTreeSet<ContainerName>,
    metadata: Metadata,
    /// A container reads some of that metadata.
    reads: bool,
    /// It has twins that are swapped.
    swaps: bool,
}

impl Part {
    fn of(owner: &UpdateOwner, open: &[&UpdateRequest], seen: &Observed) -> Self {
        let (containers, metadata) = (BTreeSet::new(), Metadata::new());
        let mut part = Self { containers, metadata, reads: false, swaps: false };
        for request in open.iter().filter(|request| request.owner == *owner) {
            let (images, metadata) = request.wanted(seen);
            part.containers.extend(images.into_keys());
            part.metadata.extend(metadata);
            part.swaps |= !request.swaps.is_empty();
        }
        for container in &seen.containers {
            if container.reads.iter().any(|key| part.metadata.contains_key(key)) {
                part.containers.insert(container.name.clone());
                part.reads = true;
            }
        }
        part
    }
}
