//! Announcements that are made once for each pod in a run. They are in one place, so that a pod that is gone
//! is forgotten for each of them, and a list, which shows all pods anew, is no news for any.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::PodUid;

/// Thing that is announced once for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Announcement {
    /// Its order is not kept here.
    LostOrder,
    /// A sidecar outlasts its mains.
    EndlessSidecars,
}

/// Pods whose users know something.
#[derive(Clone, Debug, Default)]
pub(crate) struct Announced(BTreeMap<PodUid, BTreeSet<Announcement>>);

impl Announced {
    /// Notes that this is announced to the users of the pod. False: it was before.
    pub(crate) fn tell(&mut self, pod: &PodUid, thing: Announcement) -> bool {
        self.0.entry(pod.clone()).or_default().insert(thing)
    }

    /// Tells whether it was.
    pub(crate) fn has(&self, pod: &PodUid, thing: Announcement) -> bool {
        self.0.get(pod).is_some_and(|things| things.contains(&thing))
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
    fn each_thing_is_announced_once_while_the_pod_is_shown() {
        let (mut announced, pods) = (Announced::default(), ["a", "b"].map(PodUid::from));
        let things = [Announcement::LostOrder, Announcement::EndlessSidecars];
        let all = |announced: &mut Announced| {
            let each = pods.iter().flat_map(|pod| things.map(|thing| (pod, thing)));
            each.map(|(pod, thing)| announced.tell(pod, thing)).collect::<Vec<_>>()
        };
        assert_eq!(all(&mut announced), [true; 4]);
        assert_eq!(all(&mut announced), [false; 4]);
        announced.listed(|pod| pods.contains(pod));
        assert_eq!(all(&mut announced), [false; 4], "a list shows them anew");
        announced.gone(&pods[0]);
        let has = |pod| announced.has(pod, Announcement::LostOrder);
        assert_eq!([has(&pods[0]), has(&pods[1])], [false, true]);
        assert_eq!(all(&mut announced), [true, true, false, false]);
        announced.listed(|pod| *pod == pods[0]);
        assert_eq!(all(&mut announced), [false, false, true, true]);
    }
}
