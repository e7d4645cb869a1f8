//! Pods of all namespaces, by one watch: where many namespaces have WorkloadSpreads. A watch of each of ten
//! thousand would be as many connections to the API server.
//!
//! Pods of namespaces without spreads are kept too: one that comes there finds them, and none is listed anew.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::view::PodView;
use crate::watch::Shown;

/// Pods of a namespace, by UID.
pub(super) type Pods = BTreeMap<String, Arc<PodView>>;

/// Standing of the watch of all pods, and those of namespaces without spreads.
#[derive(Debug, Default)]
pub(super) struct Wide {
    rest: BTreeMap<String, Pods>,
    /// UIDs that the list which is coming in has shown.
    listing: Option<BTreeSet<String>>,
    listed: bool,
}

impl Wide {
    /// A list of all pods begins.
    pub(super) fn list_begins(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    /// The list has ended. UIDs of all pods that it has shown.
    pub(super) fn list_ends(&mut self) -> BTreeSet<String> {
        let seen = self.listing.take().unwrap_or_default();
        self.listed = true;
        self.rest.retain(|_, pods| {
            pods.retain(|uid, _| seen.contains(uid));
            !pods.is_empty()
        });
        seen
    }

    /// Takes in that a pod is shown, of whichever namespace.
    pub(super) fn is_seen(&mut self, shown: &Shown<PodView>) {
        if let (Some(seen), Shown::Applied(pod)) = (&mut self.listing, shown) {
            seen.insert(pod.seen.uid.clone());
        }
    }

    /// Takes in a pod of a namespace without spreads.
    pub(super) fn take(&mut self, namespace: &str, shown: Shown<PodView>) {
        match shown {
            Shown::Applied(pod) => {
                let pods = self.rest.entry(namespace.to_owned()).or_default();
                pods.insert(pod.seen.uid.clone(), Arc::new(pod));
            }
            Shown::Gone(uid) => {
                let Some(pods) = self.rest.get_mut(namespace) else { return };
                pods.remove(&uid);
                if pods.is_empty() {
                    self.rest.remove(namespace);
                }
            }
            Shown::ListBegins | Shown::ListEnds => {}
        }
    }

    /// Takes out the pods of a namespace that gets its first spread; and whether all of them were listed.
    pub(super) fn begins(&mut self, namespace: &str) -> (Pods, bool) {
        (self.rest.remove(namespace).unwrap_or_default(), self.listed)
    }

    /// The last spread of a namespace has gone.
    pub(super) fn ends(&mut self, namespace: String, pods: Pods) {
        if !pods.is_empty() {
            self.rest.insert(namespace, pods);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::tests::{pod, view},
        *,
    };

    /// Names of the pods that are kept of a namespace without spreads.
    fn kept(wide: &Wide, namespace: &str) -> Vec<String> {
        wide.rest.get(namespace).into_iter().flat_map(BTreeMap::keys).cloned().collect()
    }

    #[test]
    fn pods_of_a_namespace_without_spreads_are_there_when_one_comes() {
        let mut wide = Wide::default();
        wide.list_begins();
        for name in ["p0", "p1"] {
            let shown = Shown::Applied(view(&pod(name, true)));
            wide.is_seen(&shown);
            wide.take("ns", shown);
        }
        assert_eq!(wide.list_ends().len(), 2);
        wide.take("ns", Shown::Gone("p1".to_owned()));
        wide.take("other", Shown::Gone("p2".to_owned()));
        let (pods, listed) = wide.begins("ns");
        assert!(pods.keys().eq(["p0"]) && listed && kept(&wide, "ns").is_empty());
        // It has gone again.
        wide.ends("ns".to_owned(), pods);
        wide.ends("empty".to_owned(), Pods::new());
        assert_eq!((kept(&wide, "ns"), wide.rest.len()), (vec!["p0".to_owned()], 1));
        wide.list_begins();
        assert!(wide.list_ends().is_empty() && wide.rest.is_empty(), "what a list does not have is gone");
    }
}
