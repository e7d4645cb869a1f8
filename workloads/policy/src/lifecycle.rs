//! States of a pod between its creation and its end, and the hooks that hold it in one.

use berth_proto::crd::LifecycleHook;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    in_place::InPlaceState,
    names::{STATE_LABEL, STATE_SINCE_ANNOTATION},
    pod::PodView,
    time::whole_second,
};

/// State of a pod.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum State {
    /// Nobody has said.
    #[default]
    None,
    /// New, and held by the hook before it is available.
    PreparingNormal,
    /// In service.
    Normal,
    /// Held before it is updated in place.
    PreparingUpdate,
    /// Being updated in place.
    Updating,
    /// Updated, and held before it is in service again.
    Updated,
    /// Held before it is deleted.
    PreparingDelete,
}

impl State {
    /// Reads the state of a pod. One that is not known holds it as nothing does.
    pub fn of(pod: &PodView) -> Self {
        match pod.label(STATE_LABEL) {
            "PreparingNormal" => Self::PreparingNormal,
            "Normal" => Self::Normal,
            "PreparingUpdate" => Self::PreparingUpdate,
            "Updating" => Self::Updating,
            "Updated" => Self::Updated,
            "PreparingDelete" => Self::PreparingDelete,
            _ => Self::None,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "",
            Self::PreparingNormal => "PreparingNormal",
            Self::Normal => "Normal",
            Self::PreparingUpdate => "PreparingUpdate",
            Self::Updating => "Updating",
            Self::Updated => "Updated",
            Self::PreparingDelete => "PreparingDelete",
        }
    }

    /// Tells whether a pod in it is held for an update in place, or in the midst of one.
    pub fn awaits_update(self) -> bool {
        matches!(self, Self::PreparingUpdate | Self::Updating)
    }

    /// Tells whether a pod in it may be available.
    pub fn serves(self) -> bool {
        matches!(self, Self::None | Self::Normal)
    }
}

/// Tells whether a pod is in service for long enough, and nothing holds it or its update in place.
pub(crate) fn is_available(
    pod: &PodView,
    in_place: Option<&InPlaceState>,
    min_ready_seconds: i64,
    now: Timestamp,
) -> bool {
    pod.is_active()
        && !in_place.is_some_and(InPlaceState::is_pending)
        && State::of(pod).serves()
        && pod.is_ready_for(min_ready_seconds, now)
}

/// Tells whether a pod serves with the newest revision; `updated`: it has it, or is being brought to it. One
/// that is being brought to it may be Ready still, as it was.
pub(crate) fn is_ready_anew(pod: &PodView, in_place: Option<&InPlaceState>, updated: bool) -> bool {
    updated && pod.is_ready() && !in_place.is_some_and(InPlaceState::is_pending)
}

/// Tells whether the hook holds the pod: it has one of its labels or finalizers.
pub fn holds(hook: Option<&LifecycleHook>, pod: &PodView) -> bool {
    hook.is_some_and(|hook| {
        hook.finalizers_handler.iter().any(|one| pod.finalizers.contains(one))
            || hook.labels_handler.iter().any(|(key, value)| pod.labels.get(key) == Some(value))
    })
}

/// Tells whether the pod has all labels and finalizers of the hook; without a hook it has them.
pub fn has_all(hook: Option<&LifecycleHook>, pod: &PodView) -> bool {
    hook.is_none_or(|hook| {
        hook.finalizers_handler.iter().all(|one| pod.finalizers.contains(one))
            && hook.labels_handler.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
    })
}

/// Metadata of a pod that enters a state.
pub fn entering(state: State, now: Timestamp) -> Map<String, Value> {
    let now = whole_second(now);
    let metadata = json!({
        "labels": { STATE_LABEL: state.name() },
        "annotations": { STATE_SINCE_ANNOTATION: now.to_string() },
    });
    match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    }
}

/// Metadata of a pod whose update in place begins now. Where no hook looks at states it is `None`: that would
/// be a write for nobody.
pub fn updating(hook: Option<&LifecycleHook>, pod: &PodView, now: Timestamp) -> Option<Map<String, Value>> {
    (hook.is_some() && State::of(pod) != State::Updating).then(|| entering(State::Updating, now))
}

/// Metadata of a pod that is still held after an update, and is held before the next one already: the hook
/// gets all its labels and finalizers back, as OpenKruise gives them. `None`: it has none, and holds nothing.
pub fn held_again(hook: Option<&LifecycleHook>, pod: &PodView, now: Timestamp) -> Option<Map<String, Value>> {
    let hook = hook.filter(|hook| !hook.labels_handler.is_empty() || !hook.finalizers_handler.is_empty())?;
    let mut metadata = entering(State::PreparingUpdate, now);
    if let Some(labels) = metadata.get_mut("labels").and_then(Value::as_object_mut) {
        labels.extend(hook.labels_handler.iter().map(|(key, value)| (key.clone(), value.as_str().into())));
    }
    let missing: Vec<&String> =
        hook.finalizers_handler.iter().filter(|one| !pod.finalizers.contains(one)).collect();
    if !missing.is_empty() {
        let all: Vec<&String> = pod.finalizers.iter().chain(missing).collect();
        metadata.insert("finalizers".to_owned(), json!(all));
    }
    Some(metadata)
}
