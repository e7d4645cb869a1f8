//! Picture of the cluster: distributions, namespaces, and copies.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use berth_proto::crd::ResourceDistribution;
use berth_workloads_policy::{
    distribution::{CopyView, Kind, NamespaceView},
    store::{Store, Stored},
};

use super::watches::{Filed, Input};
use crate::{
    event_loop::Listed,
    owned::{self, Concerned, Ownable, Owned},
    watch::Shown,
};

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
#[derive(Debug, Default)]
pub(super) struct Picture {
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

impl Picture {
    /// Kinds that are watched, and whether all of each was listed.
    pub(super) fn listed(&self) -> Listed {
        vec![
            ("resourcedistributions", self.distributions_listed),
            ("namespaces", self.namespaces_listed),
            ("secrets", self.secrets.listed),
            ("configmaps", self.config_maps.listed),
        ]
    }

    /// Each kind, and how many objects of it there are.
    pub(super) fn sizes(&self) -> [(&'static str, usize); 4] {
        [
            ("resourcedistributions", self.distributions.count()),
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
        owned::take(&mut self.distributions, shown)
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

    /// Takes in a distribution that a write was answered with.
    pub(super) fn wrote(&mut self, filed: Filed) {
        self.distributions.wrote(filed);
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

    /// The distribution of that UID.
    pub(super) fn object(&self, uid: &str) -> Option<&Arc<ResourceDistribution>> {
        self.distributions.get(uid).map(|filed| &filed.object)
    }

    /// Copies of a distribution.
    pub(super) fn copies(&self, uid: &str) -> Vec<&CopyView> {
        self.secrets.of(uid).chain(self.config_maps.of(uid)).collect()
    }
}

#[cfg(test)]
mod tests;
