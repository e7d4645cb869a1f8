//! Wanted state of one pod, and the state before.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    in_place_update::{Metadata, MetadataKey, Migration, Observed, UpdateRequest},
    model::ContainerName,
};

/// The desired state of one pod. What it does not name stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Update {
    /// Tells this update from any other one of the same pod.
    pub revision: String,
    /// Images by container.
    pub images: BTreeMap<ContainerName, Arc<str>>,
    /// Labels and annotations to set. None is ever removed.
    pub metadata: Metadata,
    /// From the condition False to the first change of a container.
    pub grace: Duration,
    /// On failure, return to what was before.
    pub rollback_on_failure: bool,
    /// By then all of it is Ready, or it failed.
    pub deadline: Option<Instant>,
    /// A container that falls over again and again is waited for, and fails nothing.
    pub bears_crashes: bool,
    /// Swaps that are in it.
    pub migrations: Vec<Migration>,
}

/// State of a pod before an update. The caller takes it before the first step and keeps it until the update
/// has ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Before {
    /// The revision of the update before; empty when there was none.
    pub revision: String,
    /// The images of the containers that the update names.
    pub images: BTreeMap<ContainerName, Arc<str>>,
    /// The values of the labels and annotations that it sets; `None`: not there.
    pub metadata: BTreeMap<MetadataKey, Option<String>>,
}

impl Before {
    /// Gives the state to which `update` would have to return. `replaced` is the state to which an update
    /// that has not ended, and that this one replaces, would have returned: between two updates there is
    /// nothing worth returning to.
    pub fn of(update: &Update, seen: &Observed, replaced: Option<&Self>) -> Self {
        let mut before = replaced.cloned().unwrap_or_else(|| Self {
            revision: seen.record.as_ref().map(|record| record.revision.clone()).unwrap_or_default(),
            ..Self::default()
        });
        for container in
            seen.containers.iter().filter(|container| update.images.contains_key(&container.name))
        {
            // What somebody else has begun to swap is no state to return to.
            let mut migrations = update.migrations.iter();
            let resting = migrations.find(|migration| migration.resting == container.name);
            let image = || resting.map_or(&container.image, |migration| &migration.empty_image).clone();
            before.images.entry(container.name.clone()).or_insert_with(image);
        }
        for key in update.metadata.keys() {
            let value = seen.metadata.get(key).cloned();
            before.metadata.entry(key.clone()).or_insert(value);
        }
        before
    }

    /// The pod is another one now.
    pub(super) fn differs(&self, seen: &Observed) -> bool {
        let images = seen.containers.iter().any(|container| {
            self.images.get(&container.name).is_some_and(|before| *before != container.image)
        });
        images || self.metadata.iter().any(|(key, before)| seen.metadata.get(key) != before.as_ref())
    }

    /// The labels and annotations. A key that was not there becomes empty, which an env that refers to it
    /// cannot tell from absent; one that never came stays away.
    pub(super) fn values(&self, seen: &Observed) -> Metadata {
        self.metadata
            .iter()
            .filter(|(key, before)| before.is_some() || seen.metadata.contains_key(*key))
            .map(|(key, before)| (key.clone(), before.clone().unwrap_or_default()))
            .collect()
    }

    /// Adds of the other one what this does not have.
    pub(super) fn and(mut self, other: Self) -> Self {
        for (name, image) in other.images {
            self.images.entry(name).or_insert(image);
        }
        for (key, value) in other.metadata {
            self.metadata.entry(key).or_insert(value);
        }
        self
    }

    /// Want after `ended` has brought about what it asked for; of images, those that `left` gives. What is
    /// not as that one found it is no older than what it left. `original` is this as it was written down,
    /// before others that have ended, too.
    pub(super) fn after<'a>(
        mut self,
        original: &Self,
        ended: &UpdateRequest,
        left: impl Fn(&ContainerName) -> Option<&'a Arc<str>>,
    ) -> Self {
        let Some(found) = &ended.reported.previous else { return self };
        for (name, image) in &mut self.images {
            let before = found.images.get(name);
            let inherited =
                before.is_some() && (before == Some(image) || before == original.images.get(name));
            if let (true, Some(left)) = (inherited, left(name)) {
                image.clone_from(left);
            }
        }
        for (key, value) in &mut self.metadata {
            let before = found.metadata.get(key);
            let inherited =
                before.is_some() && (before == Some(value) || before == original.metadata.get(key));
            if let (true, Some(left)) = (inherited, ended.metadata.get(key)) {
                *value = Some(left.clone());
            }
        }
        self
    }

    /// Tells whether this speaks of all that the other one speaks of.
    pub(super) fn covers(&self, other: &Self) -> bool {
        other.images.keys().all(|name| self.images.contains_key(name))
            && other.metadata.keys().all(|key| self.metadata.contains_key(key))
    }

    /// The way back from `failed`.
    pub(super) fn restored(&self, failed: &Update, seen: &Observed) -> Update {
        Update {
            revision: self.revision.clone(),
            images: self.images.clone(),
            metadata: self.values(seen),
            grace: failed.grace,
            rollback_on_failure: false,
            deadline: None,
            bears_crashes: false,
            migrations: Vec::new(),
        }
    }
}
