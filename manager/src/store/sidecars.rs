//! Sidecars of a pod. Pods of one set have the same hashes, images and revisions, so each of these lists is
//! kept once, as labels are: what a pod has of its own here is a few pointers.

use std::sync::Arc;

use super::{
    key::Texts,
    labels::{LabelSets, Labels},
    object::{Phase, SidecarsSeen},
};

/// Sidecars that SidecarSets have put into a pod. Lists are sorted by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sidecars {
    /// Sets that the pod says it has; the values say nothing.
    listed: Labels,
    hashes: Labels,
    without_image: Labels,
    revisions: Labels,
    working: Labels,
    images: Labels,
    upgradable: Labels,
    /// Containers that do not run yet what the spec says; nearly always none.
    unsettled: Box<[Arc<str>]>,
    pub(crate) phase: Phase,
    pub(crate) ready: bool,
    /// When it became so, or ceased to be, in seconds.
    pub(crate) ready_since: i64,
}

impl Sidecars {
    pub(crate) fn new(seen: &SidecarsSeen, sets: &mut LabelSets, texts: &mut Texts) -> Self {
        let listed = seen.listed.iter().map(|name| (name.clone(), String::new())).collect();
        Self {
            listed: sets.one(&listed, texts),
            hashes: sets.one(&seen.hashes, texts),
            without_image: sets.one(&seen.without_image, texts),
            revisions: sets.one(&seen.revisions, texts),
            working: sets.one(&seen.working, texts),
            images: sets.one(&seen.images, texts),
            upgradable: sets.one(&seen.upgradable, texts),
            unsettled: seen.unsettled.iter().map(|name| texts.one(name)).collect(),
            phase: seen.phase,
            ready: seen.ready,
            ready_since: seen.ready_since.map_or(0, |time| time.as_second()),
        }
    }

    /// Names of the sets that it says it has.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &Arc<str>> {
        self.listed.iter().map(|(name, _)| name)
    }

    /// The same sets as the other one.
    pub(crate) fn lists_as(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.listed, &other.listed)
    }

    pub(crate) fn lists(&self, set: &str) -> bool {
        find(&self.listed, set).is_some()
    }

    pub(crate) fn hash(&self, set: &str) -> Option<&Arc<str>> {
        find(&self.hashes, set)
    }

    pub(crate) fn without_image(&self, set: &str) -> Option<&Arc<str>> {
        find(&self.without_image, set)
    }

    pub(crate) fn revision(&self, set: &str) -> Option<&Arc<str>> {
        find(&self.revisions, set)
    }

    /// Word of the pod's condition on whether this set can upgrade it; `None`: it has none.
    pub(crate) fn upgradable(&self, set: &str) -> Option<bool> {
        find(&self.upgradable, set).map(|word| **word == *"true")
    }

    /// Twin of this sidecar that works.
    pub(crate) fn working(&self, sidecar: &str) -> Option<&Arc<str>> {
        find(&self.working, sidecar)
    }

    pub(crate) fn image(&self, container: &str) -> Option<&Arc<str>> {
        find(&self.images, container)
    }

    /// The container runs what the spec says.
    pub(crate) fn is_settled(&self, container: &str) -> bool {
        !self.unsettled.iter().any(|name| **name == *container)
    }
}

fn find<'a>(list: &'a Labels, name: &str) -> Option<&'a Arc<str>> {
    let at = list.binary_search_by(|(key, _)| (**key).cmp(name)).ok()?;
    list.get(at).map(|(_, value)| value)
}
