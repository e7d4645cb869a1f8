//! Marks that a pod should show of its probes, and in what it differs.
//!
//! - `Succeeded` is condition True with the markers of that state; `Failed` is False with those. Markers of
//!   the other state are removed, unless the present one has them too.
//! - `Unknown` is condition Unknown. OpenKruise says False then, at each start of a container, so the
//!   condition flaps although nobody said no. Labels and annotations stay as they are until there is a
//!   result: there is no way to write "unknown" into them, and a label that goes and comes moves whoever
//!   selects by it.
//! - A pod without the condition says Unknown already: none is written before there is something to say.
//! - Of two probes that want one thing the first by name has it, and who sets a label wins over who removes
//!   it.
//! - Marks nobody asks for any more (the probe, its marker or the key in it is gone) are taken away, for
//!   nobody would keep them true: labels and annotations with a value that was asked for are removed,
//!   whatever else they hold is somebody else's. Conditions become Unknown: that is what their absence would
//!   mean, too, and a patch that removes an entry from a list, beside a kubelet that writes the same list, is
//!   not to be relied on.
//! - Of a pod that the runtime has not told of, or no longer, nothing is said.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Instant,
};

use super::{
    ProbedPod,
    event::{Shown, ShownCondition},
    step::{ConditionMark, ConditionStatus, PodMarks},
    watch::ProbeState,
};
use crate::model::PodUid;

/// Message of conditions that no probe asks for any more.
const UNASKED: &str = "no probe asks for this condition any more";

/// Maximum number of values of one label or annotation.
const MOST_VALUES: usize = 16;

/// The marks of a pod that anybody asked about.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AskedMarks {
    /// Types of conditions.
    pub conditions: BTreeSet<Arc<str>>,
    /// Keys of labels.
    pub labels: BTreeSet<Arc<str>>,
    /// Keys of annotations.
    pub annotations: BTreeSet<Arc<str>>,
}

/// Where a mark is.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum MarkKey {
    Label(Arc<str>),
    Annotation(Arc<str>),
}

/// Marks, with the values they may be given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct AllowedMarks {
    pub(super) conditions: BTreeSet<Arc<str>>,
    pub(super) keys: BTreeMap<MarkKey, BTreeSet<Arc<str>>>,
}

/// Marks on the pod, of the ones that were asked for.
#[derive(Debug, Default)]
pub(super) struct Face {
    pub(super) version: u64,
    pub(super) conditions: BTreeMap<Arc<str>, ShownCondition>,
    pub(super) keys: BTreeMap<MarkKey, Arc<str>>,
}

/// Changes to a pod.
#[derive(Clone, Debug, Default)]
pub(super) struct Changes {
    pub(super) conditions: BTreeMap<Arc<str>, ConditionMark>,
    pub(super) keys: BTreeMap<MarkKey, Option<Arc<str>>>,
    /// A status is among the conditions that differ.
    turned: bool,
}

impl AllowedMarks {
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.keys.is_empty()
    }

    /// Tells whether the other one asks for all that this one asks for.
    pub(super) fn is_within(&self, other: &Self) -> bool {
        self.conditions.is_subset(&other.conditions)
            && self.keys.keys().all(|key| other.keys.contains_key(key))
    }

    /// Adds these. What is refused again and again while it changes again and again is not all remembered.
    pub(super) fn extend(&mut self, other: Self) {
        self.conditions.extend(other.conditions);
        for (key, values) in other.keys {
            let known = self.keys.entry(key).or_default();
            let room = MOST_VALUES.saturating_sub(known.len());
            known.extend(values.into_iter().take(room));
        }
    }
}

impl Face {
    pub(super) fn of(shown: Shown) -> Self {
        let labels = shown.labels.into_iter().map(|(key, value)| (MarkKey::Label(key), value));
        let annotations = shown.annotations.into_iter().map(|(key, value)| (MarkKey::Annotation(key), value));
        Self {
            version: shown.version,
            conditions: shown.conditions,
            keys: labels.chain(annotations).collect(),
        }
    }

    /// Tells whether the pod shows these changes.
    pub(super) fn has(&self, changes: &Changes) -> bool {
        let condition = |kind, mark: &ConditionMark| {
            let shown = self.conditions.get(kind);
            shown.is_some_and(|shown| shown.status == mark.status && shown.message == mark.message)
        };
        changes.conditions.iter().all(|(kind, mark)| condition(kind, mark))
            && changes.keys.iter().all(|(key, value)| self.keys.get(key) == value.as_ref())
    }

    /// Takes these changes as written.
    pub(super) fn take(&mut self, changes: Changes) {
        for (kind, ConditionMark { status, message, .. }) in changes.conditions {
            self.conditions.insert(kind, ShownCondition { status, message });
        }
        for (key, value) in changes.keys {
            match value {
                Some(value) => drop(self.keys.insert(key, value)),
                None => drop(self.keys.remove(&key)),
            }
        }
    }
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.conditions.is_empty() && self.keys.is_empty()
    }

    /// More than words.
    pub(super) fn is_state(&self) -> bool {
        self.turned || !self.keys.is_empty()
    }

    fn condition(&mut self, face: &Face, kind: &Arc<str>, mark: ConditionMark) {
        let shown = face.conditions.get(kind);
        if shown.is_some_and(|shown| shown.status == mark.status && shown.message == mark.message) {
            return;
        }
        self.turned |= shown.is_none_or(|shown| shown.status != mark.status);
        self.conditions.insert(kind.clone(), mark);
    }

    fn key(&mut self, face: &Face, key: MarkKey, value: Option<Arc<str>>) {
        if face.keys.get(&key) != value.as_ref() {
            self.keys.insert(key, value);
        }
    }

    pub(super) fn into_marks(self, pod: crate::PodRef) -> PodMarks {
        let Self { conditions, keys, .. } = self;
        let mut marks = PodMarks { pod, conditions, labels: BTreeMap::new(), annotations: BTreeMap::new() };
        for (key, value) in keys {
            match key {
                MarkKey::Label(key) => marks.labels.insert(key, value),
                MarkKey::Annotation(key) => marks.annotations.insert(key, value),
            };
        }
        marks
    }
}

impl ProbedPod {
    /// Finds in what the pod differs from what it should show. `former` is what was asked since the pod last
    /// showed what it should.
    pub(super) fn changes(&self, face: &Face, former: &AllowedMarks, now: Instant) -> Changes {
        let mut changes = Changes::default();
        let mut taken = BTreeSet::new();
        let mut wanted: BTreeMap<MarkKey, Option<Arc<str>>> = BTreeMap::new();
        for watch in self.probes.values() {
            if let Some(kind) = &watch.wanted.condition_type
                && taken.insert(kind)
                && (!watch.is_blank() || face.conditions.contains_key(kind))
            {
                let mark = ConditionMark {
                    status: watch.state.into(),
                    message: watch.words(),
                    last_probe: watch.ended,
                    last_transition: watch.since,
                };
                changes.condition(face, kind, mark);
            }
            let (present, other) = match watch.state {
                ProbeState::Succeeded => (&watch.wanted.succeeded, &watch.wanted.failed),
                ProbeState::Failed => (&watch.wanted.failed, &watch.wanted.succeeded),
                ProbeState::Unknown => continue,
            };
            for (key, value) in present.all() {
                wanted.entry(key).or_insert(None).get_or_insert_with(|| value.clone());
            }
            for (key, _) in other.all() {
                wanted.entry(key).or_insert(None);
            }
        }
        for (key, value) in wanted {
            changes.key(face, key, value);
        }
        if former.is_empty() {
            return changes;
        }
        let asked = self.asked();
        for kind in former.conditions.difference(&asked.conditions) {
            let status = ConditionStatus::Unknown;
            if face.conditions.get(kind).is_some_and(|shown| shown.status != status) {
                let message = UNASKED.into();
                let mark = ConditionMark { status, message, last_probe: None, last_transition: now };
                changes.condition(face, kind, mark);
            }
        }
        for (key, values) in former.keys.iter().filter(|(key, _)| !asked.keys.contains_key(*key)) {
            if face.keys.get(key).is_some_and(|value| values.contains(value)) {
                changes.key(face, key.clone(), None);
            }
        }
        changes
    }
}

impl super::Probes {
    /// The marks of this pod that [`crate::ProbeEvent::Shown`] is to tell of.
    pub fn asked(&self, pod: &PodUid) -> AskedMarks {
        let mut asked = AskedMarks::default();
        let Some(pod) = self.pods.get(pod) else { return asked };
        let mut all = pod.asked();
        all.extend(pod.marking.former().clone());
        asked.conditions = all.conditions;
        for key in all.keys.into_keys() {
            match key {
                MarkKey::Label(key) => asked.labels.insert(key),
                MarkKey::Annotation(key) => asked.annotations.insert(key),
            };
        }
        asked
    }
}

impl From<ProbeState> for ConditionStatus {
    fn from(state: ProbeState) -> Self {
        match state {
            ProbeState::Succeeded => Self::True,
            ProbeState::Failed => Self::False,
            ProbeState::Unknown => Self::Unknown,
        }
    }
}
