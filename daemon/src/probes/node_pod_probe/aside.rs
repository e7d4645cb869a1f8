//! Entries of a `NodePodProbe` that cannot be read: a newer program has written them. The object says so.
//! Nobody has taken them away: what was wanted of these pods before is wanted still, and what was found
//! stays.

use std::collections::BTreeSet;

use berth_policy::{ProbeAction, WantedPod, WantedProbe};
use berth_proto::crd::{NodePodProbe, Partly, PodProbeStatus, kept};

use super::{
    convert::WantedPods,
    mirror::{self, Mirror},
};
use crate::cluster::node_object::fault;

/// Entries that a condition names.
const TOLD: usize = 5;

/// Pods with entries that cannot be read.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Aside {
    /// UIDs of those in `status.desiredPodProbes`.
    desired: BTreeSet<String>,
    /// UIDs of those in `spec.podProbes`.
    spec: BTreeSet<String>,
    /// Which entries they are, and what is wrong with them; the first few of many.
    faults: Vec<String>,
    /// Results of these pods as they stand in the object.
    found: Vec<PodProbeStatus>,
}

impl Aside {
    /// Reads which they are.
    pub(super) fn of(shown: &Partly<NodePodProbe>) -> Self {
        let mut aside = Self::default();
        for one in &shown.unreadable {
            match one.list {
                "desiredPodProbes" => aside.desired.insert(one.text("uid").to_owned()),
                "podProbes" => aside.spec.insert(one.text("uid").to_owned()),
                _ => continue,
            };
            if aside.faults.len() < TOLD {
                aside.faults.push(fault(one));
            }
        }
        let found = shown.object.status.iter().flat_map(|status| &status.pod_probe_statuses);
        aside.found = found.filter(|found| aside.desired.contains(&found.uid)).cloned().collect();
        aside
    }

    /// Tells whether there are none.
    fn is_empty(&self) -> bool {
        self.faults.is_empty()
    }

    /// Number of pods with such entries in `spec.podProbes`.
    pub(super) fn of_spec(&self) -> usize {
        self.spec.len()
    }

    /// Tells whether the same is said of both. What is found of their pods is not said.
    pub(super) fn tells_the_same(&self, other: &Self) -> bool {
        self.faults == other.faults
    }

    /// Adds what was desired `before` of these pods, as much as has room.
    pub(super) fn desired(&self, wanted: WantedPods, before: Option<&WantedPods>) -> WantedPods {
        with(&self.desired, wanted, before)
    }

    /// Adds what was asked for `before` in the spec of these pods, as much as has room.
    pub(super) fn spec(&self, wanted: WantedPods, before: Option<&WantedPods>) -> WantedPods {
        with(&self.spec, wanted, before)
    }

    /// Compares the copy of what is desired with it.
    pub(super) fn mirror(&self, object: &NodePodProbe, accepted: bool, foreign: bool) -> Mirror {
        // What somebody else has written may look like nothing where none of it can be read.
        let is_known = accepted && (!foreign || self.spec.is_empty());
        match (self.is_empty() || is_known, foreign) {
            (true, _) => mirror::compare(object, accepted, foreign),
            // Nobody here knows all of what there is a copy of.
            (false, true) => Mirror::Foreign,
            (false, false) => Mirror::Right,
        }
    }

    /// Adds what was found of them to results that say nothing of them.
    pub(super) fn found(&self, mut found: Vec<PodProbeStatus>) -> Vec<PodProbeStatus> {
        let known: BTreeSet<String> = found.iter().map(|found| found.uid.clone()).collect();
        found.extend(self.found.iter().filter(|found| !known.contains(&found.uid)).cloned());
        found
    }

    /// Adds them to what is said of entries that are not run.
    pub(super) fn told(&self, not_run: String) -> String {
        let texts = self.faults.iter().cloned().chain(Some(not_run).filter(|text| !text.is_empty()));
        texts.collect::<Vec<_>>().join("; ")
    }
}

fn with(aside: &BTreeSet<String>, mut wanted: WantedPods, before: Option<&WantedPods>) -> WantedPods {
    let Some(before) = before.filter(|_| !aside.is_empty()) else { return wanted };
    let known: BTreeSet<_> = wanted.pods.iter().map(|pod| pod.pod.uid.clone()).collect();
    let stays = before.pods.iter().filter(|pod| aside.contains(pod.pod.uid.as_str()));
    let stays = stays.filter(|pod| !known.contains(&pod.pod.uid));
    wanted.pods.extend(kept(stays, |pod| texts_of(pod)).cloned());
    wanted
}

/// Bytes of all texts that are kept of a pod. Each is at least a pointer and a length.
fn texts_of(pod: &WantedPod) -> usize {
    let mut bytes = 0_usize;
    let mut add = |text: &str| bytes = bytes.saturating_add(text.len()).saturating_add(size_of::<&str>());
    add(pod.pod.uid.as_str());
    for WantedProbe { name, container, probe, condition_type, succeeded, failed, paused: _ } in &pod.probes {
        add(name);
        add(container.as_str());
        match probe.as_ref().map(|probe| &probe.action) {
            Ok(ProbeAction::Exec { command }) => command.iter().for_each(|word| add(word)),
            Ok(ProbeAction::Http { path, headers, .. }) => {
                let texts = headers.iter().flat_map(|(name, value)| [name, value]);
                texts.chain([path]).for_each(|text| add(text));
            }
            Ok(ProbeAction::Tcp { .. }) => {}
            Ok(ProbeAction::Grpc { service, .. }) => add(service),
            Err(why) => add(why),
        }
        let marks = [succeeded, failed].into_iter().flat_map(|marks| [&marks.labels, &marks.annotations]);
        let marks = marks.flatten().flat_map(|(key, value)| [key, value]);
        marks.chain(condition_type).for_each(|text| add(text));
    }
    bytes
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{super::convert, *};

    /// Pod `a` has a probe of this container, and pod `b` one that is sound.
    fn shown(container: Value) -> Partly<NodePodProbe> {
        let entry = |uid: &str, container: Value| {
            let probe = json!({ "name": "m#p", "containerName": container, "probe": {} });
            json!({ "name": uid, "namespace": "shop", "uid": uid, "probes": [probe] })
        };
        let entries = json!([entry("a", container), entry("b", json!("main"))]);
        let found = ["a", "b"].map(|uid| json!({ "name": uid, "namespace": "shop", "uid": uid }));
        serde_json::from_value(json!({
            "metadata": { "name": "node" }, "spec": { "podProbes": entries },
            "status": { "desiredPodProbes": entries, "podProbeStatuses": found },
        }))
        .unwrap()
    }

    #[test]
    fn what_cannot_be_read_is_not_gone() {
        let desired = |shown: &Partly<NodePodProbe>| {
            convert::wanted(&shown.object.status.as_ref().unwrap().desired_pod_probes)
        };
        let uids = |wanted: WantedPods| -> BTreeSet<String> {
            wanted.pods.iter().map(|pod| pod.pod.uid.as_str().to_owned()).collect()
        };
        let (a, b) = ("a".to_owned(), "b".to_owned());
        let (before, now) = (shown(json!("main")), shown(json!({ "newer": "main" })));
        let aside = Aside::of(&now);
        assert!(!aside.is_empty() && Aside::of(&before) == Aside::default());
        assert_eq!(uids(desired(&now)), BTreeSet::from([b.clone()]), "the others are wanted");
        let wanted = aside.desired(desired(&now), Some(&desired(&before)));
        assert_eq!(uids(wanted), BTreeSet::from([a.clone(), b.clone()]), "and what was wanted before");
        let wanted = aside.spec(desired(&now), Some(&desired(&before)));
        assert_eq!(uids(wanted).len(), 2, "in the spec as well");
        let none = aside.desired(desired(&now), None);
        assert_eq!(uids(none), BTreeSet::from([b]), "after a restart nothing is known");
        let found: Vec<_> = aside.found(Vec::new()).into_iter().map(|found| found.uid).collect();
        assert_eq!(found, [a], "what was found stays");
        assert_eq!(aside.found(aside.found(Vec::new())).len(), 1, "once");
        let told = aside.told("p of pod shop/c: why".to_owned());
        for part in ["podProbes[a]: probes: invalid type", "upgrade berthd", "; p of pod shop/c: why"] {
            assert!(told.contains(part), "{told}");
        }
        assert_eq!(Aside::default().told(String::new()), "");
        assert_eq!(aside.mirror(&now.object, false, false), Mirror::Right, "no copy is made of a part");
        let mut none = now.object.clone();
        none.spec.pod_probes.clear();
        for (accepted, foreign, expect) in [(true, true, Mirror::Foreign), (true, false, Mirror::Right)] {
            assert_eq!(aside.mirror(&none, accepted, foreign), expect, "none of the spec can be read");
        }
        let otherwise = Aside { found: Vec::new(), ..aside.clone() };
        assert!(aside.tells_the_same(&otherwise) && !aside.tells_the_same(&Aside::default()));
    }

    /// Entries that cannot be read are small, and what stood in their place is not.
    #[test]
    fn what_was_wanted_before_has_room_together() {
        let aside = Aside::of(&shown(json!({ "newer": "main" })));
        for (bytes, wanted) in [(1 << 10, 1), (1 << 20, 0)] {
            let mut before = convert::wanted(&shown(json!("main")).object.spec.pod_probes);
            before.pods[0].probes[0].probe = Err("x".repeat(bytes));
            let now = aside.desired(WantedPods::default(), Some(&before));
            assert_eq!(now.pods.len(), wanted, "{bytes}");
        }
    }
}
