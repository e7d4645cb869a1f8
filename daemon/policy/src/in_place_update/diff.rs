//! Changes that an update still has to make in the pod, per container.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::{
    in_place_update::{ContainerView, Gate, Metadata, MetadataKey, Observed, Update},
    model::ContainerName,
};

/// Changes that are left to be patched.
pub(super) struct Diff<'a> {
    /// By container; one without a change is not in it.
    pub(super) changes: BTreeMap<&'a ContainerName, Change<'a>>,
    /// Labels and annotations that no container reads.
    pub(super) unread: BTreeSet<&'a MetadataKey>,
}

/// Changes that one container waits for.
#[derive(Default)]
pub(super) struct Change<'a> {
    /// Another image.
    pub(super) image: Option<&'a Arc<str>>,
    /// Other values of keys that it reads.
    pub(super) keys: BTreeSet<&'a MetadataKey>,
    /// The pod has its values already, and it was never restarted for them.
    pub(super) owes_env: bool,
}

impl<'a> Diff<'a> {
    pub(super) fn of(update: &'a Update, seen: &'a Observed) -> Self {
        let mut unread: BTreeSet<&MetadataKey> = update
            .metadata
            .iter()
            .filter(|(key, value)| seen.metadata.get(*key) != Some(*value))
            .map(|(key, _)| key)
            .collect();
        let differing = unread.clone();
        let mut changes = BTreeMap::new();
        for container in &seen.containers {
            unread.retain(|key| !container.reads.contains(*key));
            let change = Change {
                image: update.images.get(&container.name).filter(|image| **image != container.image),
                keys: differing.iter().copied().filter(|key| container.reads.contains(*key)).collect(),
                owes_env: owes_env(update, seen, container),
            };
            if change.image.is_some() || !change.keys.is_empty() || change.owes_env {
                changes.insert(&container.name, change);
            }
        }
        Self { changes, unread }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.unread.is_empty()
    }

    /// The wanted values of the keys that this container waits for; where it only owes a restart, those that
    /// it reads.
    pub(super) fn awaited(&self, update: &Update, seen: &Observed, container: &ContainerView) -> Metadata {
        let Some(change) = self.changes.get(&container.name) else { return Metadata::new() };
        match change.keys.is_empty() {
            false => some_of(&update.metadata, change.keys.iter().copied()),
            true if change.owes_env => values_of(&seen.metadata, container),
            true => Metadata::new(),
        }
    }
}

/// The values that a container reads.
pub(super) fn values_of(metadata: &Metadata, container: &ContainerView) -> Metadata {
    some_of(metadata, container.reads.iter())
}

fn some_of<'a>(metadata: &Metadata, keys: impl Iterator<Item = &'a MetadataKey>) -> Metadata {
    keys.filter_map(|key| metadata.get(key).map(|value| (key.clone(), value.clone()))).collect()
}

/// A restart is owed, outside of this update's batches, for values that the pod has already: somebody else
/// set what this update asks for, or the update that it replaces did not get as far.
fn owes_env(update: &Update, seen: &Observed, container: &ContainerView) -> bool {
    let moved = seen
        .record
        .as_ref()
        .is_some_and(|record| record.is_of(&update.revision) && record.has_moved(&container.name));
    // With another image the kubelet restarts it in any case.
    !moved && container.is_env_stale() && !container.is_image_stale() && counts_env(update, seen, container)
}

/// The env values of this container are this update's business. Metadata that somebody edits beside an update
/// restarts nothing, as in OpenKruise.
pub(super) fn counts_env(update: &Update, seen: &Observed, container: &ContainerView) -> bool {
    let named = container.reads.iter().any(|key| update.metadata.contains_key(key));
    // Where there is a gate, it is closed as long as a restart is owed.
    let begun = seen.gate != Gate::Ready
        && seen
            .record
            .as_ref()
            .is_some_and(|record| record.update_env_from_metadata && record.mentions(&container.name));
    named || begun
}
