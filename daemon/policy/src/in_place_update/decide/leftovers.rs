//! Exited instances that stand in the way.

use std::{collections::BTreeSet, time::Instant};

use super::Decision;
use crate::{
    in_place_update::{Leftovers, Next, Why},
    model::{ContainerId, ContainerName},
};

impl Decision<'_> {
    /// Prepares the stop of a container: nobody sends traffic any more, and nothing is left for which the
    /// kubelet would hold the next instance back.
    pub(super) fn make_way(&self) -> Option<Next> {
        match (self.drain(), self.leftovers()) {
            (Some(Next::SetNotReady), _) => Some(Next::SetNotReady),
            // Also while the grace passes.
            (_, Some(clear @ Next::Clear(_))) => Some(clear),
            (drain, leftovers) => drain.or(leftovers),
        }
    }

    /// Removes those of the whole update at once, so that no later batch has to wait.
    pub(super) fn leftovers(&self) -> Option<Next> {
        let mut exited = self.leftovers_of_old_twins();
        let mut listed = None;
        for container in &self.seen.containers {
            let change = self.diff.changes.get(&container.name);
            if change.is_none_or(|change| change.image.is_none()) {
                continue;
            }
            match &container.leftovers {
                Leftovers::There(these) => exited.extend(these.iter().cloned()),
                Leftovers::Removed { until } if *until > self.now => listed = listed.max(Some(*until)),
                Leftovers::Removed { .. } | Leftovers::None => {}
            }
        }
        if !exited.is_empty() {
            return Some(Next::Clear(exited));
        }
        let until = |until: Instant| self.update.deadline.map_or(until, |deadline| deadline.min(until));
        listed.map(|at| Next::Wait { until: Some(until(at)), why: Why::Relist })
    }

    /// Exited instances of twins whose turn comes when others have taken over: removed early, they are
    /// forgotten by then.
    fn leftovers_of_old_twins(&self) -> BTreeSet<ContainerId> {
        let migrations = self.update.migrations.iter();
        self.leftovers_of(&migrations.map(|migration| &migration.other).collect())
    }

    /// Exited instances of twins whose swap is over. Removed now, they hold nothing back when the next swap
    /// begins; after a way back they stay for people to look at.
    pub(super) fn leftovers_of_swapped(&self) -> BTreeSet<ContainerId> {
        let over = self.update.migrations.iter().filter(|migration| !migration.back);
        self.leftovers_of(&over.flat_map(|migration| [&migration.target, &migration.other]).collect())
    }

    fn leftovers_of(&self, names: &BTreeSet<&ContainerName>) -> BTreeSet<ContainerId> {
        let named = self.seen.containers.iter().filter(|container| names.contains(&container.name));
        let there = named.filter_map(|container| match &container.leftovers {
            Leftovers::There(these) => Some(these),
            Leftovers::Removed { .. } | Leftovers::None => None,
        });
        there.flatten().cloned().collect()
    }
}
