//! Swaps of twins that are under way, and how long they may take.

use std::time::Duration;

use super::Decision;
use crate::{
    in_place_update::{ContainerView, FailureReason, Next},
    model::ContainerName,
};

impl Decision<'_> {
    /// All that is to be patched makes old twins empty, and whatever else there is runs what the spec says:
    /// the new ones that run are the sign that the kubelet has got so far.
    pub(super) fn only_finishes_swaps(&self) -> bool {
        // One that the kubelet has told of may be from before: it may have another version still to come.
        let is_new = |name: &ContainerName| {
            let mut containers = self.seen.containers.iter();
            containers.any(|container| container.name == *name && container.is_early_ready())
        };
        let finished = |name: &ContainerName| {
            let mut migrations = self.update.migrations.iter();
            migrations.any(|migration| {
                migration.taken_over && migration.other == *name && is_new(&migration.target)
            })
        };
        let settled = |container: &ContainerView| {
            !container.is_image_stale() && !self.owes_env(container) || finished(&container.name)
        };
        self.seen.kubelet_told
            && !self.diff.changes.is_empty()
            && self.diff.changes.keys().all(|name| finished(name))
            && self.seen.containers.iter().all(settled)
    }

    /// Tells whether it has the new version of twins, which has taken over.
    pub(super) fn has_taken_over(&self, container: &ContainerView) -> bool {
        let mut migrations = self.update.migrations.iter();
        migrations.any(|migration| migration.taken_over && migration.target == container.name)
    }

    /// Tells whether it is the twin that served, and the new version has still to take over: that it falls
    /// over is no fault of the new one, which may be the remedy.
    pub(super) fn is_left_behind(&self, container: &ContainerView) -> bool {
        let mut under_way = self.update.migrations.iter().filter(|migration| !migration.back);
        under_way.any(|migration| migration.limit.is_some() && migration.other == container.name)
    }

    /// A new version that has not taken over in its time.
    pub(super) fn late_migration(&self) -> Option<Next> {
        let late = self.seen.containers.iter().find(|container| {
            self.time_left(container).is_some_and(|left| left.is_zero()) && !container.is_ready()
        })?;
        let limit = self.migration_limit(late)?;
        Some(self.fail(
            FailureReason::MigrationTimeout,
            format!(
                "the new version in container {} has not taken over within {} s; look at its postStart hook, or give it \
                 more time (migrationSeconds)",
                late.name,
                limit.as_secs()
            ),
        ))
    }

    pub(super) fn migration_limit(&self, container: &ContainerView) -> Option<Duration> {
        let mut migrations = self.update.migrations.iter();
        migrations.find(|migration| migration.target == container.name)?.limit
    }

    /// Time that a new version of twins still has to take over.
    pub(super) fn time_left(&self, container: &ContainerView) -> Option<Duration> {
        Some(self.migration_limit(container)?.saturating_sub(self.since_batch(container)))
    }
}
