//! Marks of a pod when nothing is due, by the model's own reading of what its probes say.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::truth::Truth;
use crate::{ConditionStatus, Markers, ProbeState};

impl Truth {
    /// Each pod shows what its probes say, and nothing that nobody asks for.
    pub(super) fn check_marks(&self) {
        for uid in self.instances.keys() {
            let Some(shown) = self.play.pods.get(uid) else { continue };
            let views = self.play.probes.explain();
            let views: Vec<_> = views.into_iter().filter(|view| view.pod.uid == *uid).collect();
            let probes = self.wanted.get(uid).cloned().unwrap_or_default();
            let mut conditions = BTreeSet::new();
            let mut set: BTreeMap<Arc<str>, Arc<str>> = BTreeMap::new();
            let mut asked: BTreeSet<Arc<str>> = BTreeSet::new();
            let mut removed: BTreeSet<Arc<str>> = BTreeSet::new();
            for view in &views {
                let wanted = &probes[&view.name];
                let status = match view.state {
                    ProbeState::Succeeded => ConditionStatus::True,
                    ProbeState::Failed => ConditionStatus::False,
                    ProbeState::Unknown => ConditionStatus::Unknown,
                };
                if let Some(kind) = &wanted.condition_type
                    && conditions.insert(kind.clone())
                {
                    let condition = shown.conditions.get(kind).map(|shown| (shown.status, &shown.message));
                    let missing = status == ConditionStatus::Unknown && condition.is_none();
                    assert!(missing || condition == Some((status, &view.message)), "{condition:?} {view:?}");
                }
                let both = [&wanted.succeeded, &wanted.failed];
                asked.extend(both.iter().flat_map(|markers| markers.labels.keys().cloned()));
                let (present, other): (&Markers, &Markers) = match view.state {
                    ProbeState::Succeeded => (&wanted.succeeded, &wanted.failed),
                    ProbeState::Failed => (&wanted.failed, &wanted.succeeded),
                    ProbeState::Unknown => continue,
                };
                for (key, value) in &present.labels {
                    set.entry(key.clone()).or_insert(value.clone());
                }
                removed.extend(other.labels.keys().cloned());
            }
            for (key, value) in &set {
                assert_eq!(shown.labels.get(key), Some(value), "{uid} {key}");
            }
            for key in removed.iter().filter(|key| !set.contains_key(*key)) {
                assert_eq!(shown.labels.get(key), None, "{uid} {key}");
            }
            for ((_, key), values) in self.ours.iter().filter(|((pod, _), _)| pod == uid) {
                if !asked.contains(key)
                    && let Some(value) = shown.labels.get(key)
                {
                    assert!(!values.contains(value), "left: {uid} {key}={value}");
                }
                if !conditions.contains(key)
                    && let Some(condition) = shown.conditions.get(key)
                {
                    assert_eq!(condition.status, ConditionStatus::Unknown, "left: {uid} {key}");
                }
            }
        }
    }
}
