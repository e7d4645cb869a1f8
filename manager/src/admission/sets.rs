//! SidecarSets as admission has them: read once when the watch shows them, used for every pod.

use std::{collections::BTreeMap, sync::Arc};

use berth_base::sent::{Received, Sent};
use berth_proto::{crd::SidecarSet, nested};
use berth_sidecarset::Set;
use kube::{ResourceExt, api::DynamicObject};
use serde_json::Value;
use tracing::warn;

use super::{review::Request, view::Bound};
use crate::{store::Reach, telemetry::chain};

/// Bytes of all sets that may be stored, as they are kept here. A set of a few KiB takes some 30 KiB.
const MOST: usize = 64 << 20;
/// Bound of all sets as they are shown. More than those that may be stored are there where nobody was asked.
pub(super) const BOUND: Bound<SetSeen> =
    Bound { most: MOST + MOST / 4, bytes: |seen| seen.bytes, bare: SetSeen::bare };
/// Bytes that a set takes beside its spec, about.
const SET: usize = 2 << 10;
/// Says of a set why nothing of it is kept.
const NO_ROOM: &str = "all SidecarSets together take more memory than there is for them, and it is one of \
                       the largest: make it smaller, or delete others";

/// The annotation by which a set's author chooses what happens to its pods when no manager answers.
const FAILURE_POLICY: &str = "berth.dev/failure-policy";

/// Where a set is to be injected.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct SetRules {
    pub(super) reach: Reach,
    /// Pods start without it when no manager answers.
    pub(super) ignore: bool,
    /// Why it can be injected nowhere.
    pub(super) fault: Option<String>,
}

/// One set.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SetSeen {
    pub(super) rules: SetRules,
    /// The set, or what is wrong with it: admission refuses it today, and once took it or was not there.
    pub(super) set: Result<Arc<Set>, String>,
    /// Bytes that it takes as a whole, about.
    pub(super) bytes: usize,
}

/// Reads a set. One that cannot be read is left alone: it must not hide the others.
pub(super) fn read(object: Sent<DynamicObject>) -> Option<SetSeen> {
    let name = object.name_any();
    let read =
        object.read().and_then(|object| object.try_parse::<SidecarSet>().map_err(|error| chain(&error)));
    if let Err(error) = &read {
        warn!(name, error, "SidecarSet left alone, it cannot be read");
    }
    read.ok().map(|set| SetSeen::new(&set))
}

impl SetSeen {
    /// Reads a set that has its types.
    pub(super) fn new(given: &SidecarSet) -> Self {
        let set = Set::parse(given).map(Arc::new).map_err(|fault| fault.to_string());
        let rules = SetRules {
            reach: Reach {
                selector: given.spec.selector.clone(),
                namespace: given.spec.namespace.clone(),
                namespace_selector: given.spec.namespace_selector.clone(),
            },
            ignore: given.annotations().get(FAILURE_POLICY).is_some_and(|policy| policy == "Ignore"),
            fault: set.as_ref().err().cloned(),
        };
        let bytes = serde_json::to_value(&given.spec).map_or(SET, |spec| weight(&spec));
        Self { rules, set, bytes }
    }

    /// The same as one that can be injected nowhere.
    fn bare(self) -> Self {
        let Self { rules: SetRules { ignore, .. }, bytes, .. } = self;
        let rules = SetRules { reach: Reach::default(), ignore, fault: Some(NO_ROOM.to_owned()) };
        Self { rules, set: Err(NO_ROOM.to_owned()), bytes }
    }
}

/// Says why there is no room for a set that is written, beside the others. They are the whole cluster's, so
/// none that stands is given up for a new one. One that takes no more than before may be written.
pub(super) fn crowded(request: &Request, sets: &BTreeMap<String, SetSeen>) -> Option<String> {
    let name = request.object["metadata"]["name"].as_str().unwrap_or_default();
    let [now, before] = [&request.object, &request.old_object].map(|set| weight(&set["spec"]));
    let others = sets.iter().filter(|(other, _)| other.as_str() != name).map(|(_, seen)| seen.bytes);
    let all = others.fold(now, usize::saturating_add);
    (now > before && all > MOST).then(|| {
        format!(
            "spec: all SidecarSets together would take {all} bytes of memory, and at most {MOST} are kept; make \
             it smaller, or delete others"
        )
    })
}

/// Bytes that a set with this spec takes: its fields as they are injected, its selectors as they are written
/// and compared, and as much again if new pods get another revision.
fn weight(spec: &Value) -> usize {
    let revision = spec.pointer("/injectionStrategy/revision");
    let times = if revision.is_some_and(|revision| !revision.is_null()) { 3 } else { 2 };
    SET.saturating_add(nested::memory(spec).saturating_mul(times))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A set whose container has a variable of so many KiB.
    fn object(name: &str, kib: usize) -> Value {
        let env = json!([{ "name": "A", "value": "x".repeat(kib << 10) }]);
        json!({ "apiVersion": "apps.kruise.io/v1alpha1", "kind": "SidecarSet", "metadata": { "name": name },
            "spec": { "selector": { "matchLabels": { "app": "web" } },
                "containers": [{ "name": "log", "image": "log:1", "env": env }] } })
    }

    fn seen(name: &str, kib: usize) -> SetSeen {
        SetSeen::new(&serde_json::from_value(object(name, kib)).unwrap())
    }

    /// There is room for sets of 32 MiB. Rows: MiB of the others, KiB of the one that is written, before and
    /// now, and whether it is let in.
    #[test]
    fn new_sets_have_what_the_others_leave() {
        for (others, before, now, fits) in [
            (16, None, 500, true),
            (31, None, 500, true),
            (32, None, 500, false),
            (32, Some(100), 500, false),
            (32, Some(500), 500, true),
            (40, Some(500), 400, true),
        ] {
            let whole = SetSeen { bytes: others << 21, ..seen("other", 1) };
            let own = before.map(|kib| ("own".to_owned(), seen("own", kib)));
            let sets: BTreeMap<_, _> = own.into_iter().chain([("other".to_owned(), whole.bare())]).collect();
            let old_object = before.map_or(Value::Null, |kib| object("own", kib));
            let request = Request { object: object("own", now), old_object, ..Request::default() };
            let fault = crowded(&request, &sets);
            assert_eq!(fault.is_none(), fits, "{others} {before:?} {now}: {fault:?}");
        }
    }

    /// It is as one with a fault, and still counts.
    #[test]
    fn one_without_room_is_injected_nowhere() {
        let whole = seen("a", 100);
        assert!(whole.bytes > 200 << 10 && whole.bytes < 300 << 10, "{}", whole.bytes);
        let bare = whole.clone().bare();
        assert_eq!(
            (bare.set.is_err(), bare.bytes, &bare.rules.reach),
            (true, whole.bytes, &Reach::default())
        );
        assert!(bare.rules.fault.is_some_and(|fault| fault.contains("more memory than there is")));
        let other = json!({ "injectionStrategy": { "revision": { "revisionName": "a-1" } } });
        assert!(weight(&other) > weight(&json!({ "injectionStrategy": { "revision": null } })) + SET / 8);
    }
}
