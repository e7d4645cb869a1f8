//! Users of pods are told each thing once: what was said of which pod in this run. In one place for all
//! things, so that a pod that is gone is forgotten for all of them, and a list, which shows each pod anew,
//! for none.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PodUid;

/// Thing that is told of a pod once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Tale {
    /// Its order is not kept here.
    LostOrder,
    /// A sidecar outlasts its mains.
    EndlessSidecars,
}

/// Pods whose users know something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told(BTreeMap<PodUid, BTreeSet<Tale>>);

impl Told {
    /// Notes that this is told of the pod. False: it was before.
    pub(crate) fn tell(&mut self, pod: &PodUid, tale: Tale) -> bool {
        self.0.entry(pod.clone()).or_default().insert(tale)
    }

    /// Tells whether it was.
    pub(crate) fn has(&self, pod: &PodUid, tale: Tale) -> bool {
        self.0.get(pod).is_some_and(|tales| tales.contains(&tale))
    }

    /// The pod view shows this pod no more.
    pub(crate) fn gone(&mut self, pod: &PodUid) {
        self.0.remove(pod);
    }

    /// The pod view shows the pods of which this is true, and no others.
    pub(crate) fn listed(&mut self, is_shown: impl Fn(&PodUid) -> bool) {
        self.0.retain(|pod, _| is_shown(pod));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thing_is_told_once_while_the_pod_is_shown() {
        let (mut told, pods) = (Told::default(), ["a", "b"].map(PodUid::from));
        let tales = [Tale::LostOrder, Tale::EndlessSidecars];
        let all = |told: &mut Told| {
            let each = pods.iter().flat_map(|pod| tales.map(|tale| (pod, tale)));
            each.map(|(pod, tale)| told.tell(pod, tale)).collect::<Vec<_>>()
        };
        assert_eq!(all(&mut told), [true; 4]);
        assert_eq!(all(&mut told), [false; 4]);
        told.listed(|pod| pods.contains(pod));
        assert_eq!(all(&mut told), [false; 4], "a list shows them anew");
        told.gone(&pods[0]);
        assert!(!told.has(&pods[0], Tale::LostOrder) && told.has(&pods[1], Tale::LostOrder));
        assert_eq!(all(&mut told), [true, true, false, false]);
        told.listed(|pod| *pod == pods[0]);
        assert_eq!(all(&mut told), [false, false, true, true]);
    }
}
