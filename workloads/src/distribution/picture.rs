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
    owned::{self, Concerned, Ownable, Owned},
    turns::Listed,
    watch::Shown,
};

impl Ownable for CopyView {
    fn owner(&self) -> &str {
        &self.owner
    }
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
            ("resourcedistributions", self.distributions.iter().count()),
            ("namespaces", self.namespaces.len()),
            ("secrets", self.secrets.len()),
            ("configmaps", self.config_maps.len()),
        ]
    }

    /// Takes in what a watch shows.
    pub(super) fn take(&mut self, input: Input) -> Concerned {
        match input {
            Input::Distribution(shown) => self.take_distribution(shown),
            Input::Namespace(shown) => self.take_namespace(shown),
            Input::Secret(shown) => self.secrets.take(shown),
            Input::ConfigMap(shown) => self.config_maps.take(shown),
        }
    }

    fn take_distribution(&mut self, shown: Shown<Filed>) -> Concerned {
        self.distributions_listed |= matches!(shown, Shown::ListEnds);
        owned::take(&mut self.distributions, shown)
    }

    fn take_namespace(&mut self, shown: Shown<(String, NamespaceView)>) -> Concerned {
        let matters = match shown {
            Shown::ListBegins => {
                self.listed_namespaces = Some(BTreeSet::new());
                false
            }
            Shown::ListEnds => {
                let listed = self.listed_namespaces.take().unwrap_or_default();
                let before = self.namespaces.len();
                self.namespaces.retain(|_, namespace| listed.contains(&namespace.uid));
                let was = std::mem::replace(&mut self.namespaces_listed, true);
                !was || before != self.namespaces.len()
            }
            Shown::Applied((name, namespace)) => {
                if let Some(listed) = &mut self.listed_namespaces {
                    listed.insert(namespace.uid.clone());
                }
                let before = self.namespaces.insert(name.clone(), namespace);
                before.as_ref() != self.namespaces.get(&name)
            }
            Shown::Gone(uid) => {
                let before = self.namespaces.len();
                self.namespaces.retain(|_, namespace| namespace.uid != uid);
                before != self.namespaces.len()
            }
        };
        // Any distribution may be about it.
        if matters { Concerned::All } else { Concerned::None }
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
mod tests {
    use super::*;

    fn namespace(name: &str, uid: &str) -> Input {
        let view = NamespaceView { uid: uid.to_owned(), ..NamespaceView::default() };
        Input::Namespace(Shown::Applied((name.to_owned(), view)))
    }

    #[test]
    fn only_what_changes_of_a_namespace_is_looked_at() {
        let mut picture = Picture::default();
        assert_eq!(picture.take(namespace("a", "1")), Concerned::All);
        assert_eq!(picture.take(namespace("a", "1")), Concerned::None);
        assert_eq!(picture.take(namespace("a", "2")), Concerned::All, "made anew");
        // The end of the one before it is late.
        assert_eq!(picture.take(Input::Namespace(Shown::Gone("1".to_owned()))), Concerned::None);
        picture.take(Input::Namespace(Shown::ListBegins));
        picture.take(namespace("b", "3"));
        assert_eq!(picture.take(Input::Namespace(Shown::ListEnds)), Concerned::All);
        assert_eq!(picture.namespaces.keys().collect::<Vec<_>>(), ["b"]);
    }
}
