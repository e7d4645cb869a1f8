//! SidecarSets as admission has them: read once when the watch shows them, used for every pod.

use std::sync::Arc;

use berth_base::sent::{Received, Sent};
use berth_proto::crd::SidecarSet;
use berth_sidecarset::Set;
use kube::{ResourceExt, api::DynamicObject};
use tracing::warn;

use crate::{store::Reach, telemetry::chain};

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
        Self { rules, set }
    }
}
