//! Bounds of the table, and how much of them a row takes. Both sides count alike.

use berth_policy::{ContainerId, ContainerName, EnvValues, Foretold, PodUid, SandboxId};

/// The most rows of each kind. A node has 110 pods; what is beyond is asked about.
pub(super) const MAX_ROWS: usize = 16 << 10;
/// The most bytes of rows of sandboxes and containers together, and of names in them. A node of 110 pods has
/// a hundredth of it.
pub(super) const MAX_BYTES: usize = 8 << 20;
/// The most bytes of env values. An update of all pods of a node at once has less.
pub(super) const MAX_ENV: usize = 8 << 20;
/// Bytes around each text that is kept, at least.
const AROUND: usize = 64;

/// Bytes of a text, and of what is around it.
pub(super) fn of_text(text: &str) -> usize {
    text.len().saturating_add(AROUND)
}

/// Bytes of the row of a sandbox with the names of these containers in it.
pub(super) fn of_sandbox<'a>(id: &SandboxId, open: impl IntoIterator<Item = &'a ContainerName>) -> usize {
    of_text(id.as_str()) + open.into_iter().map(|name| of_text(name.as_str())).sum::<usize>()
}

pub(super) fn of_container(id: &ContainerId) -> usize {
    of_text(id.as_str()) + size_of::<Foretold>()
}

/// Bytes of the env values of a pod, and of the names around them.
pub(super) fn of_env<'a>(
    pod: &PodUid,
    row: impl IntoIterator<Item = (&'a ContainerName, &'a EnvValues)>,
) -> usize {
    let of = |(container, values): (&ContainerName, &EnvValues)| {
        let values = values.0.iter().map(|(name, value)| of_text(name) + of_text(value));
        of_text(container.as_str()) + values.sum::<usize>()
    };
    of_text(pod.as_str()) + row.into_iter().map(of).sum::<usize>()
}
