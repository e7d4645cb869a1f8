//! Which containers go now, and the one patch that moves them.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    in_place_update::{
        Batch, ContainerView, Metadata, MetadataKey, Migration, Observed, PodPatch, Record, Records, Stage,
        Update,
        diff::{Change, Diff, counts_env, values_of},
    },
    model::ContainerName,
};

/// Selects the containers without a priority, the ones with the highest, and transitively all that share a
/// key which is changed for one of them.
pub(super) fn select<'a>(diff: &Diff<'a>, seen: &'a Observed) -> BTreeSet<&'a ContainerName> {
    let waiting = || seen.containers.iter().filter(|container| diff.changes.contains_key(&container.name));
    let highest = waiting().filter_map(|container| container.priority).max();
    let mut batch: BTreeSet<&ContainerName> = waiting()
        .filter(|container| container.priority.is_none() || container.priority == highest)
        .map(|container| &container.name)
        .collect();
    loop {
        let keys = keys(diff, &batch);
        let shares = |change: &Change<'_>| !change.keys.is_disjoint(&keys);
        let joined: Vec<&ContainerName> = diff
            .changes
            .iter()
            .filter(|(name, change)| !batch.contains(**name) && shares(change))
            .map(|(name, _)| *name)
            .collect();
        if joined.is_empty() {
            return batch;
        }
        batch.extend(joined);
    }
}

fn keys<'a>(diff: &Diff<'a>, batch: &BTreeSet<&ContainerName>) -> BTreeSet<&'a MetadataKey> {
    let changes = diff.changes.iter().filter(|(name, _)| batch.contains(*name));
    changes.flat_map(|(_, change)| change.keys.iter().copied()).collect()
}

/// The patch that moves the next batch.
pub(super) fn patch(update: &Update, seen: &Observed, diff: &Diff<'_>) -> PodPatch {
    moving(update, seen, diff, &select(diff, seen))
}

/// The patch that moves nothing yet: it says what waits, and sets what no container reads.
pub(super) fn announce(update: &Update, seen: &Observed, diff: &Diff<'_>) -> PodPatch {
    moving(update, seen, diff, &BTreeSet::new())
}

fn moving(update: &Update, seen: &Observed, diff: &Diff<'_>, batch: &BTreeSet<&ContainerName>) -> PodPatch {
    let mut record = begun(update, seen);
    let mut images = BTreeMap::new();
    for container in &seen.containers {
        let Some(change) = diff.changes.get(&container.name) else {
            if is_replaced_with_values(update, seen, container) && !record.has_moved(&container.name) {
                record.update_env_from_metadata = true;
                let values = values_of(&seen.metadata, container);
                record.next_container_ref_metadata.insert(container.name.clone(), values);
            }
            continue;
        };
        let goes_now = batch.contains(&container.name);
        // With its old image back, the kubelet may have nothing to restart it for but the values of the
        // update before.
        let owed = container.is_env_stale() && counts_env(update, seen, container);
        record.update_env_from_metadata |= owed || !change.keys.is_empty();
        if let Some(image) = change.image {
            if goes_now {
                record.update_images = true;
                images.insert(container.name.clone(), image.clone());
                if let Some(instance) = &container.instance {
                    record.last_container_statuses.insert(container.name.clone(), instance.image_id.clone());
                }
            } else {
                record.next_container_images.insert(container.name.clone(), image.clone());
            }
        }
        if !goes_now && (change.owes_env || !change.keys.is_empty()) {
            let awaited = diff.awaited(update, seen, container);
            record.next_container_ref_metadata.insert(container.name.clone(), awaited);
        }
    }
    let containers: BTreeSet<ContainerName> = batch.iter().map(|name| (*name).clone()).collect();
    if record.has_next() {
        record.containers_required_ready = containers.clone();
    }
    // Who may write a label of a revision has to write the record beside it: a label that somebody has put
    // back since comes with the time at which it is set again.
    if containers.is_empty() && seen.record.as_ref() == Some(&record) {
        record.update_timestamp = seen.wall;
    }
    if !containers.is_empty() {
        let starts = |migration: &&Migration| {
            migration.stage == Some(Stage::Start) && containers.contains(&migration.target)
        };
        let migration = update.migrations.iter().filter(starts).map(|migration| migration.given).max();
        record.container_batches_record.push(Batch { timestamp: seen.wall, containers, migration });
    }
    let changed = keys(diff, batch).into_iter().chain(diff.unread.iter().copied());
    let metadata: Metadata = changed
        .filter_map(|key| update.metadata.get(key).map(|value| (key.clone(), value.clone())))
        .collect();
    let stage = update.migrations.iter().find_map(|migration| migration.stage);
    let resets = update.migrations.iter().filter_map(Migration::reset);
    let resets = resets.filter(|reset| images.contains_key(&reset.twin)).collect();
    PodPatch { images, metadata, record, stage, resets, records: Records::new() }
}

/// The kubelet is about to replace the instance for the update before, and may start the next one with values
/// from before that update: then nothing but the record that is written now says that they were to be others.
/// Values that were changed and changed back may differ though the old instance has those of now, as long as
/// the kubelet does not know the pod as it is.
fn is_replaced_with_values(update: &Update, seen: &Observed, container: &ContainerView) -> bool {
    let is_replaced = container.is_image_stale() || !container.is_running() && !container.has_ended();
    let may_differ = container.is_env_stale() || !container.reads.is_empty() && !seen.kubelet_knows;
    is_replaced && may_differ && counts_env(update, seen, container)
}

/// The patch that only says that nothing waits any more, and for whom.
pub(super) fn close(update: &Update, seen: &Observed) -> PodPatch {
    let record = begun(update, seen);
    PodPatch {
        images: BTreeMap::new(),
        metadata: Metadata::new(),
        record,
        stage: None,
        resets: Vec::new(),
        records: Records::new(),
    }
}

/// This update's record as far as it is, without what waits; a new one in place of another update's.
fn begun(update: &Update, seen: &Observed) -> Record {
    match &seen.record {
        Some(record) if record.is_of(&update.revision) => Record {
            revision: update.revision.clone(),
            next_container_images: BTreeMap::new(),
            next_container_ref_metadata: BTreeMap::new(),
            containers_required_ready: BTreeSet::new(),
            ..record.clone()
        },
        _ => Record { revision: update.revision.clone(), update_timestamp: seen.wall, ..Record::default() },
    }
}
