//! States of a pod between its creation and its end, and the hooks that hold it in one.

use berth_proto::crd::LifecycleHook;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::{
    names::{STATE_LABEL, STATE_SINCE_ANNOTATION},
    pod::PodView,
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

    /// Tells whether a pod in it may be available.
    pub fn serves(self) -> bool {
        matches!(self, Self::None | Self::Normal)
    }
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
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let metadata = json!({
        "labels": { STATE_LABEL: state.name() },
        "annotations": { STATE_SINCE_ANNOTATION: now.to_string() },
    });
    match metadata {
        Value::Object(metadata) => metadata,
        _ => Map::new(),
    }
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
