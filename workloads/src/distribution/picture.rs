//! Picture of the cluster: distributions, namespaces, and copies.
//!
//! A distribution for which there is no room is known by its name alone: nothing is decided on it, and its
//! copies stay. It is read again when there is room.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_proto::crd::{ResourceDistribution, ResourceDistributionSpec};
use berth_workloads_policy::{
    distribution::{CopyView, Kind, NamespaceView},
    store::{Store, Stored},
};
use k8s_openapi::api::core::v1::ObjectReference;

use super::watches::{Filed, Input};
use crate::{
    event_loop::Listed,
    object::Bare,
    owned::{self, Concerned, Ownable, Owned},
    room::{Room, bare_meta},
    watch::Shown,
};

/// Bytes that distributions may take. Each has its manifest twice, as it is given and as it is checked, and
/// that takes a third of the memory of the program at the most.
const MOST_HELD: usize = 96 << 20;
/// Watch of distributions.
const DISTRIBUTIONS: &str = "resourcedistributions";

impl Bare for Arc<ResourceDistribution> {
    fn bare(&self) -> Self {
        let spec = ResourceDistributionSpec { resource: Default::default(), targets: Default::default() };
        let mut bare = ResourceDistribution::new("", spec);
        bare.metadata = bare_meta(&self.metadata);
        Self::new(bare)
    }
}

impl Ownable for CopyView {
    fn owner(&self) -> &str {
        &self.owner
    }
}

/// A namespace, as it was and as it is.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) name: String,
    pub(super) before: Option<NamespaceView>,
    pub(super) after: Option<NamespaceView>,
}

/// All of it.
#[derive(Debug)]
pub(super) struct Picture {
    room: Room,
    distributions: Store<Filed>,
    distributions_listed: bool,
    /// By name.
    pub(super) namespaces: BTreeMap<String, NamespaceView>,
    /// UIDs of a list that comes in.
    listed_namespaces: Option<BTreeSet<String>>,
    namespaces_listed: bool,
    secrets: Owned<CopyView>,
    config_maps: Owned<CopyView>,
}

impl Default for Picture {
    fn default() -> Self {
        Self::with_room(MOST_HELD)
    }
}

impl Picture {
    /// One with room for so many bytes of distributions.
    pub(super) fn with_room(most: usize) -> Self {
        Self {
            room: Room::new(most),
            distributions: Store::default(),
            distributions_listed: false,
            namespaces: BTreeMap::new(),
            listed_namespaces: None,
            namespaces_listed: false,
            secrets: Owned::default(),
            config_maps: Owned::default(),
        }
    }

    /// Kinds that are watched, and whether all of each was listed.
    pub(super) fn listed(&self) -> Listed {
        vec![
            (DISTRIBUTIONS, self.distributions_listed),
            ("namespaces", self.namespaces_listed),
            ("secrets", self.secrets.listed),
            ("configmaps", self.config_maps.listed),
        ]
    }

    /// Each kind, and how many objects of it there are.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            (DISTRIBUTIONS, self.distributions.count()),
            ("namespaces", self.namespaces.len()),
            ("secrets", self.secrets.len()),
            ("configmaps", self.config_maps.len()),
        ]
    }

    /// Takes in what a watch shows; with the distributions that a change of a namespace changes anything for.
    pub(super) fn take(&mut self, input: Input, minds: impl Fn(&Filed, &Change) -> bool) -> Concerned {
        match input {
            Input::Distribution(shown) => self.take_distribution(shown),
            Input::Namespace(shown) => self.take_namespace(shown, minds),
            Input::Secret(shown) => self.secrets.take(shown),
            Input::ConfigMap(shown) => self.config_maps.take(shown),
        }
    }

    fn take_distribution(&mut self, shown: Shown<Filed>) -> Concerned {
        self.distributions_listed |= matches!(shown, Shown::ListEnds);
        let shown = self.room.take(DISTRIBUTIONS, shown);
        let concerned = owned::take(&mut self.distributions, shown);
        match (concerned, self.make_room()) {
            (concerned, more) if more.is_empty() => concerned,
            (Concerned::All, _) => Concerned::All,
            (Concerned::None, more) => Concerned::Some(more),
            (Concerned::Some(uids), more) => Concerned::Some([uids, more].concat()),
        }
    }

    /// Sets aside that for which there is no room any more. UIDs of what was, or is not any more.
    fn make_room(&mut self) -> Vec<String> {
        let news = self.room.news();
        for uid in news.iter().flat_map(|news| &news.reduced) {
            self.room.reduce(&mut self.distributions, uid);
        }
        news.into_iter().map(|news| news.uid).collect()
    }

    fn take_namespace(
        &mut self,
        shown: Shown<(String, NamespaceView)>,
        minds: impl Fn(&Filed, &Change) -> bool,
    ) -> Concerned {
        let changes: Vec<Change> = match shown {
            Shown::ListBegins => {
                self.listed_namespaces = Some(BTreeSet::new());
                Vec::new()
            }
            Shown::ListEnds => {
                let listed = self.listed_namespaces.take().unwrap_or_default();
                let gone = self.forget(|namespace| !listed.contains(&namespace.uid));
                if !std::mem::replace(&mut self.namespaces_listed, true) {
                    return Concerned::All;
                }
                gone
            }
            Shown::Applied((name, namespace)) => {
                if let Some(listed) = &mut self.listed_namespaces {
                    listed.insert(namespace.uid.clone());
                }
                let before = self.namespaces.insert(name.clone(), namespace.clone());
                let is_known = before.as_ref() == Some(&namespace);
                if is_known { Vec::new() } else { vec![Change { name, before, after: Some(namespace) }] }
            }
            Shown::Gone(uid) => self.forget(|namespace| namespace.uid == uid),
        };
        // At the end of the first list all are.
        if changes.is_empty() || !self.namespaces_listed {
            return Concerned::None;
        }
        let minds = |filed: &&Filed| changes.iter().any(|change| minds(filed, change));
        let minding = self.distributions.iter().filter(minds);
        Concerned::Some(minding.map(|filed| filed.uid().to_owned()).collect())
    }

    /// Forgets namespaces that are gone.
    fn forget(&mut self, is_gone: impl Fn(&NamespaceView) -> bool) -> Vec<Change> {
        let all = std::mem::take(&mut self.namespaces).into_iter();
        let (gone, stay): (BTreeMap<_, _>, _) = all.partition(|(_, namespace)| is_gone(namespace));
        self.namespaces = stay;
        gone.into_iter().map(|(name, before)| Change { name, before: Some(before), after: None }).collect()
    }

    /// Takes in a distribution as it was answered. UIDs of those that were set aside by it, or are not any
    /// more.
    pub(super) fn wrote(&mut self, filed: Filed) -> Vec<String> {
        let uid = filed.uid().to_owned();
        self.distributions.wrote(self.room.fit(DISTRIBUTIONS, filed));
        let distributions = &self.distributions;
        self.room.answered(&[uid], |uid| distributions.get(uid).is_some());
        self.make_room()
    }

    /// Takes in a copy that a write was answered with.
    pub(super) fn wrote_copy(&mut self, copy: CopyView) {
        match copy.kind {
            Kind::Secret => self.secrets.wrote(copy),
            Kind::ConfigMap => self.config_maps.wrote(copy),
        }
    }

    /// Takes in that a copy is gone.
    pub(super) fn copy_ended(&mut self, kind: Kind, uid: &str) {
        match kind {
            Kind::Secret => self.secrets.ended(uid),
            Kind::ConfigMap => self.config_maps.ended(uid),
        }
    }

    /// UIDs of all distributions.
    pub(super) fn all(&self) -> Vec<String> {
        self.distributions.iter().map(|filed| filed.uid().to_owned()).collect()
    }

    /// The distribution of that UID; `None` where nothing but its name is known.
    pub(super) fn object(&self, uid: &str) -> Option<&Arc<ResourceDistribution>> {
        self.distributions.get(uid).filter(|filed| !filed.is_bare).map(|filed| &filed.object)
    }

    /// Name of a distribution that was set aside, and for which there is room again.
    pub(super) fn returning(&self, uid: &str) -> Option<&str> {
        let filed = self.distributions.get(uid).filter(|filed| filed.is_bare)?;
        filed.object.metadata.name.as_deref().filter(|_| !self.room.is_aside(&filed.object))
    }

    /// Distributions that were set aside since this was asked last.
    pub(super) fn left_out(&mut self) -> Vec<ObjectReference> {
        self.room.left_out()
    }

    /// All that are.
    pub(super) fn all_left_out(&self) -> Vec<ObjectReference> {
        self.room.all_left_out(self.distributions.iter())
    }

    /// The number of them.
    pub(super) fn without_room(&self) -> usize {
        self.room.aside().len()
    }

    /// Copies of a distribution.
    pub(super) fn copies(&self, uid: &str) -> Vec<&CopyView> {
        self.secrets.of(uid).chain(self.config_maps.of(uid)).collect()
    }
}

#[cfg(test)]
mod tests;
