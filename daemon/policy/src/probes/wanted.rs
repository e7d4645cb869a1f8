//! Probes that are wanted on this node, and how that changes.

use std::{
    collections::{BTreeMap, btree_map::Entry},
    sync::Arc,
    time::Instant,
};

use super::{
    ProbedPod, Probes,
    marks::{AllowedMarks, MarkKey},
    model::Probe,
    watch::{Presence, Watch},
    writes::Marking,
};
use crate::model::{ContainerName, PodRef, PodUid};

/// The probes of one pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedPod {
    /// The pod.
    pub pod: PodRef,
    /// Probes of the pod.
    pub probes: Vec<WantedProbe>,
}

/// One probe of one container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedProbe {
    /// `<PodProbeMarker>#<its probe>`.
    pub name: Arc<str>,
    /// The container that is probed.
    pub container: ContainerName,
    /// The wanted probe; or why it cannot be read, for people. Periods and timeouts below 1 s and thresholds
    /// below 1 are taken for 1.
    pub probe: Result<Probe, String>,
    /// The pod condition that says the outcome. Of two probes with one condition, the first by name has it.
    pub condition_type: Option<Arc<str>>,
    /// Markers on the pod while the probe succeeds.
    pub succeeded: Markers,
    /// Markers on the pod while the probe fails.
    pub failed: Markers,
    /// Not run for the time being, while what it found stays: nobody knows whether it is still asked for.
    pub paused: bool,
}

/// Labels and annotations that one outcome writes on a pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Markers {
    /// Labels.
    pub labels: BTreeMap<Arc<str>, Arc<str>>,
    /// Annotations.
    pub annotations: BTreeMap<Arc<str>, Arc<str>>,
}

type ByName = BTreeMap<Arc<str>, WantedProbe>;

impl Markers {
    pub(super) fn all(&self) -> impl Iterator<Item = (MarkKey, &Arc<str>)> {
        let labels = self.labels.iter().map(|(key, value)| (MarkKey::Label(key.clone()), value));
        labels.chain(self.annotations.iter().map(|(key, value)| (MarkKey::Annotation(key.clone()), value)))
    }
}

impl Probes {
    pub(super) fn wanted_listed(&mut self, listed: Vec<WantedPod>, now: Instant) {
        let mut wanted: BTreeMap<PodUid, (PodRef, ByName)> = BTreeMap::new();
        for WantedPod { pod, probes } in listed {
            let (_, by_name) = wanted.entry(pod.uid.clone()).or_insert_with(|| (pod, ByName::new()));
            for probe in probes {
                by_name.entry(probe.name.clone()).or_insert(probe);
            }
        }
        for (uid, pod) in &mut self.pods {
            if !wanted.contains_key(uid) {
                wanted.insert(uid.clone(), (pod.pod.clone(), ByName::new()));
            }
        }
        let set_aside = std::mem::take(&mut self.set_aside);
        for (uid, (pod, probes)) in wanted {
            let object = uid.clone();
            set_aside.evaluate(|| object.clone(), now, || self.want(uid, pod, probes, now));
        }
        self.set_aside = set_aside;
        self.memory.clear();
        self.reporting.wanted_known = true;
    }

    fn want(&mut self, uid: PodUid, pod: PodRef, mut wanted: ByName, now: Instant) {
        if wanted.is_empty() && !self.pods.contains_key(&uid) {
            return;
        }
        let turns = self.turns;
        let probed = self.pods.entry(uid.clone()).or_insert_with(|| ProbedPod::new(pod.clone(), turns));
        probed.pod = pod;
        if probed.is_wanted_like(&wanted) {
            return;
        }
        let containers = self.instances.get(&uid);
        let before = probed.asked();
        // What has another container is another probe.
        probed.probes.retain(|name, watch| {
            wanted.get(name).is_some_and(|wanted| wanted.container == *watch.container())
        });
        while let Some((name, wanted)) = wanted.pop_first() {
            match probed.probes.entry(name) {
                Entry::Occupied(mut known) => known.get_mut().change(wanted, self.began, now),
                Entry::Vacant(new) => {
                    let memory = self.memory.remove(&(uid.clone(), new.key().clone()));
                    let watch = new.insert(Watch::new(wanted, memory, now));
                    let place = Presence::of(containers, watch.container());
                    watch.place(place, self.began, now);
                }
            }
        }
        let after = probed.asked();
        probed.marking.asked_anew(before, &after);
        if containers.is_none() {
            probed.marking.let_go();
        }
        self.reporting.unsettle();
    }
}

impl ProbedPod {
    fn new(pod: PodRef, turns: u64) -> Self {
        let served = super::scheduler::Kind::ALL.into_iter().map(|kind| (kind, turns)).collect();
        Self { pod, probes: BTreeMap::new(), marking: Marking::default(), served }
    }

    fn is_wanted_like(&self, wanted: &ByName) -> bool {
        let mut known = self.probes.values().map(|watch| &watch.wanted);
        self.probes.len() == wanted.len() && wanted.values().all(|wanted| known.next() == Some(wanted))
    }

    /// The marks its probes ask for.
    pub(super) fn asked(&self) -> AllowedMarks {
        let mut asked = AllowedMarks::default();
        for Watch { wanted, .. } in self.probes.values() {
            asked.conditions.extend(wanted.condition_type.clone());
            for (key, value) in wanted.succeeded.all().chain(wanted.failed.all()) {
                asked.keys.entry(key).or_default().insert(value.clone());
            }
        }
        asked
    }
}
